"""What may listen in public, and with which certificate."""

import re
import ssl
import subprocess
from pathlib import Path

import pytest

from cordwood.client.client import Client
from cordwood.client.consumer import Consumer
from cordwood.client.producer import Producer
from cordwood.embedding import embedded
from cordwood.errors import CordwoodError, Refused, Unavailable
from cordwood.server.exposure import check_exposure
from cordwood.server.tls import Certificate, certificate
from cordwood.settings import Settings
from tests.certificates import Pair, make_pair
from tests.server.tokens import token_of


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("other"), "other")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1"])
def test_loopback_needs_nothing(tmp_path: Path, host: str) -> None:
    check_exposure(Settings(data=str(tmp_path), host=host), memory=False, insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "queue.example", "", "2130706433"])
def test_a_public_address_needs_tokens_and_tls(tmp_path: Path, host: str) -> None:
    def check(insecure: bool = False, memory: bool = False, **settings: str) -> None:
        found = Settings(data=str(tmp_path), host=host, **settings)  # type: ignore[arg-type]
        check_exposure(found, memory=memory, insecure=insecure)

    with pytest.raises(Refused, match="there are no tokens") as caught:
        check()
    assert caught.value.exit_code == 2
    with pytest.raises(Refused, match="there are no tokens"):
        check(tls_cert="x", tls_key="y")
    check(insecure=True)
    token_of(tmp_path, "one", "admin:")
    with pytest.raises(Refused, match="--tls-cert"):
        check()
    with pytest.raises(Refused, match="--tls-cert"):
        check(auth="required")
    with pytest.raises(Refused, match="auth is off"):
        check(auth="off", tls_cert="x", tls_key="y")
    with pytest.raises(Refused, match="there are no tokens"):
        check(memory=True, tls_cert="x", tls_key="y")
    check(insecure=True)
    check(tls_cert="x", tls_key="y")
    check(auth="required", tls_cert="x", tls_key="y")


def test_an_embedded_broker_is_refused_the_same(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="public address"):
        embedded(tmp_path, host="0.0.0.0")
    with embedded(host="0.0.0.0", insecure=True) as broker:
        assert broker.endpoint.startswith("http://0.0.0.0:")


def test_files_that_cannot_be_used_are_refused_by_name(pair: Pair, other: Pair, tmp_path: Path) -> None:
    text, empty, broken = tmp_path / "text", tmp_path / "empty", tmp_path / "broken"
    text.write_text("hello")
    empty.write_text("")
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    locked = tmp_path / "locked.key"
    encrypt = ["openssl", "pkcs8", "-topk8", "-in", pair.key, "-out", str(locked), "-passout", "pass:secret"]
    subprocess.run(encrypt, check=True, capture_output=True)
    for cert, key, words in (
        (str(tmp_path / "none"), pair.key, "tls_cert: .*/none: No such file"),
        (pair.cert, str(tmp_path / "none"), "tls_key: .*/none: No such file"),
        (str(tmp_path), pair.key, "tls_cert: .*: Is a directory"),
        (str(text), pair.key, "tls_cert: .*/text is not PEM"),
        (pair.cert, str(empty), "tls_key: .*/empty is not PEM"),
        (str(broken), pair.key, "tls_cert: .*/broken and .* cannot be used"),
        (pair.cert, other.key, "tls_key: .* is not the key of"),
        (pair.cert, pair.cert, "cannot be used"),
        (pair.cert, str(locked), "tls_key is encrypted"),
    ):
        with pytest.raises(Refused, match=words) as caught:
            Certificate(cert, key)
        assert "\n" not in str(caught.value)
    with pytest.raises(Refused, match="tls_cert is given and tls_key is not"):
        certificate(Settings(tls_cert=pair.cert))
    with pytest.raises(Refused, match="tls_key is given and tls_cert is not"):
        certificate(Settings(tls_key=pair.key))
    assert certificate(Settings()) is None


def test_everything_goes_over_tls_with_a_token(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = token_of(tmp_path, "one", "admin:")["Authorization"].removeprefix("Bearer ")
    with embedded(tmp_path, tls_cert=pair.cert, tls_key=pair.key) as broker:
        assert broker.endpoint.startswith("https://127.0.0.1:")
        pem = Path(pair.cert).read_text()
        with Client(broker.endpoint, token=token, ca=pem) as client:
            client.create_topic("clicks")
        with Producer(broker.endpoint, "clicks", token=token, ca=pair.cert) as producer:
            assert producer.send(b"x").result().offset == 0
        monkeypatch.setenv("CORDWOOD_TOKEN", token)
        monkeypatch.setenv("CORDWOOD_CA", pair.cert)
        with Consumer(broker.endpoint, "clicks", group="g", idle_timeout_ms=60_000) as consumer:
            assert consumer.receive(max_messages=1, wait_ms=60_000)[0].value == b"x"
        monkeypatch.delenv("CORDWOOD_CA")
        with Client(broker.endpoint, tries=1) as stranger, pytest.raises(Unavailable, match="CERTIFICATE_VERIFY"):
            stranger.topics()
        with Client(broker.endpoint, token="no", ca=pem) as client, pytest.raises(Refused, match="revoked"):
            client.topics()
        plain = broker.endpoint.replace("https", "http")
        with Client(plain, tries=1) as client, pytest.raises(CordwoodError):
            client.topics()


def test_a_ca_that_is_none_is_refused(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    for ca, words in (
        (str(tmp_path / "none"), "No such file"),
        (str(tmp_path / "text"), "no certificate in PEM"),
        (pair.key, "no certificate in PEM"),
        (broken, "no certificate that can be read"),
    ):
        with pytest.raises(Refused, match=re.escape(words)):
            Client("https://127.0.0.1:1", ca=ca)
    with pytest.raises(Refused, match="https://"):
        Client("http://127.0.0.1:1", ca=pair.cert)
    with pytest.raises(Refused, match="context of your own"):
        Client("https://127.0.0.1:1", ca=pair.cert, tls=ssl.create_default_context())


def test_a_renewed_certificate_is_shown_without_a_restart(pair: Pair, other: Pair, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert", tmp_path / "key"
    cert.write_text(Path(pair.cert).read_text())
    key.write_text(Path(pair.key).read_text())
    with embedded(tmp_path / "data", tls_cert=str(cert), tls_key=str(key)) as broker:

        def trusted(shown: Pair) -> bool:
            try:
                with Client(broker.endpoint, ca=shown.cert, tries=1) as client:
                    client.topics()
            except Unavailable:
                return False
            return True

        assert trusted(pair)
        cert.write_text("half of it")
        broker._loop.call_soon_threadsafe(broker._app.look)
        assert trusted(pair), "the old one stays while the new one cannot be used"
        key.write_text(Path(other.key).read_text())
        cert.write_text(Path(other.cert).read_text())
        broker._loop.call_soon_threadsafe(broker._app.look)
        while not trusted(other):
            pass
        assert not trusted(pair)
