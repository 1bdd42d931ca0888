"""Who shows a token is found; nobody else is."""

import pytest

from cordwood.auth import keyring, token
from cordwood.auth.keyring import Keyring, Unknown
from cordwood.auth.right import Grant, Right

RIGHTS = (Grant(Right.PRODUCE, "a"),)
# Always the same: the names of tests are made of them.
ONE, TEXT = token.make("one", RIGHTS, 1_000, 9_000, random=lambda count: bytes(range(1, count + 1)))
TWO, OTHER = token.make("two", RIGHTS, 1_000, random=lambda count: bytes(range(2, count + 2)))


def shown(text: str) -> bytes:
    return f"Bearer {text}".encode()


def test_a_token_is_found_by_its_text_again_and_again() -> None:
    ring = Keyring([ONE, TWO])
    for _ in range(2):
        assert ring.find(shown(TEXT), 2_000).token is ONE
        assert ring.find(b"bearer  " + OTHER.encode(), 2_000).token is TWO


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic " + TEXT.encode(),
        TEXT.encode(),
        shown(TEXT[:-1]),
        shown(TEXT + "x"),
        shown(TEXT[:22] + TEXT[22:][::-1]),
        shown(TEXT[:22] + OTHER[22:]),
        shown(f"cordwood_{TWO.id}_{TEXT[22:]}"),
        shown(f"cordwood_{'0' * 12}_{TEXT[22:]}"),
        shown(ONE.hash),
        shown(f"cordwood_{ONE.id}_{ONE.hash[:43]}"),
        b"Bearer \xff\xfe",
    ],
)
def test_nothing_else_is_found(header: bytes | None) -> None:
    with pytest.raises(Unknown) as caught:
        Keyring([ONE, TWO]).find(header, 2_000)
    assert TEXT[22:] not in str(caught.value)


def test_a_token_ends_with_its_time_also_when_it_was_found_before() -> None:
    ring = Keyring([ONE])
    bearer = ring.find(shown(TEXT), 8_999)
    assert ring.holds(bearer, 8_999)
    with pytest.raises(Unknown, match="expired"):
        ring.find(shown(TEXT), 9_000)
    assert not ring.holds(bearer, 9_000)


def test_a_later_keyring_knows_only_what_is_in_it() -> None:
    bearer = Keyring([ONE, TWO]).find(shown(OTHER), 0)
    assert Keyring([TWO]).holds(bearer, 0)
    assert not Keyring([ONE]).holds(bearer, 0)
    changed, _ = token.make("two", (Grant(Right.CONSUME, ""),), 1_000)
    assert not Keyring([changed]).holds(bearer, 0)
    with pytest.raises(Unknown):
        Keyring([ONE]).find(shown(OTHER), 0)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "MOST_REMEMBERED", 5)
    ring = Keyring([TWO])
    for spaces in range(1, 20):
        assert ring.find(b"Bearer" + b" " * spaces + OTHER.encode(), 0).token is TWO
        assert len(ring.remembered) <= 5
    with pytest.raises(Unknown):
        ring.find(shown(TEXT), 0)
    assert shown(TEXT) not in ring.remembered, "only what is right is remembered"


def test_a_token_has_256_random_bits_and_only_their_hash_is_kept() -> None:
    made, text = token.make("x", RIGHTS, 0, random=lambda count: bytes(range(count)))
    assert text == "cordwood_000102030405_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    assert token.hash_of(text.encode()).hex() == made.hash
    assert text[22:] not in repr(made)
