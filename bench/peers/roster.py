"""The roster: who takes part, and why somebody does not."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers.nats_jetstream import NatsJetStream
from bench.peers.peer import Missing, Peer
from bench.peers.postgres import Postgres
from bench.peers.rabbitmq import RabbitMq
from bench.peers.redis_streams import RedisStreams
from bench.peers.sqlite import Sqlite

PEERS: Sequence[Callable[[], Peer]] = (RedisStreams, NatsJetStream, RabbitMq, Postgres, Sqlite)


@dataclass(slots=True)
class Roster:
    """Peers that run, and those left out: name and reason."""

    peers: list[Peer] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def running(scratch: Path, tell: Callable[[str], None]) -> Iterator[Roster]:
    """Start every peer that is installed, each in a directory of its own; in the end stop them and delete that."""
    roster = Roster()
    with contextlib.ExitStack() as stack:
        for make in PEERS:
            peer = make()
            directory = scratch / peer.name.lower().replace(" ", "-")
            directory.mkdir()
            stack.callback(shutil.rmtree, directory)
            stack.callback(peer.stop)
            try:
                tell(f"starting {peer.name}")
                peer.start(directory)
                roster.peers.append(peer)
            except Missing as missing:
                roster.left_out[peer.name] = str(missing)
        yield roster
