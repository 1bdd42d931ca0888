"""A broker as a process: whatever it prints and answers, no secret is in it; and what it is told while it runs."""

import http.client
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from cordwood.auth.token_file import TokenFile
from tests.real.served import Answer, Served
from tests.server.tokens import token_of

STORE_SECRET = "wJalrXUtnFEMIsecretOfTheStore"


def ask(broker: Served, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=60)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return Answer(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize("layout", ["text", "json"])
def test_no_secret_is_printed_or_answered(tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", STORE_SECRET)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", STORE_SECRET + "Id")
    monkeypatch.setenv("CORDWOOD_TOKEN", STORE_SECRET)
    data = tmp_path / "data"
    ops, shop = token_of(data, "ops", "admin:"), token_of(data, "shop", "produce:orders")
    secrets = [shown["Authorization"].rpartition("_")[2] for shown in (ops, shop)] + [STORE_SECRET]
    text = shop["Authorization"].removeprefix("Bearer ")
    said = []
    flags = ("--log-level", "debug", "--log-format", layout, "--tier", "none", "--set", "segment_bytes=1048576")
    with Served(data, *flags) as broker:
        asks = [
            ("POST", "/v1/topics", {"name": "orders"}, ops),
            ("GET", "/v1/config", None, ops),
            ("GET", "/metrics", None, ops),
            ("GET", "/v1/topics", None, shop),
            ("DELETE", "/v1/topics/orders", None, shop),
            ("GET", "/v1/topics", None, {"Authorization": shop["Authorization"][:-1]}),
            ("GET", "/v1/topics", None, {"Authorization": f"Basic {text}"}),
            ("POST", f"/v1/topics?token={text}", {"name": "x"}, ops),
            ("POST", "/v1/topics", {"name": text + "\n", "token": text}, ops),
            ("DELETE", f"/v1/topics/{text}", None, ops),
            ("GET", f"/v1/topics/{text}", None, shop),
        ]
        for method, path, body, headers in asks:
            answer = ask(broker, method, path, body, headers)
            assert answer.status != 500
            if path in ("/v1/config", "/metrics", "/v1/topics"):
                said.append(answer.body.decode())
        TokenFile(data / "tokens.json").remove("shop")
        assert broker.process is not None
        broker.process.send_signal(signal.SIGHUP)
        while ask(broker, "GET", "/v1/topics", None, shop).status != 401:
            pass
        argv = Path(f"/proc/{broker.process.pid}/cmdline").read_text()
        broker.stop()
    told = "".join(broker.said)
    assert "tokens read" in told
    assert "topic create" in told
    if layout == "json":
        assert all(json.loads(line) for line in broker.said if not line.startswith("cordwood: listening"))
    for secret in secrets:
        assert secret not in told + argv + "".join(said)
        assert secret not in "".join(path.read_text("latin-1") for path in data.rglob("*") if path.is_file())


def test_a_revoked_token_is_refused_soon_also_when_nobody_says_so(tmp_path: Path) -> None:
    ops = token_of(tmp_path, "ops", "admin:")
    with Served(tmp_path, "--log-level", "error") as broker:
        assert ask(broker, "GET", "/v1/topics", None, ops).status == 200
        TokenFile(tmp_path / "tokens.json").remove("ops")
        while ask(broker, "GET", "/v1/topics", None, ops).status != 401:
            pass
        broker.stop()
    assert any("tokens read" in line for line in broker.said), "the audit is told at every level"
