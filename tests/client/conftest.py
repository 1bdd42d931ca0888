"""The broker for the tests that need one."""

from collections.abc import Iterator

import pytest

from cordwood.embedding import embedded


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a broker with a directory of its own is."""
    with embedded(tmp_path_factory.mktemp("data"), max_message_bytes=1 << 18) as broker:
        yield broker.endpoint
