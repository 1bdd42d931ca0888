"""Settings: who wins, and what is refused."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from cordwood.errors import Refused
from cordwood.settings import Settings, check, load

# As the users know them.
NAMES = [
    "data",
    "host",
    "port",
    "log_level",
    "log_format",
    "auth",
    "token_file",
    "tls_cert",
    "tls_key",
    "metrics_public",
    "allowed_hosts",
    "sync",
    "sync_interval_ms",
    "max_batch_bytes",
    "segment_bytes",
    "segment_max_age_s",
    "cache_bytes",
    "max_message_bytes",
    "max_pending_bytes",
    "auto_create_topics",
    "max_topics",
    "max_groups",
    "partitions",
    "max_buffered_messages",
    "max_buffered_bytes",
    "retention_ms",
    "retention_bytes",
    "discard",
    "hold_max_ms",
    "max_in_flight",
    "lease_ms",
    "max_attempts",
    "backoff_ms",
    "max_backoff_ms",
    "on_exhausted",
    "mode",
    "producer_retention_ms",
    "stage_ttl_ms",
    "tier",
    "tier_object_bytes",
    "tier_interval_s",
    "metadata",
]


def test_every_promised_setting_is_there_with_a_reason() -> None:
    assert [found.name for found in fields(Settings)] == NAMES
    assert all(found.metadata["why"] for found in fields(Settings))


def test_every_default_is_possible() -> None:
    for found in fields(Settings):
        check(found.name, found.default, "default")


def test_flags_win_over_variables_over_the_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "cordwood.toml"
    file.write_text("port = 1\nlease_ms = 2\nhost = 'a'\n")
    settings = load({"port": 3, "data": None}, {"CORDWOOD_PORT": "2", "CORDWOOD_LEASE_MS": "5"}, file)
    assert (settings.port, settings.lease_ms, settings.host, settings.data) == (3, 5, "a", "data")


def test_the_file_can_be_named_by_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "cordwood.toml"
    file.write_text("auto_create_topics = true\n")
    assert load({}, {"CORDWOOD_CONFIG": str(file)}).auto_create_topics is True


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("No", False), ("0", False)])
def test_a_truth_in_a_variable(text: str, value: bool) -> None:
    assert load({}, {"CORDWOOD_AUTO_CREATE_TOPICS": text}).auto_create_topics is value


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"CORDWOOD_PROT": "1"}, "CORDWOOD_PROT: there is no setting 'prot'; did you mean port?"),
        ({"CORDWOOD_PORT": "many"}, "CORDWOOD_PORT: port is a whole number, not 'many'"),
        ({"CORDWOOD_PORT": "70000"}, "CORDWOOD_PORT: port is 65535 at most, not 70000"),
        ({"CORDWOOD_SEGMENT_BYTES": "1000"}, "segment_bytes is 1048576 at least, not 1000"),
        ({"CORDWOOD_DATA": ""}, "CORDWOOD_DATA: data is the name of a directory, not ''"),
        ({"CORDWOOD_SYNC": "sometimes"}, "sync is one of always, interval, never, not 'sometimes'"),
        ({"CORDWOOD_AUTO_CREATE_TOPICS": "maybe"}, "auto_create_topics is true or false, not 'maybe'"),
        ({"CORDWOOD_BACKOFF_MS": "1000000"}, "max_backoff_ms (300000) is less than backoff_ms (1000000)"),
    ],
)
def test_an_impossible_variable_is_refused_by_name(environment: dict[str, str], message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)) as caught:
        load({}, environment)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour = 'red'", "there is no setting 'colour'"),
        ("port = true", "port is a whole number, not True"),
        ("port = 'x'", "port is a whole number, not 'x'"),
        ("host = 1", "host is text, not 1"),
        ("auto_create_topics = 1", "auto_create_topics is true or false, not 1"),
        ("port = ", "is not TOML"),
    ],
)
def test_an_impossible_line_of_the_file_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "cordwood.toml"
    file.write_text(text)
    with pytest.raises(Refused, match=re.escape(message)) as caught:
        load({}, {}, file)
    assert "cordwood.toml" in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file"):
        load({}, {}, tmp_path / "missing.toml")


def test_a_flag_is_refused_by_its_own_name() -> None:
    with pytest.raises(Refused, match="--max-attempts: max_attempts is 0 at least, not -1"):
        load({"max_attempts": -1}, {})


def test_a_clients_variables_are_not_a_brokers_settings() -> None:
    assert load({}, {"CORDWOOD_ENDPOINT": "x", "CORDWOOD_TOKEN": "y", "PATH": "z"}) == Settings()
