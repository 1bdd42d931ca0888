"""The demo's proof says no whenever something is missing, or there twice."""

from collections import Counter
from dataclasses import replace

import pytest

from cordwood.demo.proof import Seen, prove

ORDERS = [(producer, number) for producer in range(3) for number in range(10)]
GOOD = Seen(
    sent=30,
    acknowledged=frozenset(ORDERS),
    delivered=Counter(ORDERS),
    lag=0,
    log=Counter(ORDERS),
    history=Counter(ORDERS),
    table=Counter(ORDERS),
    job=["a", "b"],
    job_wanted=["a", "b"],
    failures=[],
)


def without(orders: list[tuple[int, int]]) -> Counter[tuple[int, int]]:
    return Counter(orders[1:])


def test_when_all_is_there_once_it_holds() -> None:
    proof = prove(GOOD)
    assert (proof.holds, proof.lost, proof.twice, proof.wrong) == (True, 0, 0, ())
    assert [line.what for line in proof.lines] == [
        "sent by producers",
        "acknowledged",
        "in the log",
        "delivered",
        "in history",
        "landed",
        "the job's lines",
    ]


@pytest.mark.parametrize("where", ["log", "delivered", "history", "table"])
def test_one_that_is_missing_is_lost(where: str) -> None:
    proof = prove(replace(GOOD, **{where: without(ORDERS)}))
    assert not proof.holds
    assert proof.lost >= 1


@pytest.mark.parametrize("where", ["log", "history", "table"])
def test_one_that_is_there_twice_is_told(where: str) -> None:
    proof = prove(replace(GOOD, **{where: Counter([*ORDERS, ORDERS[3]])}))
    assert not proof.holds
    assert proof.twice == 1


def test_one_that_is_delivered_twice_is_no_fault() -> None:
    proof = prove(replace(GOOD, delivered=Counter([*ORDERS, ORDERS[3]])))
    assert proof.holds
    assert any("1 came again" in line.note for line in proof.lines)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lag": 2}, "2 messages left"),
        ({"table": Counter([*ORDERS, (7, 7)])}, "1 rows that are not in the log"),
        ({"job": ["b", "a"]}, "not in the order"),
        ({"failures": ["producer 1: gone"]}, "producer 1: gone"),
        ({key: Counter() for key in ("log", "history", "table")} | {"acknowledged": frozenset()}, "nothing was"),
    ],
)
def test_what_else_is_wrong_is_said(change: dict[str, object], said: str) -> None:
    proof = prove(replace(GOOD, **change))  # type: ignore[arg-type]
    assert not proof.holds
    assert any(said in line for line in proof.wrong)


def test_a_line_of_the_job_that_is_missing_or_doubled_is_told() -> None:
    assert prove(replace(GOOD, job=["a"])).lost == 1
    assert prove(replace(GOOD, job=["a", "b", "b"])).twice == 1


def test_without_spark_there_is_no_line_for_the_table() -> None:
    proof = prove(replace(GOOD, table=None))
    assert proof.holds
    assert "landed" not in [line.what for line in proof.lines]
