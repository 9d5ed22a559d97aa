"""Bulkheads: what one object makes the engine raise costs that object only.

What an observation or a workload's turn raises (any Exception, RecursionError and MemoryError among them) is a fault of
ours or of what a tenant wrote, and nobody else may wait because of it. What was reserved for that workload is given
back, it is set aside with the fault as its explanation, and looked at again after a backoff that doubles, or not at
all once it is gone. What it has bound stays charged and counted. Everything else goes on; transactions on columns and
quota undo themselves as the error passes through them.

What is done once a turn for many has the same, one by one (`CoreState.attempt`).

A fault comes again in a replay wherever the error follows from what was observed. One that does not, such as a
MemoryError, shows there as a difference.
"""

from __future__ import annotations

from tutti.api.conditions import timestamp
from tutti.engine.admission import quota_holdback
from tutti.engine.backfill import backfill
from tutti.engine.lifecycle import reservation
from tutti.engine.lifecycle.phases import explain
from tutti.engine.preemption import nominations
from tutti.engine.queue import QueueState
from tutti.engine.records.decisions import error_text, fault_of
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.faults import Faults
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey


class Bulkheads:
    """Which workloads are set aside, and until when."""

    def __init__(self) -> None:
        self._faults = Faults()

    def is_shut(self, state: QueueState, workload: Workload) -> bool:
        """Whether a workload is set aside now; it is looked at again when it is not any more."""
        until = self._faults.until(workload.key, state.now) if self._faults else None
        if until is None:
            return False
        state.set_alarm(workload, until)
        return True

    def forget(self, key: WorkloadKey) -> None:
        """Forget a workload that is gone."""
        self._faults.forget(key)

    def set_aside(self, state: QueueState, workload: Workload, error: Exception, during: str) -> None:
        """Have a workload wait by itself after its turn has raised; `during` says which part of it.

        What it still has in memory only, a reservation that is not bound and room that is kept for it, is given back.
        """
        key = workload.key
        fault = self._faults.note(key, state.now, state.fault_seconds)
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
