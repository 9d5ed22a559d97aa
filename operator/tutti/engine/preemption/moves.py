"""Making the moves that have been decided: evictions once they are written down, and places that are kept meanwhile.

A plan stands in the status of its ClusterQueue before anybody is asked to leave; a process that is started anew finds
it there and goes on. Until it is seen there it costs nobody anything, and it is dropped where anything about it has
changed. Then all who are moved are asked at once, within their disruption budgets. The quota of each is kept for its
successor as it ends, the room from the beginning: from everybody who is not more important, and from the workload that
the moves are for, whatever it is. Who has a place kept takes nobody out, and has nobody moved, to come to it.

Who has not left when the time is over runs on, as far as it can; who has left keeps its place as long again, and waits
before others of its priority.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import partial

from tutti.api import resources
from tutti.api.conditions import timestamp
from tutti.api.kinds import ClusterQueue
from tutti.api.kinds.consolidation import Move, MovedPod
from tutti.api.messages import counted
from tutti.api.model import API_VERSION
from tutti.api.resources import Amounts
from tutti.engine.lifecycle import member_loss, quota_usage
from tutti.engine.lifecycle.eviction import MOVED_BY_SCHEDULER, evict, evict_members
from tutti.engine.preemption import PreemptionState, nominations
from tutti.engine.preemption.surplus import surplus_members
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.discretion import workload_named_by_key
from tutti.engine.records.explanation import EvictionReason, Explanation, Gate
from tutti.engine.records.faults import Whose
from tutti.engine.records.members import Charge, Member
from tutti.engine.records.moves import (
    AGAIN_SECONDS,
    Home,
    KeptPlace,
    MovedPiece,
    MovePlan,
    MoveStage,
    PastMove,
)
from tutti.engine.records.nominations import Nomination, Spot
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.placement.preemption.victim_cost import Coverage
from tutti.quota.flavors import VIRTUAL, usage_of

WAITING_FOR_MOVES = "WaitingForMoves"
_UNTOLD = Explanation(Gate.VICTIMS, WAITING_FOR_MOVES, "")
"""Nobody is told of what is held for successors that are yet to be made."""


def home_of(workload: Workload) -> Home:
    """Return what successors of a workload's members come to."""
    if workload.key[0] != "Pod":
        return workload.key
    owner = next((member.marks.owner for member in workload.members()), None)
    return workload.key if owner is None else ("Owner", workload.key[1], owner.uid)


def is_coming(state: PreemptionState, workload: Workload) -> bool:
    """Whether places are kept for members of a workload, since others of it, or like it, are being moved."""
    return bool(state.moves.plans) and bool(state.moves.coming_to(home_of(workload)))


def has_kept(state: PreemptionState, workload: Workload) -> bool:
    """Whether quota is kept for members of a workload that it lacks: these were lost, or are being moved."""
    return workload.key in state.kept_for_successors or is_coming(state, workload)


def kept_places(
    state: PreemptionState, workload: Workload, priority: int
) -> tuple[list[Nomination], list[tuple[str, Amounts]]]:
    """Return the places that a workload whose pods have some priority may not take, and what is held for whom.

    Returns:
        As nominations, those for pods of known classes, and that of a workload whose moves it is one of; and as nodes
        and amounts those of which no more is known.
    """
    found: list[Nomination] = []
    amounts: list[tuple[str, Amounts]] = []
    home = home_of(workload)
    for plan in state.moves.plans.values():
        own = plan.key == workload.key
        theirs = [piece for piece in plan.pieces if piece.home != home and (own or priority <= piece.priority)]
        places = [place for piece in theirs for place in piece.places]
        spots = [Spot(one.pod_class, one.node, None) for one in places if one.pod_class is not None]
        amounts += [
            (one.node, one.amounts) for one in places if one.pod_class is None and one.node in state.cluster.nodes.rows
        ]
        nomination = state.nominations.ours.get(plan.key)
        victims = {place.pod: place.uid for place in plan.places() if not _has_ended(state, place)}
        if spots:
            found.append(Nomination(priority, spots, (), victims, [], plan.until, _UNTOLD, moves=True))
        if nomination is not None and any(piece.home == home for piece in plan.pieces):
            found.append(nomination)
    return found, amounts


