"""What the README shows, run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import skip_for_want_of
from tests.real.served import Served

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_examples_run_beside_the_broker_that_the_reader_has_started(tmp_path: Path) -> None:
    codes = re.findall(r"```python\n(.*?)```", README, re.S)
    with Served(tmp_path / "data"):
        for code, last in zip(codes, [str(sum(range(1000))), "[0, 1, 2]"], strict=True):
            command = [sys.executable, "-c", code]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert done.stdout.splitlines()[-1] == last


def test_the_shell_examples_run(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        skip_for_want_of("curl")
    with Served(tmp_path / "data") as broker:
        answers = []
        for block in re.findall(r"```sh\n(.*?)```", README, re.S):
            for line in block.splitlines():
                words = line.replace("localhost:7878", f"127.0.0.1:{broker.port}")
                words = re.sub(r"^cordwood ", f"{sys.executable} -m cordwood ", words)
                done = subprocess.run(
                    words,
                    shell=True,
                    capture_output=True,
                    text=True,
                    check=False,
                    env={
                        "CORDWOOD_ENDPOINT": f"http://127.0.0.1:{broker.port}",
                        "PATH": "/usr/bin:/bin",
                        "HOME": str(tmp_path),  # outboxes are there
                    },
                )
                assert done.returncode == 0, f"{line}: {done.stderr}"
                assert '"error"' not in done.stdout, f"{line}: {done.stdout}"
                answers.append(done.stdout)
    shown = re.search(r"`(\{\"topic\":\"clicks\".*?\})`", README)
    assert shown is not None
    assert shown[1] == answers[1]
    assert '"value": "two"' in answers[-1]


def test_the_first_screen_has_the_two_commands() -> None:
    first = README.splitlines()[:30]
    assert any(line.startswith("make demo") for line in first)
    assert any(line.startswith("make test") for line in first)
    assert "make test" in (ROOT / ".ci" / "run").read_text()
