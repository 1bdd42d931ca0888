"""The pages about HTTP and security say what is so."""

import re
from pathlib import Path

from cordwood.http.limits import Limits
from cordwood.http.refusal import CODES
from cordwood.server import audit, lease, parameters, reads, watch
from cordwood.server.routes import ROUTES
from cordwood.settings import Settings
from tests.server.serving import Serving

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "http.md").read_text()
SECURITY = (DOCS / "security.md").read_text()


def test_every_error_is_on_the_page() -> None:
    rows = {int(status): code for status, code in re.findall(r"^\| (\d{3}) \| ([A-Z_]+) \|", PAGE, re.MULTILINE)}
    assert rows == CODES


def test_the_limits_are_those_on_the_page() -> None:
    assert f"| `wait_ms` | {lease.MOST_WAIT_MS:,} " in PAGE
    assert f"| `max_messages` of a lease | {lease.MOST_MESSAGES:,} " in PAGE
    assert f"| `max_bytes` of a lease | {lease.MOST_BYTES >> 20} MiB " in PAGE
    assert f"| `limit` of a read in JSON | {reads.MOST_JSON:,} " in PAGE
    assert f"| a JSON body of parameters | {parameters.MOST_BYTES >> 20} MiB " in PAGE
    assert f"MiB and {parameters.MOST_COMMAS:,} values |" in PAGE


def test_the_examples_work(server: Serving) -> None:
    examples = re.findall(
        r"^curl (?:-d '(?P<body>[^']+)'|-X POST) '?localhost:7878(?P<path>[^\s']+)'?$", PAGE, re.MULTILINE
    )
    assert len(examples) == 4
    for body, path in examples:
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        assert server.post(path, body.encode() or None, headers).status in (200, 201, 204)
    assert server.get("/v1/groups/clicks/mailer").json["lag"] == 0


def test_every_route_is_in_the_table_of_rights() -> None:
    table = SECURITY.partition("## Rights")[2].partition("401 UNAUTHENTICATED")[0]
    for route in ROUTES:
        short = "…/" + route.path.rpartition("/")[2]
        assert f"{route.path}`" in table or f"`{short}`" in table, route.path


def test_every_setting_of_the_door_is_on_the_page_about_security() -> None:
    for name in ("auth", "token_file", "tls_cert", "tls_key", "metrics_public", "allowed_hosts", "max_topics"):
        assert f"`{name}`" in SECURITY
    assert f"| topics (`max_topics`) | {Settings().max_topics:,};" in SECURITY
    assert f"| groups of a topic (`max_groups`) | {Settings().max_groups:,} |" in SECURITY
    limits = Limits()
    assert f"| a TLS handshake, a head | {limits.head_s:g} s |" in SECURITY
    assert f"| a body | {limits.body_s:g} s," in SECURITY
    assert f"| a reader of an answer | {limits.send_s:g} s " in SECURITY
    assert f"| a body above {limits.small_body_bytes >> 10} KiB from" in SECURITY
    assert f"Of refused tries {audit.MOST} a minute" in SECURITY
    assert audit.WINDOW_MS == 60_000
    assert watch.EVERY_S < 2, "within two seconds"
