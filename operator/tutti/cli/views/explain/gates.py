"""The gates on a workload's way: what it has passed, what it waits at, and how it would fare behind that, in numbers.

The quota gate: what it asks of its queue, flavor by flavor, and who has what it lacks. The placement gate: how many
nodes are ruled out for what, which have room, and in which domains.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tutti.api.messages import all_of, counted
from tutti.api.resources import format_amount
from tutti.cli.views.explain.model import GateOutcome, GateStep, NodeRoom, QuotaUse, RuledOutNodes
from tutti.cli.views.what_if import missing_members
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.engine.admission import AdmissionState
from tutti.engine.admission.attempt import AdmissionAttempt, ask_for, flavor_chooser
from tutti.engine.admission.shortages import closest, misfit, short_of_quota
from tutti.engine.admission.user_limits import limited
from tutti.engine.lifecycle import provisioning
from tutti.engine.lifecycle.checks import answers
from tutti.engine.lifecycle.reservation import BACKING_OFF
from tutti.engine.records.explanation import EvictionReason, Explanation, Gate
from tutti.engine.records.never_admitted import never_admitted
from tutti.engine.records.pod_sets import PodSetRequest, quota_pod_sets
from tutti.engine.records.workloads import Workload
from tutti.placement.gang import Ask, feasible_capacity, place_ask
from tutti.placement.profile import Profile, counted_rejections
from tutti.placement.together import Diagnosis, place_together
from tutti.placement.topology.request import Together
from tutti.quota.assignment import AssignmentMode
from tutti.quota.flavors import FlavorByResource, Queue, flavor_assignments
from tutti.quota.tree import UNLIMITED, FlavorResource, add_to
from tutti.quota.user_limits import holder_title


def quota_shortage(
    state: AdmissionState, workload: Workload, queue: Queue, needs: Sequence[PodSetRequest]
) -> Explanation | None:
    """Return what of quota is lacking for the required pods, wherever nodes have room; None where nothing is."""
    required = [need for need in needs if need.required]
    if not required:
        return None
    choice = flavor_chooser(state, queue, workload).assign(quota_pod_sets(required))
    return None if choice.mode is AssignmentMode.FIT else closest(short_of_quota(state, queue, choice))


def quota_uses(state: AdmissionState, queue: Queue, needs: Sequence[PodSetRequest]) -> tuple[QuotaUse, ...]:
    """Return every flavor that the resources asked for may be counted in."""
    asked: dict[str, int] = {}
    for need in needs:
        add_to(asked, need.pod_class.charged, need.required)
    return tuple(
        _use(state, queue, (flavor, resource), asked[resource])
        for group in queue.groups
        for flavor in group.flavors
        for resource in group.covered
        if asked.get(resource)
    )


def _use(state: AdmissionState, queue: Queue, what: FlavorResource, needs: int) -> QuotaUse:
    node = state.ledger.tree.queues[queue.name]
    free, own, used = max(0, node.available(what)), node.nominal(what), node.usage.get(what, 0)
    others = (one for one in node.root().leaves() if one is not node)
    borrowers = {one.name: one.borrowed(what) for one in others if one.borrowed(what)}
    lent = max(0, own - used - free)
    return QuotaUse(
        *what, needs, min(free, UNLIMITED), own, node.potential(what), used, lent, borrowers if lent else {}
    )


MOST_WAYS = 4
"""How many ways to count pods in flavors are looked at."""
MOST_CHECKS = 4
"""How many admission checks are named."""
EXAMPLES = 3
"""How many nodes, or domains, are named."""


def node_shortage(
    state: AdmissionState, workload: Workload, queue: Queue | None, needs: Sequence[PodSetRequest]
) -> Explanation | None:
    """Return what of nodes is lacking for the required pods, whatever quota there is; None where nothing is."""
    required = [need for need in needs if need.required]
    whys = []
    for given in ways_to_count(state, queue, required):
        with state.cluster.transaction() as transaction:
            attempt = AdmissionAttempt(state, workload, queue, transaction)
            pairs = zip(required, given, strict=True)
            asks = [ask_for(state, need, flavors, required=need.required) for need, flavors in pairs]
            found = place_together(state.cluster.nodes, transaction, asks, attempt.profile)
        if not isinstance(found, Diagnosis):
            return None
        whys.append(misfit(found.fit_error, given[found.index], tried=found.tried))
    return closest(whys) if whys else None


def node_rooms(
    state: AdmissionState, workload: Workload, queue: Queue | None, needs: Sequence[PodSetRequest]
) -> tuple[NodeRoom, ...]:
    """Return where pods of each kind could go, in each flavor that they may be counted in."""
    with state.cluster.transaction() as transaction:
        profile = AdmissionAttempt(state, workload, queue, transaction).profile
    wanting = [need for need in needs if need.required or need.extra]
    found: dict[tuple[int, str], NodeRoom] = {}
    for given in ways_to_count(state, queue, wanting):
        for index, (need, one) in enumerate(zip(wanting, given, strict=True)):
            flavor = ", ".join(dict.fromkeys(one.values()))
            if (index, flavor) not in found:
                found[index, flavor] = _room(state, need, one, profile)
    return tuple(found.values())


def ways_to_count(
    state: AdmissionState, queue: Queue | None, needs: Sequence[PodSetRequest]
) -> Iterator[list[FlavorByResource]]:
    """Yield ways to count all needs in flavors, like ones alike."""
    if queue is None or not needs:
        yield [{} for _ in needs]
        return
    flavors = state.catalog.flavors
    each = [
        list(
            itertools.islice(
                flavor_assignments(queue, flavors, need.pod_class.charged, need.pod_class.spec.tolerations), MOST_WAYS
            )
        )
        for need in needs
    ]
    for at in range(max(map(len, each))):
        if all(each):
            yield [one[min(at, len(one) - 1)] for one in each]


def _room(state: AdmissionState, need: PodSetRequest, given: FlavorByResource, profile: Profile) -> NodeRoom:
    nodes, pods = state.cluster.nodes, need.required or need.extra
    ask = ask_for(state, need, given, required=pods)
    free = _free(nodes, ask, profile)
    with state.cluster.transaction() as transaction:
        placed = place_ask(nodes, transaction, Ask(ask.pod_class, 0, pods, ask.where), profile)
    level, domains = _domains(nodes, ask, free)
    return NodeRoom(
        need.group.name,
        pods,
        dict(need.pod_class.requests),
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
    if ask.pod_class.refusal:
        return np.zeros(len(nodes), dtype=np.int64)
    with Transaction(nodes) as transaction:
        found = feasible_capacity(
            nodes, transaction, replace(ask, topology=None), profile, most=max(1, ask.required)
        ).room
    return np.asarray(found, dtype=np.int64)


def _ruled(nodes: NodeColumns, ask: Ask, profile: Profile) -> tuple[RuledOutNodes, ...]:
    found: dict[str, NDArray[np.bool_]] = {}
    if ask.pod_class.refusal:
        return (RuledOutNodes(ask.pod_class.refusal, nodes.count, ()),)
    for rejection, hit in counted_rejections(ask.pod_class, nodes, ask.where, profile):
        if hit.any():
            found[rejection.reason] = found.get(rejection.reason, np.zeros_like(hit)) | hit
    told = (
        RuledOutNodes(reason, int(hit.sum()), tuple(nodes.names[row] for row in _first(nodes, hit)))
        for reason, hit in found.items()
    )
    return tuple(sorted(told, key=lambda one: (-one.nodes, one.reason)))


def _domains(nodes: NodeColumns, ask: Ask, free: NDArray[np.int64]) -> tuple[str, Mapping[str, int]]:
    """Return the label of which pods must share one value, and what the values with the most room have."""
    asked = None if ask.topology is None else ask.topology.asked
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


ALWAYS = (Gate.GATHER, Gate.QUEUE, Gate.QUOTA, Gate.PLACEMENT)
"""The gates that every workload passes; it waits for checks, victims or a permit only where there is reason to."""


@dataclass(frozen=True, slots=True)
class GateContext:
    """A workload on its way.

    Attributes:
        queue: Its ClusterQueue, None where it needs none, or why it has none.
        needs: The pods that want nodes, or why none may have one yet.
        quota: What it asks of its queue.
        why: What it waits for; None where it has passed all gates.
    """

    state: AdmissionState
    workload: Workload
    queue: Queue | Explanation | None
    needs: Sequence[PodSetRequest] | Explanation
    quota: Sequence[QuotaUse]
    why: Explanation | None


def gate_steps(way: GateContext) -> tuple[GateStep, ...]:
    """Return how a workload fares at each gate."""
    told = []
    # What rests after a failure holds nothing: it has to pass all of them again.
    rests = way.why is not None and way.why.reason == BACKING_OFF
    passed = True
    for gate in Gate:
        if way.why is not None and gate is way.why.gate:
            told.append(GateStep(gate.value, GateOutcome.WAITS, way.why.plain))
            passed = False
        elif gate is Gate.CHECKS:
            told += _checks(way, passed=passed)
        elif gate is Gate.USER_LIMIT:
            told += _user_limits(way, passed=passed)
        elif gate in ALWAYS and passed and not (rests and gate in (Gate.QUOTA, Gate.PLACEMENT)):
            told.append(_behind(way, gate))
        elif gate in ALWAYS:
            told.append(_ahead(way, gate))
    return tuple(told)


def _checks(way: GateContext, *, passed: bool) -> list[GateStep]:
    """Return how a workload stands with the admission checks of its queue; nothing where it has none to pass."""
    queue, workload = way.queue, way.workload
    asked = list(queue.checks.on_flavors) if isinstance(queue, Queue) else []
    one = provisioning.current(workload)
    made = [] if one is None else [f"ProvisioningRequest {one.request} is {one.stage}"]
    if passed and made:
        asked = [] if one is None else [*asked, one.check]
    if not asked:
        return []
    said = made + [f"{one.name} is {one.state}" for one in answers(workload) if one.name in asked]
    if passed and said:
        return [GateStep(Gate.CHECKS.value, GateOutcome.PASSED, ", ".join(said[:MOST_CHECKS]))]
    names = ", ".join(asked[:MOST_CHECKS])
    text = f"known once it has quota: AdmissionCheck {names} is asked then"
    if passed:
        return [GateStep(Gate.CHECKS.value, GateOutcome.PASSED, "its flavors have none to pass")]
    return [GateStep(Gate.CHECKS.value, GateOutcome.UNKNOWN, text)]


def _user_limits(way: GateContext, *, passed: bool) -> list[GateStep]:
    """Return how a workload stands with the limits of its user and groups; nothing where its queue has none for it."""
    queue, workload = way.queue, way.workload
    if not isinstance(queue, Queue) or not queue.user_limits or isinstance(way.needs, Explanation):
        return []
    use, gate = way.state.ledger.held_for, Gate.USER_LIMIT.value
    why = None if passed else limited(way.state, workload, queue, way.needs)
    if why is not None:
        return [GateStep(gate, GateOutcome.WOULD_WAIT, why.plain)]
    said = []
    for holder in use.holders(workload.name):
        allowed, has = queue.user_limits.allowed(holder), use.of(queue.name, holder)
        if allowed is not None:
            parts = [
                f"{format_amount(name, has.resources.get(name, 0))} of {format_amount(name, limit)} {name}"
                for name, limit in allowed.resources.items()
            ]
            if allowed.workloads is not None:
                parts.append(f"{len(has.workloads)} of {counted(allowed.workloads, 'workload')}")
            said.append(f"{' '.join(holder_title(holder))} has {', '.join(parts)}")
    if not said:
        return []
    return [GateStep(gate, GateOutcome.PASSED if passed else GateOutcome.WOULD_PASS, "; ".join(said))]


def _behind(way: GateContext, gate: Gate) -> GateStep:
    """Return how a workload has passed a gate, or what it lacks of what it had passed with."""
    if gate is Gate.GATHER and missing_members(way.workload) > 0:
        return GateStep(gate.value, GateOutcome.SHORT, _passed(way, gate))
    leaves = way.why is not None and way.why.reason == EvictionReason.MEMBER_LOST
    if gate is Gate.PLACEMENT and leaves and not isinstance(way.needs, Explanation):
        queue = way.queue if isinstance(way.queue, Queue) else None
        why = node_shortage(way.state, way.workload, queue, way.needs)
        if why is not None:
            return GateStep(gate.value, GateOutcome.SHORT, why.plain)
    return GateStep(gate.value, GateOutcome.PASSED, _passed(way, gate))


def _ahead(way: GateContext, gate: Gate) -> GateStep:
    """Return how a workload would fare at a gate that it has not come to."""
    queue, needs = way.queue, way.needs
    if gate is Gate.QUEUE and isinstance(queue, Explanation):
        return GateStep(gate.value, GateOutcome.WOULD_WAIT, queue.message)
    if gate is Gate.QUEUE:
        return GateStep(gate.value, GateOutcome.WOULD_PASS, _passed(way, gate))
    if isinstance(needs, Explanation) or isinstance(queue, Explanation):
        what = "all members are" if isinstance(needs, Explanation) else "its queue is"
        return GateStep(gate.value, GateOutcome.UNKNOWN, f"known once {what} there")
    why = never_admitted(queue, needs)
    if why is not None and why.gate is not gate:
        why = None  # what keeps it from one gate says nothing of another
    if why is None and gate is Gate.QUOTA and queue is not None:
        why = quota_shortage(way.state, way.workload, queue, needs)
    elif why is None and gate is Gate.PLACEMENT:
        why = node_shortage(way.state, way.workload, queue, needs)
    if why is not None:
        return GateStep(gate.value, GateOutcome.WOULD_WAIT, why.plain)
    return GateStep(gate.value, GateOutcome.WOULD_PASS, _passed(way, gate))


def _passed(way: GateContext, gate: Gate) -> str:
    required = 0 if isinstance(way.needs, Explanation) else sum(need.required for need in way.needs)
    if gate is Gate.GATHER:
        return _gathered(way.workload)
    if gate is Gate.QUEUE:
        return _queued(way.workload, way.queue)
    if gate is Gate.QUOTA and way.queue is None:
        return "it needs none"
    if not required:
        return "all required pods have theirs"
    if gate is Gate.QUOTA:
        return _has_quota(way.quota) or "there is enough once others have left"
    if way.why is not None and way.why.gate is Gate.VICTIMS:
        return "there is room once others have left"
    return f"nodes have room for {all_of(required, 'pod')}"


def _has_quota(quota: Sequence[QuotaUse]) -> str:
    """Return what is free, in the flavors of which there is enough."""
    short = {one.flavor for one in quota if one.missing}
    return ", ".join(_had(one) for one in quota if one.flavor not in short)


def _had(one: QuotaUse) -> str:
    needs, free = format_amount(one.resource, one.needs), format_amount(one.resource, one.free)
    return f"{needs} of {free} free {one.resource} in {one.flavor}"


def _gathered(workload: Workload) -> str:
    if workload.key[0] == "Pod":
        return "it is a pod by itself"
    tally = workload.counts()
    there, wanted = tally.live + tally.succeeded, workload.required
    groups = f" of {len(workload.groups)} pod groups" if len(workload.groups) > 1 else ""
    promised = 0 if missing_members(workload) > 0 else wanted - there
    more = f", {promised} promised" if promised > 0 else ""
    return f"{counted(there, 'member')}{groups} there{more}, {wanted} needed"


def _queued(workload: Workload, queue: Queue | Explanation | None) -> str:
    if not isinstance(queue, Queue):
        return "it names no queue, so it needs no quota"
    cohort = f", in cohort {queue.cohort}" if queue.cohort else ""
    return f"LocalQueue {workload.key[1]}/{workload.queue} leads to ClusterQueue {queue.name}{cohort}"
