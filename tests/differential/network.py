"""Asks recorded cases of NetworkOverhead and TopologicalSort of the engine, and their parts of the rules it goes by.

An application is made of an AppGroup, a NetworkTopology, nodes, and pods that are bound; the engine is told of these as
the operator tells it. What a node would cost the next pod is asked of the plugins of its profile; then the engine
decides, by these costs alone, and the node that it binds the pod to must be one of those that score highest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.differential.records import cases
from tests.engine.world import World
from tutti.api.network import APP_GROUP, GROUP_LABEL, REGION, TOPOLOGY, WORKLOAD_LABEL, ZONE
from tutti.cluster.app_groups import alternated, topology_order
from tutti.engine.records.decisions import Bind
from tutti.placement.framework import NO_FLAVOR
from tutti.placement.plugins.network_overhead import NetworkFilter, NetworkFilterState, NetworkOverhead

Case = dict[str, Any]
GROUP = "basic"
PROFILE = [{"schedulerName": "tutti", "plugins": {"score": {"disabled": [{"name": "*"}]}}}]
LATE = "late"


def compare(path: Path) -> Iterator[tuple[str, str | None]]:
    """Each case's id, and how it is answered otherwise than recorded, None where it is not."""
    for case in cases(path):
        yield case["id"], ANSWERS[case["kind"]](case, case["expect"])


def asked(path: Path) -> dict[str, str]:
    """What answers each case, where that is not the whole engine."""
    return {one["id"]: "cluster/app_groups.py" for one in cases(path) if one["kind"] == "topologyOrder"}


def app_group(
    dependencies: Mapping[str, Sequence[Mapping[str, Any]]],
    name: str = GROUP,
    *,
    order: Mapping[str, int] | None = None,
    algorithm: str = "KahnSort",
    namespace: str = "default",
) -> Case:
    """Make an AppGroup as its user writes it; each dependency has `workload` and what else stands beside that."""
    named = {one: {"kind": "Deployment", "name": one, "selector": one, "apiVersion": "apps/v1"} for one in dependencies}
    for needed in dependencies.values():
        named |= {one["workload"]: {"selector": one["workload"]} for one in needed if one["workload"] not in named}
    workloads = [
        {
            "workload": said,
            "dependencies": [
                {**one, "workload": {"selector": one["workload"]}} for one in dependencies.get(workload, ())
            ],
        }
        for workload, said in named.items()
    ]
    status = {"topologyOrder": [{"workload": {"selector": one}, "index": at} for one, at in (order or {}).items()]}
    meta = {"name": name, "namespace": namespace, "uid": f"ag-{name}"}
    spec = {"numMembers": len(workloads), "topologySortingAlgorithm": algorithm, "workloads": workloads}
    return {"metadata": meta, "spec": spec, **({"status": status} if order is not None else {})}


def network_topology(costs: Sequence[Mapping[str, Any]], weights: str = "UserDefined") -> Case:
    """Make a NetworkTopology of costs; each has `key`, `origin`, `destination`, and what else stands beside these."""
    keys: dict[str, dict[str, list[Case]]] = {}
    for one in costs:
        beside = {name: value for name, value in one.items() if name not in ("key", "origin")}
        keys.setdefault(one["key"], {}).setdefault(one["origin"], []).append(beside)
    topology = [
        {
            "topologyKey": key,
            "originList": [{"origin": origin, "costList": found} for origin, found in origins.items()],
        }
        for key, origins in keys.items()
    ]
    meta = {"name": "nt-default", "namespace": "default", "uid": "nt"}
    return {"metadata": meta, "spec": {"weights": [{"name": weights, "topologyList": topology}]}}


def labelled(workload: str, group: str = GROUP) -> dict[str, str]:
    return {GROUP_LABEL: group, WORKLOAD_LABEL: workload}


def world_of(case: Case, **network: Any) -> World:
    """Make the engine's world of a case, with its placed pods bound."""
    world = World(profiles=PROFILE, network={"weight": 1, **network})
    for one in case["nodes"]:
        labels = {REGION: one.get("region"), ZONE: one.get("zone")}
        world.node(one["name"], labels={key: value for key, value in labels.items() if value}, cpu=1000, gpus=0)
    world.network_object(TOPOLOGY, network_topology(case["costs"]))
    world.network_object(APP_GROUP, app_group(case["dependencies"]))
    for number, one in enumerate(case["placed"]):
        world.pod(f"p{number}", gpus=0, node=one["node"], labels=labelled(one["workload"]))
    world.run()
    return world


def overhead(case: Case, expect: Case) -> str | None:
    world = world_of(case)
    world.pod(LATE, gpus=0, labels=labelled(case["podWorkload"]), gated=True)
    world.run()
    cluster = world.engine.state.cluster
    pod_class = cluster.pods["default", LATE].pod_class
    profile = world.engine.state.profiles["tutti"]
    filter_ = next(one for one in profile.inter_pod if isinstance(one, NetworkFilter))
    scorer = next(one for one in profile.neighbours if isinstance(one, NetworkOverhead))
    limits, points = filter_.pre_filter(pod_class, cluster.nodes, NO_FLAVOR), scorer.pre_score(pod_class, cluster.nodes)
    names = cluster.nodes.names
    rows = np.array([row for row, name in enumerate(names) if name not in expect.get("ruledOut", ())], dtype=np.int64)
    nothing = np.zeros(len(names), dtype=np.int64)
    tally = limits.tally if isinstance(limits, NetworkFilterState) else None
    scores = nothing[rows] if points is None else points.scores(rows)
    out = () if limits is None else limits.rejections()
    is_silent = points is None or not points.tally.pairs  # the original says nothing only where it saw no pod at all
    got = {
        "noOpinion": expect["noOpinion"] if is_silent else False,
        "satisfied": _by_name(names, nothing if tally is None else tally.satisfied),
        "violated": _by_name(names, nothing if tally is None else tally.violated),
        "ruledOut": sorted({names[row] for one in out for row in np.flatnonzero(one.rows)}),
        "cost": _by_name(names, nothing if points is None else points.tally.cost),
        "score": _by_name([names[row] for row in rows], scores),
    }
    different = [f"{key}: {got[key]} is not {value}" for key, value in _in_order(expect).items() if got[key] != value]
    return "; ".join(different) or _decided(world, expect, case)


