"""Every setting of a broker, with its default, its bounds and its reason, in one frozen value.

    flags  over  CORDWOOD_* variables  over  a TOML file  over  defaults

A name that is unknown or a value that is impossible is refused, and the refusal names it and where it came from.
Those that concern a topic or a group are what a new one gets unless it is created with others.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from cordwood.errors import Refused

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
LARGEST = (1 << 63) - 1  # what the journal's numbers can hold
LONGEST_MS = 100 * 365 * DAY
NO_TIER = "none"
PREFIX = "CORDWOOD_"
# Variables with our prefix that are not a broker's settings.
OTHER_VARIABLES = frozenset(
    {"CORDWOOD_CONFIG", "CORDWOOD_ENDPOINT", "CORDWOOD_OUTBOX", "CORDWOOD_TOKEN", "CORDWOOD_CA"}
)


def setting(
    default: Any, why: str, *, least: int | None = None, most: int | None = None, among: tuple[str, ...] = ()
) -> Any:
    """Describe a setting: its default, why it is there, and what it may be."""
    return field(default=default, metadata={"why": why, "least": least, "most": most, "among": among})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings in force. Made by `load`, or directly with values that are known to be right."""

    data: str = setting("data", "where everything is kept")
    host: str = setting("127.0.0.1", "the address to listen on; loopback unless told")
    port: int = setting(7878, "the port to listen on; 0 takes a free one", least=0, most=65_535)
    log_level: str = setting("info", "what is logged", among=("debug", "info", "warning", "error"))
    log_format: str = setting("text", "how it is logged", among=("text", "json"))

    auth: str = setting(
        "auto",
        "who must show a token; auto: everybody, once there is a file of tokens",
        among=("auto", "required", "off"),
    )
    token_file: str = setting("", "the file of tokens; empty: tokens.json in the data directory")
    tls_cert: str = setting("", "a PEM file with the certificate and those that sign it; empty: no TLS")
    tls_key: str = setting("", "a PEM file with its private key, not encrypted")
    metrics_public: bool = setting(False, "whether /metrics needs no token")
    allowed_hosts: str = setting("", "further names, with commas, that a broker without tokens may be called by")

    sync: str = setting("always", "when a group is synced", among=("always", "interval", "never"))
    sync_interval_ms: int = setting(100, "how long `interval` may leave what is written unsynced", least=1, most=HOUR)
    max_batch_bytes: int = setting(8 * MIB, "the most that one group commit takes", least=4 * KIB, most=GIB)
    segment_bytes: int = setting(64 * MIB, "the size of a journal file", least=MIB, most=4 * GIB)
    segment_max_age_s: int = setting(3_600, "a journal file is closed after this time", least=1, most=366 * 86_400)
    cache_bytes: int = setting(256 * MIB, "how much of the newest messages stays in memory", least=0, most=1 << 50)

    max_message_bytes: int = setting(16 * MIB, "key, value and headers of one message", least=1, most=512 * MIB)
    max_pending_bytes: int = setting(256 * MIB, "what may wait for a commit", least=MIB, most=1 << 50)
    auto_create_topics: bool = setting(False, "whether producing to an unknown topic makes it")

    max_topics: int = setting(
        100_000, "topics that may be made; dead-letter topics do not count", least=1, most=10**7
    )
    max_groups: int = setting(10_000, "groups that one topic may have", least=1, most=10**6)

    partitions: int = setting(1, "of a new topic; fixed once it is made", least=1, most=10_000)
    max_buffered_messages: int = setting(0, "what the slowest group may leave undone; 0: no limit", least=0)
    max_buffered_bytes: int = setting(0, "the same in bytes; 0: no limit", least=0)
    retention_ms: int = setting(0, "messages older than this go; 0: kept", least=0, most=LONGEST_MS)
    retention_bytes: int = setting(0, "a partition larger than this loses its oldest; 0: kept", least=0)
    discard: str = setting("none", "whether what every group has done goes", among=("none", "acked"))
    hold_max_ms: int = setting(
        7 * DAY, "how long a group that stands still holds retention back", least=0, most=LONGEST_MS
    )

    max_in_flight: int = setting(
        1_000, "messages of a partition that a group may have on lease", least=1, most=10_000_000
    )
    lease_ms: int = setting(30 * SECOND, "how long a consumer may keep a message", least=1, most=7 * DAY)
    max_attempts: int = setting(10, "deliveries before a message is given up; 0: never", least=0, most=1_000_000)
    backoff_ms: int = setting(SECOND, "the pause after the first failed delivery; it doubles", least=0, most=DAY)
    max_backoff_ms: int = setting(5 * MINUTE, "the longest such pause", least=0, most=7 * DAY)
    on_exhausted: str = setting("dlq", "what happens to a message given up", among=("dlq", "block", "drop"))
    mode: str = setting("shared", "how a group shares a partition", among=("shared", "ordered"))

    producer_retention_ms: int = setting(
        7 * DAY, "a numbered producer is remembered so long", least=MINUTE, most=LONGEST_MS
    )
    stage_ttl_ms: int = setting(HOUR, "staged batches that nobody publishes end", least=SECOND, most=7 * DAY)

    tier: str = setting("", "the object store for history; empty: a directory beside the journal; none: no history")
    tier_object_bytes: int = setting(64 * MIB, "the size of one object", least=MIB, most=4 * GIB)
    tier_interval_s: int = setting(60, "how long messages wait for the next object", least=1, most=86_400)
    metadata: str = setting("store", "where the catalogue is: the store itself, or etcd://host:port")


