"""What the README shows, run."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0 [b'a message', b'and what becomes true with it']\n"
    for words in re.findall(r"^cordwood (wal \w+ data(?: --\w+)?)", README, re.M):
        shown = subprocess.run(
            [sys.executable, "-m", "cordwood", *words.split()],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert shown.returncode == 0, f"{words}: {shown.stderr}"


def test_the_first_screen_has_the_two_commands() -> None:
    first = README.splitlines()[:30]
    assert any(line.startswith("make demo") for line in first)
    assert any(line.startswith("make test") for line in first)
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
