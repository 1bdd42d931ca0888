"""A broker for the tests of a file, and a root for a test's outboxes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cordwood.client.client import Client
from cordwood.embedding import embedded


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a broker is that runs for all tests of a file."""
    with embedded(tmp_path_factory.mktemp("data")) as broker:
        yield broker.endpoint


@pytest.fixture
def client(running: str) -> Iterator[Client]:
    with Client(running) as client:
        yield client


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    """A topic of one partition, for one test."""
    name = re.sub(r"[^a-z0-9_]+", "-", request.node.name)[:100]
    client.create_topic(name)
    return name


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "outbox"
