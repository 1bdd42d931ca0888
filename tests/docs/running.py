"""A reader who does what a page says, in a directory of their own, with a broker of their own.

Shell blocks go to one bash, so `cd`, variables and `&` last as they do in a terminal; it stops at the first command
that fails. Python blocks share one namespace, as in a notebook. The page's port, 7878, is a free one here.
"""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cordwood
from tests.docs.page import Block, matches
from tests.real.served import until

_DONE = "the-block-is-done"


class Reader:
    """Runs blocks one after the other; `port` is where the page's 7878 is."""

    def __init__(self, place: Path, port: int, environment: dict[str, str]):
        self._place = place
        self._port = port
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._errors = place.parent / "stderr"
        with self._errors.open("wb") as errors:
            self._bash = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-e"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=place,
                env=environment,
                text=True,
                start_new_session=True,  # so that what it left running ends with it
            )

    def run(self, block: Block) -> None:
        """Do what a block says; fail if it fails, or prints something else than the page shows."""
        code = block.code.replace("127.0.0.1:7878", f"127.0.0.1:{self._port}")
        code = code.replace("localhost:7878", f"127.0.0.1:{self._port}")
        if block.title is not None:
            (self._place / block.title).write_text(code)
            return
        said = self._shell(block, code) if block.language == "sh" else self._python(block, code)
        said = said.replace(f":{self._port}", ":7878")
        if block.shown is not None:
            assert matches(said, block.shown), f"{block} shows\n{block.shown}\nand this was printed:\n{said}"

    def _shell(self, block: Block, code: str) -> str:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{code}\nprintf '\\n%s\\n' {_DONE}\n")
        self._bash.stdin.flush()
        lines = []
        for line in self._bash.stdout:
            if line.strip() == _DONE:
                break
            lines.append(line)
        else:
            trouble = self._errors.read_text()[-2000:]
            raise AssertionError(f"{block}: a command failed ({self._bash.wait()})\n{''.join(lines)}\n{trouble}")
        if any(line.startswith("cordwood serve") and "&" in line for line in code.splitlines()):
            until(self._is_up, f"{block}: the broker listens")
        return "".join(lines)

    def _python(self, block: Block, code: str) -> str:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile("\n" * block.line + code, block.page, "exec"), self._names)
        return said.getvalue()

    def _is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/v1/healthz") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def leave(self) -> None:
        """End the shell and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()


@contextlib.contextmanager
def reading(place: Path, patch: pytest.MonkeyPatch, *, with_broker: bool) -> Iterator[Reader]:
    """Give a reader in an empty directory; with a broker there already, or without where the page starts one."""
    work, home, programs = place / "work", place / "home", place / "bin"
    for folder in (work, home, programs):
        folder.mkdir()
    for name, what in (("cordwood", "-m cordwood"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {what} "$@"\n')
        (programs / name).chmod(0o755)
    with contextlib.ExitStack() as stack:
        if with_broker:
            broker = stack.enter_context(cordwood.embedded(place / "data", tier_interval_s=1))
            port = int(broker.endpoint.rpartition(":")[2])
        else:
            port = _free_port()
        mine = {
            "PATH": f"{programs}:/usr/bin:/bin",
            "HOME": str(home),
            "CORDWOOD_ENDPOINT": f"http://127.0.0.1:{port}",
            "CORDWOOD_PORT": str(port),
        }
        patch.chdir(work)
        patch.setenv("CORDWOOD_ENDPOINT", mine["CORDWOOD_ENDPOINT"])
        patch.setenv("CORDWOOD_OUTBOX", str(home / "outbox"))
        kept = {name: os.environ[name] for name in ("PYTHONPATH", "LANG", "LC_ALL") if name in os.environ}
        reader = Reader(work, port, {**kept, **mine})
        stack.callback(reader.leave)
        yield reader


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
