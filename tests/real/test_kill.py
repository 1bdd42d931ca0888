"""SIGKILL of a real process on a real disk; `make drill` does it 200 times."""

from cordwood.drills import journal_kill

KILLS = 60


def test_nothing_acknowledged_is_lost_over_many_kills() -> None:
    report = journal_kill.run(seed=20261116, kills=KILLS)
    assert report.wrong == []
    assert report.kills == KILLS
    assert report.acknowledged > KILLS
