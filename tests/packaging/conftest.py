"""The package as a user gets it: built once from a clean copy, installed where the repository is not."""

import os
import shutil
import site
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
COPIED = ("src", "pyproject.toml", "README.md", "LICENSE", "Makefile", "requirements.lock", "docs", "packaging")


@dataclass(frozen=True)
class Installed:
    """What `pip install` made: the files that were built, and the venv they are in."""

    sdist: Path
    wheel: Path
    bin: Path
    home: Path

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs, far from the repository."""
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            env=self.environment(**variables),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=250,
        )

    def environment(self, **variables: str) -> dict[str, str]:
        """Return an environment in which nothing leads back here."""
        return {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.home), "LC_ALL": "C.UTF-8", **variables}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build sdist and wheel, and install the wheel; its dependencies are taken from this venv: no network."""
    base = tmp_path_factory.mktemp("packaging")
    copy = base / "checkout"
    copy.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, copy / name)
    dist, venv, home = base / "dist", base / "venv", base / "home"
    home.mkdir()
    quiet = {**os.environ, "PYTHONPATH": "", "PIP_NO_INDEX": "1"}
    # Without a choice `build` makes the wheel from the sdist: so that is whole, too.
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(copy)]
    subprocess.run(build, check=True, capture_output=True, env=quiet, timeout=300)
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=250)
    python = venv / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, env=quiet, timeout=300)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(venv)}))
    # A path in a .pth file is searched last, and its own .pth files are not read: not the editable install there.
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return Installed(sdist, wheel, venv / "bin", home)
