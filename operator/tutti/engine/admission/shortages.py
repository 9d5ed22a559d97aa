"""What a try at a workload was short of: members, quota or nodes, each with its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tutti.api.conditions import timestamp
from tutti.api.messages import HAS, agreeing, counted, followed_by, listed
from tutti.api.resources import format_amount
from tutti.cluster.capacity import sum_over_nodes
from tutti.engine.admission import AdmissionState
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import MemberGroup
from tutti.engine.records.never_admitted import not_covered
from tutti.engine.records.workloads import Phase, Workload
from tutti.placement.diagnosis import LARGER, FitError
from tutti.placement.plugins.extensions import FAILED
from tutti.quota.assignment import (
    AssignmentMode,
    FlavorAttempt,
    NoFit,
    PodSetAssignment,
    PodSetGroupAssignment,
    WorkloadAssignment,
)
from tutti.quota.flavors import FlavorByResource, Queue, uncovered
from tutti.quota.policy import Preemptible, PreemptionMode
from tutti.quota.tree import FlavorResource, cohort_key

MOST_NAMES = 3
"""How many of those who borrow are named."""

RECLAIMABLE: Mapping[Preemptible, str] = MappingProxyType(
    {
        Preemptible.NEVER: "which it does not take back: its reclaimWithinCohort is Never",
        Preemptible.ANY: "which it may take back",
        Preemptible.LOWER_PRIORITY: "which it may take back from lower priorities",
        Preemptible.LOWER_OR_NEWER_EQUAL_PRIORITY: "which it may take back from lower or newer equal priorities",
    }
)
"""Whether a queue may take back what it has lent, by its policy."""

AVAILABLE = "nodes are available:"
"""How kube-scheduler begins; a flavor is named before the colon, so that the reasons go on to be its own."""


def with_foreign_pods(state: AdmissionState, workload: Workload, why: Explanation) -> Explanation:
    """Add, where a pod group waits for members, that pods with its label are left to another scheduler."""
    kind, namespace, name = workload.key
    others = state.foreign_pods.get((namespace, name), {}) if kind == "PodGroup" else {}
    if why.gate is not Gate.GATHER or not others:
        return why
    names = ", ".join(sorted(set(others.values())))
    ours = next(iter(state.profiles))
    number = len(others)
    carry = counted(number, "more pod", verb=("carries", "carry"))
    text = f"{carry} its label but {agreeing(number, HAS)} schedulerName {names}: "
    text += f"give {agreeing(number, ('it', 'them'))} {ours}"
    return Explanation(
        why.gate, why.reason, followed_by(why.message, text), {**why.details, "podsOfOtherSchedulers": str(number)}
    )


def no_object_for_checks(queue: Queue, names: Sequence[str]) -> Explanation:
    """Say that a single pod cannot pass admission checks, because there is no object on which they could answer."""
    text = (
        f"ClusterQueue {queue.name} asks AdmissionCheck {', '.join(names[:MOST_NAMES])} before admission; answers are "
        "written on a Workload or PodGroup, and a single pod has neither: make it a gang of one (PodGroup, minCount 1)"
    )
    return Explanation(Gate.CHECKS, "NoObjectForChecks", text, {"checks": ",".join(names[:MOST_NAMES])})


def short_of_quota(state: AdmissionState, queue: Queue, choice: WorkloadAssignment) -> list[Explanation]:
    """Say, per flavor, of which quota there is too little for the first pod sets that lack it, or can never have it.

    Those that share their flavors need what they ask for together. Pod sets before them have been given theirs in this
    try: the workload needs both at once. What can never be had is told before what others have to give back: all of
    them are needed, so that whoever waited for the rest would wait in vain.

    Args:
        state: With the queues and what is used of them.
        queue: Where it waits.
        choice: What of it does not fit.

    Returns:
        One for each flavor that is short; nothing where none is, because those that are not were left out.
    """
    short = [one for one in choice.groups if any(mine.mode is not AssignmentMode.FIT for mine in choice.of(one))]
    if not short:
        return []
    group = max(short, key=lambda one: _never(choice.of(one)))
    problem = next((mine.problem for mine in choice.of(group) if mine.problem), "")
    return _short_in_group(state, queue, group, problem)


def _never(members: Sequence[PodSetAssignment]) -> NoFit:
    """Return why pod sets that share their flavors can never have any; NONE where they wait for some."""
    failed = [mine for mine in members if mine.mode is AssignmentMode.NO_FIT]
    why = max((NoFit.NO_MATCHING_FLAVOR if mine.problem else mine.why() for mine in failed), default=NoFit.NONE)
    return NoFit.NONE if why is NoFit.WAITING_FOR_QUOTA else why


def _short_in_group(
    state: AdmissionState, queue: Queue, group: PodSetGroupAssignment, problem: str
) -> list[Explanation]:
    """Say what pod sets that share their flavors lack, after others have taken theirs."""
    if problem:
        return [_unsuited(queue, problem)]
    missing = uncovered(queue, group.requests)
    if missing:
        return [not_covered(queue, missing)]
    tried = dict.fromkeys(group.attempts)  # some more than once, where flavors have been left out
    return _all_needed({one: _short_of(state, queue, one, group) for one in tried})


def _all_needed(whys: Mapping[FlavorAttempt, Explanation | None]) -> list[Explanation]:
    """Return what is short per flavor; where several resource groups lack it, which are all needed, the most severe.

    Of a resource group that has a flavor that fits, the others are told only where nothing else is short.
    """
    fits = {tried.group for tried in whys if tried.mode is PreemptionMode.FIT}
    by_group: dict[int, list[Explanation]] = {}
    for tried, why in whys.items():
        if why is not None and tried.group not in fits:
            by_group.setdefault(tried.group, []).append(why)
    if not by_group:
        return [why for why in whys.values() if why is not None]
    if len(by_group) == 1:
        return next(iter(by_group.values()))
    ranked = sorted((closest(them) for them in by_group.values()), key=_distance, reverse=True)
    first = ranked[0]
    return [Explanation(first.gate, first.reason, _together([why.message for why in ranked], "; and: "), first.details)]


def _unsuited(queue: Queue, problem: str) -> Explanation:
    return Explanation(Gate.QUOTA, NoFit.NO_MATCHING_FLAVOR.reason, f"ClusterQueue {queue.name}: {problem}")


def _short_of(
    state: AdmissionState, queue: Queue, tried: FlavorAttempt, group: PodSetGroupAssignment
) -> Explanation | None:
    """Say what one flavor lacks; None where it lacks nothing."""
    if tried.message:
        return Explanation(Gate.QUOTA, tried.why.reason, f"ClusterQueue {queue.name}: {tried.message}")
    node = state.ledger.tree.queues[queue.name]
    parts, details, never = [], {}, False
    for resource in sorted(set(group.requests).intersection(queue.groups[tried.group].covered)):
        what = (tried.flavor, resource)
        asked = group.requests[resource] + group.taken.get(what, 0)
        free, most = max(0, node.available(what)), node.potential(what)
        if asked > free or asked > most:
            never = never or asked > state.ledger.most_ever(queue.name, what)
            parts.append(_shortage(state, queue, what, asked) + _rise(state, queue, what))
            nominal = node.nominal(what)
            details["/".join(what)] = f"needed={asked} free={free} nominal={nominal} most={most}"
    if not parts:
        return None
    tail = NEVER if never else ""
    reason = NoFit.EXCEEDS_MAX_QUOTA if never else NoFit.WAITING_FOR_QUOTA
    return Explanation(Gate.QUOTA, reason.reason, f"ClusterQueue {queue.name}: " + "; ".join(parts) + tail, details)


def _rise(state: AdmissionState, queue: Queue, what: FlavorResource) -> str:
    """Say when a queue next has more of its own, or a cohort above it, by their windows; "" where none is known to."""
    windows, node = state.catalog.windows, state.ledger.tree.queues[queue.name]
    above = {cohort_key(one.name): one for one in node.path[1:]}
    holding = {key: one for key, one in {queue.name: node, **above}.items() if key in windows.calendars}
    for step in windows.steps(tuple(holding), state.now) if holding else ():
        for key, one in holding.items():
            quota = step.quotas[key].get(what)
            if quota is not None and quota.nominal > one.nominal(what):
                whose = "its own" if one is node else f"that of cohort {one.name}"
                amount = format_amount(what[1], quota.nominal)
                return f"; {whose} is {amount} from {timestamp(step.at)} on (temporaryQuotas)"
    return ""


def _shortage(state: AdmissionState, queue: Queue, what: FlavorResource, asked: int) -> str:
    """Say how much of one flavor and resource is asked for, free, the queue's own, and lent to whom."""
    node = state.ledger.tree.queues[queue.name]
    (flavor, resource), nominal, most = what, node.nominal(what), node.potential(what)
    free, unused = max(0, node.available(what)), nominal - node.usage.get(what, 0)
    own = max(0, min(free, unused))
    text = f"needs {format_amount(resource, asked)} {resource} in {flavor}; {format_amount(resource, free)} free now"
    text += f" ({format_amount(resource, own)} of its own {format_amount(resource, nominal)}"
    if most > nominal:
        text += f", {format_amount(resource, free - own)} of {format_amount(resource, most - nominal)} to borrow"
    text += ")"
    lent = unused - free
    if lent <= 0:
        return text
    borrowers = [one.name for one in node.root().leaves() if one is not node and one.borrowed(what)]
    to = f" to {listed(borrowers, len(borrowers), MOST_NAMES)}" if borrowers else ""
    return f"{text}, {format_amount(resource, lent)} lent{to}, {RECLAIMABLE[queue.policy.reclaim]}"


