"""A real ext4 whose power goes while a process appends to a journal on it.

The filesystem lives in a file, mounted through a loop device. FS_IOC_SHUTDOWN without a flush of its log drops at
once all that was not synced, as a power cut would; what `fdatasync` and the directory's `fsync` had confirmed must be
there after the next mount. Needs root.
"""

import fcntl
import os
import random
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cordwood.drills.journal_kill import Report, appended_until, check
from cordwood.errors import CordwoodError

FS_IOC_SHUTDOWN = 0x8004587D
WITHOUT_FLUSH = 2
IMAGE_BYTES = 96 << 20


def reason_to_skip() -> str | None:
    """Return why this cannot run here, or None if it can."""
    if os.geteuid() != 0:
        return "only root may mount a filesystem"
    missing = [tool for tool in ("mkfs.ext4", "mount", "umount") if shutil.which(tool) is None]
    if missing:
        return f"{missing[0]} is not installed"
    with tempfile.TemporaryDirectory(prefix="cordwood-power-") as scratch:
        try:
            with _mounted(_image(Path(scratch)), Path(scratch) / "mounted"):
                return None
        except subprocess.CalledProcessError as error:
            return f"no loop device can be mounted: {error.stderr.strip()}"


def run(seed: int, cuts: int) -> Report:
    """Append, cut the power, mount, open, check, `cuts` times over one filesystem."""
    report = Report()
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="cordwood-power-") as scratch:
        image, place = _image(Path(scratch)), Path(scratch) / "mounted"
        with _mounted(image, place):
            (place / "journal").mkdir(0o700)
            os.sync()
        known = 0
        for _ in range(cuts):
            with _mounted(image, place):
                told = appended_until(
                    place / "journal", seed, lambda: _cut_power(place, draw.random() * 0.04), draw.randrange(1, 30)
                )
            report.kills += 1
            known = max(known, told)
            try:
                with _mounted(image, place):
                    known = check(place / "journal", seed, known, report)
                    os.sync()
            except (CordwoodError, AssertionError) as error:
                report.wrong.append(f"{error} [seed {seed}, power cut {report.kills}]")
                return report
        report.acknowledged = known
    return report


def _cut_power(place: Path, seconds: float) -> None:
    time.sleep(seconds)
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(root, FS_IOC_SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
    finally:
        os.close(root)


def _image(scratch: Path) -> Path:
    image = scratch / "image"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True, text=True)
    return image


@contextmanager
def _mounted(image: Path, place: Path) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    for left in reversed(range(20)):
        # Somebody else may take the free loop device between the look and the grab.
        done = subprocess.run(
            ["mount", "-o", "loop", str(image), str(place)], check=not left, capture_output=True, text=True
        )
        if done.returncode == 0:
            break
        time.sleep(0.05)
    try:
        yield
    finally:
        for _ in range(50):  # a killed child's last system call may still hold it
            if subprocess.run(["umount", str(place)], check=False, capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
