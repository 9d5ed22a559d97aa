"""What fits on nodes that pods have left, followed from placement to placement, is what a fresh look finds."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from tests.engine.world import World
from tutti.engine.queue.gained_room import NOBODY_BELOW, EqualPreemptors, GainedRoom, TakesOut
from tutti.quota.preemption import Preemptor


def naive(world: World, rows, asks, numbers, preemptors) -> list[bool]:
    """Whether each pod fits on one of the nodes at least, by adding up what is free and who may go, pod by pod."""
    state, out = world.engine.state, []
    nodes = state.cluster.nodes
    by_number = {group.number: (takes, group.first) for takes, group in preemptors.items()}
    for ask, number in zip(asks, numbers, strict=True):
        takes, oldest = by_number[number]
        fits = False
        for row in rows:
            left = nodes.allocatable[row] - nodes.requested[row]
            for pod in state.cluster.on_node(nodes.names[row]):
                workload = state.workloads[state.pod_group_of[pod.key][0]]
                own = takes.preemptor is not None and workload.cluster_queue == takes.preemptor.queue
                newer = own and workload.priority == takes.preemptor.priority and workload.queued_at > oldest
                below = own and workload.priority < takes.preemptor.priority
                if pod.priority < takes.above or newer or below:
                    left = left + nodes.vector(pod.held)
            for pod_class in state.cluster.held.on_node(nodes.names[row]) if takes.above > NOBODY_BELOW else ():
                left = left + nodes.vector(pod_class.requests)
            fits = fits or bool(((ask <= left) | (ask == 0)).all())
        out.append(fits)
    return out


@pytest.mark.parametrize("seed", range(12))
def test_what_is_followed_is_what_a_fresh_look_finds(seed):
    draw = random.Random(seed)
    world = World()
    world.flavor()
    policy = {"withinClusterQueue": "LowerOrNewerEqualPriority"}
    for name in ("one", "two"):
        world.queue(name, 100, local=name, preemption=policy)
    world.put_object("WorkloadPriorityClass", {"metadata": {"name": "low", "uid": "u"}, "value": -3})
    for number in range(4):
        world.node(f"n{number}", gpus=8, cpu=16)
    world.run()
    state, room = world.engine.state, GainedRoom(np.array([0, 2, 3]))
    takes = [
        TakesOut(),
        TakesOut(0),
        TakesOut(5),
        TakesOut(0, Preemptor("one", 0, 0)),
        TakesOut(0, Preemptor("two", 2, 2)),
    ]
    preemptors: dict[TakesOut, EqualPreemptors] = {}
    asks = np.zeros((0, state.cluster.nodes.allocatable.shape[1]), dtype=np.int64)
    numbers = np.zeros(0, dtype=np.int64)
    for step in range(12):
        for _ in range(draw.randint(0, 3)):
            which = draw.randrange(len(takes))
            group = preemptors.setdefault(takes[which], EqualPreemptors(which))
            if group.first == math.inf:
                group.first = world.now - draw.choice([-5, 5])
            amounts = {"nvidia.com/gpu": draw.randint(1, 8), "cpu": draw.randint(1, 9) * 1000}
            asks = np.vstack([asks, state.cluster.nodes.vector(amounts)[: asks.shape[1]]])
            numbers = np.append(numbers, which)
            room.compare_anew(len(asks) - 1)
        if len(asks) and draw.random() < 0.3:
            at = draw.randrange(len(asks))
            asks[at] = state.cluster.nodes.vector({"nvidia.com/gpu": draw.randint(1, 8)})[: asks.shape[1]]
            room.compare_anew(at)
        found = room.fits(state, asks, numbers, preemptors).tolist()
        assert found == GainedRoom(room.rows).fits(state, asks, numbers, preemptors).tolist()
        assert found == naive(world, room.rows, asks, numbers, preemptors)
        if draw.random() < 0.3:  # kept for a member to come
            pod_class = next(iter(state.cluster.pods.values())).pod_class if state.cluster.pods else None
            row = draw.randrange(4)
            if pod_class is not None:
                state.cluster.nodes.charge(row, pod_class.requests, pod_class.weight, 1)
                state.cluster.held.hold(pod_class, row)
        world.now += 1
        low = {"scheduling.tutti.dev/priority-class": "low"} if draw.random() < 0.3 else {}
        more = {"queue": draw.choice(["one", "two", ""]), "priority": draw.choice([-5, 0, 5]), "labels": low}
        world.pod(f"p{step}", gpus=draw.randint(1, 4), node=f"n{draw.randrange(4)}", **more)
        world.run()
