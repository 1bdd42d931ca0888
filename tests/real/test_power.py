"""The power of a real filesystem goes."""

from cordwood.drills import journal_power
from tests.conftest import skip_for_want_of


def test_what_was_acknowledged_is_there_after_the_power_was_cut() -> None:
    reason = journal_power.reason_to_skip()
    if reason is not None:
        skip_for_want_of(reason)
    report = journal_power.run(seed=7, cuts=8)
    assert report.wrong == []
    assert report.kills == 8
    assert report.acknowledged > 8
