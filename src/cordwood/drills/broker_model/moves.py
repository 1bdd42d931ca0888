"""What the broker may write by itself at a moment.

    deliveries      each offset may go now (`rules`); in ordered mode only the next one
    expired         done for a group when it comes to them
    failures        leases that ran out, or whose stream closed: again after a backoff, or given up
    dead letters    the message in the dead-letter topic and done in its own: one frame
    retention       the start moves as the terms say; what is over is forgotten

A nack is judged like a failure, with the reason that was given.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cordwood.drills.broker_model import facts as f
from cordwood.drills.broker_model import gathered, retention
from cordwood.drills.broker_model.asked import Disagreement
from cordwood.drills.broker_model.facts import Fact, Message, Piece
from cordwood.drills.broker_model.hands import Hand
from cordwood.drills.broker_model.rules import exhausted, why_not
from cordwood.drills.broker_model.world import DEAD, Group, Topic

if TYPE_CHECKING:
    from cordwood.drills.broker_model.model import Model

RAN_OUT = "the lease ran out"
CLOSED = "the consumer's stream was closed"
REACHED = {RAN_OUT: "lease expired", CLOSED: "closed stream"}

Doomed = Mapping[int, Sequence[tuple[str, int | None]]]  # offset → why it failed, and the delay (None: the backoff)


def judge(model: "Model", claims: Sequence[Fact], reported: Doomed | None = None) -> list[Fact]:
    """Return the facts of a frame that the broker may write now. `reported` are failures that somebody told it."""
    if any(isinstance(claim, f.Stored) and claim.topic.startswith(DEAD) for claim in claims):
        return _bury(model, claims, reported)
    if gathered.is_gathered(claims):
        return gathered.judge(model, claims)
    if isinstance(claims[0], f.Restored):
        model.check(model.restoring is not None, "the broker began anew from the store, and has its journal")
        assert model.restoring is not None
        return [claims[0]._replace(world=model.restoring(claims[0])), *claims[1:]]
    frame = _Frame(model, claims, reported)
    for claim in claims:
        check = getattr(frame, type(claim).__name__, None)
        if check is None:
            raise Disagreement(f"the broker wrote {claim} by itself")
        check(claim)
    return list(claims)


class _Frame:
    """A frame without messages that is being judged, one claim after the other."""

    def __init__(self, model: "Model", claims: Sequence[Fact], reported: Doomed | None):
        self.model = model
        self.claims = claims
        self.reported = reported
        self.over: dict[tuple[str, str, int], set[int]] = defaultdict(set)
        self.lent: dict[tuple[str, str, int], set[int]] = defaultdict(set)

    def _find(self, claim: Any) -> tuple[Topic, Group, dict[str, Any], Hand]:
        topic = self.model.world.topics[claim.topic]
        group = topic.groups[claim.group]
        return topic, group, self.model.terms(claim.topic, group), self.model.hands.of(claim.topic, claim.group)

    def Delivered(self, claim: f.Delivered) -> None:
        topic, group, terms, hand = self._find(claim)
        over, lent = self.over[claim[:3]], self.lent[claim[:3]]
        ordered = terms["mode"] == "ordered"
        for offset in claim.offsets:
            why = why_not(self.model, topic, group, terms, hand, claim.partition, offset)
            if why is not None or offset in over or offset in lent:
                raise Disagreement(f"{claim} leaves, but of {offset}: {why or 'it is in this frame already'}")
            if ordered:
                waiting = group.open(claim.partition, topic.logs[claim.partition])
                free = {other for other in waiting if (claim.partition, other) not in hand.leases} - lent - over
                if min(free) < offset:
                    raise Disagreement(f"{claim} leaves, but {min(free)} comes before {offset}")
                self.model.reached.add("ordered")
            lent.add(offset)
        out = len(hand.held(claim.partition)) + len(lent)
        if out > terms["max_in_flight"] or claim.at != self.model.now:
            raise Disagreement(f"with {claim} {out} are out, at most {terms['max_in_flight']} may be")

    def Done(self, claim: f.Done) -> None:
        """Expired; or dropped after the last attempt."""
        topic, group, terms, hand = self._find(claim)
        log = topic.logs[claim.partition]
        doomed = doomed_of(self.model, claim, self.reported)
        for offset in claim.offsets:
            if offset < log.start:
                continue  # retention took it: there is nothing to be done any more
            expires_at = log.messages[offset].expires_at
            leased = (claim.partition, offset) in hand.leases
            expired = expires_at is not None and expires_at <= self.model.now and not leased
            given_up = terms["on_exhausted"] == "drop" and exhausted(terms, group, claim.partition, offset)
            if not expired and not (given_up and (not leased or offset in doomed)):
                raise Disagreement(f"{claim}: {offset} has neither expired, nor is it to be dropped")
            self.model.reached.add("message expired" if expired else "dropped")
        self.over[claim[:3]].update(claim.offsets)

    def Failed(self, claim: f.Failed) -> None:
        model = self.model
        _, group, terms, hand = self._find(claim)
        doomed = doomed_of(model, claim, self.reported)
        for offset in claim.offsets:
            reasons = dict(doomed.get(offset, ()))
            if self._buried_later(claim, offset, reasons):
                continue
            if (claim.partition, offset) not in hand.leases or claim.error not in reasons:
                raise Disagreement(f"{claim}: {offset} did not fail so, but {reasons}")
            if claim.error in REACHED:
                model.reached.add(REACHED[claim.error])
            if exhausted(terms, group, claim.partition, offset):
                if terms["on_exhausted"] != "block" or claim.until:
                    raise Disagreement(f"{claim}: {offset} had its last attempt")
                model.reached.add("blocked")
                continue
            attempts, delay = group.tried(claim.partition, offset).attempts, reasons[claim.error]
            longest = min(terms["backoff_ms"] << max(0, attempts - 1), terms["max_backoff_ms"])
            least, most = (longest // 2, longest) if delay is None else (delay, delay)
            wait = claim.until - model.now if claim.until else 0
            if not least <= wait <= most:
                raise Disagreement(f"{claim}: {offset} waits {wait} ms, not {least} to {most}")
        self._check_behind(claim, hand, terms, doomed)

    def _buried_later(self, claim: f.Failed, offset: int, reasons: dict[str, int | None]) -> bool:
        """Say whether a message had its last attempt and is in the tier: it is a dead letter when it is here."""
        topic, group, terms, hand = self._find(claim)
        if terms["on_exhausted"] != "dlq" or not exhausted(terms, group, claim.partition, offset) or claim.until:
            return False
        tiered = topic.logs[claim.partition].tiered
        if not any(first <= other < end for first, end in tiered for other in claim.offsets):
            return False  # those that wait together are buried together
        if (claim.partition, offset) not in hand.leases:
            return False  # that was written when it failed
        self.model.reached.update([REACHED[claim.error]] if claim.error in REACHED else [])
        return claim.error in reasons

    def GivenBack(self, claim: f.GivenBack) -> None:
        """What was on its way to a consumer that went, or, in ordered mode, was behind that or behind a failure."""
        _, _, terms, hand = self._find(claim)
        held, given = hand.held(claim.partition), set(claim.offsets)
        ordered = terms["mode"] == "ordered"
        unseen = {o for o, lease in held.items() if lease.gone and (claim.partition, o) in lease.parcel.content}
        behind = {offset for offset in held if ordered and offset > min(unseen & given, default=offset)}
        if unseen & given and given <= unseen | behind and behind <= given:
            self.model.reached.add("cancelled")
            return
        doomed = doomed_of(self.model, claim, self.reported)
        if not ordered or not doomed or not given <= set(held):
            raise Disagreement(f"{claim}, and nobody asked for it")
        self._check_behind(claim, hand, terms, doomed)

    def _check_behind(self, claim: Any, hand: Hand, terms: dict[str, Any], doomed: Doomed) -> None:
        """In ordered mode all that was delivered behind a failure comes back with it, and nothing else."""
        if terms["mode"] != "ordered":
            return
        mine = [c for c in self.claims if isinstance(c, f.Failed | f.GivenBack) and c[:3] == claim[:3]]
        failed = {offset for c in mine if isinstance(c, f.Failed) for offset in c.offsets}
        given = {offset for c in mine if isinstance(c, f.GivenBack) for offset in c.offsets}
        lowest = min([*failed, *doomed])
        behind = {offset for offset in hand.held(claim.partition) if offset > lowest} - failed
        if not behind - set(doomed) <= given <= behind:
            raise Disagreement(f"{mine}: {sorted(behind)} are out behind {lowest}, and come back with it")

    def Trimmed(self, claim: f.Trimmed) -> None:
        topic = self.model.world.topics[claim.topic]
        start = retention.starts(self.model)[(topic.id, claim.partition)]
        self.model.check(claim.start == start, f"{claim}: retention keeps all from {start} on")
        self.model.reached.add("retention")

    def Tiered(self, claim: f.Tiered) -> None:
        """Messages that are durable, all of a run, and none that is in the tier already."""
        model, log = self.model, self.model.world.topics[claim.topic].logs[claim.partition]
        before = log.tiered[-1][1] if log.tiered else 0
        visible = claim.end <= log.shown(model.shown) and claim.first >= before
        there = all(offset in log.messages for offset in range(claim.first, claim.end))
        model.check(visible and there, f"{claim}: {before} to {log.shown(model.shown)} are there and not in the tier")
        left = [one for one in log.appends if one.end > max(before, log.start)]
        neighbours = left and left[0].first <= max(claim.first, log.start) and any(o.end == claim.end for o in left)
        model.check(bool(neighbours), f"{claim}: the next to be shipped are {left}")
        model.reached.add("tiered")

    def Noted(self, claim: f.Noted) -> None:
        """It concerns nobody."""

    def Forgotten(self, claim: f.Forgotten) -> None:
        over = retention.over(self.model)
        self.model.check(claim == over, f"{claim}, where {over} are over")
        self.model.reached.add("forgotten")


def doomed_of(model: "Model", claim: Any, reported: Doomed | None) -> Doomed:
    """Return the deliveries of a partition that failed by now, and why."""
    if reported is not None:
        return reported
    doomed: dict[int, list[tuple[str, int | None]]] = defaultdict(list)
    now = model.clock.monotonic_ms()
    for offset, lease in model.hands.of(claim.topic, claim.group).held(claim.partition).items():
        if lease.gone and (claim.partition, offset) not in lease.parcel.content:
            doomed[offset].append((CLOSED, 0))
        if min(lease.deadlines, default=now) <= now:
            doomed[offset].append((RAN_OUT, None))
    return doomed


# Dead letters


def _bury(model: "Model", claims: Sequence[Fact], reported: Doomed | None) -> list[Fact]:
    """Judge a frame that moves messages to the dead letters: all of that, or nothing."""
    done = [claim for claim in claims if isinstance(claim, f.Done)]
    model.check(len(done) == 1, f"{claims}: a dead letter, and that its message is done, are one frame")
    claim = done[0]
    topic = model.world.topics[claim.topic]
    group = topic.groups[claim.group]
    terms = model.terms(claim.topic, group)
    hand = model.hands.of(claim.topic, claim.group)
    doomed = doomed_of(model, claim, reported)
    said = [letter for c in claims if isinstance(c, f.Stored) for piece in c.pieces for letter in piece.messages]
    letters = []
    for row, offset in enumerate(claim.offsets):
        leased = (claim.partition, offset) in hand.leases
        wanted = terms["on_exhausted"] == "dlq" and exhausted(terms, group, claim.partition, offset)
        model.check(wanted and (not leased or offset in doomed), f"{claim}: {offset} is not to be given up")
        tried = group.tried(claim.partition, offset)
        error = tried.error
        if leased:  # it may have failed for two reasons at once; the letter says which came first
            reasons = [reason for reason, _ in doomed[offset]]
            error = dict(said[row].headers).get("cordwood-error", b"").decode() if row < len(said) else ""
            model.check(error in reasons, f"{claim}: {offset} did not fail because of {error!r}, but {reasons}")
            model.reached.update([REACHED[error]] if error in REACHED else [])
        message = topic.logs[claim.partition].messages[offset]
        letters.append(_letter(claim, offset, message, tried.attempts, error))
    name = DEAD + claim.topic
    dead = model.world.topics.get(name)
    made = [f.TopicMade(name, "", len(topic.logs), {}, model.now)] if dead is None else []
    target = claim.partition % (len(topic.logs) if dead is None else len(dead.logs))
    first = 0 if dead is None else dead.logs[target].end
    moved = f.Stored(name, (Piece(target, first, len(letters), tuple(letters)),), model.now)
    model.reached.add("dead letter")
    return model.exactly([*made, moved, claim])(claims)


def _letter(claim: f.Done, offset: int, message: Message, attempts: int, error: str) -> Message:
    added = {
        "topic": claim.topic.encode(),
        "partition": b"%d" % claim.partition,
        "offset": b"%d" % offset,
        "group": claim.group.encode(),
        "attempts": b"%d" % attempts,
        "error": error.encode(),
    }
    headers = (*message.headers, *((f"cordwood-{name}", value) for name, value in added.items()))
    return Message(message.value, message.key, headers, message.timestamp)
