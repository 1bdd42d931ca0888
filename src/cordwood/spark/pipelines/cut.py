"""Which offsets a piece of work is about, fixed once under its name: begun again, it sees the same messages.

    reader NAME/to      put first       where the cut ends
    reader NAME/from    put second      where it begins; when it is there the cut is fixed

They are named readers of the topic, so they are in the broker's journal, whoever dies; and retention waits for what
is in the cut. Between the two puts nothing else has happened: with `to` alone the work has not begun.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cordwood.client.client import Client
from cordwood.errors import NotFound


@dataclass(frozen=True, slots=True)
class Cut:
    """Offsets from `starts` to `ends` of each partition. `fixed_ms` is when they were fixed, None if they are not."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]
    fixed_ms: int | None = None

    @property
    def offsets(self) -> int:
        """How many offsets it has."""
        return sum(self.ends[number] - start for number, start in self.starts.items())


def find(client: Client, topic: str, name: str) -> Cut | None:
    """Return the cut that was fixed under a name, None if none was."""
    try:
        begin, behind = client.reader(topic, f"{name}/from"), client.reader(topic, f"{name}/to")
    except NotFound:
        return None
    starts, ends = ({int(number): at for number, at in one["offsets"].items()} for one in (begin, behind))
    return Cut(starts, ends, begin["moved_at"])


def fix(client: Client, topic: str, name: str, cut: Cut) -> None:
    """Have this be the cut under a name, until it is forgotten."""
    client.set_reader(topic, f"{name}/to", dict(cut.ends))
    client.set_reader(topic, f"{name}/from", dict(cut.starts))


def forget(client: Client, topic: str, name: str) -> None:
    """Let go of a cut, if there is one."""
    for which in ("from", "to"):
        try:
            client.delete_reader(topic, f"{name}/{which}")
        except NotFound:
            continue
