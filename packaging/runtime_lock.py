"""Print the part of requirements.lock that a broker needs: its dependencies, theirs, and no tests, bench or Spark.

    python packaging/runtime_lock.py > runtime.lock && pip install --require-hashes -r runtime.lock
    python packaging/runtime_lock.py --of hatchling          the same for a package by name

The lock says of each package who asked for it (`# via`); whoever is asked for by nobody here is left out.
"""

import re
import sys
import tomllib
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def normal(name: str) -> str:
    """Return a package's name as the lock spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(lock: str) -> dict[str, str]:
    """Return each package of a lock with its lines: version, hashes, who asked for it."""
    found: dict[str, str] = {}
    name = ""
    for line in lock.splitlines():
        if line and not line[0].isspace() and not line.startswith("#"):
            name = normal(_NAME.match(line)[0])  # type: ignore[index]
        if name:
            found[name] = found.get(name, "") + line + "\n"
    return found


def asked_by(entry: str) -> set[str]:
    """Return who asked for a package."""
    comments = re.findall(r"^\s+#\s*(?:via\s*)?(.*)$", entry, re.MULTILINE)
    return {normal(found[0]) for comment in comments if (found := _NAME.match(comment)) and "(" not in comment}


def part(lock: str, wanted: list[str]) -> str:
    """Return the entries that these packages come to."""
    found = entries(lock)
    needed = {normal(_NAME.match(one)[0]) for one in wanted}  # type: ignore[index]
    missing = needed - found.keys()
    if missing:
        raise SystemExit(f"requirements.lock has no {', '.join(sorted(missing))}; run `make lock`")
    while more := {name for name, entry in found.items() if name not in needed and asked_by(entry) & needed}:
        needed |= more
    return "".join(entry for name, entry in found.items() if name in needed)


def main(arguments: list[str]) -> str:
    """Return what is to be printed."""
    lock = Path("requirements.lock").read_text()
    if arguments[:1] == ["--of"]:
        return part(lock, arguments[1:])
    return part(lock, tomllib.loads(Path("pyproject.toml").read_text())["project"]["dependencies"])


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]))
