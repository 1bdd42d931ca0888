"""`cordwood serve`: the process you started is the broker."""

import asyncio
import ctypes
import gc
import logging
import os
import signal
import sys
from pathlib import Path
from random import SystemRandom
from typing import NoReturn

import click

from cordwood.errors import Damaged, Refused
from cordwood.settings import Settings, load

log = logging.getLogger("cordwood.serve")

SWITCH_S = 0.001  # or the thread that commits waits up to 5 ms for the loop's, ten times as long as a sync takes
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


@click.command(short_help="Run a broker.")
@click.option("--data", metavar="DIR", help="Where everything is kept; made if it is not there. [default: data]")
@click.option("--host", help="The address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=int, help="The port to listen on; 0 takes a free one. [default: 7878]")
@click.option("--config", type=click.Path(path_type=Path), help="A TOML file with settings.")
@click.option(
    "--tier", metavar="URL", help="Where history goes: a path, s3://…, gs://…, az://…, none. [default: DIR/tier]"
)
@click.option(
    "--metadata", metavar="WHERE", help="Where its catalogue is: store, or etcd://host:port. [default: store]"
)
@click.option("--sync", help="always: on disk before it is acknowledged. interval, never: sooner, and less sure.")
@click.option("--memory", is_flag=True, help="Keep everything in memory only; it is gone when the broker ends.")
@click.option("--auto-create-topics/--no-auto-create-topics", default=None, help="Make topics by producing to them.")
@click.option("--log-level", help="debug, info, warning or error. [default: info]")
@click.option("--log-format", help="text or json. [default: text]")
@click.option("--set", "others", multiple=True, metavar="NAME=VALUE", help="Any other setting; may be repeated.")
@click.option(
    "--on-corruption",
    type=click.Choice(["truncate", "quarantine"]),
    help="What to do about damaged data instead of refusing to start; a copy is kept, what is lost is told.",
)
@click.option("--auth", help="auto: tokens are asked for once there are any. required, off. [default: auto]")
@click.option("--tls-cert", metavar="FILE", help="Speak TLS with this certificate (PEM); give its key, too.")
@click.option("--tls-key", metavar="FILE", help="The key of the certificate (PEM, not encrypted).")
@click.option(
    "--insecure", is_flag=True, help="Listen on a public address without tokens, or with tokens and no TLS."
)
def serve(
    data: str | None,
    host: str | None,
    port: int | None,
    config: Path | None,
    tier: str | None,
    metadata: str | None,
    sync: str | None,
    memory: bool,
    auto_create_topics: bool | None,
    log_level: str | None,
    log_format: str | None,
    others: tuple[str, ...],
    on_corruption: str | None,
    auth: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    insecure: bool,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C; then finish what was accepted, and exit with 0.

    Settings: these flags over CORDWOOD_* variables over the TOML file over defaults. SIGHUP: look at once whether
    tokens or certificates have changed.

    \b
    Example:
      cordwood serve --data ./data --port 7878
      cordwood serve --memory --auto-create-topics
      cordwood serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
      cordwood serve --tier s3://bucket/prefix --metadata etcd://127.0.0.1:2379
    """
    flags: dict[str, object | None] = {
        "data": data,
        "host": host,
        "port": port,
        "tier": tier,
        "metadata": metadata,
        "sync": sync,
        "auto_create_topics": auto_create_topics,
        "log_level": log_level,
        "log_format": log_format,
        "auth": auth,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
    }
    for other in others:
        name, equals, value = other.partition("=")
        if not equals:
            raise Refused(f"--set {other}: say NAME=VALUE")
        flags[name] = _value(value)
    settings = load(flags, file=config)
    from cordwood.server.exposure import check_exposure
    from cordwood.server.logs import log_to_stderr

    if not memory and Path(settings.data).exists() and not Path(settings.data).is_dir():
        raise Refused(f"--data {settings.data} is a file; give a directory")
    check_exposure(settings, memory=memory, insecure=insecure)
    log_to_stderr(settings.log_level, settings.log_format)
    _tune()
    import uvloop

    cut = on_corruption == "truncate"
    try:
        uvloop.run(_serve(settings, memory, cut, insecure))
    except Damaged:
        if on_corruption is None:
            raise
        _give_up(Path(settings.data) / "journal", on_corruption)
        uvloop.run(_serve(settings, memory, cut, insecure))


def _give_up(path: Path, choice: str) -> None:
    """Give up what is damaged, by the operator's choice; say which messages are lost, and where the copies are."""
    from cordwood.broker.losses import find_losses
    from cordwood.journal.repair import Choice, lost_by, repair
    from cordwood.journal.survey import survey
    from cordwood.journal.verdict import judge
    from cordwood.machine.disk import RealDirectory

    directory = RealDirectory(path)
    try:
        directory.lock()
        found = survey(directory)
        lost = lost_by(Choice(choice), found, judge(found))
        losses = find_losses(directory, lost)
        done = repair(directory, Choice(choice), SystemRandom())
    finally:
        directory.close()
    for loss in losses:
        log.error("lost: %s", loss)
    for first, end in lost:
        log.error("lost: LSN %d to %d", first, end - 1)
    log.error("damaged data was given up", extra={"choice": choice, "copies": ", ".join(done.copies)})


async def _serve(settings: Settings, memory: bool, cut: bool, insecure: bool) -> None:
    from cordwood.machine import notify
    from cordwood.server.app import start_app

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _leave)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)  # while it starts there is nothing to look at again
    app = await start_app(settings, memory=memory, cut=cut, insecure=insecure)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, app.look)
    click.echo(f"cordwood: listening on {app.endpoint}", err=True)
    where = "in memory" if memory else settings.data
    log.info("ready", extra={"endpoint": app.endpoint, "data": where, "sync": settings.sync})
    gc.collect()
    gc.freeze()  # what the modules made stays: no collection looks at it again
    notify.tell(notify.READY)
    await stop.wait()
    notify.tell(notify.STOPPING)
    log.info("stopping")
    await app.stop()


def _leave() -> NoReturn:
    """End a start that may wait long for a store: nothing was accepted yet, and what it has opened stands a kill."""
    click.echo("cordwood: stopped before it was ready", err=True)
    os._exit(0)


def _tune() -> None:
    """Keep memory that was freed, because fresh memory is dear; collect garbage rarely, because we make little."""
    gc.set_threshold(100_000, 20, 100)
    sys.setswitchinterval(SWITCH_S)
    if sys.platform == "linux":
        try:
            libc = ctypes.CDLL(None)
            libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the most that glibc accepts
            libc.mallopt(_M_TRIM_THRESHOLD, 256 << 20)
        except (OSError, AttributeError):
            pass  # another C library: only slower


def _value(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text
