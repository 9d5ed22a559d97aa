"""How Tutti, kube-scheduler and a program that only binds grow beside one another: measured, kept as JSON, drawn.

    python -m bench.beside              # half an hour; writes docs/beside.json and docs/pictures/beside.svg
    python -m bench.beside --only Pods  # measures the curves of scenarios with this in their name, and draws all
    python -m bench.beside --draw-only  # draws again what docs/beside.json holds

The scenarios are those of bench/scenarios/growth.yaml, on a real kube-apiserver and etcd from KUBEBUILDER_ASSETS. In
each workload Tutti and another follow one another on one server: kube-scheduler, and on a new server the floor
(`claim_floor.py`). A scheduler stands still while its pods are created. So Tutti's figures are medians of more runs.
kube-scheduler knows no gangs: what is drawn of it are single pods.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.drawing import COLOURS, Curve, Panel, drawn
from bench.upstream import FLOOR, MINE, binaries, run, whose
from tutti_bench.document import Scenario, load_scenarios
from tutti_bench.measuring import CPU, OVERALL
from tutti_bench.results import DataItem
from tutti_bench.stage import KUBE_SCHEDULER

DATA, PLOT = Path("docs/beside.json"), Path("docs/pictures/beside.svg")
SCENARIOS = Path(__file__).parent / "scenarios" / "growth.yaml"
LABEL = "growth"
Curves = dict[str, dict[str, dict[str, float]]]
"""Figures by `<scenario> <metric>`, by whose they are, and by the name of the workload, which is a size."""


@dataclass(frozen=True)
class Growth:
    """What is drawn of a scenario, and beside whom it is measured."""

    title: str
    across: str
    beside: tuple[str, ...]


GROWTHS = {
    "SinglesByNodes": Growth("single pods", "nodes", (KUBE_SCHEDULER, FLOOR)),
    "GangsByNodes": Growth("gangs of 10", "nodes", (FLOOR,)),
    "SinglesByPods": Growth("single pods on 500 nodes", "pods", (KUBE_SCHEDULER, FLOOR)),
    "BesideWaiting": Growth("2,000 pods on 500 nodes", "unlike pods that wait, fitting no node", (KUBE_SCHEDULER,)),
}
WHO = dict(zip((MINE, KUBE_SCHEDULER, FLOOR), COLOURS, strict=False))
"""Each has one colour in all panels."""
METRICS = {OVERALL: "pods/s", CPU: "ms of processor time for each pod"}


def measured(scenario: Scenario, assets: Path) -> Iterator[tuple[str, DataItem]]:
    """Run a scenario beside each of the others, and give what was found and whose it is.

    Raises:
        ChildProcessError: A workload was not run to its end.
    """
    names = [f"{scenario.name}/{one.name}" for one in scenario.workloads if LABEL in one.labels]
    for other in GROWTHS[scenario.name].beside:
        found, code = run(SCENARIOS, names, assets, other, drains=True)
        if code:
            raise ChildProcessError(f"{scenario.name} beside {other} ended with {code}")
        yield from ((MINE if whose(one) == MINE else other, one) for one in found)


def curves(found: Iterable[tuple[str, DataItem]]) -> Curves:
    """Return the medians of what was found of each size."""
    figures: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
    for who, one in found:
        if one.metric in METRICS:
            scenario, size = one.name.split("/")[:2]
            figures[f"{scenario} {one.metric}", who, int(size)].append(one.data["Average"])
    out: Curves = {}
    for (name, who, of), values in sorted(figures.items()):
        out.setdefault(name, {}).setdefault(who, {})[str(of)] = round(statistics.median(values), 3)
    return out


def panels(data: Curves) -> list[Panel]:
    """Return what is drawn of the figures: a panel for each scenario and metric."""
    out = []
    for scenario, growth in GROWTHS.items():
        for metric, unit in METRICS.items():
            told = data.get(f"{scenario} {metric}", {})
            lines = [
                Curve(who, [(int(size), one) for size, one in told[who].items()], colour)
                for who, colour in WHO.items()
                if who in told
            ]
            if lines:
                out.append(Panel(growth.title, growth.across, unit, lines))
    return out


def main() -> int:
    """Measure where that was not told otherwise, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="measure only the scenarios that have this in their name")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--draw-only", action="store_true", help="measure nothing")
    options = parser.parse_args()
    data: Curves = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    if not options.draw_only:
        assets = binaries()
        if assets is None:
            return 0
        for scenario in load_scenarios(SCENARIOS):
            if options.only in scenario.name:
                data |= curves(one for _ in range(options.rounds) for one in measured(scenario, assets))
                DATA.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    PLOT.write_text(drawn(panels(data), across=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
