"""One broker owns a store: the others wait, and are told; one that was away too long has nothing more to say."""

import contextlib
import shutil
import signal
import time
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.real.served import until
from tests.real.stores import KEYS, S3, s3_store
from tests.real.tier_broker import TierBroker, numbers

FAR = 1 << 40  # where a partition goes on after its journal is lost


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> S3:
    store = s3_store()
    for name, value in store.env.items():
        monkeypatch.setenv(name, value)
    return store


def one_line(said: str) -> str:
    """Return the line that says why a broker ended; there is one, and no traceback."""
    lines = [line for line in said.splitlines() if " info " not in line and " warning " not in line]
    assert len(lines) == 1, said
    return lines[0]


@pytest.mark.parametrize("kind", ["directory", "s3"])
def test_a_second_broker_is_refused_and_the_first_goes_on(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str
) -> None:
    tier = str(tmp_path / "tier") if kind == "directory" else request.getfixturevalue("s3").url
    with TierBroker(tmp_path / "first", tier=tier) as first:
        first.create("t")
        first.send("t", "0")
        second = TierBroker(tmp_path / "second", tier=tier)
        code, said = second.refused()
        assert code in (1, 75), said
        assert f"process {first.process.pid}" in one_line(said)  # type: ignore[union-attr]
        assert "waiting for the claim" in said
        assert first.send("t", "1") == 1
        first.rest("t")
        assert numbers(first.values("t")) == [0, 1]
        assert first.stop() == 0
        with second:  # a claim that was given back is taken at once
            assert numbers(second.values("t")) == [0, 1]
            assert second.send("t", "2") == 2


def test_a_broker_that_was_stopped_for_too_long_acknowledges_nothing_and_its_objects_never_count(
    tmp_path: Path, s3: S3
) -> None:
    first, second = (TierBroker(tmp_path / name, tier=s3.url) for name in ("first", "second"))
    with first:
        first.create("t")
        first.send_numbered("t", 0, 10)
        first.rest("t").marked("t")
        first.send_numbered("t", 10, 20)  # is shipped at the next moment, or never
        assert first.process is not None
        first.process.send_signal(signal.SIGSTOP)
        with second:
            ours = second.stored()[("t", 0)]
            assert second.send("t", "100") >= FAR
            first.process.send_signal(signal.SIGCONT)
            for _ in range(3):
                with contextlib.suppress(OSError, HTTPException):
                    answer = first.ask("POST", "/v1/produce", {"topic": "t", "value": "lost"})
                    assert answer.status == 503, answer
            until(lambda: first.ask("GET", "/v1/healthz").status == 503, "the first says so")
            assert numbers(first.values("t", limit=10)) == list(range(10)), "reads go on"
            # What it was about to put comes late.
            shipped = min(ours, key=lambda one: one.first)
            data = bytes(s3.open().get(shipped.name))
            late = shipped.name.replace(f"{0:020}-{10:020}", f"{10:020}-{20:020}")
            s3.open().put(late, data)
            second.rest("t")
            expected = second.offsets("t")
            assert len(expected) == len(set(expected))
            assert expected[-1] >= FAR
            assert {one.epoch for one in second.stored()[("t", 0)] if one.first >= FAR} == {2}
            second.kill()
            shutil.rmtree(tmp_path / "second" / "journal")
            second.start()
            assert second.offsets("t") == expected
            until(lambda: late not in {one.name for one in second.stored()[("t", 0)]}, "the late one is collected")
            assert second.offsets("t") == expected


def test_a_journal_with_topics_of_its_own_is_refused_by_anothers_store(tmp_path: Path) -> None:
    tier = str(tmp_path / "tier")
    with TierBroker(tmp_path / "first", tier=tier) as first:
        first.create("t")
        first.send_numbered("t", 0, 10)
        first.rest("t")
        assert first.stop() == 0
    with TierBroker(tmp_path / "second") as second:
        second.create("u")
        second.send_numbered("u", 0, 10)
        second.rest("u")
        assert second.stop() == 0
    with TierBroker(tmp_path / "third", tier="none") as third:  # it has never seen a store
        third.create("v")
        assert third.stop() == 0
    before = contents(tmp_path / "tier")
    for data in ("second", "third"):
        code, said = TierBroker(tmp_path / data, tier=tier).refused()
        assert code == 1, said
        assert "another journal" in one_line(said)
        assert before.items() <= contents(tmp_path / "tier").items()


def test_an_old_copy_of_the_journal_is_refused(tmp_path: Path) -> None:
    with TierBroker(tmp_path) as broker:
        broker.create("t")
        broker.send_numbered("t", 0, 10)
        broker.rest("t")
        broker.kill()
        shutil.copytree(tmp_path / "journal", tmp_path / "copy")
        broker.start()
        broker.send_numbered("t", 10, 20)
        broker.rest("t")
        broker.kill()
        (tmp_path / "journal").rename(tmp_path / "newest")
        (tmp_path / "copy").rename(tmp_path / "journal")
        before = contents(tmp_path / "tier")
        code, said = broker.refused()
        assert code == 1, said
        assert "old copy" in one_line(said)
        assert before.items() <= contents(tmp_path / "tier").items()
        shutil.rmtree(tmp_path / "journal")
        (tmp_path / "newest").rename(tmp_path / "journal")
        broker.start()
        assert numbers(broker.values("t")) == list(range(20))


def contents(tier: Path) -> dict[str, bytes]:
    """Return the objects and snapshots of a directory; claims come and go."""
    files = (path for path in tier.glob("**/*") if path.is_file() and not {"claim", ".tmp"} & set(path.parts))
    return {str(path.relative_to(tier)): path.read_bytes() for path in files}


def test_a_store_that_nobody_answers_for_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}.items():
        monkeypatch.setenv(name, value)
    begun = time.monotonic()
    code, said = TierBroker(tmp_path, tier="s3://bucket/prefix").refused()
    assert code == 75, said
    assert "s3://bucket/prefix" in one_line(said)
    assert time.monotonic() - begun < 60
