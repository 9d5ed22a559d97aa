"""Positions, and when to expect a start: told anew for their own sake, but never in a storm.

Every admission moves all those behind it, so a position that is written whenever it changes costs a write for each
workload that waits, each time. The rule here: a position is written along with a new reason; apart from that, only
every `LOOK_SECONDS`, in queues in which something happened, at most `MOST_WRITES` workloads are told anew. First come
those whose position is most wrong (told 50 and now 10 before told 50 and now 40), then the one nearer to the head. So
there are never more than `MOST_WRITES` in `LOOK_SECONDS`, whatever happens; who is next is told soonest; and in a queue
that has come to rest every position becomes right.

With them goes when the first few of a queue start, where that can be known (`status/foresight.py`); that is worked out
for one queue after the other, so that no turn takes long. It is written when it has become known, is known no more, or
lies elsewhere by more than a minute and a tenth of the wait.
"""

from __future__ import annotations

from collections.abc import Mapping

from tutti.engine.state import State
from tutti.engine.status.foresight import FORESEEN, foresee
from tutti.engine.status.reporting import tell_status
from tutti.engine.status.statuses import Place, told_start

LOOK_SECONDS = 10.0
"""How often it is looked at who is told what is not so any more."""

MOST_WRITES = 100
"""How many workloads are told anew at once."""

FORESEE_SECONDS = 1.0
"""How often, at most, the future of a queue is worked out, one after the other."""

SLACK = 0.1
"""By which part of the wait an expected start may be wrong before it is told anew."""

LEAST_SLACK = 60.0
"""By how many seconds it may always be."""


def next_due(state: State) -> float | None:
    """Return when to look although nothing is observed, Unix seconds."""
    times = (state.places.look_at, state.places.foresee_at)
    return min((time for time in times if time is not None), default=None)


def retell(state: State) -> None:
    """Tell anew where those stand who were told something else, if it is time to."""
    places = state.places
    if places.moved and places.look_at is None and places.queues():
        places.look_at = state.now + LOOK_SECONDS
    if places.look_at is not None and places.look_at <= state.now:
        _tell_positions(state)
    if places.foresee_at is not None and places.foresee_at <= state.now:
        _foresee_one(state)


def _tell_positions(state: State) -> None:
    """Tell the most wrong positions anew, and have the future of the same queues worked out."""
    places = state.places
    moved, places.moved, places.look_at = places.moved, {}, None
    queues = _beside(state, moved)
    wrong = places.most_wrong(queues, MOST_WRITES)
    for position, workload in wrong:
        tell_status(state, workload, Place(position, told_start(workload) if position <= FORESEEN else None))
    if len(wrong) == MOST_WRITES:
        places.moved, places.look_at = dict.fromkeys(queues), state.now + LOOK_SECONDS
    places.unforeseen.update((name, None) for name in queues if state.ending or name in places.expecting)
    if places.unforeseen and places.foresee_at is None:
        places.foresee_at = state.now


def _foresee_one(state: State) -> None:
    """Work out the future of one queue, and tell its heads who expect another start than they were told."""
    places = state.places
    name = next(iter(places.unforeseen))
    del places.unforeseen[name]
    places.foresee_at = state.now + FORESEE_SECONDS if places.unforeseen else None
    queue = state.catalog.queues.get(name)
    starts = {} if queue is None else foresee(state, queue)
    places.expecting.pop(name, None)
    for position, workload in enumerate(places.heads(name, FORESEEN), start=1):
        said, at = told_start(workload), starts.get(workload.key)
        if workload.uid and workload.shown is not None and not _holds(state, said, at):
            tell_status(state, workload, Place(position, at))
        elif said is not None:
            places.expecting[name] = None


def _beside(state: State, moved: Mapping[str, None]) -> list[str]:
    """Return the queues with anybody in them in whose trees something happened, those where it did first."""
    roots = {state.ledger.root_of(name) for name in moved}
    known = [name for name in state.places.queues() if state.ledger.root_of(name) in roots]
    return sorted(known, key=lambda name: name not in moved)


def _holds(state: State, told: float | None, at: float | None) -> bool:
    """Whether an expected start that was told is still near enough."""
    if told is None or at is None:
        return told is at
    return abs(told - at) <= max(LEAST_SLACK, SLACK * (at - state.now))
