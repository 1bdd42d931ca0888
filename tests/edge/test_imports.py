"""What importing the outbox costs a worker: no journal, no numpy, no pyarrow, no broker."""

import subprocess
import sys


def loaded(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_outbox_loads_nothing_heavy() -> None:
    found = loaded("from cordwood import Outbox")
    assert not found & {"numpy", "pyarrow", "awscrt", "ssl", "asyncio", "uvloop", "pandas"}
    assert not {name for name in found if name.startswith(("cordwood.broker", "cordwood.server", "cordwood.journal"))}


def test_appending_loads_no_arrow() -> None:
    statement = (
        "import tempfile, threading; from cordwood import Outbox; from cordwood.edge.sender import Sender;"
        "Sender.start = lambda self, name: None;"
        "outbox = Outbox(tempfile.mkdtemp(), 'e', 't', 'http://127.0.0.1:9'); outbox.append(b'x'); outbox.stop(0)"
    )
    assert not loaded(statement) & {"numpy", "pyarrow"}
