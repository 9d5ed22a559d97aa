"""What the status of a ClusterQueue says of what is moved for workloads of it, and was within the last hour."""

from __future__ import annotations

from typing import Any

from tutti.api.conditions import timestamp
from tutti.api.kinds.consolidation import MOST_MOVES
from tutti.api.resources import format_amount
from tutti.engine.records.moves import AGAIN_SECONDS, Home, KeptPlace
from tutti.engine.records.workloads import WorkloadKey
from tutti.engine.status import StatusState
from tutti.quota.flavors import VIRTUAL


def moves_of(state: StatusState, queue: str) -> list[dict[str, Any]] | None:
    """Return `status.moves` of a ClusterQueue; None where there is nothing to say."""
    plan = state.moves.plans.get(queue)
    said = []
    for piece in () if plan is None else plan.pieces:
        assert plan is not None  # it has pieces
        pods = [_pod(place) for place in piece.places]
        said.append({**_move(piece.home, plan.at, plan.key, piece.priority), "pods": pods})
    past = [one for one in state.moves.past.get(queue, ()) if one.at + AGAIN_SECONDS > state.now]
    said += [_move(one.home, one.at, one.key, one.priority) for one in past]
    return said[:MOST_MOVES] or None


def _move(home: Home, at: float, key: WorkloadKey, priority: int) -> dict[str, Any]:
    kind, namespace, name = home
    said = {"kind": kind, "namespace": namespace, "name": name, "at": timestamp(at), "movedFor": "/".join(key)}
    return said | ({"priority": priority} if priority else {})


def _pod(place: KeptPlace) -> dict[str, Any]:
    requests = {name: format_amount(name, amount) for name, amount in sorted(place.amounts.items()) if name != VIRTUAL}
    said: dict[str, Any] = {"name": place.pod[1], "uid": place.uid, "node": place.node, "requests": requests}
    if place.charge is not None:
        said |= {"clusterQueue": place.charge.queue, "flavors": dict(place.charge.flavors)}
    return said
