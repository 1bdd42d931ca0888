"""What consumers of groups were given, and what became of it: each message until it is done, and then never again."""

from dataclasses import dataclass, field

from cordwood.drills.whole.truth import check

Key = tuple[str, str, int, int]  # topic, group, partition, offset


@dataclass(slots=True)
class Handed:
    """One message of one group, as its consumers know it."""

    attempts: int = 0
    at_us: int = -1  # when it was last received
    asked: bool = False  # somebody asked to have it done
    acked_us: int | None = None  # since when it is done for sure
    returned: bool = False  # given back once without counting, perhaps: that may come late, and count for a later one


@dataclass(slots=True)
class Deliveries:
    """All deliveries of one world."""

    handed: dict[Key, Handed] = field(default_factory=dict)
    dead: set[Key] = field(default_factory=set)

    def came(self, key: Key, attempts: int, asked_us: int, now_us: int) -> Handed:
        """A message came that was asked for at `asked_us`."""
        known = self.handed.setdefault(key, Handed())
        check(
            known.acked_us is None or known.acked_us > asked_us,
            f"{key} came again (attempt {attempts}), though it was acknowledged",
        )
        if asked_us > known.at_us:
            least = known.attempts + (0 if known.returned else 1)
            check(attempts >= least, f"{key} came as attempt {attempts}, and attempt {known.attempts} was before it")
        known.attempts = max(known.attempts, attempts)
        known.at_us = now_us
        return known

    def forget(self) -> None:
        """A disk was lost, and with it perhaps what was done."""
        for known in self.handed.values():
            known.acked_us = None
            known.attempts = 0

    def acked(self) -> list[Key]:
        """What is done for sure."""
        return [key for key, known in self.handed.items() if known.acked_us is not None]

    def check_all(self, topic: str, group: str, contents: dict[int, list[tuple[int, str]]]) -> None:
        """Whatever is in the topic was done by somebody, or is a dead letter."""
        for partition, rows in contents.items():
            for offset, value in rows:
                key = (topic, group, partition, offset)
                known = self.handed.get(key)
                done = key in self.dead or (known is not None and known.asked)
                check(done, f"{value!r} at {key} counts as done, and nobody acknowledged it")
