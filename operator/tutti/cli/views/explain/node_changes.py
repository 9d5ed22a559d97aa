"""Nodes that pods could be given: old ones without their cordons and taints, and new ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tutti.api.core import Node
from tutti.api.messages import IS, agreeing, counted
from tutti.api.node_health import CONDITION_TAINT
from tutti.api.resources import CPU, MEMORY, format_amount, parse_amounts
from tutti.api.selectors import HARD_EFFECTS, Taint
from tutti.cli.views.drawing import first_few
from tutti.cli.views.explain.changes import Change, UnplacedWorkload
from tutti.cli.views.explain.gates import MOST_WAYS, node_shortage
from tutti.cli.views.what_if import Seen, changed, node_of, nodes_like, reports_like, with_nodes
from tutti.cluster.capacity import UNSCHEDULABLE_TAINTS, LabelPairs
from tutti.cluster.nodes import untimed
from tutti.engine.admission.attempt import AdmissionAttempt, ask_for
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.placement.framework import FlavorConstraints
from tutti.placement.plugins import node_affinity
from tutti.placement.plugins.leaving_nodes import GOING
from tutti.placement.plugins.node_state import CORDONED
from tutti.placement.profile import Profile, static_filter_result
from tutti.quota.flavors import FlavorByResource, flavor_assignments

KEPT = GOING | {CONDITION_TAINT}
"""Taints that nobody would be right to tolerate, or that stand on no node."""
_EACH = 4
"""How many cordoned nodes are tried one by one."""
_MOST_NEW = 32
"""Up to how many new nodes it is looked whether they would do."""
_TIMES = (1, 2, 4)
"""How many times as many are tried, where the fewest that would do go to others."""


def uncordon(case: UnplacedWorkload) -> Iterator[Change]:
    """Yield that cordons are taken off, where that makes room: of one, or of all."""
    nodes = case.state.cluster.nodes
    cordoned = sorted(name for name, row in nodes.rows.items() if nodes.unschedulable[row])
    found = False
    for some in [*([one] for one in cordoned[:_EACH]), *([cordoned] if len(cordoned) > 1 else [])]:
        changes = [_uncordoned(node_of(case.seen, name)) for name in some]
        if not (found and len(some) > 1) and _would_fit(case, changes):
            found = True
            yield Change(f"{_names(some)} {agreeing(len(some), IS)} uncordoned", _instead(case, changes))


def tolerate_taints(case: UnplacedWorkload) -> Iterator[Change]:
    """Yield, for each taint that a pod does not tolerate, that it is tolerated or taken off, where that makes room."""
    nodes = case.state.cluster.nodes
    tolerations = [one for need in case.needs for one in need.pod_class.spec.tolerations]
    sets = (nodes.taint_sets[nodes.taint_code[row]] for row in nodes.rows.values())
    for taint in dict.fromkeys(taint for taints in sets for taint in taints):
        if taint.effect not in HARD_EFFECTS or any(one.tolerates(taint) for one in tolerations) or taint.key in KEPT:
            continue
        tainted = sorted(name for name, row in nodes.rows.items() if taint in nodes.taint_sets[nodes.taint_code[row]])
        changes = [_without(node_of(case.seen, name), taint) for name in tainted]
        if not _would_fit(case, changes):
            continue
        value = f"={taint.value}" if taint.value else ""
        told = f"taint {taint.key}{value}:{taint.effect} is tolerated, or taken off {_names(tainted)}"
        if taint.key in UNSCHEDULABLE_TAINTS:
            told = f"{_names(tainted)} {agreeing(len(tainted), ('loses', 'lose'))} taint {taint.key}"
        yield Change(told, _instead(case, changes))


def label_nodes(case: UnplacedWorkload) -> Iterator[Change]:
    """Yield, for each flavor, that as few nodes as make room get its labels, which they lack.

    Where some nodes have them, those that have other values are of another kind, most likely; then only nodes that have
    no such label are looked at.
    """
    nodes = case.state.cluster.nodes
    for wanted in dict.fromkeys(where.node_labels for need in case.needs for where in _wheres(case, need)):
        if not wanted:
            continue
        able = _able_with(case, dict(wanted))
        if node_affinity.has_labels(nodes, wanted).any():
            able = [name for name in able if _has_no_other(nodes.labels[nodes.rows[name]], wanted)]
        told = " and ".join(f"{key}={value}" for key, value in wanted)
        for number in _numbers(len(able)):
            some = able[:number]
            changes = [_labelled(node_of(case.seen, name), dict(wanted)) for name in some]
            if _would_fit(case, changes):
                have = ("has the label", "have the label")
                yield Change(f"{_names(some)} {agreeing(number, have)} {told}", _instead(case, changes))
                break


def add_nodes(case: UnplacedWorkload) -> Iterator[Change]:
    """Yield that there are as few more nodes as make room, like one that the pods could go to if it were empty.

    More than these follow, since who goes before it in its queue may take the first.
    """
    for need in case.needs:
        room = max((one.fits for one in case.rooms if one.group == need.group.name), default=0)
        if need.pod_class.refusal or (room >= need.required and need.topology is None):
            continue  # others, or the pod itself, are in the way
        for model in _models(case, need) or _larger(case, need):
            number = next((n for n in range(1, _MOST_NEW + 1) if _would_fit_with_new(case, model, n)), 0)
            for many in (number * times for times in _TIMES if 0 < number * times <= _MOST_NEW):
                told = f"{counted(many, 'more node')} {_like(case, model)}"
                yield Change(f"{told} {agreeing(many, IS)} added", _and_new(case, model, many))


def _and_new(case: UnplacedWorkload, model: Node, number: int) -> Seen:
    return [*case.seen, *nodes_like(model, number), *reports_like(case.seen, model, number)]


def _would_fit_with_new(case: UnplacedWorkload, model: Node, number: int) -> bool:
    """Whether nodes would have room with so many more like one, of whose zones agents report as of that one's."""
    cluster, reports = case.state.cluster, [one.found for one in reports_like(case.seen, model, number)]
    for report in reports:
        cluster.put_topology(report)
    try:
        return _would_fit(case, [one.node for one in nodes_like(model, number)])
    finally:
        for report in reports:
            cluster.drop_topology(report.name)


