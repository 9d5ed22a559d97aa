"""Bulkheads: what one object makes the engine raise costs that object only.

What an observation or a workload's turn raises (any Exception, RecursionError and MemoryError among them) is a fault of
ours or of what a tenant wrote, and nobody else may wait because of it. What was reserved for that workload is given
back, it is set aside with the fault as its explanation, and looked at again after a backoff that doubles, or not at
all once it is gone. What it has bound stays charged and counted. Everything else goes on; transactions on columns and
quota undo themselves as the error passes through them.

A fault comes again in a replay wherever the error follows from what was observed. One that does not, such as a
MemoryError, shows there as a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tutti.api.conditions import timestamp
from tutti.engine.admission import quota_holdback
from tutti.engine.backfill import backfill
from tutti.engine.lifecycle import reservation
from tutti.engine.lifecycle.phases import explain
from tutti.engine.preemption import nominations
from tutti.engine.queue import QueueState
from tutti.engine.records.decisions import error_text, fault_of
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.quota.ordering import backoff_seconds

_FORGIVEN_SECONDS: Final = 3600.0
"""After so long without a fault the next one counts as the first."""


@dataclass(slots=True)
class Fault:
    """What a workload made the engine raise last.

    Attributes:
        times: How often it has, each time within an hour of the one before.
        at: When, Unix seconds.
        again_at: When it is looked at again.
    """

    times: int = 0
    at: float = 0.0
    again_at: float = 0.0


class Bulkheads:
    """Which workloads are set aside, and until when."""

    def __init__(self) -> None:
        self._faults: dict[WorkloadKey, Fault] = {}

    def is_shut(self, state: QueueState, workload: Workload) -> bool:
        """Whether a workload is set aside now; it is looked at again when it is not any more."""
        fault = self._faults.get(workload.key) if self._faults else None
        if fault is None or state.now >= fault.again_at:
            return False
        state.set_alarm(workload, fault.again_at)
        return True

    def forget(self, key: WorkloadKey) -> None:
        """Forget a workload that is gone."""
        self._faults.pop(key, None)

    def set_aside(self, state: QueueState, workload: Workload, error: Exception, during: str) -> None:
        """Have a workload wait by itself after its turn has raised; `during` says which part of it.

        What it still has in memory only, a reservation that is not bound and room that is kept for it, is given back.
        """
        backoff, key = state.configuration.backoff, workload.key
        fault = self._faults.setdefault(key, Fault())
        fault.times = fault.times + 1 if state.now < fault.at + _FORGIVEN_SECONDS else 1
        wait = backoff_seconds(fault.times, state.random, base=backoff.base_seconds, most=backoff.max_seconds)
        fault.at, fault.again_at = state.now, state.now + wait
        state.out.append(fault_of(key, error, during))
        if workload.phase in (Phase.WAITING, Phase.CHECKING, Phase.RESERVED):
            _let_go(state, workload)
        text = (
            f"it is set aside, because {during} it raised {error_text(error)}; everything else goes on. "
            f"It is looked at again at {timestamp(fault.again_at)}; please report this, with the log"
        )
        details = {"times": str(fault.times), "at": timestamp(fault.again_at)}
        explain(workload, Explanation(Gate.GATHER, "SetAside", text, details))
        workload.alarm = None  # what else it has to do, it does when it is looked at again
        state.set_alarm(workload, fault.again_at)


def _let_go(state: QueueState, workload: Workload) -> None:
    """Give back what a workload has in memory only; what cannot be given back stays until it is looked at again."""
    try:
        nominations.abandon_nomination(state, workload.key)
        backfill.release_reservation(state, workload.key)
        quota_holdback.drop_holdback(state, workload.key, workload.cluster_queue)
        reservation.break_up(state, workload)
    except Exception as error:  # noqa: BLE001 - the fault may lie in what is given back; the engine goes on without it
        state.out.append(fault_of(workload.key, error, "giving back"))
