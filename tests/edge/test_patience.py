"""How long to wait before the next try."""

from random import Random

from cordwood.edge.patience import wait_ms


def test_waits_double_from_one_second_to_sixty() -> None:
    assert [wait_ms(failures, lambda: 0.5) for failures in range(9)] == [
        *(0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000)
    ]
    assert wait_ms(10_000, lambda: 0.5) == 60_000


def test_every_wait_is_up_to_half_as_much_more_or_less() -> None:
    assert (wait_ms(1, lambda: 0.0), wait_ms(1, lambda: 1.0)) == (500, 1_500)
    random = Random(1)
    waits = [wait_ms(9, random.random) for _ in range(1000)]
    assert 30_000 <= min(waits) < 33_000
    assert 87_000 < max(waits) <= 90_000
