"""Single messages: all that were gathered become one frame, or are refused, each by itself."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cordwood.drills.broker_model.asked import Asked
from cordwood.drills.broker_model.facts import Fact, Message, Stored, claimed
from cordwood.drills.broker_model.intake import assignments, check_buffered, pieces_of
from cordwood.drills.broker_model.world import DEAD, Topic
from cordwood.errors import CordwoodError, Limited, NotFound

if TYPE_CHECKING:
    from cordwood.drills.broker_model.model import Model

Answers = list[tuple[Asked, Any]]


def is_gathered(claims: Sequence[Fact]) -> bool:
    """Say whether a frame that the broker wrote by itself has messages that were gathered."""
    return any(isinstance(claim, Stored) and not claim.topic.startswith(DEAD) for claim in claims)


def judge(model: "Model", claims: Sequence[Fact]) -> list[Fact]:
    """Judge a frame of gathered messages; the answers are decided once it is true."""
    facts, model.afterwards, turns = plan(model, claims)
    judged = model.exactly(facts)(claims)
    model.turns.update(turns)
    model.gathered = []
    return judged


def take_turns(model: "Model", claims: Sequence[Fact]) -> None:
    """A frame of gathered messages was right, but there was no room for it: whose turn it was had it."""
    facts, _, turns = plan(model, claims)
    model.exactly(facts)(claims)
    model.turns.update(turns)


def refuse(model: "Model", error: CordwoodError) -> None:
    """All that was gathered is refused."""
    refused, model.gathered = model.gathered, []
    for asked, *_ in refused:
        if asked is not None:
            model.decide(asked, error)


def settle(model: "Model") -> None:
    """All that was gathered is answered, and nothing of it was written."""
    facts, answers, turns = plan(model, [])
    model.check(not facts, f"{facts} were to be written")
    model.turns.update(turns)
    model.gathered = []
    for asked, answer in answers:
        model.decide(asked, answer, together=True)


def plan(model: "Model", claims: Sequence[Fact]) -> tuple[list[Fact], Answers, dict[str, int]]:
    """Return what all that was gathered must become, the answers, and whose turn it is then."""
    facts: list[Fact] = []
    answers: Answers = []
    turns: dict[str, int] = {}
    by_topic: dict[tuple[str, str], list[tuple[Asked | None, dict[str, Any]]]] = defaultdict(list)
    for asked, made, name, message in model.gathered:
        by_topic[(name, made.id)].append((asked, message))
    found = set(map(claimed, filter(lambda claim: isinstance(claim, Stored), claims)))
    for (name, topic_id), waiting in by_topic.items():
        topic = model.world.topics.get(name)
        if topic is None or topic.id != topic_id:
            answers += [(asked, NotFound(name)) for asked, _ in waiting if asked is not None]
            continue
        choices = _choices(model, name, topic, waiting)
        right = [choice for choice in choices if choice[1] is not None and claimed(choice[1]) in found]
        assert len(right) <= 1, "who asks sees to it that a frame tells whose turn it was"
        turn, stored, told = (right or choices)[0]
        if turn is not None:
            turns[name] = turn
        answers += told
        if stored is not None:
            facts.append(stored)
    return facts, answers, turns


def _choices(
    model: "Model", name: str, topic: Topic, waiting: Sequence[tuple[Asked | None, dict[str, Any]]]
) -> list[tuple[int | None, Stored | None, Answers]]:
    """Return what may become of the messages for one topic, for each partition whose turn it may be."""
    wanted = [(message["partition"], _timed(model, message)) for _, message in waiting]
    choices = []
    for turn, assigned in assignments(model, name, topic, wanted, each=True):
        kept: list[tuple[int, Message]] = []
        told: Answers = []
        ends = [log.end for log in topic.logs]
        for (asked, _), row in zip(waiting, assigned, strict=True):
            answer: Any = (name, row[0], ends[row[0]], False)
            try:
                check_buffered(model, topic, [row], kept)
                kept.append(row)
                ends[row[0]] += 1
            except Limited as error:
                answer = error
            if asked is not None:
                told.append((asked, answer))
        choices.append((turn, Stored(name, pieces_of(topic, kept), model.now) if kept else None, told))
    return choices


def _timed(model: "Model", message: dict[str, Any]) -> Message:
    """Return a message as it is written: its times count from now."""
    found: Message = message["message"]._replace(timestamp=model.now)
    if message["delay_ms"] is not None:
        found = found._replace(deliver_at=model.now + message["delay_ms"])
    return found
