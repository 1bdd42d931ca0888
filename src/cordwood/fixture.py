"""The pytest fixture that comes along: `cordwood_broker`, a broker in memory for one test."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cordwood.embedding import Embedded


@pytest.fixture
def cordwood_broker() -> "Iterator[Embedded]":
    """A broker in memory; `cordwood_broker.endpoint` is where clients reach it."""
    from cordwood.embedding import embedded

    with embedded() as broker:
        yield broker
