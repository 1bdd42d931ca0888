"""docs/import.md names every header that an imported message can have."""

from pathlib import Path

from cordwood.cli.wal_import import import_command
from cordwood.doors.carry import MARKS
from cordwood.doors.plan import headers
from cordwood.doors.record import Record
from cordwood.doors.source import find
from tests.doors import writers
from tests.doors.writers import SAMPLES

OF_EVERY_COMMAND = ("--endpoint", "--token", "--ca", "--json")
DOCS = (Path(__file__).parents[2] / "docs" / "import.md").read_text()


def test_every_header_is_documented(tmp_path: Path) -> None:
    payload = writers.danube_payload(b"x", subscription="s", time_ms=2**63, schema=(1, 2), layout=2026)
    (tmp_path / "wal.log").write_bytes(writers.frame(0, payload))
    sources = [*find(SAMPLES).sources, *find(tmp_path).sources]
    records = [item for source in sources for _, item in source.items() if isinstance(item, Record)]
    names = {name for record in records for name, _ in headers("here", record)} - {"trace"}  # an attribute
    assert len(names) > 15
    assert [name for name in sorted(names) if f"`{name}`" not in DOCS] == []
    assert [record.format for record in records if f"`{record.format}`" not in DOCS] == []


def test_every_option_and_the_topic_of_marks_is_documented() -> None:
    options = [name for option in import_command.params for name in option.opts if name.startswith("--")]
    assert [name for name in options if name not in DOCS and name not in OF_EVERY_COMMAND] == []
    assert f"`{MARKS}`" in DOCS
