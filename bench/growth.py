"""How the engine's decisions grow with the cluster and with the work: measured, kept as JSON, drawn as SVG.

    python -m bench.growth              # some minutes; writes docs/growth.json and docs/growth.svg
    python -m bench.growth --only wake  # measures the curves again that have this in their name, and draws all
    python -m bench.growth --draw-only  # draws again what docs/growth.json holds

TUTTI_BENCH_CLOCK=cpu measures processor time, where the machine has other work.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench import decide, wake
from bench.drawing import Curve, Panel, drawn

DATA, PLOT = Path("docs/growth.json"), Path("docs/growth.svg")
NODES = (500, 1000, 2000, 5000, 10_000, 20_000)
PODS = (1000, 3000, 10_000, 30_000, 100_000)
WAITING = (200, 500, 1000, 2000, 5000)
GANG = 1000


@dataclass(frozen=True)
class Growth:
    """One curve: what is measured at which sizes, in milliseconds."""

    panel: str
    what: str
    axis: str
    sizes: tuple[int, ...]
    measure: Callable[[int], float]


WOKEN = "a turn after one pod has ended"

GROWTHS = {
    "gang_by_nodes": Growth("one decision", "gang of 1,000", "nodes", NODES, lambda n: decide.gang(n, GANG)),
    "queued_gang_by_nodes": Growth(
        "one decision", "the same from a queue", "nodes", NODES, lambda n: decide.gang(n, GANG, "queue")
    ),
    "single_by_nodes": Growth("one decision", "one single pod", "nodes", NODES, lambda n: decide.singles(n, 100)),
    "gang_by_pods": Growth(
        "one gang on 20,000 nodes", "the whole gang", "pods", PODS, lambda size: decide.gang(20_000, size)
    ),
    "wake_by_waiting": Growth(WOKEN, "equal pods wait, in one queue", "who waits", (*WAITING, 20_000), wake.equals),
    "wake_by_shapes": Growth(WOKEN, "unlike pods wait, for nodes", "who waits", WAITING, wake.shapes),
    "wake_by_queues": Growth(WOKEN, "one waits in each of so many queues", "who waits", WAITING, wake.queues),
    "wake_by_fair_queues": Growth(WOKEN, "the same, by fair shares", "who waits", WAITING[:4], wake.fair_queues),
}


def measured(runs: int, only: str = "") -> dict[str, Any]:
    """Measure the curves that have `only` in their name: the median of so many runs at each size, in milliseconds."""
    chosen = {name: one for name, one in GROWTHS.items() if only in name}
    total = sum(len(one.sizes) for one in chosen.values()) * runs
    curves: dict[str, dict[str, float]] = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        for name, one in chosen.items():
            curves[name] = {}
            for size in one.sizes:
                progress.update(task, description=f"{name} {size:,}")
                times = []
                for _ in range(runs):
                    times.append(one.measure(size))
                    progress.advance(task)
                curves[name][str(size)] = round(statistics.median(times), 3)
    clock = "processor time" if os.environ.get("TUTTI_BENCH_CLOCK") == "cpu" else "passed time"
    return {"clock": clock, "runs": runs, "python": platform.python_version(), "unit": "ms", "curves": curves}


def panels(data: dict[str, Any]) -> list[Panel]:
    """Return what is drawn of the figures."""
    found: dict[str, Panel] = {}
    for name, one in GROWTHS.items():
        if name not in data["curves"]:
            continue
        panel = found.setdefault(one.panel, Panel(one.panel, one.axis, f"{data['unit']}, {data['clock']}", []))
        panel.curves.append(Curve(one.what, [(int(size), ms) for size, ms in data["curves"][name].items()]))
    return list(found.values())


def main() -> None:
    """Measure where that was not told otherwise, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="", help="measure only the curves that have this in their name")
    parser.add_argument("--draw-only", action="store_true", help="measure nothing")
    options = parser.parse_args()
    data = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {"curves": {}}
    if not options.draw_only:
        new = measured(options.runs, options.only)
        data = {**new, "curves": {**data["curves"], **new["curves"]}}
    DATA.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    PLOT.write_text(drawn(panels(data)), encoding="utf-8")


if __name__ == "__main__":
    main()
