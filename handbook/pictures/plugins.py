"""The picture of docs/plugins.md: how long large jobs wait, with the policy that stands on the page and without.

What is run is the code of the page itself: who changes it there changes the picture, or is told by its test.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any, Final

from handbook.pictures.lab import Lab, LabJob
from handbook.pictures.page import Made
from tutti.engine.records.plugins import Enabled
from tutti_simulate.pictures import shares
from tutti_simulate.plots import Line, Plot, drawn

PAGE: Final = Path(__file__).parents[2] / "docs" / "plugins.md"
NAME: Final = "Fullest"
WEIGHT: Final = 10
PACKING: Final = "with acceleratorPacking"
"""Stands in the table alone: in this run it comes to the same waits."""
NODES: Final = 16
JOBS: Final = 400
_LARGE: Final = 0.1
"""Which part of the jobs needs two whole nodes; all others are single pods of one or two devices."""


def policy_of_the_page() -> Any:
    """Return the policy that docs/plugins.md writes down, made as the operator makes it.

    Raises:
        LookupError: The page has no such class.
    """
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    text = next((one for one in blocks if f"class {NAME}" in one), None)
    if text is None:
        raise LookupError(f"{PAGE} has no Python block with class {NAME}")
    names: dict[str, Any] = {}
    exec(text, names)
    return names[NAME]()


def made() -> Made:
    """Play the same jobs with the policy and without, and draw the waits of the large ones."""
    policy = {"tutti": [Enabled("fullest", policy_of_the_page(), WEIGHT)]}
    runs = {
        "without": _waits({}),
        f"with {NAME}": _waits({}, policy),
        PACKING: _waits({"acceleratorPacking": {}}),
    }
    lines = [Line(name, shares(waits)) for name, waits in runs.items() if name != PACKING]
    title = "jobs of two whole nodes that waited at most so long"
    rows = ["| large jobs | mean wait, min | longest, min |", f"|{'---|' * 3}"]
    rows += [f"| {name} | {sum(waits) / len(waits) / 60:.1f} | {max(waits) / 60:.1f} |" for name, waits in runs.items()]
    picture = drawn(Plot(title, "wait", "% of these jobs", lines, 100.0))
    return Made({"plugins-waits.svg": picture}, "\n".join(rows) + "\n")


def _waits(profile: dict[str, Any], plugins: dict[str, list[Enabled]] | None = None) -> list[float]:
    lab = Lab(plugins, profiles=[{"schedulerName": "tutti", **profile}])
    for number in range(NODES):
        lab.node(f"n{number}", {"nvidia.com/gpu": 8})
    random, at = Random(7), 0.0
    large = []
    for number in range(JOBS):
        at += random.expovariate(1 / 30)
        if random.random() < _LARGE:
            job = LabJob(f"j{number}", at, [(2, {})], {"nvidia.com/gpu": 8}, random.uniform(600, 1200))
            large.append(job)
        else:
            asks = {"nvidia.com/gpu": random.choice((1, 2))}
            job = LabJob(f"j{number}", at, [(1, {})], asks, random.uniform(600, 3000), gang=False)
        lab.submit(job)
    lab.run()
    return [job.started - job.at for job in large if job.started is not None]
