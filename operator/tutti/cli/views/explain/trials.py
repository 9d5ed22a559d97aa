"""What could be done about it: each thing is tried out on an engine that is told that it had been done.

Which things are worth trying is a guess; what is said of them is not. So that the answer comes soon, only so many are
tried, the least first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from tutti.cli.views.asking import Asked
from tutti.cli.views.changing import Seen
from tutti.cli.views.explain.model import QuotaUse, Remedy, Room
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State
from tutti.quota.flavors import Queue


@dataclass(frozen=True, slots=True)
class Case:
    """A workload that waits, and why.

    Attributes:
        asked: Who can be asked about other clusters.
        state: What is known before anything is tried.
        why: What it waits for.
        needs: The pods that want nodes; none where that is not known yet.
        quota: What it asks of its queue.
        rooms: Where its pods could go.
    """

    asked: Asked
    state: State
    workload: Workload
    queue: Queue | None
    why: Explanation
    needs: Sequence[PodSetRequest]
    quota: Sequence[QuotaUse]
    rooms: Sequence[Room]

    @property
    def seen(self) -> Seen:
        """What was listed."""
        return self.asked.listed.seen


@dataclass(frozen=True, slots=True)
class Idea:
    """Something that could be done, and what would be seen then."""

    what: str
    seen: Seen


def helping(case: Case, ideas: Iterable[Idea], *, good: int, most: int) -> list[Remedy]:
    """Try at most so many ideas in order, and return the first few after which the workload would be placed."""
    found: list[Remedy] = []
    for idea in islice(ideas, most):
        remedy = tried(case, idea)
        if not remedy.then:
            found.append(remedy)
        if len(found) == good:
            break
    return found


def tried(case: Case, idea: Idea) -> Remedy:
    """Try an idea; room that others are taken out for counts as had."""
    then = case.asked.what_if(idea.seen, case.workload.key)
    if then is None:
        return Remedy(idea.what)
    if then.gate is Gate.VICTIMS:
        return Remedy(f"{idea.what}: {then.message.partition(';')[0]}")
    return Remedy(idea.what, then.message)
