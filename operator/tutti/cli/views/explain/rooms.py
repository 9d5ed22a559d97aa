"""The placement gate in numbers: how many nodes are ruled out for what, which have room, and in which domains."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tutti.cli.views.explain.model import Room, Ruled
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.engine.admission.attempt import Attempt, ask_for
from tutti.engine.admission.shortages import closest, misfit
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.needs import Need
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State
from tutti.placement.gang import Ask, feasible_capacity, place_ask
from tutti.placement.profile import Profile, counted_rejections
from tutti.placement.together import Diagnosis, place_together
from tutti.placement.topology.request import Together
from tutti.quota.flavors import Assignment, Queue, assignments

MOST_WAYS = 4
"""How many ways to count pods in flavors are looked at."""
EXAMPLES = 3
"""How many nodes, or domains, are named."""


def by_nodes(state: State, workload: Workload, queue: Queue | None, needs: Sequence[Need]) -> Explanation | None:
    """Return what of nodes is lacking for the required pods, whatever quota there is; None where nothing is."""
    required = [need for need in needs if need.required]
    whys = []
    for given in _ways(state, queue, required):
        with state.cluster.transaction() as transaction:
            attempt = Attempt(state, workload, queue, transaction)
            pairs = zip(required, given, strict=True)
            asks = [ask_for(state, need, flavors, required=need.required) for need, flavors in pairs]
            found = place_together(state.cluster.nodes, transaction, asks, attempt.profile)
        if not isinstance(found, Diagnosis):
            return None
        whys.append(misfit(found.fit_error, given[found.index], tried=found.tried))
    return closest(whys) if whys else None


def rooms(state: State, workload: Workload, queue: Queue | None, needs: Sequence[Need]) -> tuple[Room, ...]:
    """Return where pods of each kind could go, in each flavor that they may be counted in."""
    with state.cluster.transaction() as transaction:
        profile = Attempt(state, workload, queue, transaction).profile
    wanting = [need for need in needs if need.required or need.extra]
    found: dict[tuple[int, str], Room] = {}
    for given in _ways(state, queue, wanting):
        for index, (need, one) in enumerate(zip(wanting, given, strict=True)):
            flavor = ", ".join(dict.fromkeys(one.values()))
            if (index, flavor) not in found:
                found[index, flavor] = _room(state, need, one, profile)
    return tuple(found.values())


def _ways(state: State, queue: Queue | None, needs: Sequence[Need]) -> Iterator[list[Assignment]]:
    """Yield ways to count all needs in flavors, like ones alike."""
    if queue is None or not needs:
        yield [{} for _ in needs]
        return
    flavors = state.catalog.flavors
    each = [
        list(itertools.islice(assignments(queue, flavors, need.klass.requests, need.klass.spec.tolerations), MOST_WAYS))
        for need in needs
    ]
    for at in range(max(map(len, each))):
        if all(each):
            yield [one[min(at, len(one) - 1)] for one in each]


def _room(state: State, need: Need, given: Assignment, profile: Profile) -> Room:
    nodes, pods = state.cluster.nodes, need.required or need.extra
    ask = ask_for(state, need, given, required=pods)
    free = _free(nodes, ask, profile)
    with state.cluster.transaction() as transaction:
        placed = place_ask(nodes, transaction, Ask(ask.klass, 0, pods, ask.where), profile)
    level, domains = _domains(nodes, ask, free)
    return Room(
        need.group.name,
        pods,
        dict(need.klass.requests),
        ", ".join(dict.fromkeys(given.values())),
        nodes.count,
        0 if placed is None else len(placed),
        int((free > 0).sum()),
        {nodes.names[row]: int(free[row]) for row in _first(nodes, free > 0)},
        _ruled(nodes, ask, profile),
        level,
        domains,
    )


def _free(nodes: NodeColumns, ask: Ask, profile: Profile) -> NDArray[np.int64]:
    """Return for how many pods each node has room now: int64[rows]."""
    if ask.klass.refusal:
        return np.zeros(len(nodes), dtype=np.int64)
    with Transaction(nodes) as transaction:
        found = feasible_capacity(nodes, transaction, replace(ask, near=None), profile, most=max(1, ask.required)).room
    return np.asarray(found, dtype=np.int64)


def _ruled(nodes: NodeColumns, ask: Ask, profile: Profile) -> tuple[Ruled, ...]:
    found: dict[str, NDArray[np.bool_]] = {}
    if ask.klass.refusal:
        return (Ruled(ask.klass.refusal, nodes.count, ()),)
    for rejection, hit in counted_rejections(ask.klass, nodes, ask.where, profile):
        if hit.any():
            found[rejection.reason] = found.get(rejection.reason, np.zeros_like(hit)) | hit
    told = (
        Ruled(reason, int(hit.sum()), tuple(nodes.names[row] for row in _first(nodes, hit)))
        for reason, hit in found.items()
    )
    return tuple(sorted(told, key=lambda one: (-one.nodes, one.reason)))


def _domains(nodes: NodeColumns, ask: Ask, free: NDArray[np.int64]) -> tuple[str, Mapping[str, int]]:
    """Return the label of which pods must share one value, and what the values with the most room have."""
    asked = None if ask.near is None else ask.near.asked
    level = "" if asked is None else asked.level if asked.together is Together.REQUIRED else asked.within
    if not level:
        return "", {}
    column = nodes.label(level)
    codes = column.codes[: len(nodes)]
    there = codes >= 0
    sums = np.bincount(codes[there], weights=free[there], minlength=len(column.values)).astype(np.int64)
    best = sorted(range(len(column.values)), key=lambda code: (-int(sums[code]), column.values[code]))
    return level, {column.values[code]: int(sums[code]) for code in best[:EXAMPLES]}


def _first(nodes: NodeColumns, which: NDArray[np.bool_]) -> list[int]:
    """Return the rows of the first nodes by name, of some: bool[rows]."""
    return sorted(np.flatnonzero(which).tolist(), key=lambda row: nodes.names[row])[:EXAMPLES]
