"""A broker as a shop might have it: topics, groups that lag with holes in what they did, dead letters."""

import http.client
import json
import random
from typing import Any
from urllib.parse import urlencode

from tests.real.served import Served

HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"
ERRORS = (
    "SMTP 550: mailbox unavailable",
    "card declined: insufficient funds",
    "timeout after 30000 ms talking to https://payments.internal/charge",
    f"template failed at {HOSTILE}",
)


def fill(broker: Served, many: int = 3_000) -> None:
    """Make it so: `many` messages in the largest topic; its oldest times are an hour ago."""
    chance = random.Random(7)
    now_ms = broker.ask("GET", "/v1/version").json["started_at"]
    for topic, partitions in {"orders": 3, "clicks": 4, "emails": 1, "billing/invoices": 2}.items():
        broker.create(topic, partitions)
    for topic, share in {"orders": 1.0, "clicks": 0.7, "emails": 0.1, "billing/invoices": 0.2}.items():
        produce(broker, topic, [_order(chance, now_ms, n, many) for n in range(int(many * share))])
    work(broker, "orders", "mailer", chance, 0.6)
    work(broker, "orders", "warehouse", chance, 0.97)
    work(broker, "clicks", "analytics", chance, 0.4)
    work(broker, "billing/invoices", "accounting", chance, 1.0)
    bury(broker, "orders", "mailer", 6)


def produce(broker: Served, topic: str, messages: list[dict[str, Any]]) -> None:
    """Append messages, some thousands in a request."""
    for at in range(0, len(messages), 5_000):
        body = "\n".join(map(json.dumps, messages[at : at + 5_000])).encode()
        connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=60)
        target = f"/v1/produce?{urlencode({'topic': topic})}"
        connection.request("POST", target, body, {"Content-Type": "application/x-ndjson"})
        assert connection.getresponse().status == 200
        connection.close()


def work(broker: Served, topic: str, group: str, chance: random.Random, share: float) -> None:
    """Have a group do about this share of a topic, with holes towards the end; some stays on lease."""
    asked = {"max_messages": 100_000, "lease_ms": 600_000, "owner": "worker-1", "max_bytes": 64 << 20}
    settings = {"max_in_flight": 100_000, "max_attempts": 1}
    path = f"/v1/groups/{topic.replace('/', '%2F')}/{group}"
    assert broker.ask("PATCH", path, settings).status == 200
    leased = broker.lease(topic, group, **asked)
    by_partition: dict[int, list[int]] = {}
    for row in leased:
        by_partition.setdefault(row["partition"], []).append(row["offset"])
    for partition, offsets in by_partition.items():
        solid = offsets[int(len(offsets) * share * 0.8)] if share < 1 else offsets[-1] + 1
        ranges, at = [(0, solid)] if solid else [], solid + 2
        while share < 1 and at < offsets[int(len(offsets) * share)]:
            length = chance.randint(1, max(2, len(offsets) // 25))
            ranges.append((at, min(at + length, offsets[-1])))
            at += length + chance.randint(1, max(2, len(offsets) // 40))
        if ranges:
            body = {"topic": topic, "group": group, "partition": partition, "ranges": ranges}
            answer = broker.ask("POST", "/v1/ack", body)
            assert answer.status == 204, answer
        kept = offsets[-max(1, len(offsets) // 50)]
        free = [[first, end] for first, end in _gaps(ranges, kept)]
        if free and share < 1:
            body = {"topic": topic, "group": group, "partition": partition, "ranges": free, "lease_ms": 0}
            assert broker.ask("POST", "/v1/extend", body).status == 204


def bury(broker: Served, topic: str, group: str, count: int) -> None:
    """Have a group give up some messages."""
    rows = broker.lease(topic, group, max_messages=count, owner="worker-2")
    for at, row in enumerate(rows):
        body = {"topic": topic, "group": group, "partition": row["partition"], "offset": row["offset"]}
        assert broker.ask("POST", "/v1/nack", {**body, "reason": ERRORS[at % len(ERRORS)]}).status == 204


def _order(chance: random.Random, now_ms: int, n: int, many: int) -> dict[str, Any]:
    customer = f"user:{chance.randint(1, 400)}"
    value = {
        "order": 1_000_000 + n,
        "customer": customer,
        "total": round(chance.uniform(3, 400), 2),
        "lines": [{"sku": f"SKU-{chance.randint(100, 999)}", "count": chance.randint(1, 5)} for _ in range(2)],
    }
    found: dict[str, Any] = {
        "key": customer,
        "value": value,
        "headers": {"trace": f"{chance.getrandbits(64):016x}", "source": "shop"},
        "timestamp": now_ms - 3_600_000 + n * 3_600_000 // many,
    }
    return found


def _gaps(ranges: list[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    at, found = 0, []
    for first, stop in ranges:
        if first > at:
            found.append((at, first))
        at = max(at, stop)
    return [*found, (at, end)] if end > at else found
