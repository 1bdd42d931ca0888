"""`cordwood produce`, `consume`, `read`: messages in and out of a terminal."""

import base64
import json
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any

import click

from cordwood.cli.endpoint import as_json, endpoint, reach


@click.command(short_help="Send messages to a topic.")
@click.argument("topic")
@click.argument("values", nargs=-1, metavar="[VALUE]…")
@click.option("--key", help="The key of every message; messages of one key keep their order.")
@click.option("--partition", type=int, help="The partition of every message.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of every message.")
@click.option("--file", "source", type=click.File("rb"), help="A message a line from this file; - is standard input.")
@click.option("--whole", is_flag=True, help="The file is one message, with all its bytes.")
@endpoint
@as_json
def produce(
    topic: str,
    values: tuple[str, ...],
    key: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    source: IO[bytes] | None,
    whole: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Send messages: each VALUE, or each line of a file, or of standard input. Exits with 0 when all are on disk.

    \b
    Example:
      cordwood produce clicks hello world --key user:1
      cordwood produce clicks --file events.ndjson
    """
    from cordwood.client.producer import Producer

    if values and source is not None:
        raise click.UsageError("give the messages as VALUEs, or in a --file, not both")
    pairs = [_pair(header) for header in headers]
    reach(endpoint)
    messages: Iterable[bytes]
    if values:
        messages = [value.encode() for value in values]
    else:
        stream = source or sys.stdin.buffer
        messages = [stream.read()] if whole else _lines(stream)
    sent = 0
    ends: dict[int, tuple[int, int]] = {}
    with Producer(endpoint, topic) as producer:
        waiting = []
        for message in messages:
            waiting.append(producer.send(message, key=key, partition=partition, headers=dict(pairs) or None))
            if len(waiting) == 100_000:
                sent += _settle(waiting, ends)
        sent += _settle(waiting, ends)
    if as_json:
        results = [
            {"partition": number, "first_offset": first, "last_offset": last}
            for number, (first, last) in sorted(ends.items())
        ]
        click.echo(json.dumps({"topic": topic, "count": sent, "results": results}))
    else:
        places = "; ".join(f"partition {n}: offsets {a} to {b}" for n, (a, b) in sorted(ends.items()))
        click.echo(f"{sent} message(s) on disk in {topic}" + (f": {places}" if places else ""))


def _settle(waiting: list[Any], ends: dict[int, tuple[int, int]]) -> int:
    count = len(waiting)
    for future in waiting:
        partition, offset = future.result()
        first, last = ends.get(partition, (offset, offset))
        ends[partition] = min(first, offset), max(last, offset)
    waiting.clear()
    return count


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    for line in stream:
        yield line.rstrip(b"\r\n")


def _pair(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--header {text!r}: say NAME=VALUE")
    return name, value.encode()


@click.command(short_help="Take messages for a group, print and acknowledge them.")
@click.argument("topic")
@click.option("--group", required=True, help="The group that this consumer works for; made if it is not there.")
@click.option("--start", default="earliest", show_default=True, help="Where a new group begins.")
@click.option("--max", "most", type=int, help="End after so many messages.")
@click.option("--idle-timeout-ms", type=int, help="End when nothing came for so long. [default: wait for ever]")
@click.option("--no-ack", is_flag=True, help="Only look: everything is given back at the end.")
@endpoint
@as_json
def consume(
    topic: str,
    group: str,
    start: str,
    most: int | None,
    idle_timeout_ms: int | None,
    no_ack: bool,
    endpoint: str,
    as_json: bool,
) -> None:
    """Take messages for a group and print them, one a line; each is acknowledged once it was printed.

    \b
    Example: cordwood consume clicks --group mailer --idle-timeout-ms 1000
    """
    from cordwood.client.consumer import Consumer

    reach(endpoint)
    count = 0
    with Consumer(endpoint, topic, group=group, start=start, idle_timeout_ms=idle_timeout_ms or 0) as consumer:
        for message in consumer:
            _print(message, as_json)
            sys.stdout.flush()
            if not no_ack:
                message.ack()
            count += 1
            if most is not None and count >= most:
                break


@click.command(short_help="Read the log of a topic, without a group.")
@click.argument("topic")
@click.option(
    "--from", "start", default="earliest", show_default=True, help="earliest, latest, an offset, or a time."
)
@click.option("--partition", type=int, help="Only this one. [default: all]")
@click.option("--limit", type=int, help="End after so many messages.")
@click.option("--follow", is_flag=True, help="Go on with what comes.")
@endpoint
@as_json
def read(
    topic: str, start: str, partition: int | None, limit: int | None, follow: bool, endpoint: str, as_json: bool
) -> None:
    """Read the log, independent of any group, and print it, one message a line.

    A time is ISO 8601, or time:<milliseconds since 1970>.

    \b
    Example: cordwood read clicks --from 2026-01-31T12:00:00Z --follow
    """
    from cordwood.client.client import Client

    with Client(endpoint) as client:
        for message in client.read(topic, partition=partition, start=start, limit=limit, follow=follow):
            _print(message, as_json)
            if follow:
                sys.stdout.flush()


def _print(message: Any, as_json: bool) -> None:
    if not as_json:
        sys.stdout.buffer.write((b"" if message.value is None else message.value) + b"\n")
        return
    shown: dict[str, Any] = {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
    }
    if message.attempts:
        shown["attempts"] = message.attempts
    put_readable(shown, "key", message.key)
    put_readable(shown, "value", message.value)
    if message.headers:
        pairs = message.headers.items() if isinstance(message.headers, dict) else message.headers
        shown["headers"] = {name: readable(value) for name, value in pairs}
    sys.stdout.write(json.dumps(shown) + "\n")


def put_readable(shown: dict[str, Any], name: str, value: bytes | None) -> None:
    """Put bytes into what is printed as JSON: as text, or as `<name>_base64`."""
    text = readable(value)
    if isinstance(text, dict):
        shown[f"{name}_base64"] = text["base64"]
    else:
        shown[name] = text


def readable(value: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as text where they are some."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
