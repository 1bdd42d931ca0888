"""Filesystems of a drill's own: a small tmpfs, and an ext4 in a file whose power can be cut. Root only."""

import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cordwood.drills.field.stage import Skipped, need_root, need_tool

FS_IOC_SHUTDOWN = 0x8004587D
WITHOUT_FLUSH = 2
TRIES = 50  # a killed process's last system call may still hold a mount; another may take the free loop device


@contextmanager
def small(place: Path, size: str) -> Iterator[None]:
    """Mount a tmpfs of this size for a while."""
    need_root("mount a small filesystem")
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", place)
    try:
        yield
    finally:
        _unmount(place)


def image(scratch: Path, size_bytes: int) -> Path:
    """Return a new ext4 in a file, or skip the drill."""
    need_root("mount a filesystem")
    need_tool("mkfs.ext4", "apt-get install e2fsprogs")
    path = scratch / "image"
    with path.open("wb") as file:
        file.truncate(size_bytes)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True, capture_output=True)
    return path


@contextmanager
def mounted(path: Path, place: Path) -> Iterator[None]:
    """Mount an image for a while."""
    place.mkdir(exist_ok=True)
    _mount("-o", "loop", path, place)
    try:
        yield
    finally:
        _unmount(place)


def cut_power(place: Path) -> None:
    """Drop at once all that a filesystem has not synced, as a power cut does; nothing works on it any more."""
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(root, FS_IOC_SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
    finally:
        os.close(root)


def _mount(*words: object) -> None:
    for left in reversed(range(TRIES)):
        done = subprocess.run(["mount", *map(str, words)], check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return
        if not left or "permission denied" in done.stderr or "not permitted" in done.stderr:
            raise Skipped(f"nothing can be mounted here: {done.stderr.strip()}")
        time.sleep(0.05)


def _unmount(place: Path) -> None:
    for _ in range(TRIES):
        if subprocess.run(["umount", str(place)], check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    subprocess.run(["umount", "--lazy", str(place)], check=False, capture_output=True)
