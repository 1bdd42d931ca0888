"""A hand against a plain dict from offsets to who has them, and until when."""

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from cordwood.broker.hand import Hand

SPAN = st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda pair: (pair[0], pair[0] + pair[1]))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("lend", "lend", "lend", "finish", "take back", "extend")),
        SPAN,
        st.sampled_from(("ann", "bob")),
        st.integers(0, 100),
    ),
    max_size=25,
)


class Plain:
    """The same, one offset at a time."""

    def __init__(self) -> None:
        self.hand = Hand(0)
        self.out: dict[int, tuple[str, int]] = {}
        self.done: set[int] = set()

    def step(self, what: str, span: tuple[int, int], owner: str, deadline_ms: int) -> None:
        offsets = range(*span)
        if what == "lend":
            free = [offset for offset in offsets if offset not in self.out and offset not in self.done]
            for first, end in runs(free):
                self.hand.lend(first, end, owner, owner, deadline_ms)
                self.out.update({offset: (owner, deadline_ms) for offset in range(first, end)})
        elif what == "finish":
            self.hand.finish(*span)
            self.done.update(offsets)
            for offset in offsets:
                self.out.pop(offset, None)
        elif what == "take back":
            back = self.hand.take_back(*span)
            held = [offset for offset in offsets if offset in self.out]
            assert [offset for first, end in back for offset in range(first, end)] == held
            for offset in held:
                del self.out[offset]
        else:
            self.hand.extend(*span, deadline_ms)
            for offset in offsets:
                if offset in self.out:
                    self.out[offset] = (self.out[offset][0], deadline_ms)

    def check(self) -> None:
        hand = self.hand
        held = {
            offset: (lease.owner, lease.deadline_ms)
            for first, end, lease in hand.held(0, 100)
            for offset in range(first, end)
        }
        assert held == self.out
        assert hand.out.total == len(self.out)
        leases = list(hand.leases())
        assert sum(lease.left for lease in leases) == len(self.out), "each knows how many it has left"
        assert all(lease.left > 0 for lease in leases), "one that has none left is gone"
        assert [lease.first for lease in leases] == sorted(lease.first for lease in leases)


def runs(offsets: list[int]) -> list[tuple[int, int]]:
    found = []
    for _, group in groupby(enumerate(offsets), lambda pair: pair[1] - pair[0]):
        block = [offset for _, offset in group]
        found.append((block[0], block[-1] + 1))
    return found


@given(STEPS)
def test_it_knows_who_has_what_and_until_when(steps: list[tuple[str, tuple[int, int], str, int]]) -> None:
    plain = Plain()
    for step in steps:
        plain.step(*step)
        plain.check()


@given(STEPS, st.integers(0, 100))
def test_what_ran_out_is_found_and_when_the_next_will(
    steps: list[tuple[str, tuple[int, int], str, int]], now: int
) -> None:
    plain = Plain()
    for step in steps:
        plain.step(*step)
    due, following = plain.hand.overdue(now)
    held = [piece for lease in due for piece in plain.hand.out.within(lease.first, lease.end)]
    over = {offset for first, end in held for offset in range(first, end)}
    assert over == {offset for offset, (_, deadline) in plain.out.items() if deadline <= now}
    assert following == min((deadline for _, deadline in plain.out.values() if deadline > now), default=None)


@given(STEPS, SPAN)
def test_what_is_held_of_a_span_is_cut_to_it(
    steps: list[tuple[str, tuple[int, int], str, int]], span: tuple[int, int]
) -> None:
    plain = Plain()
    for step in steps:
        plain.step(*step)
    held = [offset for first, end, _ in plain.hand.held(*span) for offset in range(first, end)]
    assert held == [offset for offset in range(*span) if offset in plain.out]


def test_what_is_left_of_a_lease_keeps_that_it_was_handed_over() -> None:
    hand = Hand(0)
    hand.lend(0, 10, "ann", None, 5).handed = True
    hand.take_back(3, 5)
    hand.extend(8, 9, 50)
    assert all(lease.handed for lease in hand.leases())
    assert {(lease.first, lease.end, lease.deadline_ms) for lease in hand.leases()} == {
        (0, 3, 5),
        (5, 8, 5),
        (8, 9, 50),
        (9, 10, 5),
    }
