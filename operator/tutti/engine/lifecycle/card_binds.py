"""Pods with parts of cards are bound one after another on each node: HAMi's device plugin serves one at a time.

The plugin finds the pod that the kubelet asks it for by the lock of the node (`api/hami.py`). So a bind takes the lock
with it, and the next of the node goes out when that pod says that its cards were allocated, or could not be, and the
lock is gone. A gang is begun when none of its nodes is locked by others; meanwhile its reservation is held. A lock that
nobody opens is taken over as HAMi's own scheduler does it: when its pod is no more, and after five minutes in any
case. Before that, nodes whose plugin has not answered for half a minute are closed to pods that need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tutti.api.cards import NO_CARDS
from tutti.api.hami import LOCK_SECONDS, NodeLock, binding_annotations, lock_text
from tutti.api.messages import IS, agreeing, counted
from tutti.cluster.pods import PodKey
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.lifecycle.phases import Transition, explain, transit
from tutti.engine.lifecycle.reservation import break_up, claim_seconds, give_back
from tutti.engine.records.decisions import CardLock
from tutti.engine.records.discretion import pod_named
from tutti.engine.records.explanation import RESERVED_TEXT, Explanation, Gate
from tutti.engine.records.members import Member
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey

ANSWER_SECONDS: Final = 30
"""After so long without an answer a node's plugin counts as one that does not answer: the kubelet asks it at once."""
_MOST_NAMED: Final = 3


@dataclass(slots=True)
class CardTurns:
    """Whose turn it is of the members that have parts of cards.

    Attributes:
        waiting: Members that wait until others of their node are done.
        busy: The nodes that others keep busy, with the pod that is served there.
        silent: The nodes of which the plugin does not answer.
        lacking: Members for whom nothing is left of the cards of their node.
        next: When to look again, Unix seconds, if nothing is seen before.
    """

    waiting: dict[PodKey, None] = field(default_factory=dict)
    busy: dict[str, PodKey] = field(default_factory=dict)
    silent: dict[str, None] = field(default_factory=dict)
    lacking: list[Member] = field(default_factory=list)
    next: float | None = None


def prepare_cards(state: LifecycleState, workload: Workload) -> dict[PodKey, None] | None:
    """Have members with parts of cards take turns.

    Returns:
        The members that cannot be bound yet; None where none of them can: the reservation is held until then, or was
        given back because cards of it cannot be had.
    """
    if not state.cluster.nodes.cards:
        return {}
    turns = _turns_of(state, workload)
    starts = workload.phase in (Phase.WAITING, Phase.RESERVED)
    if turns.lacking or (starts and turns.silent):
        _give_up(state, workload, turns)
        return None if starts else turns.waiting
    if turns.next is not None:
        state.set_alarm(workload, turns.next)
    for node in turns.busy:
        state.card_waits.setdefault(node, {})[workload.key] = None
    if starts and turns.busy:
        transit(workload, Transition.RESERVE)
        if workload.deadline is None:
            state.set_deadline(workload, claim_seconds(state, workload))
        explain(workload, _waits(state, workload, turns))
        return None
    return turns.waiting


def card_annotations(
    state: LifecycleState, workload: Workload, member: Member
) -> tuple[dict[str, str], CardLock | None]:
    """Return what a member says of its cards when it is bound, and the lock to take; nothing where it has none."""
    pod, nodes = member.pod, state.cluster.nodes
    grant = nodes.card_holders.of(pod) if pod.pod_class.cards is not NO_CARDS else None
    if grant is None:
        return {}, None
    state.card_turns[pod.assumed] = pod.key
    if workload.phase is Phase.BINDING and workload.window_earned:  # no try that fails again keeps it open
        state.set_deadline(workload, state.configuration.bind_window_seconds)
        workload.window_earned = False
    known = nodes.cards.locks.get(pod.assumed)
    said = binding_annotations(pod.assumed, grant.parts, state.now)
    replaces = known.text if known is not None and _may_go(state, known) else ""
    there = (state.cluster.pods.get(key) for key in nodes.card_holders.pods_on(pod.assumed))
    counted = tuple(sorted(one.uid for one in there if one is not None))
    return said, CardLock(lock_text(state.now, *pod.key), replaces, nodes.cards.left_of(grant), counted)


def look_again(state: LifecycleState) -> None:
    """Close nodes whose plugin does not answer, open those whose does, and look at the workloads that wait for them."""
    cards = state.cluster.nodes.cards
    if not cards and not state.card_waits:
        return
    silent = dict.fromkeys(sorted({node for node, since, ends in _unanswered(state) if since <= state.now < ends}))
    if silent != cards.silent:
        cards.silent, cards.version = silent, cards.version + 1
        state.cluster.freed.anywhere()
    for node, keys in list(state.card_waits.items()):
        if node in silent:
            woken = [key for key in keys if not _is_binding(state, key)]
        else:
            woken = list(keys) if _blocker(state, node, None) is None else []
        for key in woken:
            del keys[key]
            state.touch(key)
        if not keys:
            del state.card_waits[node]


def next_answer_due(state: LifecycleState) -> float | None:
    """Return when a plugin should have answered, or a lock is too old to count, Unix seconds; None: none is awaited."""
    times = (time for _, since, ends in _unanswered(state) for time in (since, ends) if time > state.now)
    return min(times, default=None)


def has_turns(state: LifecycleState, workload: Workload) -> bool:
    """Whether a held workload waits for locks of nodes."""
    return any(workload.key in keys for keys in state.card_waits.values())


def time_out_turns(state: LifecycleState, workload: Workload) -> None:
    """Give back what is held for a workload whose nodes were not unlocked in time, and try again later."""
    _give_up(state, workload, _turns_of(state, workload))


