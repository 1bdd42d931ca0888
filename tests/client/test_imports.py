"""What importing costs: nothing for the package, no broker for the client."""

import subprocess
import sys

import pytest

import cordwood

HEAVY = ("broker", "server", "http", "journal", "machine", "embedding")


def loaded(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )


def test_the_package_loads_nothing() -> None:
    assert not {name for name in loaded("import cordwood") if name.startswith(("cordwood.", "pyarrow", "numpy"))}


@pytest.mark.parametrize("statement", ["from cordwood import Client, Consumer, Producer", "import cordwood.aio"])
def test_the_client_loads_no_broker(statement: str) -> None:
    found = loaded(statement)
    assert not {name for name in found if name.startswith(tuple(f"cordwood.{part}" for part in HEAVY))}
    assert not found & {"awscrt", "uvloop", "httptools", "pyarrow.compute", "ssl"} - {"ssl"}


def test_every_name_that_is_promised_is_there() -> None:
    for name in cordwood.__all__:
        assert getattr(cordwood, name) is not None
    with pytest.raises(AttributeError, match="Produzer"):
        _ = cordwood.Produzer  # type: ignore[attr-defined]