def load(
    flags: Mapping[str, object | None],
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Return the settings in force, or refuse the first that is unknown or impossible.

    A flag that is None was not given. The file is the one named by the caller, or else by CORDWOOD_CONFIG.
    """
    environment = os.environ if environment is None else environment
    if file is None and environment.get("CORDWOOD_CONFIG"):
        file = Path(environment["CORDWOOD_CONFIG"])
    values: dict[str, object] = {}
    for name, value in _read_file(file).items():
        values[name] = check(name, value, f"{file}")
    for variable, text in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in OTHER_VARIABLES:
            name = variable.removeprefix(PREFIX).lower()
            values[name] = check(name, _from_text(name, text, variable), variable)
    for name, flag in flags.items():
        if flag is not None:
            values[name] = check(name, flag, "--" + name.replace("_", "-"))
    settings = Settings(**values)  # type: ignore[arg-type]  # each value was checked against its field
    if settings.max_backoff_ms < settings.backoff_ms:
        raise Refused(f"max_backoff_ms ({settings.max_backoff_ms}) is less than backoff_ms ({settings.backoff_ms})")
    return settings


def check(name: str, value: object, source: str) -> object:
    """Return a value that this setting may have, or refuse it, naming where it came from."""
    found = _FIELDS.get(name)
    if found is None:
        raise Refused(f"{source}: there is no setting {name!r}{_suggest(name)}")
    kind = found.type
    if kind is int and (not isinstance(value, int) or isinstance(value, bool)):
        raise Refused(f"{source}: {name} is a whole number, not {value!r}")
    if kind is bool and not isinstance(value, bool):
        raise Refused(f"{source}: {name} is true or false, not {value!r}")
    if kind is str and not isinstance(value, str):
        raise Refused(f"{source}: {name} is text, not {value!r}")
    if name == "data" and not value:  # or it would be the directory that one happens to be in
        raise Refused(f"{source}: data is the name of a directory, not ''")
    among, least, most = found.metadata["among"], found.metadata["least"], found.metadata["most"]
    if among and value not in among:
        raise Refused(f"{source}: {name} is one of {', '.join(among)}, not {value!r}")
    if isinstance(value, int) and least is not None and value < least:
        raise Refused(f"{source}: {name} is {least} at least, not {_short(value)}")
    most = LARGEST if most is None else most
    if isinstance(value, int) and value > most:
        raise Refused(f"{source}: {name} is {most} at most, not {_short(value)}")
    return value


def _read_file(file: Path | None) -> dict[str, object]:
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise Refused(f"{file}: {error.strerror}") from error
    except RecursionError as error:
        raise Refused(f"{file} is nested too deeply") from error
    except ValueError as error:  # not TOML, not UTF-8, a number of thousands of digits, or no path at all
        raise Refused(f"{str(file)!r} is not TOML: {error}") from error


def _from_text(name: str, text: str, source: str) -> object:
    """Return what the text of a variable says, by the kind of its setting."""
    kind = _FIELDS[name].type if name in _FIELDS else str
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise Refused(f"{source}: {name} is a whole number, not {text[:80]!r}") from None
    if kind is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if text.lower() not in words:
            raise Refused(f"{source}: {name} is true or false, not {text!r}")
        return words[text.lower()]
    return text


def _short(number: int) -> str:
    return str(number) if abs(number) < 1 << 80 else "one with so many digits"


def _suggest(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, _FIELDS, n=1)
    return f"; did you mean {close[0]}?" if close else ""


_FIELDS = {found.name: found for found in fields(Settings)}
assert not any(get_args(found.type) for found in _FIELDS.values()), "every setting is a number, a truth or a text"
