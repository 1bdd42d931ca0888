"""A network, pretended: connections to one listener that take time, break, and are cut off for a while.

    client   connect ─▶ send, send, …            receive(bytes) ◀─ …, lost(reason) once, at the end
    server   protocol.connection_made, data …    transport.write ─▶ …

    what may happen to a connection                     how
    nobody listens                                      lost, a way there and back later
    it breaks before what is sent arrives               `Trouble.before`
    a part of what is sent arrives, and it breaks       `Trouble.amid`
    all of it arrives, and no answer comes back         `Trouble.between`
    a part of the answer comes back                     `Trouble.answer`
    nothing comes through for a while                   `cut_off(name, until)`: it comes later, in order
    one of the machines dies                            `fell`

Each connection has a latency of its own, so what goes over two of them arrives in any order; over one, in its own.
Nothing is ever duplicated or changed on the way.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from cordwood.sim.loop import SimLoop, Timeline

Accept = Callable[[], asyncio.BufferedProtocol]


@dataclass(slots=True)
class Trouble:
    """How likely each fault is when something is sent."""

    before: float = 0.0
    amid: float = 0.0
    between: float = 0.0
    answer: float = 0.0


class Network:
    """All connections of a world. `note` is told of each fault that happened, by name."""

    def __init__(self, timeline: Timeline, random: Random, note: Callable[[str], None]):
        self.trouble = Trouble()
        self.latency_us = (50, 300, 2_000, 10_000)
        self._timeline = timeline
        self._random = random
        self._note = note
        self._accept: Accept | None = None
        self._server: SimLoop | None = None
        self._wires: dict[Wire, None] = {}
        self._until_us: dict[str, int] = {}

    def listen(self, server: SimLoop, accept: Accept) -> None:
        """Have connections accepted by this process from now on."""
        self._server, self._accept = server, accept

    def deaf(self) -> None:
        """Accept nothing more."""
        self._server = self._accept = None

    def cut_off(self, name: str, until_us: int) -> None:
        """Let nothing through from or to a client's machine until then."""
        self._until_us[name] = until_us

    def heal(self) -> None:
        """Let everything through from now on."""
        self.trouble = Trouble()
        self._until_us.clear()

    def connect(
        self, name: str, loop: SimLoop, receive: Callable[[bytes], None], lost: Callable[[str], None]
    ) -> "Wire":
        """Return a connection from a machine's process; it can be sent over at once, and may turn out to be none."""
        wire = Wire(self, name, loop, receive, lost, self._random.choice(self.latency_us))
        self._wires[wire] = None
        return wire

    def server_fell(self, *, silent: bool, drop: bool = False) -> None:
        """The listening process is gone; without power nobody is told so at once.

        `drop`: what is on its way to clients never arrives.
        """
        self.deaf()
        for wire in list(self._wires):
            if drop:
                wire.drop()
            wire.break_client(self._random.randrange(2_000_000) if silent else 0)

    def client_fell(self, name: str, *, silent: bool) -> None:
        """The process of a client's machine is gone."""
        for wire in list(self._wires):
            if wire.name == name:
                wire.break_server(self._random.randrange(2_000_000) if silent else 0)

    def _way_us(self, wire: "Wire") -> int:
        """How long something takes that is sent now."""
        held = self._until_us.get(wire.name, 0) - self._timeline.now_us
        return wire.latency_us + max(0, held)


