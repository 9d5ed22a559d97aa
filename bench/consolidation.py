"""What looking for moves costs: one head that lacks nothing but one piece, on so many nodes. No API server, no I/O.

    python -m bench.consolidation [NODES ...]

Every node has 8 GPUs and two pods, each of which may be moved; the head wants four whole nodes. Told are medians, in
milliseconds: a try of the head by itself, which is all that queues cost that allow no moves; the look whether it may be
that it lacks one piece only; a search that finds moves; and one that finds none.
"""

from __future__ import annotations

import sys
from statistics import median

import numpy as np

from bench.clock import clock
from bench.preemption import GPU, pod_spec
from tutti.api.core import Node, NodeStatus, ObjectMeta, Pod, PodStatus
from tutti.cluster.cluster import Cluster
from tutti.placement.gang import Ask
from tutti.placement.preemption.consolidation import MovableUnit, find_moves, lacks_one_piece_only, worth_clearing
from tutti.placement.profile import DEFAULT_PROFILE
from tutti.placement.together import place_together

WANTED = 4
TIMES = 7


def scattered(nodes: int, *, each: int = 3) -> Cluster:
    """So many nodes of 8 GPUs with two pods of `each` GPUs."""
    cluster = Cluster()
    offered: dict[str, str | int | float] = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8"}
    for number in range(nodes):
        name = f"n{number:05d}"
        labels = {"kubernetes.io/hostname": name}
        cluster.put_node(Node(ObjectMeta(name=name, labels=labels), status=NodeStatus(offered)))
        for part in range(2):
            meta = ObjectMeta(name=f"p{number}-{part}", namespace="team", uid=f"p{number}-{part}")
            cluster.put_pod(Pod(meta, pod_spec(str(each), node=name), PodStatus("Running")), keep=True)
    return cluster


def _units(cluster: Cluster, ask: Ask) -> list[MovableUnit]:
    """Those on the nodes that are worth clearing, one by one."""
    rows = worth_clearing(cluster, [ask], DEFAULT_PROFILE)
    columns = cluster.pod_columns
    there = np.flatnonzero((columns.row >= 0) & rows[columns.row])
    return [
        MovableUnit([pod], [Ask(pod.pod_class, 1)], DEFAULT_PROFILE, elastic=False, name=pod.name)
        for pod in columns.at(there)
    ]


def _median(act: object) -> float:
    assert callable(act)
    times = []
    for _ in range(TIMES):
        start = clock()
        act()
        times.append((clock() - start) * 1e3)
    return median(times)


def figures(nodes: int) -> tuple[float, float, float, float]:
    """Milliseconds: the try alone, the look whether moves could help at all, a search with success, and one without."""
    cluster = scattered(nodes, each=2)
    ask = Ask(cluster.classes.of(pod_spec("8")), WANTED)

    def placed() -> None:
        with cluster.transaction() as transaction:
            place_together(cluster.nodes, transaction, [ask], DEFAULT_PROFILE)

    def searched() -> None:
        found = find_moves(cluster, [ask], _units(cluster, ask), profile=DEFAULT_PROFILE, most=64)
        if found is None:
            raise SystemExit("moves were expected: this measured something else")

    tight = scattered(nodes)
    never = Ask(tight.classes.of(pod_spec("8")), WANTED)

    def in_vain() -> None:
        if find_moves(tight, [never], _units(tight, never), profile=DEFAULT_PROFILE, most=64) is not None:
            raise SystemExit("no moves were expected: this measured something else")

    look = _median(lambda: lacks_one_piece_only(cluster, [ask], DEFAULT_PROFILE))
    return _median(placed), look, _median(searched), _median(in_vain)


def main() -> None:
    """Print a line for each number of nodes."""
    sys.stdout.write("nodes  try  look  found  in vain   (ms)\n")
    for nodes in [int(one) for one in sys.argv[1:]] or [500, 5000]:
        sys.stdout.write(f"{nodes}  {'  '.join(f'{one:.1f}' for one in figures(nodes))}\n")


if __name__ == "__main__":
    main()
