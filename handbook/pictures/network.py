"""The picture of docs/howto/network.md: what applications cost the network, placed whole and pod by pod."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from handbook.pictures.lab import SPACE, Lab, LabJob
from handbook.pictures.page import Made
from tutti.api.network import APP_GROUP, GROUP_LABEL, REGION, TOPOLOGY, WORKLOAD_LABEL, ZONE
from tutti.engine.records.observations import NetworkObjectSeen
from tutti_simulate.plots import Line, Plot, drawn

ZONES: Final = ("z0", "z1", "z2", "z3", "z4", "z5")
APPS: Final = 24
ROLES: Final = {"web": 4, "api": 3, "db": 2}
NEEDS: Final = (("web", "api"), ("api", "db"), ("api", "web"))
BETWEEN_REGIONS: Final = 40


def made() -> Made:
    """Place each application both ways on a cluster that is full in part, and draw its cost, the cheapest first."""
    costs = {"pod by pod": [], "as a gang": []}  # type: dict[str, list[float]]
    for seed in range(APPS):
        for name, found in costs.items():
            found.append(_cost(seed, gang=name == "as a gang"))
    order = sorted(range(APPS), key=lambda number: costs["pod by pod"][number])
    lines = []
    for name, found in costs.items():
        points = [(float(place), found[number]) for place, number in enumerate(order)]
        lines.append(Line(name, [*points, (float(APPS), points[-1][1])], steps=True))
    title = "what 24 applications cost the network"
    picture = drawn(Plot(title, "applications", "sum over pods that depend on each other", lines, seconds=False))
    return Made({"network-costs.svg": picture}, _table(costs))


def _table(costs: dict[str, list[float]]) -> str:
    rows = ["| 24 applications of nine pods | mean cost | highest | cheaper than the other way |", "|---|---|---|---|"]
    pairs = list(zip(*costs.values(), strict=True))
    for place, (name, found) in enumerate(costs.items()):
        better = sum(one[place] < one[1 - place] for one in pairs)
        rows.append(f"| {name} | {sum(found) / len(found):.0f} | {max(found):.0f} | {better} |")
    return "\n".join(rows) + "\n"


def _between(seed: int, first: str, second: str) -> int:
    """Return what lies between two zones, in either direction."""
    if first == second:
        return 1
    one, other = sorted((first, second))
    if _region(one) != _region(other):
        return BETWEEN_REGIONS
    return Random(f"{seed}-{one}-{other}").randint(5, 20)


def _region(zone: str) -> str:
    return f"r{int(zone[1:]) // 3}"


def _cost(seed: int, *, gang: bool) -> float:
    lab, random = Lab(network={"weight": 100}), Random(seed)
    zone_of = {}
    for number in range(12):
        zone = ZONES[number % len(ZONES)]
        zone_of[f"n{number:02d}"] = zone
        offers = {"nvidia.com/gpu": random.choice((1, 2, 3))}
        lab.node(f"n{number:02d}", offers, {REGION: _region(zone), ZONE: zone})
    lab.tell(NetworkObjectSeen(TOPOLOGY, _topology(seed)))
    lab.tell(NetworkObjectSeen(APP_GROUP, _application()))
    roles = [(count, _labels(role)) for role, count in ROLES.items()]
    if gang:
        jobs = [lab.submit(LabJob("app", 1, roles, {"nvidia.com/gpu": 1}, 1000))]
    else:
        singles = [(f"{labels[WORKLOAD_LABEL]}-{number}", labels) for count, labels in roles for number in range(count)]
        jobs = [
            lab.submit(LabJob(name, 1 + int(name[-1]), [(1, labels)], {"nvidia.com/gpu": 1}, 1000, gang=False))
            for name, labels in singles
        ]
    lab.run(until=100)
    placed = [role for role, count in ROLES.items() for _ in range(count)] if gang else [
        job.name.partition("-")[0] for job in jobs
    ]  # fmt: skip
    nodes = [node for job in jobs for node in job.nodes]
    assert len(nodes) == len(placed)  # there is room for all
    found = list(zip(placed, nodes, strict=True))
    return float(sum(
        0 if one == other else _between(seed, zone_of[one], zone_of[other])
        for of, needs in NEEDS
        for role, one in found if role == of
        for needed, other in found if needed == needs
    ))  # fmt: skip


def _labels(role: str) -> dict[str, str]:
    return {GROUP_LABEL: "shop", WORKLOAD_LABEL: role}


def _topology(seed: int) -> dict[str, Any]:
    within = [
        {"origin": one, "costList": [
            {"destination": other, "networkCost": _between(seed, one, other)}
            for other in ZONES if other != one and _region(other) == _region(one)
        ]}
        for one in ZONES
    ]  # fmt: skip
    across = [
        {"origin": one, "costList": [{"destination": other, "networkCost": BETWEEN_REGIONS}]}
        for one, other in (("r0", "r1"), ("r1", "r0"))
    ]
    keys = [{"topologyKey": ZONE, "originList": within}, {"topologyKey": REGION, "originList": across}]
    weights = [{"name": "UserDefined", "topologyList": keys}]
    return {"metadata": {"namespace": SPACE, "name": "nt-default"}, "spec": {"weights": weights}}


def _application() -> dict[str, Any]:
    workloads = [
        {
            "workload": _deployment(role),
            "dependencies": [
                {"workload": _deployment(needs), "maxNetworkCost": 100} for of, needs in NEEDS if of == role
            ],
        }
        for role in ROLES
    ]
    spec = {"numMembers": sum(ROLES.values()), "topologySortingAlgorithm": "KahnSort", "workloads": workloads}
    return {"metadata": {"namespace": SPACE, "name": "shop"}, "spec": spec}


def _deployment(role: str) -> dict[str, str]:
    return {"kind": "Deployment", "apiVersion": "apps/v1", "namespace": SPACE, "name": role, "selector": role}