class Wire:
    """One connection, as its client has it."""

    def __init__(
        self,
        network: Network,
        name: str,
        loop: SimLoop,
        receive: Callable[[bytes], None],
        lost: Callable[[str], None],
        latency_us: int,
    ):
        self.name = name
        self.latency_us = latency_us
        self.open = True
        self._network = network
        self._loop = loop
        self._receive = receive
        self._lost = lost
        self._server = network._server
        self._transport: SimTransport | None = None
        self._answers: int | None = None  # bytes of the answer that still come through, when it breaks amid one
        if self._server is None:
            self.break_client(latency_us, "nobody listens")
        else:
            self._server.after_us(network._way_us(self), self._connect)

    # There

    def _connect(self) -> None:
        network = self._network
        if network._accept is None or network._server is not self._server:
            self.break_client(0, "nobody listens")
            return
        assert self._server is not None
        self._transport = SimTransport(self, self._server, network._accept())
        self._transport.protocol.connection_made(self._transport)

    def send(self, data: bytes) -> None:
        """Send bytes; what becomes of them is drawn here."""
        network, server = self._network, self._server
        if not self.open or server is None:
            return
        trouble, random = network.trouble, network._random
        chance = random.random()
        way_us = network._way_us(self)
        if chance < trouble.before:
            network._note("cut before the request")
            server.after_us(way_us, self._server_lost)
            self.break_client(0)
            return
        chance -= trouble.before
        if chance < trouble.amid:
            network._note("cut amid the request")
            part = data[: random.randrange(1, max(2, len(data)))]
            server.after_us(way_us, self._arrive, part)
            server.after_us(way_us + 1, self._server_lost)
            self.break_client(0)
            return
        chance -= trouble.amid
        server.after_us(way_us, self._arrive, data)
        if chance < trouble.between:
            network._note("cut between request and answer")
            self.break_client(random.choice((0, 1_000, 20_000)))
            server.after_us(way_us + random.choice((1, 500, 5_000, 50_000)), self._server_lost)
            return
        chance -= trouble.between
        if chance < trouble.answer and self._answers is None:
            self._answers = random.randrange(1, 200)

    def close(self) -> None:
        """Close the connection; the other side learns of it."""
        if self.open:
            self.open = False
            self._network._wires.pop(self, None)
            if self._server is not None:
                self._server.after_us(self._network._way_us(self), self._server_lost)

    def _arrive(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.arrive(data)

    def _server_lost(self) -> None:
        if self._transport is not None:
            self._transport.lose()

    # Back

    def answer(self, data: bytes) -> None:
        """Carry what the server writes."""
        if self._answers is not None:
            if self._answers <= 0:
                return
            data, self._answers = data[: self._answers], self._answers - len(data)
        if self.open:
            self._loop.after_us(self._network._way_us(self), self._come, data)
            if self._answers is not None and self._answers <= 0:
                self._network._note("cut amid the answer")
                self.break_client(1)
                if self._transport is not None and self._server is not None:
                    self._server.after_us(self.latency_us, self._server_lost)

    def drop(self) -> None:
        """Let nothing more come back."""
        self._receive = lambda data: None

    def _come(self, data: bytes) -> None:
        if self.open:
            self._receive(data)

    def break_client(self, more_us: int, reason: str = "the connection broke") -> None:
        """Have the client learn that the connection is over."""
        self._loop.after_us(self._network._way_us(self) + more_us, self._end, reason)

    def _end(self, reason: str) -> None:
        if self.open:
            self.open = False
            self._network._wires.pop(self, None)
            self._lost(reason)

    def break_server(self, more_us: int) -> None:
        """Have the server learn that the connection is over."""
        self.open = False
        self._network._wires.pop(self, None)
        if self._server is not None:
            self._server.after_us(self._network._way_us(self) + more_us, self._server_lost)


class SimTransport(asyncio.Transport):
    """One connection, as its server has it."""

    def __init__(self, wire: Wire, loop: SimLoop, protocol: asyncio.BufferedProtocol):
        super().__init__()
        self.protocol = protocol
        self._wire = wire
        self._loop = loop
        self._closed = False
        self._reading = True
        self._held = b""

    def arrive(self, data: bytes) -> None:
        """Hand bytes to the protocol."""
        if self._closed:
            return
        if not self._reading:
            self._held += data
            return
        view = memoryview(data)
        while len(view) and not self._closed:
            room = memoryview(self.protocol.get_buffer(-1))
            count = min(len(room), len(view))
            room[:count] = view[:count]
            self.protocol.buffer_updated(count)
            view = view[count:]

    def lose(self) -> None:
        """Tell the protocol that its client is gone."""
        if not self._closed:
            self._closed = True
            self.protocol.connection_lost(None)

    # What a protocol asks for

    def write(self, data: Any) -> None:
        if not self._closed and self._loop.alive:
            self._wire.answer(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._wire.break_client(1, "the server closed the connection")
            self._loop.call_soon(self.protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self._closed

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        if self._held:
            held, self._held = self._held, b""
            self._loop.call_soon(self.arrive, held)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default
