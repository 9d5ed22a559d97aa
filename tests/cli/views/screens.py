"""The views in colour, as pictures: `python -m tests.cli.views.screens docs/screens` draws them anew.

They are what the commands draw on a terminal of the same scene that the texts in `golden/` are of.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from tests.cli.views.golden import VIEWS
from tests.cli.views.staging import on, staged

SCREENS: Mapping[str, str] = {
    name: VIEWS[name] for name in ("queue", "top-nodes", "gangs", "explain-quota", "explain-placement", "drain-budget")
}
WIDTH = 132


def drawn(kubeconfig: Path, line: str) -> str:
    """What a command draws on a terminal, as SVG."""
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, force_terminal=True, color_system="truecolor", highlight=False
    )
    on(console, kubeconfig, *line.split())
    return console.export_svg(title=f"tutti {line}")


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as stage:
        kubeconfig = Path(stage) / "kubeconfig"
        with staged(kubeconfig):
            for name, line in SCREENS.items():
                (folder / f"{name}.svg").write_text(drawn(kubeconfig, line))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