def lending_own(state: PreemptionState, workload: Workload) -> AbstractContextManager[None]:
    """Inside, all that is kept for a workload is free for it: for those that it has lost, and for who is moved."""
    is_kept = workload.key in state.kept_for_successors or state.moves.plans
    return _lending_own(state, workload) if is_kept else nullcontext()


@contextmanager
def _lending_own(state: PreemptionState, workload: Workload) -> Iterator[None]:
    with member_loss.lending_kept(state, workload), lending_places(state, workload):
        yield


@contextmanager
def lending_places(state: PreemptionState, workload: Workload) -> Iterator[None]:
    """Inside, the quota that is kept for members of a workload is free for it, and nobody is told.

    At the end the places are given up that its members have taken, and the quota of the others is in use again.
    """
    mine = state.moves.coming_to(home_of(workload)) if state.moves.plans else []
    if not mine:
        yield
        return
    before = {member.pod.key for member in workload.members() if member.pod.place}
    held = _holds(workload)
    lent = [place for _, piece in mine for place in piece.places if place.charged]
    for place in lent:
        _refund(state, place, told=False)
    try:
        yield
    finally:
        new = [member for member in workload.members() if member.pod.place and member.pod.key not in before]
        taken = [member.pod.place for member in new]
        taken += [""] * max(0, _holds(workload) - held)
        for plan, piece in mine:
            taken = _take(piece, taken)
            if not piece.places:
                state.moves.finish(plan, [piece])
        kept = {id(place) for _, piece in mine for place in piece.places}
        for place in lent:
            if id(place) in kept:
                _charge(state, place)
            elif place.charge is not None:
                state.ledger.changes.retry(place.charge.queue)
        quota_usage.describe_holder(state, workload)
        _end_if_done(state, [plan for plan, _ in mine])


def follow_moves(state: PreemptionState) -> bool:
    """Do what follows from what has become of those who are moved, when all workloads are up to date.

    Returns:
        Whether any of them has to be looked at again.
    """
    for plan in list(state.moves.plans.values()):
        follow = _follow_writing if plan.stage is MoveStage.WRITING else _follow_making
        state.attempt(Whose(*plan.key), "following who is moved for it", partial(follow, state, plan), None)
    _end_if_done(state, list(state.moves.plans.values()))
    return bool(state.dirty)


def restore_moves(state: PreemptionState) -> None:
    """Go on with the moves that statuses tell of, as an earlier process has left them."""
    for found in state.catalog.all(ClusterQueue):
        meta = found.metadata
        whose = Whose(ClusterQueue.KIND, "", meta.name, API_VERSION, meta.uid)
        state.attempt(whose, "going on with its moves", partial(_restore, state, meta.name, found.status.moves), None)
    for plan in list(state.moves.plans.values()):
        waiting = state.workloads.get(plan.key)
        if state.now < plan.until and waiting is not None and waiting.phase is Phase.WAITING:
            for piece in plan.pieces:
                _ask_to_leave(state, plan, piece)
    _end_if_done(state, list(state.moves.plans.values()))


def _restore(state: PreemptionState, name: str, said: Iterable[Move]) -> None:
    """Go on with the moves that the status of one ClusterQueue tells of."""
    for one in said:
        at, key = _seconds(one.at), _key(one.moved_for)
        if key is None or at <= 0 or at + AGAIN_SECONDS <= state.now:
            state.moves.changed[name] = None
            continue
        home = (one.kind, one.namespace, one.name)
        if not one.pods:
            state.moves.past.setdefault(name, []).append(PastMove(home, at, key, one.priority))
            continue
        plan = state.moves.plans.get(name)
        if plan is None:
            until = at + state.configuration.victims_timeout_seconds
            plan = state.moves.plans[name] = MovePlan(name, key, at, until, [], MoveStage.MAKING)
        piece = _restored(state, one, home, plan)
        plan.pieces.append(piece)
        _forgo_taken(state, plan, piece)


