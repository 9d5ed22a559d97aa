"""Writes the dashboard and the alerts: `python -m handbook.monitoring manifests/overlays/monitoring`."""

from __future__ import annotations

import argparse
from pathlib import Path

from handbook import alerts, dashboard


def files() -> dict[str, str]:
    """The text of each file by its name."""
    return {"dashboard.json": dashboard.document(), "alerts.yaml": alerts.manifest()}


def main() -> None:
    """Write every file into the folder given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
