"""Where a broker is."""

import pytest

from cordwood.client.endpoint import endpoint
from cordwood.errors import Refused


def test_a_url_has_a_host_a_port_and_perhaps_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CORDWOOD_TOKEN", raising=False)
    assert endpoint("http://example:80/").port == 80
    assert endpoint("http://example").port == 7878
    assert endpoint("https://example/queue/").prefix == "/queue"
    assert endpoint("https://example").port == 443
    assert endpoint("http://[::1]:99").lines() == b"Host: [::1]:99\r\n"


def test_tls_comes_with_https_only() -> None:
    assert endpoint("http://example").tls is None
    assert endpoint("https://example").tls is not None


def test_the_token_is_given_or_in_the_environment_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORDWOOD_TOKEN", "from-the-environment")
    assert b"Bearer from-the-environment\r\n" in endpoint("http://example").lines()
    found = endpoint("http://example", "given")
    assert b"Bearer given\r\n" in found.lines()
    assert "given" not in repr(found)


@pytest.mark.parametrize("url", ["", "example:7878", "ftp://example", "http://", "http://example?x=1"])
def test_what_is_no_endpoint_is_refused(url: str) -> None:
    with pytest.raises(Refused, match="no endpoint"):
        endpoint(url)


@pytest.mark.parametrize("url", ["http://me:hunter2@a", "https://hunter2@a/x", "http://hunter2@a?x", "me:hunter2@a"])
def test_a_password_in_a_url_is_refused_and_not_shown(url: str) -> None:
    """It would be sent to nobody, and be in every message and in every outbox."""
    with pytest.raises(Refused, match="CORDWOOD_TOKEN") as refused:
        endpoint(url)
    assert "hunter2" not in str(refused.value)


def test_a_token_cannot_break_out_of_its_line() -> None:
    with pytest.raises(Refused, match="token"):
        endpoint("http://example", "a\r\nX: y")
