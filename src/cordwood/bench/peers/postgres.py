"""PostgreSQL: a table as a queue, `COPY` in, `DELETE … RETURNING` out, with psycopg 3.

Binary COPY is faster here than `executemany` (which is a pipeline in psycopg 3) and than INSERT from arrays.
A batch is taken with `ctid = ANY(ARRAY(SELECT … FOR UPDATE SKIP LOCKED))`, which is faster than a join on the id.
"""

import asyncio
import itertools
import os
import pwd
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

from cordwood.bench.load import Clock, Load, Message
from cordwood.bench.loop import event_loop
from cordwood.bench.modes import POSTGRES, Mode
from cordwood.bench.peers.peer import FETCH_AHEAD, FILL_BATCH, LOOP_FLUSH, Missing
from cordwood.bench.peers.server import START_SECONDS, Server, free_port, program

_SETTINGS = {
    "fsync": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",  # a checkpoint in a measurement would be unfair
    "max_connections": "80",
    "listen_addresses": "127.0.0.1",
}
Connection = psycopg.Connection[psycopg.rows.TupleRow]

_COPY = "COPY message (value, key) FROM STDIN (FORMAT BINARY)"
_INSERT = "INSERT INTO message (value, key) VALUES (%b, %b)"
_OLDEST = "FROM message ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED"
_TAKE = f"DELETE FROM message WHERE ctid = ANY(ARRAY(SELECT ctid {_OLDEST})) RETURNING id, key, value"


class Postgres:
    name = "PostgreSQL"

    def __init__(self, mode: Mode = POSTGRES[0]) -> None:
        self.mode = mode
        self._server: Server | None = None

    def start(self, directory: Path) -> None:
        homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_release, reverse=True)
        initdb, postgres = program("initdb", *homes), program("postgres", *homes)
        user = _other_user(directory)
        data, port = directory / "data", free_port()
        made = subprocess.run(
            [initdb, "-D", str(data), "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            user=user,
            extra_groups=[] if user else None,
        )
        if made.returncode:
            raise Missing(f"initdb failed: {made.stdout.strip().splitlines()[-1]}")
        commit = "off" if self.mode.name == "async" else "on"
        where = {"port": str(port), "unix_socket_directories": ""}  # a socket's path has 107 bytes at most
        settings = {**_SETTINGS, "synchronous_commit": commit, **where}
        options = itertools.chain.from_iterable(("-c", f"{name}={value}") for name, value in settings.items())
        self._server = Server([postgres, "-D", str(data), *options], directory, port=port, user=user)
        self._address = f"host=127.0.0.1 port={port} user=bench dbname=postgres"
        with self._first_connection() as connection:
            connection.execute(
                "CREATE TABLE message (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                "key bytea, value bytea NOT NULL)"
            )
            number = connection.info.server_version
        self.version = f"{number // 10_000}.{number % 10_000}, psycopg {psycopg.__version__}"

    def stop(self) -> None:
        if self._server:
            self._server.stop()

    def produce_batches(self, load: Load, batch: int) -> float:
        with self._queue() as connection:
            clock = Clock(load)
            for messages in load.batches(batch):
                _copy(connection, messages)
                if not clock.goes_on(batch):
                    break
            rate = clock.rate()
            _check_count(connection, clock.count)
            return rate

    def produce_loop(self, load: Load) -> float:
        """COPY again: its `write_row` is a call for each message that waits for nothing."""
        return self.produce_batches(load, LOOP_FLUSH)

    def singles(self, load: Load, callers: int) -> float:
        """Connections that each insert and commit; the server syncs for many at once."""

        async def run() -> tuple[float, int]:
            connect = psycopg.AsyncConnection.connect
            connections = [await connect(self._address, autocommit=True) for _ in range(callers)]
            clock = Clock(load)

            async def call(place: int) -> None:
                cursor = connections[place].cursor()
                for message in itertools.cycle(load.messages[place::callers]):
                    await cursor.execute(_INSERT, message, prepare=True)
                    if not clock.goes_on(1):
                        return

            await asyncio.gather(*map(call, range(callers)))
            rate = clock.rate()
            for connection in connections:
                await connection.close()
            return rate, clock.count

        with self._queue() as connection, event_loop() as runner:
            rate, count = runner.run(run())
            _check_count(connection, count)
            return rate

    def consume_batches(self, load: Load, batch: int) -> float:
        with self._queue() as connection:
            _fill(connection, load)
            cursor = connection.cursor(binary=True)
            clock = Clock(load)
            while True:
                rows = cursor.execute(_TAKE, (batch,)).fetchall()
                if not rows or not clock.goes_on(len(rows)):
                    return clock.rate()

    def consume_each(self, load: Load) -> float:
        """The deletes of one fetch are a pipeline and one transaction."""
        with self._queue() as connection:
            _fill(connection, load)
            cursor = connection.cursor(binary=True)
            clock = Clock(load)
            while True:
                with connection.pipeline(), connection.transaction():
                    rows = cursor.execute(f"SELECT id, key, value {_OLDEST}", (FETCH_AHEAD,)).fetchall()
                    for number, _key, _value in rows:
                        connection.execute("DELETE FROM message WHERE id = %s", (number,), prepare=True)
                if not rows or not clock.goes_on(len(rows)):
                    return clock.rate()

    def _first_connection(self) -> Connection:
        """Connect to a server that answers, but perhaps that it is still starting up."""
        assert self._server is not None, "it was started"
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                return self._connect()
            except psycopg.OperationalError as error:
                self._server.check()
                if time.monotonic() > until:
                    raise Missing(" ".join(str(error).split())) from error
                time.sleep(0.05)

    def _connect(self) -> Connection:
        return psycopg.connect(self._address, autocommit=True)

    def _queue(self) -> Connection:
        connection = self._connect()
        connection.execute("TRUNCATE message")
        return connection


def _copy(connection: Connection, messages: Sequence[Message]) -> None:
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.set_types(["bytea", "bytea"])
        write_row = copy.write_row
        for message in messages:
            write_row(message)


def _fill(connection: Connection, load: Load) -> None:
    clock = Clock(load)
    for messages in load.batches(FILL_BATCH):
        _copy(connection, messages)
        if not clock.goes_on(FILL_BATCH):
            break
    connection.execute("VACUUM ANALYZE message")


def _check_count(connection: Connection, count: int) -> None:
    ((stored,),) = connection.execute("SELECT count(*) FROM message").fetchall()
    assert stored == count, "every message is there"


def _other_user(directory: Path) -> str | None:
    """Return whom the server runs as where we are root, which it refuses; this directory is then theirs."""
    if os.geteuid() != 0:
        return None
    names = [entry.pw_name for entry in pwd.getpwall()]
    user = "postgres" if "postgres" in names else "nobody"
    os.chown(directory, pwd.getpwnam(user).pw_uid, -1)
    directory.parent.chmod(0o711)  # the bench's own scratch directory: they must pass through it
    return user


def _release(path: Path) -> int:
    number = re.search(r"\d+", path.parent.name)
    return int(number[0]) if number else 0