def _is_binding(state: LifecycleState, key: WorkloadKey) -> bool:
    """Whether a workload is bound in part, so that it waits for a silent plugin until its bind window closes."""
    workload = state.workloads.get(key)
    return workload is not None and workload.phase is Phase.BINDING


def _unanswered(state: LifecycleState) -> Iterator[tuple[str, float, float]]:
    """Yield nodes whose plugin has somebody to serve, since when it counts as silent and until when, Unix seconds."""
    for node, pods in state.cluster.nodes.card_holders.allocating.items():
        for since in pods.values():
            yield node, since + ANSWER_SECONDS, float("inf")
    for node, lock in state.cluster.nodes.cards.locks.items():
        key = (lock.namespace, lock.name)
        if key in state.cluster.pods and not _is_leftover(state, key):
            yield node, lock.since + ANSWER_SECONDS, lock.since + LOCK_SECONDS


def _turns_of(state: LifecycleState, workload: Workload) -> CardTurns:
    out, taken = CardTurns(), dict[str, None]()
    nodes = state.cluster.nodes
    for member in workload.members():
        pod = member.pod
        if not pod.assumed or member.sent or pod.pod_class.cards is NO_CARDS or pod.assumed not in nodes.cards.told:
            continue
        grant = nodes.card_holders.of(pod)
        if grant is None or nodes.cards.is_overdrawn(grant):  # HAMi's own scheduler may have given it away meanwhile
            out.lacking.append(member)
        elif pod.assumed in nodes.cards.silent:
            out.silent[pod.assumed] = None
            out.waiting[pod.key] = None
            if workload.phase is Phase.BINDING:  # it goes on when the plugin answers; who has not begun goes elsewhere
                state.card_waits.setdefault(pod.assumed, {})[workload.key] = None
        elif pod.assumed in taken:
            out.waiting[pod.key] = None
            state.card_waits.setdefault(pod.assumed, {})[workload.key] = None
        else:
            why = _blocker(state, pod.assumed, pod.key)
            if why is None:
                taken[pod.assumed] = None
                continue
            out.waiting[pod.key] = None
            out.busy[pod.assumed] = why[0]
            out.next = why[1] if out.next is None else min(out.next, why[1])
    return out


def _blocker(state: LifecycleState, node: str, me: PodKey | None) -> tuple[PodKey, float] | None:
    """Return whom the plugin of a node has to serve first, and until when at most; None where it is free."""
    holders, locks = state.cluster.nodes.card_holders, state.cluster.nodes.cards.locks
    out = state.card_turns.get(node)
    if out is not None:
        member = state.members.get(out)
        if member is not None and member.sent and not member.pod.node and member.pod.assumed == node and out != me:
            return out, state.now + ANSWER_SECONDS
        del state.card_turns[node]
    for key, since in holders.allocating.get(node, {}).items():
        if key != me and state.now < since + LOCK_SECONDS:
            return key, since + LOCK_SECONDS
    lock = locks.get(node)
    if lock is None or (lock.namespace, lock.name) == me or _may_go(state, lock):
        return None
    if (lock.namespace, lock.name) not in state.cluster.pods:
        return None  # of a pod that is no more, or of one of others that is not bound: it is asked when it is taken
    return (lock.namespace, lock.name), lock.since + LOCK_SECONDS


def _may_go(state: LifecycleState, lock: NodeLock) -> bool:
    """Whether a lock may be taken over: it is too old, or what is left of a bind that never was."""
    return abs(state.now - lock.since) >= LOCK_SECONDS or _is_leftover(state, (lock.namespace, lock.name))


def _is_leftover(state: LifecycleState, key: PodKey) -> bool:
    """Whether a lock is for a pod of ours that is not bound, and of which no bind is out: another process took it."""
    member = state.members.get(key)
    return member is not None and not member.sent and not member.unknown and not member.pod.node


def _give_up(state: LifecycleState, workload: Workload, turns: CardTurns) -> None:
    """Give back what is reserved: all of it for a gang that is not bound, else what these members have."""
    members = turns.lacking or [state.members[key] for key in turns.waiting]
    if workload.phase in (Phase.WAITING, Phase.RESERVED):
        break_up(state, workload)
    for member in members:
        if member.pod.assumed:
            give_back(state, member)
    state.back_off(workload)
    if turns.lacking:
        named = ", ".join(one.pod.name for one in turns.lacking[:_MOST_NAMED])
        why = f"nothing is left for {named} of the cards of their nodes"
    elif turns.silent:
        why = f"HAMi's device plugin does not answer on {', '.join([*turns.silent][:_MOST_NAMED])}"
    else:
        why = _waits(state, workload, turns).message
    text = f"its reservation is given back: {why}"
    explain(workload, Explanation(Gate.PERMIT, "CardAllocationFailed", text, {"attempts": str(workload.attempts)}))
    state.announce(workload, "Warning", "CardAllocationFailed", text)


def _waits(state: LifecycleState, workload: Workload, turns: CardTurns) -> Explanation:
    pods, reader, discreet = state.cluster.pods, workload.key[1], state.discreet
    served = [(node, pods.get(key)) for node, key in [*turns.busy.items()][:_MOST_NAMED]]
    named = ", ".join(
        f"{node} ({pod_named(pod, reader, discreet=discreet)})" if pod is not None else node for node, pod in served
    )
    count, seconds = len(turns.busy), claim_seconds(state, workload)
    return Explanation(
        Gate.PERMIT,
        "WaitingForNodeLock",
        f"{RESERVED_TEXT}; {counted(count, 'node')} of its members {agreeing(count, IS)} locked until "
        f"HAMi's device plugin has served others: {named} (given back after {seconds} s)",
        {"nodes": str(count), "timeoutSeconds": str(seconds)},
    )
