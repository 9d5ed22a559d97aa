"""Which running pods could be moved so that a workload fits, whether or not its queue allows that yet.

Asked is an engine whose ClusterQueue allows as many moves as any may, and in which nobody else waits, so that what it
says is what would be done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tutti.api.kinds.consolidation import MOST_MOVES
from tutti.api.messages import IS, agreeing, counted
from tutti.cli.views.explain.changes import UnplacedWorkload
from tutti.cli.views.explain.model import MovedWork, Remedy
from tutti.cli.views.what_if import with_object, without_pods
from tutti.engine.cycle.state import State
from tutti.engine.records.moves import MovedPiece, MovePlan


def helpful_moves(case: UnplacedWorkload) -> Iterator[Remedy]:
    """Yield the moves by which a workload would fit, and what its ClusterQueue would have to say; nothing for none."""
    queue, key = case.queue, case.workload.key
    if queue is None:
        return
    others = {
        name
        for name, member in case.state.members.items()
        if member.pod.placeable and case.state.pod_group_of[name][0] != key
    }
    seen = with_object(without_pods(case.seen, others), "ClusterQueue", "", queue.name, _allow)
    engine = case.asked.stock(seen)
    engine.decide(case.asked.at)
    state = engine.state
    plan = next((one for one in state.moves.plans.values() if one.key == key), None)
    nomination = state.nominations.ours.get(key)
    if plan is None or nomination is None:
        return
    moved = tuple(_moved(state, piece) for piece in plan.pieces)
    yield Remedy(_told(plan, moved, nomination.nodes), moves=moved)


def _allow(raw: dict[str, Any]) -> None:
    raw["spec"]["consolidation"] = {**(raw["spec"].get("consolidation") or {}), "maxMoves": MOST_MOVES}


def _moved(state: State, piece: MovedPiece) -> MovedWork:
    places = piece.places
    kind, namespace, name = state.pod_group_of[places[0].pod][0]
    before = tuple(dict.fromkeys(state.cluster.pods[place.pod].place for place in places))
    return MovedWork(kind, namespace, name, len(places), before, tuple(dict.fromkeys(piece.nodes)))


def _told(plan: MovePlan, moved: tuple[MovedWork, ...], nodes: list[str]) -> str:
    pods = sum(one.pods for one in moved)
    each = [
        f"{one.kind} {one.namespace}/{one.name} ({counted(one.pods, 'pod')}) from {', '.join(one.source)} "
        f"to {', '.join(one.to)}"
        for one in moved
    ]
    fits = ", ".join(dict.fromkeys(nodes))
    allowed = f"ClusterQueue {plan.queue} has consolidation: {{maxMoves: {pods}}}"
    return f"{allowed}: then {'; '.join(each)} {agreeing(pods, IS)} moved, and it fits on {fits}"
