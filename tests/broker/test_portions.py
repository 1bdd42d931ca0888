"""How much one lease brings, when its bytes are the limit."""

from .harness import Harness


def filled(batches: int) -> Harness:
    """Return a broker with batches of four messages of a thousand bytes."""
    harness = Harness()
    harness.do("create_topic", "t", 1, {})
    for _ in range(batches):
        harness.produce("t", *[bytes(1_000)] * 4)
        harness.sync()
    return harness


def offsets(harness: Harness, max_bytes: int) -> list[int]:
    return [offset for _, offset, _ in harness.lease("t", "g", max_bytes=max_bytes)]


def test_a_lease_that_is_half_full_ends_with_a_whole_batch() -> None:
    harness = filled(3)
    assert offsets(harness, 10_000) == list(range(8)), "two more would fit, and the batch would be cut twice"
    assert offsets(harness, 10_000) == list(range(8, 12))


def test_a_lease_cuts_a_batch_rather_than_stay_nearly_empty() -> None:
    harness = filled(2)
    assert offsets(harness, 2_500) == [0, 1]
    assert offsets(harness, 5_500) == [2, 3, 4, 5, 6], "the rest of the first is less than half of it"
    assert offsets(harness, 1) == [7], "one always goes"
