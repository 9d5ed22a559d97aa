"""What is done for one workload of which something was observed: it is read, and brought up to date with its pods.

Of most of what is observed while a cluster fills, that a bind took effect or a claim was given its devices, nothing
follows that is read: it is the same pods, of the same objects. Then a workload is only brought up to date.
"""

from __future__ import annotations

from tutti.engine.admission import patience
from tutti.engine.backfill import backfill
from tutti.engine.cycle.state import State
from tutti.engine.ingest import specs
from tutti.engine.lifecycle import reconciliation
from tutti.engine.records.workloads import Workload


def bring_up_to_date(state: State, workload: Workload) -> None:
    """Read what a workload asks for, and do what follows from what was observed of it."""
    specs.read_workload(state, workload)
    _go_on(state, workload)


def follow_binds(state: State, workload: Workload) -> None:
    """Do what follows from binds that took effect and claims that were written, where nothing else was observed."""
    if specs.reads_the_same(state, workload):
        specs.follow_queue_limit(state, workload)
    else:
        specs.read_workload(state, workload)
    _go_on(state, workload)


def _go_on(state: State, workload: Workload) -> None:
    """Do what follows for a workload that has been read."""
    reconciliation.reconcile(state, workload)
    backfill.note_expected_end(state, workload)
    patience.go_on_waiting(state, workload)
