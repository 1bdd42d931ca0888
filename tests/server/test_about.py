"""Health, version, settings and the page."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

import cordwood
from cordwood.server.config import masked
from tests.server.serving import Serving


def test_a_broker_that_takes_messages_is_healthy(server: Serving) -> None:
    assert server.get("/v1/healthz").json == {"status": "ok"}


def test_the_version_is_that_of_the_package(server: Serving) -> None:
    found = server.get("/v1/version").json
    assert found["version"] == cordwood.__version__
    assert found["started_at"] == server.running.started_ms


@pytest.mark.parametrize(
    ("sync", "durability", "shows"),
    [("always", "fsync", "synced"), ("interval", "written", "synced"), ("never", "written", "written")],
)
def test_the_config_says_what_is_in_force_and_what_it_means(
    tmp_path: Path, sync: str, durability: str, shows: str
) -> None:
    with Serving(tmp_path, sync=sync, max_attempts=7) as server:
        found = server.get("/v1/config").json
        assert (found["sync"], found["durability"], found["shows"]) == (sync, durability, shows)
        assert found["max_attempts"] == 7
        assert found["memory"] is False


def test_a_broker_in_memory_shows_what_is_accepted() -> None:
    with Serving() as server:
        found = server.get("/v1/config").json
        assert (found["memory"], found["durability"], found["shows"]) == (True, "memory", "accepted")


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    tier = "s3://AKIA:hunter2@bucket/path?region=eu&secret_access_key=hunter3"
    with Serving(tmp_path, tier=tier, metadata="etcd://root:hunter4@host:2379") as server:
        reply = server.get("/v1/config")
        assert b"hunter" not in reply.body
        assert b"AKIA" not in reply.body
        assert reply.json["tier"].startswith("s3://***@bucket/path?region=")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("data", "/var/lib/cordwood", "/var/lib/cordwood"),
        ("admin_token", "abc", "***"),
        ("secret", "", ""),
        ("tls_key", "abc", "***"),
        ("tier", "file:///mnt/tier", "file:///mnt/tier"),
        ("tier", "s3://a:b@c@bucket", "s3://***@bucket"),
        ("port", 7878, 7878),
    ],
)
def test_what_is_secret_in_a_setting_is_masked(name: str, value: object, shown: object) -> None:
    assert masked(name, value) == shown


class Page(HTMLParser):
    """What a page has: its words, what it fetches, and whether its tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.fetches: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe") or any(name == "src" for name, _ in attributes):
            self.fetches.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_shows_every_route_and_fetches_nothing(server: Serving) -> None:
    reply = server.get("/docs")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    page = Page()
    page.feed(reply.body.decode())
    assert page.open == []
    assert page.fetches == []
    for path in server.get("/v1/openapi.json").json["paths"]:
        assert path in page.words
