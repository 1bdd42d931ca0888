"""The list of all decisions, by their titles."""

import re
from pathlib import Path

from tools.reference.markdown import page

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"


def written() -> str:
    """Return the page."""
    lines = []
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        title = re.sub(r"^#\s*\d*[:.]?\s*", "", path.read_text().splitlines()[0])
        lines.append(f"- [{path.name[:4]}]({path.name}): {title[:1].upper()}{title[1:]}\n")
    return page(
        "Decisions",
        "What was hard to decide: what was chosen, what was given up, what would change our mind.\n",
        "".join(lines),
    )
