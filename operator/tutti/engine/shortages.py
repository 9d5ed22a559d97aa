"""What a try at a workload was short of: members, quota or nodes, each with its numbers."""

from __future__ import annotations

from tutti.api.resources import describe
from tutti.engine.explanation import Explanation, Gate
from tutti.engine.state import State
from tutti.engine.workloads import Group, Workload
from tutti.placement.misfit import Misfit
from tutti.placement.plugins.users import FAILED
from tutti.quota.flavors import Assignment, Queue
from tutti.quota.tree import Usage


def gathering(group: Group) -> Explanation:
    """Say which members of a group are not there yet."""
    tally = group.tally()
    there = tally.waiting + tally.reserved + tally.placed
    apart = [
        f"{count} {word}"
        for count, word in ((tally.gated, "gated"), (tally.leaving, "terminating"), (tally.failed, "failed"))
        if count
    ]
    return Explanation(
        Gate.GATHER,
        "WaitingForMembers",
        f"{there} of {group.min_count} members of pod group {group.name} are there"
        + (f" ({', '.join(apart)} not counted)" if apart else "")
        + f"; it is placed when {group.min_count} are",
        {"members": str(there), "minCount": str(group.min_count)},
    )


def with_strangers(state: State, workload: Workload, why: Explanation) -> Explanation:
    """Add, where a pod group waits for members, that pods with its label are left to another scheduler."""
    kind, namespace, name = workload.key
    others = state.strangers.get((namespace, name), {}) if kind == "PodGroup" else {}
    if why.gate is not Gate.GATHER or not others:
        return why
    names = ", ".join(sorted(set(others.values())))
    ours = next(iter(state.profiles))
    text = f"{len(others)} more pods carry its label but have schedulerName {names}; give them {ours}"
    return Explanation(why.gate, why.reason, f"{why.message} ({text})", {**why.details, "strangers": str(len(others))})


def short_of_quota(state: State, queue: Queue, per_pod: Usage, pods: int, taken: Usage) -> Explanation:
    """Say of which quota there is too little for so many pods, and whether there could ever be enough.

    `taken` is what other pods of the same workload have been given in this try: the workload needs both at once.
    """
    node = state.ledger.tree.queues[queue.name]
    parts, details, never = [], {}, False
    for what, amount in per_pod.items():
        flavor, resource = what
        mine = taken.get(what, 0)
        asked, free = amount * pods + mine, max(0, node.available(what) + mine)
        if asked <= free:
            continue
        most = node.potential(what)
        never = never or asked > most
        text = f"needs {describe(resource, asked)} {resource} in {flavor}; {describe(resource, free)} free now"
        own = f"{describe(resource, node.nominal(what))} nominal"
        if most > node.nominal(what):
            own += f", {describe(resource, most)} with borrowing"
        parts.append(f"{text} ({own})")
        details[f"{flavor}/{resource}"] = f"needed={asked} free={free} nominal={node.nominal(what)} most={most}"
    tail = "; it can never be admitted there: ask for less, or raise the quota" if never else ""
    return Explanation(
        Gate.QUOTA,
        "ExceedsMaxQuota" if never else "WaitingForQuota",
        f"ClusterQueue {queue.name}: " + "; ".join(parts) + tail,
        details,
    )


def misfit(found: Misfit, assignment: Assignment, *, tried: int = 0) -> Explanation:
    """Say why nodes are short for pods that are counted in these flavors, after so many arrangements were `tried`."""
    flavors = ", ".join(dict.fromkeys(assignment.values()))
    message = found.message + (f" {found.never}." if found.never and found.never != found.message else "")
    if tried:
        message += " Each of its roles would fit alone, but no arrangement was found in which all do."
    return Explanation(
        Gate.PLACEMENT,
        _reason(found),
        message + (f" (flavor {flavors})" if flavors else ""),
        {"fits": str(found.fits), "required": str(found.wanted), **found.details},
    )


def _reason(found: Misfit) -> str:
    if any(reason.startswith(FAILED) for reason in found.details):
        return "PluginFailed"
    return "Impossible" if found.never else "Unschedulable"


def closest(whys: list[Explanation], queue: Queue | None) -> Explanation:
    """Of several flavors that failed, tell the one that came furthest; name the others' reasons behind it."""
    if not whys:
        assert queue is not None  # without a queue there is one way, and it said why not
        return Explanation(
            Gate.QUOTA,
            "NoMatchingFlavor",
            f"no flavor of ClusterQueue {queue.name} has only taints that the pod tolerates; add a toleration",
        )
    best = max(whys, key=lambda why: why.gate is Gate.PLACEMENT)
    others = [why.message for why in whys if why is not best]
    if not others:
        return best
    return Explanation(best.gate, best.reason, " | ".join((best.message, *others)), best.details)
