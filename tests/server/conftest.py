"""A broker that answers, for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.serving import Serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    """A broker on a real disk, with nothing in it."""
    with Serving(tmp_path) as serving:
        yield serving
