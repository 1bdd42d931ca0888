"""A broker for the tests of a file."""

from collections.abc import Iterator

import pytest

from cordwood.embedding import embedded


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a broker is that runs for all tests of a file."""
    with embedded(tmp_path_factory.mktemp("data")) as broker:
        yield broker.endpoint


@pytest.fixture(scope="module")
def endpoint(running: str) -> str:
    return running
