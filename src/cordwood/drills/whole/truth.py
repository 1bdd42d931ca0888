"""What clients were promised and what they saw, kept outside of every machine; the checks compare with it.

    a value          is sent by one client, once, and is its own name: who, and the how-many-th
    promised         its write was acknowledged, or its append returned: it must be in the log, once
    possible         nobody knows: it may be there, once
    impossible       it was refused for good, or given up: it must not be there
    seen             whoever reads (partition, offset) of a topic reads this, for ever

A lost disk takes what was not in the store yet: what was promised before is only possible then, and may come twice
where clients had to number anew. What was seen stays true: no offset ever has two contents.
"""

from collections.abc import Iterable
from dataclasses import dataclass

Place = tuple[str, int, int]  # topic, partition, offset
DEAD = "dlq."


class Broken(AssertionError):
    """A promise was broken; the message says which."""


def check(true: object, promise: str) -> None:
    """Raise `Broken` unless it is true."""
    if not true:
        raise Broken(promise)


@dataclass(slots=True)
class Sent:
    """One value: who sent it as the how-many-th, and what must come of it. `line`: what keeps its order."""

    line: str
    number: int
    batch: tuple[str, ...] = ()  # values that become visible together, or not at all
    promised: bool = False
    impossible: bool = False
    lost: bool = False  # sent before a disk was lost
    published: bool = False  # by a publish of what was staged


class Truth:
    """All that is known about one world."""

    def __init__(self) -> None:
        self.sent: dict[str, Sent] = {}
        self.seen: dict[Place, str] = {}
        self.place: dict[str, Place] = {}
        self.gone: set[Place] = set()  # seen, and lost with a disk
        self.losses = 0
        self.holes: dict[tuple[str, int], list[tuple[int, int]]] = {}  # what a broker says that it lost
        self.ends: dict[tuple[str, int], int] = {}  # every offset below was acknowledged to somebody, or seen

    # What clients do

    def send(
        self, line: str, number: int, value: str, batch: tuple[str, ...] = (), *, published: bool = False
    ) -> None:
        """A client begins to send a value."""
        assert value not in self.sent, "a value is sent by one, once"
        self.sent[value] = Sent(line, number, batch, published=published)

    def promise(self, values: Iterable[str]) -> None:
        """These are durable now."""
        for value in values:
            self.sent[value].promised = True

    def refuse(self, values: Iterable[str]) -> None:
        """These will never be there."""
        for value in values:
            self.sent[value].impossible = True
            check(value not in self.place, f"{value} was refused, and seen at {self.place.get(value)}")

    def stored(self, topic: str, partition: int, first: int, values: Iterable[str]) -> None:
        """An answer says where these are."""
        for offset, value in enumerate(values, first):
            self.see(topic, partition, offset, value)
            self.sent[value].promised = True

    # What clients see

    def see(self, topic: str, partition: int, offset: int, value: str) -> None:
        """Somebody reads this value there."""
        place = (topic, partition, offset)
        before = self.seen.get(place)
        if before is not None:
            check(before == value, f"{topic}/{partition}@{offset} was {before!r}, and is {value!r}")
            return
        known = self.sent.get(value)
        check(known is not None, f"{topic}/{partition}@{offset} is {value!r}, which nobody sent")
        assert known is not None
        check(not known.impossible, f"{value!r} is at {place}, and was refused or given up")
        self.seen[place] = value
        if known.lost and any(low <= offset < high for low, high in self.holes.get((topic, partition), ())):
            # The store remembers that a writer's batch was published, and not where its messages went: the repeat of
            # a publish is answered with where they were. docs/how-to-lose-data.md says so.
            check(known.published, f"{value!r} is said to be at {place}, which is in a hole")
            self.gone.add(place)
        end = self.ends.get((topic, partition), 0)
        self.ends[(topic, partition)] = max(end, offset + 1)
        if topic.startswith(DEAD):
            return
        there = self.place.setdefault(value, place)
        check(there == place or known.lost, f"{value!r} is stored twice, at {there} and at {place}")

    # What happens to machines

    def forget_topic(self, topic: str) -> set[str]:
        """A topic was deleted: return what was seen in it, which must not come again."""
        gone = set()
        for place in [place for place in self.seen if place[0] == topic]:
            value = self.seen.pop(place)
            self.place.pop(value, None)
            gone.add(value)
        for key in [key for key in self.ends if key[0] == topic]:
            del self.ends[key]
        self.gone = {place for place in self.gone if place[0] != topic}
        return gone

    def lose(self, kept: dict[tuple[str, int], int]) -> None:
        """A disk is lost; of each partition what is below the offset is in the store."""
        self.losses += 1
        for place in self.seen:
            if place[2] >= kept.get(place[:2], 0):
                self.gone.add(place)
        for value, sent in self.sent.items():
            sent.lost = True
            at = self.place.get(value)
            if at is None or at in self.gone:
                sent.promised = False

    # What must be there

    def check_ends(self, topic: str, partition: int, end: int) -> None:
        """The broker says that a partition ends here: no acknowledged offset is given again."""
        least = self.ends.get((topic, partition), 0)
        check(end >= least, f"{topic}/{partition} ends at {end}, and {least - 1} was acknowledged or seen")

    def check_log(self, topic: str, contents: dict[int, list[tuple[int, str]]]) -> None:
        """All that a topic holds, read from the beginning: everything promised once, in order, nothing else."""
        found: dict[str, int] = {}
        for partition, rows in contents.items():
            last: dict[str, int] = {}
            for at, (offset, value) in enumerate(rows):
                self.see(topic, partition, offset, value)
                check(offset == at or self.losses, f"{topic}/{partition} has a hole before {offset}")
                found[value] = found.get(value, 0) + 1
                sent = self.sent[value]
                if not sent.lost:
                    before = last.get(sent.line, -1)
                    check(sent.number > before, f"{value!r} of {sent.line} comes behind its number {before}")
                    last[sent.line] = sent.number
            there = {offset for offset, _ in rows}
            for place, value in self.seen.items():
                if place[:2] == (topic, partition) and place not in self.gone:
                    check(place[2] in there, f"{value!r} was seen at {place}, and is gone")
        for value, count in found.items():
            sent = self.sent[value]
            check(count == 1 or sent.lost, f"{value!r} is {count} times in {topic}")
            if sent.batch and not sent.lost:
                for other in sent.batch:
                    check(other in found, f"{value!r} is there, and {other!r} of the same batch is not")

    def check_promised(self, topics: Iterable[str]) -> None:
        """Every promise is kept in one of these topics, all of which were read."""
        read = set(topics)
        for value, sent in self.sent.items():
            if sent.promised:
                place = self.place.get(value)
                check(place is not None, f"{value!r} was promised, and is nowhere")
                assert place is not None
                kept = place[0] in read and (place not in self.gone or sent.lost)
                check(kept, f"{value!r} was promised at {place}, and is gone")
