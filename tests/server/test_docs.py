"""The page about HTTP says what is so."""

import re
from pathlib import Path

from cordwood.http.refusal import CODES
from cordwood.server import lease, parameters, reads
from tests.server.serving import Serving

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()


def test_every_error_is_on_the_page() -> None:
    rows = {int(status): code for status, code in re.findall(r"^\| (\d{3}) \| ([A-Z_]+) \|", PAGE, re.MULTILINE)}
    tokens = {401, 403}  # without tokens nobody gets them
    assert rows == {status: code for status, code in CODES.items() if status not in tokens}


def test_the_limits_are_those_on_the_page() -> None:
    assert f"| `wait_ms` | {lease.MOST_WAIT_MS:,} " in PAGE
    assert f"| `max_messages` of a lease | {lease.MOST_MESSAGES:,} " in PAGE
    assert f"| `max_bytes` of a lease | {lease.MOST_BYTES >> 20} MiB " in PAGE
    assert f"| `limit` of a read in JSON | {reads.MOST_JSON:,} " in PAGE
    assert f"| a JSON body of parameters | {parameters.MOST_BYTES >> 20} MiB " in PAGE


def test_the_examples_work(server: Serving) -> None:
    examples = re.findall(
        r"^curl (?:-d '(?P<body>[^']+)'|-X POST) '?localhost:7878(?P<path>[^\s']+)'?$", PAGE, re.MULTILINE
    )
    assert len(examples) == 4
    for body, path in examples:
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        assert server.post(path, body.encode() or None, headers).status in (200, 201, 204)
    assert server.get("/v1/groups/clicks/mailer").json["lag"] == 0
