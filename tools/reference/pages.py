"""The pages, by where they are in docs/, each with what writes it."""

from collections.abc import Callable

from tools.reference import cli, decisions, errors, http, metrics, python, settings, spark_options

PAGES: dict[str, Callable[[], str]] = {
    "reference/settings.md": settings.written,
    "reference/http.md": http.written,
    "reference/cli.md": cli.written,
    "reference/errors.md": errors.written,
    "reference/metrics.md": metrics.written,
    "reference/spark-options.md": spark_options.written,
    "reference/python.md": python.written,
    "decisions/index.md": decisions.written,
}
