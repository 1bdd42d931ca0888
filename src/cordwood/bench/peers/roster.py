"""The roster: who there is, who takes part, and why somebody does not."""

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from cordwood.bench import modes
from cordwood.bench.modes import Mode
from cordwood.bench.peers.peer import Missing, Peer
from cordwood.bench.peers.server import package


@dataclass(frozen=True, slots=True)
class System:
    """One that can take part: what it is called, where its class is, which Python packages that needs, its modes."""

    key: str
    name: str
    place: str
    packages: tuple[str, ...]
    modes: tuple[Mode, ...]

    def make(self, mode: Mode) -> Peer:
        """Return it, not yet started. Missing if a package is not installed."""
        for name in self.packages:
            package(name)
        module, _, made = self.place.rpartition(".")
        peer: Peer = getattr(import_module(f"cordwood.bench.{module}"), made)(mode)
        return peer


CORDWOOD = System("cordwood", "Cordwood", "ours.Ours", (), modes.CORDWOOD)
PEERS = (
    System("redis", "Redis Streams", "peers.redis_streams.RedisStreams", ("redis", "hiredis"), modes.REDIS),
    System("nats", "NATS JetStream", "peers.nats_jetstream.NatsJetStream", ("nats",), modes.NATS),
    System("rabbitmq", "RabbitMQ", "peers.rabbitmq.RabbitMq", ("pika",), modes.RABBITMQ),
    System("postgresql", "PostgreSQL", "peers.postgres.Postgres", ("psycopg",), modes.POSTGRES),
    System("sqlite", "SQLite", "peers.sqlite.Sqlite", (), modes.SQLITE),
)


@dataclass(frozen=True, slots=True)
class Entrant:
    """A system in one mode; one of `version` and `left_out` is empty."""

    label: str
    system: str
    mode: Mode
    version: str = ""
    left_out: str = ""


@dataclass(slots=True)
class Roster:
    """Peers that run, by label; and everybody, those left out too."""

    peers: dict[str, Peer] = field(default_factory=dict)
    entrants: list[Entrant] = field(default_factory=list)


def safe_only() -> list[tuple[str, System, Mode]]:
    """Return every peer in its safe mode, labelled with its name."""
    return [(system.name, system, system.modes[0]) for system in PEERS]


def every_mode(systems: Sequence[System]) -> list[tuple[str, System, Mode]]:
    """Return these systems in all their modes, labelled with both."""
    return [(f"{system.name} ({mode.name})", system, mode) for system in systems for mode in system.modes]


@contextlib.contextmanager
def running(
    scratch: Path, wanted: Sequence[tuple[str, System, Mode]], tell: Callable[[str], None]
) -> Iterator[Roster]:
    """Start all of these that are installed, each in a directory of its own; in the end stop them and delete that."""
    roster, scratch = Roster(), scratch.resolve()  # they are started elsewhere, where "." is another place
    with contextlib.ExitStack() as stack:
        for label, system, mode in wanted:
            tell(f"starting {label}")
            try:
                peer = system.make(mode)
                directory = scratch / re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
                directory.mkdir()
                stack.callback(shutil.rmtree, directory, ignore_errors=True)
                stack.callback(peer.stop)
                peer.start(directory)
            except Missing as missing:
                roster.entrants.append(Entrant(label, system.name, mode, left_out=str(missing)))
                continue
            roster.peers[label] = peer
            roster.entrants.append(Entrant(label, system.name, mode, version=peer.version))
        yield roster
