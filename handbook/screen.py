"""Draws the dashboard from a scene that is played for it: `python -m handbook.screen docs/screens/dashboard.svg`.

There is no Grafana in it. The panels, their expressions and their units are those of the dashboard that is installed;
the expressions are evaluated over what a real operator served while it scheduled on an embedded cluster.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from handbook.drawing import draw
from handbook.scene import GPU, GPUS_EACH, NODES_THERE, SECONDS, play

WINDOW = "15s"
CAPTION = (
    f"{SECONDS} s of an operator on an embedded cluster of {NODES_THERE} hollow nodes with {GPUS_EACH} GPUs each; "
    f"/metrics was read once a second, and rates go over {WINDOW}.\n"
    "Drawn without Grafana, from the expressions of manifests/overlays/monitoring/dashboard.json, by "
    "`make dashboard-screen`. Times of jobs are those of a scene, not of a real day."
)


def main() -> None:
    """Play, draw, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args().file
    history = asyncio.run(play())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(draw(history, caption=CAPTION, resource=GPU, window=WINDOW), encoding="utf-8")


if __name__ == "__main__":
    main()
