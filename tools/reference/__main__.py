"""Write docs/reference and docs/decisions/index.md: `python -m tools.reference`, or `make reference`."""

from pathlib import Path

from tools.reference.pages import PAGES

DOCS = Path(__file__).parents[2] / "docs"


def main() -> None:
    """Write every page, and name those that changed."""
    for name, written in PAGES.items():
        path, text = DOCS / name, written()
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"docs/{name}")


if __name__ == "__main__":
    main()
