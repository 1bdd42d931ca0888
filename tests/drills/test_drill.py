"""`cordwood drill`: every drill holds, and what it says can be read by people and programs."""

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cordwood.drills.field.page import page
from cordwood.drills.field.picture import picture
from cordwood.drills.field.roster import ROSTER, Entry
from cordwood.drills.field.run import Outcome, run_drill
from cordwood.drills.field.stage import Stage, Timeline, until
from cordwood.drills.field.witness import Write
from cordwood.drills.field.writer import value_of, write_of
from tests.conftest import skip_for_want_of


def cordwood(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cordwood", "drill", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=280, env={**os.environ, **env}
    )


@pytest.mark.parametrize("name", ROSTER)
def test_the_drill_holds(name: str, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = cordwood("--quick", name, "--json", "--dir", tmp_path / "work", "--html", report, "--seed", 5)
    (found,) = json.loads(done.stdout)["drills"]
    assert set(found) == {"name", "verdict", "reason", "seed"}
    assert (found["name"], found["seed"]) == (name, 5)
    assert found["verdict"] != "failed", done.stderr
    assert done.returncode == 0
    assert list((tmp_path / "work").iterdir()) == [], "what it made is gone"
    if found["verdict"] == "skipped":
        skip_for_want_of(found["reason"])
    assert report.read_text().count("<svg") == 1


def test_an_unknown_name_is_wrong_usage_and_the_names_are_listed() -> None:
    done = cordwood("crush")
    assert done.returncode == 2
    assert all(name in done.stderr for name in ("'crush'", *ROSTER))


def test_a_report_in_a_directory_that_is_not_there_is_refused_before_anything_runs(tmp_path: Path) -> None:
    done = cordwood("crash", "--html", tmp_path / "missing" / "report.html")
    assert done.returncode == 2
    assert "there is no directory" in done.stderr


def test_help_names_every_drill_and_has_an_example() -> None:
    done = cordwood("--help")
    assert all(name in done.stdout for name in ROSTER)
    assert "Example: cordwood drill" in done.stdout


def test_what_cannot_be_run_is_skipped_with_the_reason_and_does_not_fail(tmp_path: Path) -> None:
    done = cordwood("slow-disk", "--quick", "--dir", tmp_path, PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "skipped" in done.stdout
    assert "strace is not installed" in done.stdout


# A drill that is not real


def fake(monkeypatch: pytest.MonkeyPatch, drill: object) -> None:
    module = type(sys)("cordwood.drills.field.fake")
    module.run = drill  # type: ignore[attr-defined]
    module.__doc__ = "fake: <nothing> & more"
    monkeypatch.setitem(sys.modules, "cordwood.drills.field.fake", module)
    monkeypatch.setitem(ROSTER, "fake", Entry("fake", "nothing"))


def ran(tmp_path: Path, **how: bool) -> Outcome:
    said: list[str] = []
    return run_drill("fake", tmp_path, 7, quick=True, tell=said.append, **how)


def test_an_expectation_that_does_not_hold_fails_the_drill_and_ends_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    def drill(stage: Stage) -> None:
        stage.stack.callback(lambda: ended.append(True))
        stage.directory("data")
        stage.expect("two", 1 == 2, "one")
        raise AssertionError("not reached")

    fake(monkeypatch, drill)
    outcome = ran(tmp_path)
    assert (outcome.verdict, outcome.reason) == ("failed", "expected two; saw one")
    assert ended == [True]
    assert list(tmp_path.iterdir()) == []
    assert outcome.again == "cordwood drill fake --seed 7"


def test_whatever_a_drill_raises_is_its_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drill(stage: Stage) -> None:
        raise ConnectionResetError("gone")

    fake(monkeypatch, drill)
    outcome = ran(tmp_path)
    assert outcome.verdict == "failed"
    assert "gone" in outcome.reason


def test_what_never_comes_fails_and_says_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, lambda stage: until(lambda: False, "an answer", patience_s=0.05))
    assert "an answer" in ran(tmp_path).reason


def test_what_a_drill_made_is_kept_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, lambda stage: (stage.directory("data") / "file").write_text("x"))
    assert ran(tmp_path, keep=True).verdict == "passed"
    assert (tmp_path / "fake" / "data" / "file").exists()


def test_one_seed_gives_one_series_of_draws(tmp_path: Path) -> None:
    stages = [Stage("crash", tmp_path, seed, quick=True) for seed in (1, 1, 2)]
    one, same, other = ([stage.draw.random() for _ in range(5)] for stage in stages)
    assert one == same != other


def test_a_failing_drill_ends_the_command_with_1_and_a_table(tmp_path: Path) -> None:
    script = """
import sys
from cordwood.drills.field import crash
from cordwood.drills.field.roster import ROSTER
crash.run = lambda stage: stage.expect("all there", False, "<one> is missing")
sys.argv = ["cordwood", "drill", "crash", *sys.argv[1:]]
from cordwood.cli.main import main
main()
"""
    command = [sys.executable, "-c", script, "--dir", tmp_path, "--html", tmp_path / "report.html", "--seed", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "crash" in done.stdout
    assert "failed" in done.stdout
    assert "expected all there; saw <one> is missing" in done.stdout
    assert "again: cordwood drill crash --seed 3" in done.stderr
    report = (tmp_path / "report.html").read_text()
    assert "&lt;one&gt; is missing" in report


# Pages and pictures


class Balance(HTMLParser):
    """Notes the tags that are open, and every address outside the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that has no end of its own."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_needs_nothing_but_itself() -> None:
    timeline = Timeline()
    timeline.count("acknowledged", 5)
    timeline.mark("SIGKILL & <more>")
    outcomes = [
        Outcome("crash", "passed", "5 <acknowledged>", 1, 2.0, timeline=timeline),
        Outcome("torn", "skipped", "no right", 1),
    ]
    text = page(outcomes, "1.0", "today")
    parser = Balance()
    parser.feed(text)
    assert parser.open == []
    assert parser.addresses == ["#crash", "#torn"]
    assert "1 passed, 0 failed, 1 skipped" in text
    assert "SIGKILL &amp; &lt;more&gt;" in text


def test_a_picture_has_every_fault_and_every_count() -> None:
    timeline = Timeline()
    for _ in range(3):
        timeline.count("acknowledged", 10)
        timeline.mark("SIGKILL")
    timeline.count("refused", 2)
    drawn = picture(timeline, 1.0)
    assert drawn.count('class="fault"/>') == 3
    assert "acknowledged 30" in drawn
    assert "refused 2" in drawn
    assert picture(Timeline(), 0.0).startswith("<svg")


def test_a_crowd_of_faults_is_named_once() -> None:
    timeline = Timeline()
    for _ in range(50):
        timeline.mark("SIGKILL")
    drawn = picture(timeline, 1.0)
    assert drawn.count('class="fault"/>') == 50
    assert drawn.count(">SIGKILL<") == 1


# Messages


@pytest.mark.parametrize("size", [0, 10, 100, 5_000])
def test_a_message_says_who_sent_it_and_any_other_byte_says_nothing(size: int) -> None:
    value = value_of(Write("numbered-0", 12), size)
    assert len(value) >= size
    assert write_of(value) == Write("numbered-0", 12)
    for place in (0, len(value) // 2, len(value) - 1):
        flipped = value[:place] + chr(ord(value[place]) ^ 1) + value[place + 1 :]
        assert write_of(flipped) is None
    assert write_of(None) is None
    assert write_of("") is None
