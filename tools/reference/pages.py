"""The pages, by name, each with what writes it."""

from collections.abc import Callable

from tools.reference import cli, errors, http, metrics, python, settings, spark_options

PAGES: dict[str, Callable[[], str]] = {
    "settings": settings.written,
    "http": http.written,
    "cli": cli.written,
    "errors": errors.written,
    "metrics": metrics.written,
    "spark-options": spark_options.written,
    "python": python.written,
}