def _would_fit(case: UnplacedWorkload, changes: Sequence[Node]) -> bool:
    """Whether nodes would have room if some were like this; those that are not there are added for a moment."""
    cluster = case.state.cluster
    there = [node_of(case.seen, node.metadata.name) for node in changes if node.metadata.name in cluster.nodes.rows]
    for node in changes:
        cluster.put_node(node)
    try:
        return node_shortage(case.state, case.workload, case.queue, case.needs) is None
    finally:
        known = {node.metadata.name for node in there}
        for node in there:
            cluster.put_node(node)
        for node in changes:
            if node.metadata.name not in known:
                cluster.remove_node(node.metadata.name)


def _instead(case: UnplacedWorkload, changes: Sequence[Node]) -> Seen:
    by_name = {node.metadata.name: node for node in changes}
    return with_nodes(case.seen, by_name, lambda node: by_name[node.metadata.name])


def _models(case: UnplacedWorkload, need: PodSetRequest) -> list[Node]:
    """Return a node of each flavor that could take such a pod if it were empty, as far as there is any."""
    nodes = case.state.cluster.nodes
    large = (nodes.allocatable >= nodes.vector(need.pod_class.requests)).all(axis=1)
    found: dict[str, Node] = {}
    for suits in _suitable(case, need):
        fits = suits & large
        name = min((name for name, row in nodes.rows.items() if fits[row]), default="")
        if name:
            found[name] = node_of(case.seen, name)
    return list(found.values())


def _larger(case: UnplacedWorkload, need: PodSetRequest) -> list[Node]:
    """Return, of each flavor, the node that comes closest to what such a pod asks for, with what is lacking of it."""
    nodes, wanted = case.state.cluster.nodes, case.state.cluster.nodes.vector(need.pod_class.requests)
    offered = np.minimum(nodes.allocatable, wanted) / np.maximum(wanted, 1)
    models: dict[str, Node] = {}
    for suits in _suitable(case, need):
        rows = {name: row for name, row in nodes.rows.items() if suits[row]}
        if rows:
            name = min(rows, key=lambda name: (-float(offered[rows[name]].sum()), name))
            models[name] = _raised(node_of(case.seen, name), need.pod_class.requests)
    return list(models.values())


