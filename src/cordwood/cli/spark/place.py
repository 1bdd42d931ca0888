"""Where a pipeline begins or ends, as it is written on the command line."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from cordwood.broker import starts
from cordwood.errors import Refused


class Place(click.ParamType[int | datetime | str]):
    """An offset, earliest or latest, `time:` and milliseconds, or a time in ISO 8601 (UTC unless it says another)."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | datetime | str:
        """Return the place as `cordwood.spark.table` takes it."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            found = starts.parse(value)
        except Refused as error:
            self.fail(str(error), param, ctx)
        if found.time_ms is not None:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=found.time_ms)
        return "latest" if found.offset is None else found.offset


begin = click.option("--from", "start", type=Place(), help="The first message: a time, or an offset. [default: all]")
finish = click.option("--to", "end", type=Place(), help="Up to here, exclusive: a time, or an offset. [default: now]")
