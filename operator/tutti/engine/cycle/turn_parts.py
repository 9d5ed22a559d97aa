"""What is done once in each turn for all, and when it is due though nothing is observed.

Each part is a bulkhead (`CoreState.attempt_part`): one that raises is left out until its backoff is over, and the rest
of the turn goes on. What it does for one object or workload is a bulkhead inside of it, so that this one is left out or
set aside, and nobody else. A part that is left out is due when it is looked at again, whatever time it would name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

from tutti.engine.admission import node_load, throttling
from tutti.engine.backfill import overdue_heads
from tutti.engine.cycle.state import State
from tutti.engine.ingest import managed_owners
from tutti.engine.lifecycle import network_objects, permits, reconciliation
from tutti.engine.preemption import moves, nominations
from tutti.engine.queue import predecessors
from tutti.engine.records.faults import part_of_turn
from tutti.engine.records.workloads import Workload
from tutti.engine.status import queue_statuses, reporting, throttle_statuses

RINGS: Final = "finding who waits for himself"
POSITIONS: Final = "telling positions"
THROTTLES_TOLD: Final = "telling throttles"
_WINDOWS: Final = "following windows of quota"
_UNMADE: Final = "telling what is not made"
_LOAD: Final = "following what nodes use"
_MOVES: Final = "following moves"
_NOMINATIONS: Final = "following nominations"


def _follow_windows(state: State) -> None:
    if state.catalog.windows.turns_at <= state.now:
        state.follow_windows()


def _recheck_held(state: State) -> None:
    if state.plugins or state.plugin_host.recheck_at is not None:
        permits.recheck_held(state)


def _spare_victims(state: State) -> None:
    if state.nominations.needless:
        nominations.spare_victims(state)


_FIRST: Final[tuple[tuple[str, Callable[[State], object]], ...]] = (
    (_WINDOWS, _follow_windows),
    ("taking over queues", lambda state: state.renew()),
    ("following what nodes offer", lambda state: state.follow_nodes()),
    ("following what drivers publish", lambda state: state.follow_devices()),
    ("following throttles", throttling.follow_throttles),
    (_UNMADE, managed_owners.tell_unmade),
    (_LOAD, node_load.follow_load),
    ("following the network", network_objects.follow_network),
    ("looking at what plugins hold", _recheck_held),
    (_NOMINATIONS, nominations.refresh_nominations),
    ("sparing victims", _spare_victims),
)
"""What workloads refer to, in the order in which it is followed."""

_DUE: Final[tuple[tuple[str, Callable[[State], float | None]], ...]] = (
    ("", reconciliation.next_held_due),
    (_NOMINATIONS, nominations.next_nomination_due),
    ("", lambda state: state.backfill_reservations.next_due()),
    (overdue_heads.TURNS, overdue_heads.next_turn_due),
    ("", queue_statuses.next_queues_due),
    (POSITIONS, reporting.next_refresh_due),
    (queue_statuses.OVERUSE, queue_statuses.next_overuse_due),
    (_WINDOWS, lambda state: state.catalog.windows.turns_at),
    (_UNMADE, managed_owners.next_unmade_due),
    (THROTTLES_TOLD, throttle_statuses.next_throttles_due),
    (RINGS, predecessors.next_rings_due),
    (_LOAD, node_load.next_load_due),
    ("", lambda state: state.faults.next_due(state.now)),
)
"""The parts that are due though nothing is observed, and when; "" for one that is never left out as a whole."""


def follow(state: State) -> None:
    """Do all that workloads refer to, before these are reconciled."""
    for name, act in _FIRST:
        state.attempt_part(name, partial(act, state), None)


def next_due(state: State) -> float | None:
    """Return when a part is due though nothing is observed, Unix seconds; None: none is."""
    times = []
    for name, due in _DUE:
        until = state.faults.until(part_of_turn(name)[:3], state.now) if name and state.faults else None
        times.append(due(state) if until is None else until)
    return min((time for time in times if time is not None and time < math.inf), default=None)


def is_more_due(state: State) -> bool:
    """Whether more workloads have to be looked at, for whom they wait for or who is moved."""
    left_out = state.faults and state.faults.until(part_of_turn(RINGS)[:3], state.now) is not None
    if not left_out and predecessors.rings_are_due(state):
        return True
    return state.attempt_part(_MOVES, partial(moves.follow_moves, state), otherwise=False)


def tell_followers(state: State, workload: Workload) -> None:
    """Have those looked at who wait for a workload that fares otherwise now."""
    predecessors.notice(state, workload.key)
