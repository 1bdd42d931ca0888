"""A broker for the tests that need one, and a root for their outboxes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood.client.client import Client
from cordwood.embedding import embedded


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a broker with a directory of its own is."""
    with embedded(tmp_path_factory.mktemp("data"), max_message_bytes=1 << 16) as broker:
        yield broker.endpoint


@pytest.fixture
def client(endpoint: str) -> Iterator[Client]:
    with Client(endpoint) as client:
        yield client


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    """A topic of one partition, for one test."""
    name = f"{request.node.name[:100].replace('[', '.').replace(']', '')}"
    client.create_topic(name)
    return name


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "outbox"