def misfit(found: FitError, assignment: FlavorByResource, *, tried: int = 0, of: int = 1) -> Explanation:
    """Say why nodes are short for pods that are counted in these flavors.

    Args:
        found: Why.
        assignment: The flavors.
        tried: How many arrangements were tried.
        of: How many pods start together; the message says so where it names fewer.
    """
    flavors = list(dict.fromkeys(assignment.values()))
    message = found.message + (f" {found.never}." if found.never and found.never != found.message else "")
    if flavors:
        where = f"in {counted(len(flavors), 'flavor').partition(' ')[2]} {', '.join(flavors)}"
        message = message.replace(AVAILABLE, f"{AVAILABLE.removesuffix(':')} {where}:", 1)
    if tried:
        message += " Each of its roles would fit alone, but no arrangement was found in which all do."
    elif found.wanted < of and message.endswith("."):
        message += f" It starts together with {counted(of - found.wanted, 'other pod')} of the gang."
    return Explanation(
        Gate.PLACEMENT,
        _reason(found),
        message,
        {"fits": str(found.fits), "required": str(found.wanted), **found.details},
    )


def _reason(found: FitError) -> str:
    if any(reason.startswith(FAILED) for reason in found.details):
        return "PluginFailed"
    return "Impossible" if found.never else "Unschedulable"


