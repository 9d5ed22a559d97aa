"""Positions, and when to expect a start: told anew for their own sake, but never in a storm.

Every admission moves all those behind it, so a position that is written whenever it changes costs a write for each
workload that waits, each time. The rule here: a position is written along with a new reason; apart from that, only
every `LOOK_SECONDS`, in queues in which something happened, at most `MOST_WRITES` workloads are told anew. First come
those whose position is most wrong (told 50 and now 10 before told 50 and now 40), then the one nearer to the head. So
there are never more than `MOST_WRITES` in `LOOK_SECONDS`, whatever happens; who is next is told soonest; and in a queue
that has come to rest every position becomes right.

With them goes when the first few of a queue start, where that can be known (`foresight.py`). It is written when it has
become known, is known no more, or lies elsewhere by more than a tenth of the wait and a minute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tutti.engine.foresight import FORESEEN, foresee, known_ends
from tutti.engine.reporting import tell_status
from tutti.engine.state import State
from tutti.engine.statuses import Place, told_start
from tutti.engine.workloads import Workload

LOOK_SECONDS = 10.0
"""How often it is looked at who is told what is not so any more."""

MOST_WRITES = 100
"""How many workloads are told anew at once."""

MOST_QUEUES = 4
"""Of how many queues the future is worked out at once; the others follow."""

SLACK = 0.1
"""By which part of the wait an expected start may be wrong before it is told anew."""

LEAST_SLACK = 60.0
"""By how many seconds it may always be."""


def next_due(state: State) -> float | None:
    """Return when to look although nothing is observed, Unix seconds."""
    return state.places.look_at


def retell(state: State) -> None:
    """Tell anew where those stand who were told something else, if it is time to."""
    places = state.places
    if places.moved and places.look_at is None and places.queues():
        places.look_at = state.now + LOOK_SECONDS
    if places.look_at is None or state.now < places.look_at:
        return
    moved, places.moved, places.look_at = places.moved, {}, None
    queues = _beside(state, moved)
    heads, later = _heads_told_wrong(state, queues)
    places.moved.update(dict.fromkeys(later))
    wrong = places.most_wrong(queues, MOST_WRITES - len(heads))
    told = {workload.key for workload, _ in heads}
    heads += [(workload, _as_told(workload, position)) for position, workload in wrong if workload.key not in told]
    for workload, place in heads:
        tell_status(state, workload, place)
    if len(wrong) + len(told) >= MOST_WRITES:
        places.moved.update(dict.fromkeys(queues))
    if places.moved:
        places.look_at = state.now + LOOK_SECONDS


def _beside(state: State, moved: Mapping[str, None]) -> list[str]:
    """Return the queues with anybody in them in whose trees something happened, those where it did first."""
    roots = {state.holdings.root_of(name) for name in moved}
    known = [name for name in state.places.queues() if state.holdings.root_of(name) in roots]
    return sorted(known, key=lambda name: name not in moved)


def _heads_told_wrong(state: State, queues: Sequence[str]) -> tuple[list[tuple[Workload, Place]], Sequence[str]]:
    """Return the heads of the first queues that expect another start than they were told, with their places.

    Also the queues that were left for later. Where no end is known, only those are looked at that were told one.
    """
    ends = known_ends(state)
    concerned = [name for name in queues if ends or name in state.places.expecting]
    out: list[tuple[Workload, Place]] = []
    for name in concerned[:MOST_QUEUES]:
        queue = state.catalog.queues.get(name)
        starts = {} if queue is None else foresee(state, queue, ends)
        state.places.expecting.pop(name, None)
        for position, workload in enumerate(state.places.line(name)[:FORESEEN], start=1):
            said, at = told_start(workload), starts.get(workload.key)
            if workload.uid and workload.shown is not None and not _holds(state, said, at):
                out.append((workload, Place(position, at)))
            elif said is not None:
                state.places.expecting[name] = None
    return out, concerned[MOST_QUEUES:]


def _as_told(workload: Workload, position: int) -> Place:
    """Return a new position, and the start that was told before; none for those that are not foreseen any more."""
    return Place(position, told_start(workload) if position <= FORESEEN else None)


def _holds(state: State, told: float | None, at: float | None) -> bool:
    """Whether an expected start that was told is still near enough."""
    if told is None or at is None:
        return told is at
    return abs(told - at) <= max(LEAST_SLACK, SLACK * (at - state.now))
