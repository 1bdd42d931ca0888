"""What every test may use."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from cordwood.client.client import Client

# No time is asserted anywhere: the machine is shared.
settings.register_profile("cordwood", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile(
    "hurried", settings.get_profile("cordwood"), phases=[Phase.explicit, Phase.generate], derandomize=True
)
settings.load_profile("cordwood")


SPARK = Path(__file__).parent / "spark"


@pytest.hookimpl(tryfirst=True)  # xdist looks for groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the tests of Spark run in one process: a second Spark would cost more than it saves.

    Here and not beside them: a conftest that is found while collecting comes too late for xdist.
    """
    for item in items:
        if SPARK in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


def skip_for_want_of(what: str) -> None:
    """Skip on a user's machine; fail where nothing may be skipped for want of a package or a right."""
    if os.environ.get("SKIP_NOTHING"):
        pytest.fail(f"{what} is missing, and nothing may be skipped here")
    pytest.skip(f"needs {what}")


@pytest.fixture
def strace() -> str:
    """The path of strace."""
    found = shutil.which("strace")
    if found is None:
        skip_for_want_of("strace")
    assert found is not None
    return found


@pytest.fixture
def client(endpoint: str) -> Iterator[Client]:
    """A client of the broker that runs for the tests of a file; each directory with one says what it is like."""
    with Client(endpoint) as client:
        yield client


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    """A topic of one partition, for one test."""
    name = re.sub(r"[^A-Za-z0-9_]+", "-", request.node.name)[:100]
    client.create_topic(name)
    return name


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the outboxes of a test are."""
    return tmp_path / "outbox"
