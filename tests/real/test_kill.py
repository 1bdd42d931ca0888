"""SIGKILL of a real process on a real disk."""

from cordwood.drills import journal_kill


def test_nothing_acknowledged_is_lost_over_200_kills() -> None:
    report = journal_kill.run(seed=20261116, kills=200)
    assert report.wrong == []
    assert report.kills == 200
    assert report.acknowledged > 200