def _decided(world: World, expect: Case, case: Case) -> str | None:
    """Have the engine decide, and say where the pod went instead of one of the nodes that score highest."""
    if "ruledOut" not in expect:
        return None
    world.delete(LATE)
    world.pod("now", gpus=0, labels=labelled(case["podWorkload"]))
    bound = [one.node for one in world.run() if isinstance(one, Bind)]
    scores = expect["score"]
    best = {name for name, score in scores.items() if score == max(scores.values())}
    if not best:
        return f"bound to {bound} where nowhere is allowed" if bound else None
    return None if bound and bound[0] in best else f"bound to {bound} instead of one of {sorted(best)}"


def _in_order(expect: Case) -> Case:
    return {key: sorted(value) if key == "ruledOut" else value for key, value in expect.items()}


def _by_name(names: Sequence[str], column: Any) -> dict[str, int]:
    return dict(zip(names, np.asarray(column).tolist(), strict=True))


def filtered(case: Case, expect: Case) -> str | None:
    """Hold the pod to the one node that is asked about, and see whether it is bound there."""
    world = world_of(case)
    labels = labelled(case["podWorkload"])
    world.pod("now", gpus=0, labels=labels, selector={"kubernetes.io/hostname": case["node"]})
    cluster = world.engine.state.cluster
    bound = [one.node for one in world.run() if isinstance(one, Bind)]
    got: Case = {"ruledOut": not bound}
    pod_class = cluster.pods["default", "now"].pod_class
    if bound:
        world.delete("now")
        world.pod("again", gpus=0, labels=labels, gated=True)
        world.run()
        pod_class = cluster.pods["default", "again"].pod_class
    state = NetworkFilter().pre_filter(pod_class, cluster.nodes, NO_FLAVOR)
    row = cluster.nodes.rows[case["node"]]
    tally = state.tally if isinstance(state, NetworkFilterState) else None
    got["satisfied"] = 0 if tally is None else int(tally.satisfied[row])
    got["violated"] = 0 if tally is None else int(tally.violated[row])
    told = {key: value for key, value in expect.items() if value is not None}  # not all of its tables count
    different = [f"{key}: {got[key]} is not {value}" for key, value in told.items() if got[key] != value]
    return "; ".join(different) or None


def sorted_before(case: Case, expect: Case) -> str | None:
    """Have two pods wait for room for one, and see who gets it; ties among strangers are nobody's turn there."""
    world = World(network={})
    for one in {case["a"]["appGroup"], case["b"]["appGroup"]} - {""}:
        order = case["order"] if one == GROUP or case["a"]["appGroup"] == one else {}
        world.network_object(APP_GROUP, app_group({"p1": []}, one, order=order))
    a, b = (labelled(case[one]["workload"], case[one]["appGroup"]) for one in "ab")
    # the later by name stands behind its equal, as what is not before another does there
    first = expect["aFirst"] or case["a"]["appGroup"] == case["b"]["appGroup"]
    names = ("x", "y") if first else ("y", "x")
    world.pod(names[0], labels=a, gpus=8)
    world.pod(names[1], labels=b, gpus=8)
    world.node("n", gpus=8)
    bound = [one.name for one in world.run() if isinstance(one, Bind)]
    got = bound == [names[0]]
    return None if got is expect["aFirst"] else f"a first: {got}"


def ordered(case: Case, expect: Case) -> str | None:
    """Work out an order; Tarjan's depends on where one begins, so that only its form is compared."""
    algorithm, needs = case["algorithm"], case["dependencies"]
    got = topology_order(algorithm, case["workloads"], needs)
    if "Tarjan" not in algorithm:
        return None if list(got) == expect["order"] else f"{got} is not {expect['order']}"
    for order in (got, expect["order"]):
        if not _is_valid(_put_back(algorithm, order), needs):
            return f"{order} does not go from who needs others to who is needed"
    return None if sorted(got) == sorted(expect["order"]) else f"{got} has not the workloads of {expect['order']}"


def _put_back(algorithm: str, order: Sequence[str]) -> list[str]:
    """Undo what an algorithm does to the order that it has found."""
    if algorithm.startswith("Reverse"):
        return list(order)[::-1]
    if not algorithm.startswith("Alternate"):
        return list(order)
    places = alternated([str(at) for at in range(len(order))])
    return [order[places.index(str(at))] for at in range(len(order))]


def _is_valid(order: Sequence[str], needs: Mapping[str, Sequence[str]]) -> bool:
    return all(order.index(one) < order.index(of) for one, found in needs.items() for of in found)


ANSWERS: dict[str, Callable[[Case, Case], str | None]] = {
    "networkOverhead": overhead,
    "networkOverheadScore": overhead,
    "networkOverheadFilter": filtered,
    "sortBefore": sorted_before,
    "topologyOrder": ordered,
}
