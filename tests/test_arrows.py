"""Imports follow the data. A new arrow is drawn here first."""

import ast
from pathlib import Path

import cordwood

ROOT = Path(cordwood.__file__).parent

# part → the parts of cordwood that it may import
ARROWS = {
    "errors": set(),
    "settings": {"errors"},
    "record": {"errors"},
    "compose": {"record"},
    "partition": {"record", "errors"},
    "wire": {"compose", "record", "errors"},
    "http": {"errors"},
    "machine": {"errors"},
    "auth": {"machine", "errors"},
    "journal": {"machine", "errors"},
    "tier": {"journal", "machine", "record", "errors"},
    "sim": {"machine", "errors"},
    "broker": {
        "journal",
        "machine",
        "tier",
        "wire",
        "compose",
        "record",
        "partition",
        "settings",
        "errors",
    },
    "server": {
        "auth",
        "broker",
        "tier",
        "wire",
        "record",
        "partition",
        "http",
        "settings",
        "errors",
        "machine",
        "journal",
        "",
    },
    "client": {"wire", "record", "partition", "errors"},
    "edge": {"client", "journal", "machine", "wire", "record", "partition", "errors"},
    "aio": {"client", "edge"},
    "spark": {"client", "edge", "tier", "machine", "record", "partition", "errors"},
    "embedding": {"server", "settings", "errors"},
    "serving": {"settings", "errors"},
    "fixture": {"embedding"},
    "drills": {
        "broker",
        "server",
        "client",
        "edge",
        "spark",
        "tier",
        "journal",
        "machine",
        "sim",
        "http",
        "wire",
        "record",
        "serving",
        "settings",
        "errors",
    },
    "doors": {"client", "record", "errors"},
    "demo": {"client", "serving", "errors"},
    "bench": {"aio", "client", "serving", "errors", ""},
    "cli": {
        "auth",
        "bench",
        "broker",
        "server",
        "client",
        "demo",
        "doors",
        "drills",
        "edge",
        "spark",
        "journal",
        "machine",
        "settings",
        "errors",
        "",
    },
    "__main__": {"cli"},
}


def imports(path: Path) -> set[str]:
    """Return the parts of cordwood that a module imports ('' for the package itself)."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name == "cordwood" or name.startswith("cordwood."):
                part = name.removeprefix("cordwood").lstrip(".").split(".")[0]
                found.add(part if part in ARROWS else "")
    return found


def test_every_import_follows_an_arrow() -> None:
    for path in sorted(ROOT.rglob("*.py")):
        part = path.relative_to(ROOT).with_suffix("").parts[0]
        if part == "__init__":
            assert not imports(path), "`import cordwood` stays light"
            continue
        assert part in ARROWS, f"{path.name}: draw its arrows first"
        strange = imports(path) - ARROWS[part] - {part}
        assert not strange, f"{path.relative_to(ROOT)} imports {strange}"
