"""Steps of everyday losses (`tests.simulation.losses`), drawn from a seed apart from all other steps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.simulation.network import WATCH
from tests.simulation.waiting_steps import Drawn

LOSES = 0.5
"""How often there are any."""
BINDING = ("pods/binding", "POST")
WRITES = (
    *[BINDING] * 5,
    *[("pods", "DELETE")] * 3,
    ("pods/eviction", "POST"),
    ("pods/status", "PATCH"),
    ("pods", "PATCH"),
    ("podgroups", "POST"),
    ("podgroups", "DELETE"),
    ("podgroups/status", "PATCH"),
    ("workloads", "PATCH"),
    ("workloads/status", "PATCH"),
    ("clusterqueues", "PATCH"),
    ("clusterqueues/status", "PATCH"),
    ("localqueues/status", "PATCH"),
    ("resourceflavors/status", "PATCH"),
    ("resourceclaims", "POST"),
    ("resourceclaims", "PATCH"),
    ("resourceclaims/status", "PATCH"),
    ("persistentvolumeclaims", "PATCH"),
    ("jobs", "PATCH"),
    ("leases", "PUT"),
)
KINDS = (
    *["pods"] * 4,
    *["nodes"] * 2,
    "podgroups",
    "workloads",
    "clusterqueues",
    "localqueues",
    "namespaces",
    "resourceflavors",
    "workloadpriorityclasses",
    "resourceclaims",
    "resourceslices",
    "",
)
CODES = (401, 403, 409, 422, 429, 500, 502, 503, 504)
HOW = ("refuse", "refuse", "spoil", "swallow", "lose", "hold", "late", "late")
HOURS = (-7200.0, -3600.0, -90.0, 45.0, 3600.0, 86400.0)


def loss_steps(seed: int, moments: Sequence[float], *, clocks: bool) -> Drawn:
    """Everyday losses in the run of a seed; as often as not none.

    Args:
        seed: Of the run.
        moments: When something comes, so that there is something to do.
        clocks: Whether clocks may be set: nobody waits for a time of day.
    """
    draw = random.Random(f"{seed}/losses")
    if draw.random() >= LOSES:
        return []
    steps: Drawn = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        steps += _at_a_write(draw, clocks=clocks)
    for _ in range(draw.choice((0, 1, 2))):
        at = draw.choice(moments) + draw.choice((0.0, 0.01, 0.1, 1.0)) * draw.random()
        steps.append((at, *_loss(draw, clocks=clocks)))
    return steps


def _at_a_write(draw: random.Random, *, clocks: bool) -> Drawn:
    """Something that happens at a write, and another write that is in trouble afterwards, or nothing more."""
    what, method = draw.choice(WRITES)
    about = {"what": what, "method": method, "number": draw.choice((1, 2, 2, 3, 5, 8, 13)), "done": draw.random() < 0.5}
    do, args = draw.choice((_process, _process, _loss))(draw, clocks=clocks)
    steps: Drawn = [(draw.choice((0.5, 20.0, 60.0)), "at_write", {**about, "do": do, "args": args})]
    if do in ("crash", "pause") and draw.random() < 0.7:
        steps.append((draw.uniform(0.0, 5.0), "start", {"replica": "b"}))
    return steps


def _process(draw: random.Random, *, clocks: bool) -> tuple[str, dict[str, Any]]:
    """What becomes of whoever writes."""
    if clocks and draw.random() < 0.2:
        return "clock", {"machine": "sender", "ahead": draw.choice(HOURS)}
    if draw.random() < 0.5:
        return "crash", {"replica": "sender"}
    return "pause", {"replica": "sender", "seconds": draw.choice((0.5, 8.0, 12.0, 16.0, 45.0))}


def _loss(draw: random.Random, *, clocks: bool) -> tuple[str, dict[str, Any]]:
    """What becomes of the wire, or of a clock."""
    kind, owner = draw.choice(KINDS), draw.choice(("", "", "a.1", "b.1"))
    what = draw.choice(("silence", "silence", "relist", "lag", "lag", "break", "down", "slow", "token", "clock", ""))
    seconds = round(draw.uniform(5, 60), 1)
    told: dict[str, dict[str, Any]] = {
        "silence": {"what": kind, "seconds": 2 * seconds, "owner": owner, "marks": draw.random() < 0.3},
        "relist": {"what": kind},
        "lag": {"what": kind, "seconds": draw.choice((0.5, 3.0, 25.0)), "owner": owner, "lasts": seconds},
        "break": {},
        "down": {"seconds": round(draw.uniform(0.1, 20), 1)},
    }
    if what == "clock" and clocks:
        return "clock", {"machine": draw.choice("ab"), "ahead": draw.choice(HOURS)}
    return (what, told[what]) if what in told else ("trouble", _trouble(draw, what, kind, owner))


def _trouble(draw: random.Random, what: str, kind: str, owner: str) -> dict[str, Any]:
    """What goes wrong with requests: those of a kind are slow for a while, a token is not known, or anything."""
    always = {"times": 10_000, "lasts": round(draw.uniform(0.1, 12), 1)}
    about, method = draw.choice((*WRITES, ("", WATCH), (kind, WATCH), (kind, "GET")))
    if what == "slow":
        return {"what": about, "method": method, "how": "hold", "seconds": draw.choice((0.7, 3.0, 9.0)), **always}
    if what == "token":
        return {"what": "", "method": "", "how": "refuse", "code": 401, "owner": owner, **always}
    code, seconds = draw.choice(CODES), draw.choice((0.5, 4.0))
    wait = draw.choice((None, 1, 5)) if code in (429, 503) else None
    how, times = draw.choice(HOW), draw.choice((1, 3, 10))
    return {
        "what": about, "method": method, "how": how, "code": code, "seconds": seconds, "times": times, "retry_after": wait
    }  # fmt: skip