def short_of_resources(state: AdmissionState, workload: Workload, queue: Queue | None) -> Explanation | None:
    """Say of what less is free on all nodes together than a gang wants to see free before it starts (minResources).

    Nobody is taken out for that (scheduler-plugins, pkg/coscheduling: no preemption follows).
    """
    if not workload.min_resources or workload.phase is not Phase.WAITING:
        return None
    if workload.held_since is None and (queue is not None and queue.checks.on_flavors):
        return None  # it asks for no nodes yet
    if queue is not None and queue.checks.provisioning:
        return None  # what is missing is asked for where it is not there
    nodes = state.cluster.nodes
    found = sum_over_nodes(np.maximum(nodes.allocatable - nodes.requested, 0)[nodes.present])
    column = nodes.resource_index.column
    short = [name for name, wanted in workload.min_resources.items() if found[column(name)] < wanted]
    if not short:
        return None
    name = min(short, key=column)
    wanted, free = workload.min_resources[name], int(found[column(name)])
    text = f"minResources asks for {format_amount(name, wanted)} of {name} to be free in the cluster; free now: "
    text += format_amount(name, free)
    return Explanation(Gate.PLACEMENT, "Unschedulable", text, {"resource": name, "free": str(free)})


def gang_full(group: MemberGroup) -> Explanation:
    """Say that a gang has as many members as may run at once."""
    most = 0 if group.most is None else group.most
    text = f"pod group {group.name} has {counted(most, 'member')} at once, with a node each; others take the place of"
    return Explanation(Gate.GATHER, "GangFull", f"{text} those that fail", {"most": str(group.most)})


def no_gain(workload: Workload) -> Explanation | None:
    """Say that a gang has as many members as make it faster, as far as is known; None where it has fewer."""
    tally, curve = workload.counts(), workload.speed
    had = tally.bound + tally.reserved
    if curve is None or had < max(curve.useful, workload.required):
        return None
    by = "what it says of its speed" if workload.speed_learned is None else "how long others of its kind took"
    text = f"it has {counted(had, 'member')}, and by {by} it gains nothing from one more"
    return Explanation(Gate.GATHER, "NothingGained", text, {"members": str(had), "speed": f"{curve.speed(had):.3g}"})


def no_room_left() -> Explanation:
    """Say that what would fit now was given to others before."""
    return Explanation(Gate.PLACEMENT, "Unschedulable", "no room was left for it in this turn")


def closest(whys: Sequence[Explanation]) -> Explanation:
    """Of several flavors that failed, tell the one that came furthest; name the others' reasons behind it."""
    best = min(whys, key=_distance)
    others = [why.message for why in whys if why is not best]
    if not others:
        return best
    return Explanation(best.gate, best.reason, _together([best.message, *others], "; or: "), best.details)


TOO_LARGE = f"{LARGER}."
NEVER = "; it can never be admitted there: ask for less, or raise the quota"


def _together(messages: Sequence[str], between: str) -> str:
    """Say several in one: once whose queue it is, that none of them can ever be had, and what several of them say."""
    messages = [one for at, one in enumerate(messages) if not any(_says(two, one) for two in messages[:at])]
    whose = messages[0].partition(": ")[0] + ": "
    whose = whose if all(one.startswith(whose) for one in messages) else ""
    tail = next((one for one in (NEVER, TOO_LARGE) if all(two.endswith(one) for two in messages)), "")
    said = [one.removeprefix(whose).removesuffix(tail).removesuffix(".") for one in messages]
    return whose + between.join(said) + tail


def _says(message: str, other: str) -> bool:
    """Whether a message says another, and maybe more."""
    return message == other or message.startswith((f"{other};", f"{other} "))


def _distance(why: Explanation) -> tuple[bool, int]:
    """Return how far from admission this is: lack of nodes is nearest, then what passes soonest."""
    reasons = [one.reason for one in NoFit]
    return why.gate is not Gate.PLACEMENT, reasons.index(why.reason) if why.reason in reasons else 0
