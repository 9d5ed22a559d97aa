"""What the steps of a turn share: who stands in line, who is set aside, and of whom something is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tutti.engine.backfill import backfill
from tutti.engine.cycle.state import State
from tutti.engine.ingest import promises
from tutti.engine.lifecycle import member_loss
from tutti.engine.queue import predecessors
from tutti.engine.queue.bulkhead import Bulkheads
from tutti.engine.queue.scheduling_queue import SchedulingQueue
from tutti.engine.records.decisions import fault_of
from tutti.engine.records.workloads import Workload, WorkloadKey


class SchedulingCycle:
    """The line of those who wait, and what a turn has come to so far.

    Attributes:
        state: What the engine knows.
        queue: The workloads that want nodes.
        changed: Of whom something is reported at the end of this turn.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.changed: dict[WorkloadKey, Workload] = {}
        self._bulkheads = Bulkheads()
        self.queue = self._empty_queue()

    def _empty_queue(self) -> SchedulingQueue:
        queue = SchedulingQueue(self._bulkheads, self.state.share_debts.pending)
        self.state.queue_positions.sorting = queue.sorting_of
        return queue

    def note(self, workloads: Iterable[Workload]) -> None:
        """Have something reported of these workloads at the end of the turn."""
        self.changed.update((workload.key, workload) for workload in workloads)

    # bulkheads: what raises costs the workload that it raises for, and nobody else

    def guard_open(self, workload: Workload, during: str, act: Callable[[State, Workload], object]) -> None:
        """Do something for a workload unless it is set aside."""
        if not self._bulkheads.is_shut(self.state, workload):
            self.guard(workload, during, act)

    def guard(self, workload: Workload, during: str, act: Callable[[State, Workload], object]) -> bool:
        """Do something for a workload, and set it aside where that raises; returns whether it was done."""
        try:
            act(self.state, workload)
        except Exception as error:  # noqa: BLE001 - a bulkhead: whatever it is, it is this workload's
            self._set_aside(workload, error, during)
            return False
        return True

    def set_aside(self, workload: Workload, error: Exception, during: str) -> None:
        """Take a workload out of the line for which something raised, and set it aside."""
        self.queue.drop(workload)
        self._set_aside(workload, error, during)

    def _set_aside(self, workload: Workload, error: Exception, during: str) -> None:
        self._bulkheads.set_aside(self.state, workload, error, during)
        self.note([workload])

    def set_aside_raised(self) -> None:
        """Set those aside for whom something raised that is done for many at once."""
        raised, self.state.raised = self.state.raised, {}
        for key, (error, during) in raised.items():
            workload = self.state.workloads.get(key)
            if workload is not None:
                self.set_aside(workload, error, during)

    def begin_anew(self, error: Exception) -> None:
        """Go on after a turn has raised at nobody in particular: have everybody stand in line anew, and be looked at.

        What was decided before it did stands: it has been reserved and is on its way.
        """
        state = self.state
        state.out.append(fault_of(("Engine", "", ""), error, "deciding"))
        state.share_debts.pending.clear()
        self.queue = self._empty_queue()
        state.quota_holdbacks.clear()
        state.dirty.update(dict.fromkeys(state.workloads, False))

    def forget(self, workload: Workload) -> None:
        """Remember nothing of a workload of which nothing is left."""
        state, key = self.state, workload.key
        self.changed.pop(key, None)
        backfill.forget_expected_end(state, key)
        promises.forget_promises(state, key)
        self._bulkheads.forget(key)
        member_loss.forget_losses(state, workload)
        self.queue.drop(workload)
        state.forget(workload)
        predecessors.forget(state, key)
