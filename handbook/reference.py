"""Writes the pages of docs/reference from the models: `python -m handbook.reference docs/reference`."""

from __future__ import annotations

import argparse
from pathlib import Path

from handbook import alerts, commands, kinds, metrics, reasons, settings

NOTE = "<!-- Generated from the models by `make reference`. Change those instead. -->\n\n"


def pages() -> dict[str, str]:
    """The text of each page by the name of its file."""
    made = {
        "kinds.md": kinds.page(),
        "configuration.md": settings.page(),
        "cli.md": commands.page(),
        "metrics.md": metrics.page(),
        "alerts.md": alerts.page(),
        "reasons.md": reasons.page(),
    }
    return {name: NOTE + text for name, text in made.items()}


def main() -> None:
    """Write every page into the folder given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
