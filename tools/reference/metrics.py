"""Every metric, as a broker shows it that has something of everything to show."""

import re
import tempfile
import urllib.request

import cordwood
from cordwood import Client, Consumer
from cordwood.server import metrics
from tools.reference.markdown import code, page, table


def written() -> str:
    """Return the page."""
    rows = [
        (code(name), kind, ", ".join(code(label) for label in labels), help_)
        for name, (kind, help_, labels) in sorted(families().items())
    ]
    return page(
        "Metrics",
        "`GET /metrics` answers in the text format of Prometheus, 0.0.4. Counters begin at 0 when the broker starts;"
        " those of"
        " a topic go with it. A histogram has `_bucket` (with the label `le`), `_sum` and `_count`. Those of the tier"
        " are there"
        " when there is one.\n",
        table(("metric", "kind", "labels", "what"), rows),
        "## What to watch\n",
        table(("what", "why"), _SIGNS),
    )


def families() -> dict[str, tuple[str, str, list[str]]]:
    """Return kind, meaning and labels of every metric of a broker with a tier, by name."""
    with tempfile.TemporaryDirectory() as data, cordwood.embedded(data) as broker:
        with Client(broker.endpoint) as client:
            client.create_topic("clicks")
            client.produce("clicks", "hello")
        with Consumer(broker.endpoint, "clicks", group="mailer") as consumer:
            for message in consumer.receive(wait_ms=10_000):
                message.ack(wait=True)
        counts = broker._app.running.broker.counts  # what a quiet broker has never counted has no labels to show
        counts.rejected("partition_buffer_full")
        for field, _ in metrics._BY_GROUP.values():
            getattr(counts, field)[("clicks", "mailer")] += 1
        with urllib.request.urlopen(f"{broker.endpoint}/metrics") as answer:
            text = answer.read().decode()
    found: dict[str, tuple[str, str, list[str]]] = {}
    for name, help_, kind in re.findall(r"^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)$", text, re.MULTILINE):
        sample = re.search(rf"^{name}(?:_bucket)?(?:{{(.*)}})? ", text, re.MULTILINE)
        labels = re.findall(r'(\w+)="', sample[1]) if sample is not None and sample[1] else []
        found[name] = kind, help_, [label for label in labels if label != "le"]
    return found


# what is seen, and why it matters
_SIGNS = (
    (
        "`cordwood_writable` is 0",
        "a write or a sync failed; the broker only reads until it is started again ([errors](errors.md#unavailable))",
    ),
    ("`cordwood_lag` grows", "consumers are slower than producers, or have stopped"),
    (
        "`cordwood_dead_letters_total` rises",
        "messages fail `max_attempts` times ([retries and dead letters](../how-to/retries-and-dead-letters.md))",
    ),
    (
        "`cordwood_tier_available` is 0, `cordwood_tier_backlog_bytes` grows",
        "the object store is away; the journal grows meanwhile ([the tier](../tier.md))",
    ),
    ("`cordwood_rejected_total` rises", "producers meet a limit, named by `reason` ([limits](errors.md#limits))"),
    ("the high quantiles of `cordwood_sync_seconds`", "the disk is what a producer waits for"),
)
