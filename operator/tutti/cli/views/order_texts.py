"""What the order of a queue says of who waits in it, for people: a score, what it is made of, and how sure that is."""

from __future__ import annotations

from tutti.api.messages import counted
from tutti.cli.views.drawing import ago
from tutti.engine.admission.queue_orders import StateFacts
from tutti.engine.records.line_order import Traits
from tutti.engine.records.workloads import Workload
from tutti.engine.status import StatusState
from tutti.quota.queue_order import BY_RUN_TIME, QueueOrder
from tutti.quota.run_times import seconds_expected


def order_named(order: QueueOrder) -> str:
    """Return what an order goes by, with weights where there are several."""
    several = len(order.weights) > 1
    return " + ".join(
        f"{weight} {factor.value}" if several else factor.value for factor, weight in order.weights.items()
    )


def order_said(state: StatusState, workload: Workload) -> str:
    """Return what the order of its queue says of a workload that waits; "" where it has none."""
    sorting = state.queue_positions.sorting(state.leads_to(workload.key[1], workload.queue))
    if sorting is None or workload.traits is None:
        return ""
    order, since = sorting.order, workload.stands_since
    if order.is_overdue(since, state.now):
        return f"it has waited for {ago(order.max_wait)} (maxWaitSeconds), and goes first"
    at = sorting.standpoint(workload.traits, state.now - since)
    parts = ", ".join(f"{factor.value} {value:.2f}" for factor, value in order.values(at).items())
    score = float(order.score(at))
    runs = f"; {expected_said(state, order, workload, workload.traits)}" if order.goes_by(BY_RUN_TIME) else ""
    return f"score {score:.3f}: {parts}{runs}; first after {ago(since + order.max_wait - state.now)} at the latest"


def expected_said(state: StatusState, order: QueueOrder, workload: Workload, traits: Traits) -> str:
    """Return for how long a workload is expected to run, by what, and how far that was wrong for others."""
    known = StateFacts(state).expected(traits.local_queue, traits.kind)
    seconds = seconds_expected(
        known, said=float(workload.said_seconds), limit=traits.limit, otherwise=order.run_seconds
    )
    said = "as it says" if traits.said else ""
    if known is not None:
        runs = f"{counted(known.runs, 'run')} of its kind took {ago(known.seconds)} ± {ago(known.error)}"
        said = f"{said}; {runs}" if said else runs
    elif not said:
        said = "its limit" if traits.limit else "nothing is known of its kind"
    return f"expected to run for {ago(seconds)} ({said})"
