"""The picture of docs/howto/load.md: 200 equal pods by measured load."""

from __future__ import annotations

from bench.herd import MEASURED, by_the_engine, pod_by_pod, table
from handbook.pictures.page import Made
from tutti_simulate.plots import Line, Plot, drawn

SHOWN = {"LoadVariationRiskBalancing": "load-variation.svg", "Peaks": "load-peaks.svg"}


def made() -> Made:
    """Place them, and draw how hot each node comes to be, the coolest one first."""
    order = sorted(range(len(MEASURED)), key=lambda number: MEASURED[number])
    pictures = {}
    for policy, file in SHOWN.items():
        found = {
            "measured before": MEASURED,
            "pod by pod": pod_by_pod(policy).used,
            "Tutti": by_the_engine(policy).used,
        }
        lines = []
        for name, values in found.items():
            points = [(float(place), values[number]) for place, number in enumerate(order)]
            lines.append(Line(name, [*points, (float(len(order)), points[-1][1])], steps=True))
        title = f"20 nodes with 200 more pods, {policy}"
        pictures[file] = drawn(Plot(title, "nodes, the coolest first", "% of cpu", lines, 140.0, seconds=False))
    return Made(pictures, table())