def victims_of_moves(state: PreemptionState, key: WorkloadKey) -> list[KeptPlace]:
    """Return who is still there of those that are moved for a workload."""
    plans = [plan for plan in state.moves.plans.values() if plan.key == key and state.now < plan.until]
    return [place for plan in plans for place in plan.places() if not _has_ended(state, place)]


def restored_wait(state: PreemptionState, key: WorkloadKey, pods: int) -> Explanation:
    """Return what a workload waits for that others are being moved for since before this process was started."""
    until = max((plan.until for plan in state.moves.plans.values() if plan.key == key), default=state.now)
    again = timestamp(until)
    text = f"waits for {counted(pods, 'pod')} to move; room and quota for all are held until {again}"
    return Explanation(Gate.VICTIMS, WAITING_FOR_MOVES, text, {"moves": str(pods), "until": again})


# While a plan is written, and made.


def _follow_writing(state: PreemptionState, plan: MovePlan) -> None:
    nomination = state.nominations.ours.get(plan.key)
    if nomination is None or not nomination.moves or state.now >= plan.until or not _stands(state, plan):
        state.moves.drop(plan, plan.pieces)
        nominations.give_up_nomination(state, plan.key)
    elif state.moves.is_written(plan):
        plan.stage, nomination.asked = MoveStage.MAKING, True
        for piece in plan.pieces:
            _ask_to_leave(state, plan, piece)


def _stands(state: PreemptionState, plan: MovePlan) -> bool:
    """Whether all who are to be moved are there as they were, and no disruption budget minds by now."""
    members = [_member(state, place) for place in plan.places()]
    pods = [member.pod for member in members if member is not None and _runs(member)]
    if len(pods) < len(members):
        return False
    for member in members:
        assert member is not None  # that is what was counted
        workload = state.workloads[state.pod_group_of[member.pod.key][0]]
        if workload.phase is not Phase.SCHEDULED or not workload.complete or not workload.active:
            return False
    return not Coverage(list(state.budgets.values()), of_leaving=False).violations(pods)


def _runs(member: Member) -> bool:
    pod = member.pod
    return bool(pod.node) and not (pod.deleting or pod.terminated or member.evicting or member.leave is not None)


def _ask_to_leave(state: PreemptionState, plan: MovePlan, piece: MovedPiece) -> None:
    """Ask those of a piece to leave that run: their gang as a whole, unless it can do without them."""
    ours: dict[WorkloadKey, list[Member]] = {}
    for place in piece.places:
        member = _member(state, place)
        if member is not None and _runs(member):
            ours.setdefault(state.pod_group_of[place.pod][0], []).append(member)
    for key, members in ours.items():
        workload = state.workloads[key]
        named = workload_named_by_key(plan.key, key[1], known=state.workloads, discreet=state.discreet)
        text = f"it is moved so that {named} fits; quota and room are kept for its successors"
        surplus = {member.pod.key for member in surplus_members(workload)}
        if key[0] != "Pod" and all(member.pod.key in surplus for member in members):
            evict_members(state, workload, members, MOVED_BY_SCHEDULER, text)
        else:
            evict(state, workload, EvictionReason.MOVED, text)
        for member in members if key[0] != "Pod" else ():
            pod = member.pod
            note = f"Moved off node {pod.place}: {text}"
            about = ("v1", "Pod", pod.namespace, pod.name, pod.uid)
            state.out.append(EmitEvent(*about, "Normal", "Moved", "Consolidating", note))


def _follow_making(state: PreemptionState, plan: MovePlan) -> None:
    if state.now >= plan.until and plan.key in state.nominations.ours:
        nominations.abandon_nomination(state, plan.key)
        nominations.spare_victims(state)
    for piece in list(plan.pieces):
        for place in list(piece.places):
            member = _member(state, place)
            if member is not None and _runs(member):
                piece.places.remove(place)  # it need not leave, or may not
                state.moves.changed[plan.queue] = None
            elif not place.charged and _has_ended(state, place):
                _charge(state, place)
                _touch(state, piece)
        if not piece.places:
            state.moves.drop(plan, [piece])
        elif state.now >= piece.until:
            for place in piece.places:
                _refund(state, place, told=True)
            state.cluster.freed.anywhere()
            _touch(state, piece)
            state.moves.finish(plan, [piece])


