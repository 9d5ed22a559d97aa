"""Draws the dashboard from a scene that is played for it: `python -m handbook.screen docs/screens/dashboard.svg`.

There is no Grafana in it. The panels, their expressions and their units are those of the dashboard that is installed;
a real Prometheus evaluates the expressions over what a real operator served while it scheduled on an embedded cluster.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from handbook.dashboard import RATE, ROWS
from handbook.drawing import draw
from handbook.scene import GPU, GPUS_EACH, NODES_THERE, SECONDS, play

WINDOW = "15s"
CAPTION = (
    f"{SECONDS} s of an operator on an embedded cluster of {NODES_THERE} hollow nodes with {GPUS_EACH} GPUs each; "
    f"Prometheus read /metrics once a second, and rates go over {WINDOW}.\n"
    "Drawn without Grafana, from the expressions of manifests/overlays/monitoring/dashboard.json, by "
    "`make dashboard-screen`. Times of jobs are those of a scene, not of a real day."
)


def main() -> None:
    """Play, draw, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args().file
    asked = {line.expression: _filled(line.expression) for row in ROWS for panel in row.panels for line in panel.lines}
    found = asyncio.run(play(asked.values()))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(draw({one: found[asked[one]] for one in asked}, caption=CAPTION), encoding="utf-8")


def _filled(expression: str) -> str:
    """An expression with what Grafana puts in place of its variables."""
    return expression.replace(RATE, WINDOW).replace("$resource", GPU)


if __name__ == "__main__":
    main()