def _raised(node: Node, requests: Mapping[str, int]) -> Node:
    offers = parse_amounts(node.status.allocatable)
    more = {name: format_amount(name, units) for name, units in requests.items() if units > offers.get(name, 0)}
    return changed(node, status=changed(node.status, allocatable={**node.status.allocatable, **more}))


def _suitable(case: UnplacedWorkload, need: PodSetRequest) -> Iterator[NDArray[np.bool_]]:
    """Yield, for each flavor that it may be counted in, which nodes would take such a pod were they large and empty."""
    profile = _profile(case)
    for where in _wheres(case, need):
        yield static_filter_result(need.pod_class, case.state.cluster.nodes, where, profile).mask


def _wheres(case: UnplacedWorkload, need: PodSetRequest) -> Iterator[FlavorConstraints]:
    """Yield what each flavor that a need may be counted in asks of nodes."""
    ways: list[FlavorByResource] = [{}]
    if case.queue is not None:
        flavors = case.state.catalog.flavors
        found = flavor_assignments(case.queue, flavors, need.pod_class.charged, need.pod_class.spec.tolerations)
        ways = list(itertools.islice(found, MOST_WAYS))
    for given in ways:
        yield ask_for(case.state, need, given, required=need.required).where


def _profile(case: UnplacedWorkload) -> Profile:
    with case.state.cluster.transaction() as transaction:
        return AdmissionAttempt(case.state, case.workload, case.queue, transaction).profile


def _able_with(case: UnplacedWorkload, labels: Mapping[str, str]) -> list[str]:
    """Return the nodes, by name, that lack some labels and would take a pod of some need if they had them and room."""
    nodes, profile = case.state.cluster.nodes, _profile(case)
    able = np.zeros(len(nodes), dtype=np.bool_)
    for need in case.needs:
        large = (nodes.allocatable >= nodes.vector(need.pod_class.requests)).all(axis=1)
        for where in _wheres(case, need):
            if dict(where.node_labels) == labels:
                anywhere = FlavorConstraints(tolerations=where.tolerations)
                able |= static_filter_result(need.pod_class, nodes, anywhere, profile).mask & large
    able &= ~node_affinity.has_labels(nodes, labels.items())
    return sorted(nodes.names[row] for row in np.flatnonzero(able).tolist())


def _has_no_other(has: Mapping[str, str], wanted: LabelPairs) -> bool:
    """Whether a node has no other value of any label that is wanted."""
    return all(has.get(key, value) == value for key, value in wanted)


def _numbers(most: int) -> Iterator[int]:
    """Yield how many of so many are tried: the fewest first, and in the end all."""
    yield from range(1, min(most, _MOST_NEW) + 1)
    if most > _MOST_NEW:
        yield most


def _labelled(node: Node, labels: Mapping[str, str]) -> Node:
    return changed(node, metadata=changed(node.metadata, labels={**node.metadata.labels, **labels}))


def _uncordoned(node: Node) -> Node:
    return _without(changed(node, spec=changed(node.spec, unschedulable=False)), CORDONED)


def _without(node: Node, taint: Taint) -> Node:
    return changed(node, spec=changed(node.spec, taints=[one for one in node.spec.taints if untimed(one) != taint]))


def _names(names: Sequence[str]) -> str:
    return f"{agreeing(len(names), ('node', 'nodes'))} {first_few(names)}"


def _like(case: UnplacedWorkload, model: Node) -> str:
    """Return which node more are like, and what it offers; of one that is larger than it is, what it would offer."""
    name = model.metadata.name
    there = node_of(case.seen, name).status.allocatable
    more = [f"{text} {what}" for what, text in model.status.allocatable.items() if there.get(what) != text]
    return f"like {name}, but with {', '.join(more)}," if more else f"like {name} ({_offers(model)})"


def _offers(node: Node) -> str:
    """Return what a node offers of the most telling resources: of devices, where it has any."""
    offers = node.status.allocatable
    devices = [name for name in offers if "/" in name]
    return ", ".join(f"{offers[name]} {name}" for name in devices or (CPU, MEMORY) if name in offers)