def _end_if_done(state: PreemptionState, plans: Iterable[MovePlan]) -> None:
    for plan in plans:
        if not plan.pieces and state.moves.plans.get(plan.queue) is plan:
            del state.moves.plans[plan.queue]
            state.moves.changed[plan.queue] = None
            state.cluster.freed.anywhere()


# One place.


def _member(state: PreemptionState, place: KeptPlace) -> Member | None:
    """Return the member in whose place a successor is to come, while it is there."""
    member = state.members.get(place.pod)
    return member if member is not None and member.pod.uid == place.uid else None


def _has_ended(state: PreemptionState, place: KeptPlace) -> bool:
    member = _member(state, place)
    return member is None or member.pod.terminated or member.pod.lost or not member.pod.place


def _charge(state: PreemptionState, place: KeptPlace) -> None:
    """Have the quota of a successor in use, as far as there is any."""
    charge = place.charge
    if charge is None or charge.queue not in state.ledger.tree.queues:
        return
    if state.ledger.room_for(charge.queue, charge.usage) > 0:
        state.charge(charge)
        place.charged = True


def _refund(state: PreemptionState, place: KeptPlace, *, told: bool) -> None:
    if place.charged and place.charge is not None:
        state.ledger.refund(place.charge.queue, place.charge.usage, place.charge.holder, told=told)
    place.charged = False


def _take(piece: MovedPiece, taken: list[str]) -> list[str]:
    """Give up the places that members on some nodes have taken, on these nodes first; returns who is left."""
    left: list[str] = []
    for node in taken:
        place = next((one for one in piece.places if one.node == node), None)
        if place is None:
            left.append(node)
        else:
            piece.places.remove(place)
    while left and piece.places:
        left.pop()
        piece.places.pop(0)
    return left


def _holds(workload: Workload) -> int:
    return sum(len(group.holds) for group in workload.groups.values())


def _touch(state: PreemptionState, piece: MovedPiece) -> None:
    """Have what is told of those counted anew for whom quota is kept."""
    for place in piece.places:
        if place.charge is not None:
            kind, namespace, name = place.charge.holder.split("/")
            state.touch((kind, namespace, name))


# What a status says.


def _restored(state: PreemptionState, said: Move, home: Home, plan: MovePlan) -> MovedPiece:
    until = plan.until + state.configuration.victims_timeout_seconds
    places = [place for one in said.pods if (place := _place(state, said, home, one)) is not None]
    return MovedPiece(home, said.priority, places, until)


def _place(state: PreemptionState, said: Move, home: Home, pod: MovedPod) -> KeptPlace | None:
    """Return a place as it was written; None where that cannot be read."""
    try:
        amounts = {**resources.parse_requests(pod.requests), VIRTUAL: 1}
    except resources.AmountError:
        return None
    key = (said.namespace, pod.name)
    record = state.cluster.pods.get(key)
    known = record.pod_class if record is not None and record.uid == pod.uid else None
    charge = None
    if pod.cluster_queue and pod.flavors:
        holder = "/".join(home) if home[0] != "Owner" else f"Pod/{key[0]}/{key[1]}"
        flavors = {name: flavor for name, flavor in pod.flavors.items() if name in amounts}
        charge = Charge(pod.cluster_queue, flavors, usage_of(flavors, amounts), holder)
    return KeptPlace(key, pod.uid, pod.node, amounts, known, charge)


def _forgo_taken(state: PreemptionState, plan: MovePlan, piece: MovedPiece) -> None:
    """Give up the places of successors that have a node already: those of its home that are younger than the plan."""
    former: Mapping[str, None] = dict.fromkeys(place.uid for place in piece.places)
    taken = [
        member.pod.place
        for workload in state.workloads.values()
        if home_of(workload) == piece.home
        for member in workload.members()
        if member.pod.place and member.pod.uid not in former and member.pod.created >= int(plan.at)
    ]
    _take(piece, taken)
    if not piece.places:
        state.moves.finish(plan, [piece])


def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except ValueError:
        return 0.0


def _key(text: str) -> WorkloadKey | None:
    parts = text.split("/")
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None  # noqa: PLR2004 - kind, namespace and name
