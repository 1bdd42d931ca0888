"""The bytes of a file of tokens, for ever: version 1 is read by every later version.

We add files here; we do not change them. `python -m tests.formats.test_golden_tokens` writes those that are missing.
"""

from pathlib import Path

from cordwood.auth.keyring import Keyring
from cordwood.auth.right import Grant, Right
from cordwood.auth.token import make
from cordwood.auth.token_file import decode, encode

FILE = Path(__file__).parent / "tokens-v1.json"
SHOP, TEXT = make(
    "shop",
    (Grant(Right.PRODUCE, "orders"), Grant(Right.CONSUME, "orders/"), Grant(Right.CONSUME, "dlq.")),
    1_767_225_600_000,
    1_775_001_600_000,
    random=lambda count: bytes(range(count)),
)
OPS, _ = make("ops.1_a-b", (Grant(Right.ADMIN, ""),), 0, random=lambda count: bytes(range(255, 255 - count, -1)))


def test_the_bytes_are_those_that_were_written_first() -> None:
    assert encode((SHOP, OPS)) == FILE.read_bytes()


def test_the_bytes_mean_what_they_meant() -> None:
    assert decode(FILE.read_bytes(), "golden") == (SHOP, OPS)


def test_a_token_that_was_shown_then_is_good_now() -> None:
    text = b"Bearer cordwood_000102030405_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    assert Keyring(decode(FILE.read_bytes(), "golden")).find(text, 1_767_225_600_000).token.name == "shop"


if __name__ == "__main__" and not FILE.exists():
    FILE.write_bytes(encode((SHOP, OPS)))
