"""What happened since the start, counted: the numbers behind `/metrics`."""

from collections import Counter

from cordwood.broker.histogram import Histogram


class Counts:
    """Counters that only grow. Those by topic have the topic's name as their key; by group (topic, group)."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.duplicates = 0
        self.objects = 0  # put into the tier
        self.object_bytes = 0
        self.rejections: Counter[str] = Counter()
        self.delivered: Counter[tuple[str, str]] = Counter()
        self.redelivered: Counter[tuple[str, str]] = Counter()
        self.acked: Counter[tuple[str, str]] = Counter()
        self.nacked: Counter[tuple[str, str]] = Counter()
        self.leases_expired: Counter[tuple[str, str]] = Counter()
        self.messages_expired: Counter[tuple[str, str]] = Counter()
        self.dropped: Counter[tuple[str, str]] = Counter()
        self.dead_letters: Counter[tuple[str, str]] = Counter()
        self.redriven: Counter[tuple[str, str]] = Counter()
        self.delays: dict[tuple[str, str], Histogram] = {}  # from a message's time to its ack

    def produced(self, topic: str, messages: int, size: int) -> None:
        """Count messages that were appended."""
        self.messages[topic] += messages
        self.bytes[topic] += size

    def rejected(self, reason: str) -> None:
        """Count a request that was refused because of a limit."""
        self.rejections[reason] += 1

    def forget(self, topic: str, group: str | None = None) -> None:
        """Forget a topic, or a group, that was deleted, so that its names do not stay for ever."""
        if group is None:
            del self.messages[topic], self.bytes[topic]
        for counter in vars(self).values():
            if isinstance(counter, dict):
                keys = [key for key in counter if isinstance(key, tuple) and key[0] == topic]
                for key in keys:
                    if group is None or key[1] == group:
                        del counter[key]
