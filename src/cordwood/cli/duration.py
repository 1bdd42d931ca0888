"""A length of time on the command line: 30d, 12h, 45m, 90s, 500ms."""

import re

import click

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only in newer clicks
    """A duration, given with its unit, as milliseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"([0-9]{1,10})(d|h|m|s|ms)", str(value))
        if found is None:
            self.fail(f"{value!r} is no length of time: say 30d, 12h, 45m, 90s or 500ms", param, ctx)
        return int(found[1]) * UNITS_MS[found[2]]
