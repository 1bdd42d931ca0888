"""Write docs/reference: `python -m tools.reference`, or `make reference`."""

from pathlib import Path

from tools.reference.pages import PAGES

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def main() -> None:
    """Write every page, and name those that changed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, written in PAGES.items():
        path, text = FOLDER / f"{name}.md", written()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"docs/reference/{name}.md")


if __name__ == "__main__":
    main()
