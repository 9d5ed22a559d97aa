"""When those at the head of a queue will start, as far as it is known when running work ends.

Work whose execution time is limited gives its quota and its nodes back by a time that is known. Going from one such
end to the next, those who wait are started as their queue would start them: in a strict queue one after the other, in
any other whoever fits first, the one before first. What each is given counts for those after it, and what ends by
itself in turn gives back as well.

Quotas that change at known times (`tutti.quota.windows`) do so here, too: each such time is an end at which nothing is
given back. Between two of them more ends never take anything away; beyond one, what fitted before may not fit.

It is an estimate: it looks at quota and at room on nodes, not at what pods want of one another, and knows nobody who
is yet to come. Where the needed end is not known, nothing is said.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.quota.tree import FlavorResource, QuotaTree, Usage, add_to
from tutti.quota.windows import Quotas, QuotaStep

Amounts = NDArray[np.int64]
Mask = NDArray[np.bool_]


class FlavorOption(NamedTuple):
    """One way to count equal pods: what all of them use of quota, and bool[nodes], where they may be."""

    usage: Mapping[FlavorResource, int]
    nodes: Mask


@dataclass(frozen=True, slots=True)
class EqualPods:
    """Equal pods that must start together.

    Attributes:
        count: How many.
        requests: int64[resources], what each takes on its node, in scheduling units.
        ways: In the order to try.
    """

    count: int
    requests: Amounts
    ways: Sequence[FlavorOption]


@dataclass(frozen=True, slots=True)
class PendingWorkload:
    """Somebody who waits.

    Attributes:
        queue: The ClusterQueue.
        pods: What must start together.
        seconds: How long it may run; None: nobody knows.
    """

    queue: str
    pods: Sequence[EqualPods]
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ExpectedEnd:
    """Running work that gives back what it has.

    Attributes:
        at: When, Unix seconds, at the latest.
        queue: The ClusterQueue, which may be one that the tree does not know.
        usage: What it uses of quota.
        rows: int64[n], nodes it is on, which may repeat.
        taken: int64[n, resources], what it takes there.
    """

    at: float
    queue: str
    usage: Mapping[FlavorResource, int]
    rows: NDArray[np.int64]
    taken: Amounts


def estimate_starts(
    now: float,
    tree: QuotaTree,
    free: Amounts,
    ends: Sequence[ExpectedEnd],
    line: Sequence[PendingWorkload],
    *,
    strict: bool,
    steps: Sequence[QuotaStep] = (),
) -> list[float | None]:
    """Return when each of a line starts.

    Args:
        now: Unix seconds.
        tree: The quota tree; it is left as it is.
        free: int64[nodes, resources], what is free on each node; negative where too much is taken.
        ends: Of running work, in any order.
        line: Those who wait in one queue, the next one first.
        strict: Whether nobody may start before the one before has.
        steps: When queues have other quotas, the first time first; all lie ahead.

    Returns:
        For each Unix seconds, `now` where it could start at once; None where no known end lets it.
    """
    asked = np.zeros(free.shape[1], dtype=np.bool_)
    for pods in (pods for one in line for pods in one.pods):
        asked |= pods.requests != 0
    ends = sorted([*ends, *(_boundary(step, free.shape[1]) for step in steps)], key=_at)
    ends = [replace(end, taken=end.taken[:, asked]) for end in ends]
    line = [replace(one, pods=[replace(pods, requests=pods.requests[asked]) for pods in one.pods]) for one in line]
    timeline = _Timeline(now, tree, free[:, asked], ends, steps)
    out: list[float | None] = [None] * len(line)
    waiting = list(range(len(line)))
    needed = _EndsNeeded(timeline, line)
    while waiting:
        found = needed.next_of(waiting[:1] if strict else waiting)
        if found is None:
            break
        index, passed = found
        out[index] = timeline.start(line[index], passed)
        waiting.remove(index)
        needed.pass_ends(passed)
    timeline.begin_anew()
    return out


class _Taken(NamedTuple):
    """What pods have been given: quota, and how much on which rows."""

    usage: Usage
    rows: NDArray[np.int64]
    amounts: Amounts


@dataclass(slots=True)
class _Timeline:
    """Quota and nodes after the first so many ends.

    Attributes:
        steps: When queues have other quotas.
        free: What is free before any of the ends, of which those who were started have taken theirs.
        ends: In order of time.
        passed: After how many of them the tree is at present.
        held: After how many of the steps the tree has its quotas.
        usual: What the queues that have others later have now.
        given: What was charged in the tree for those who were started.
        back: What all ends give back, one after the other, on which rows; and from where on each of them does.
    """

    now: float
    tree: QuotaTree
    free: Amounts
    ends: list[ExpectedEnd]
    steps: Sequence[QuotaStep] = ()
    passed: int = 0
    held: int = 0
    usual: Mapping[str, Quotas] = field(init=False)
    given: list[tuple[str, Usage]] = field(default_factory=list)
    back: tuple[NDArray[np.int64], Amounts, NDArray[np.int64]] = field(init=False)

    def __post_init__(self) -> None:
        known = ((name, self.tree.node(name)) for step in self.steps[:1] for name in step.quotas)
        self.usual = {name: node.quotas for name, node in known if node is not None}
        self._line_up()

    def ends_needed(self, one: PendingWorkload, least: int) -> int:
        """Return after how many ends, at least `least`, somebody fits; one more than there are where never.

        Those that end at one time end together.
        """
        for first, last in self._stretches():
            needed = self._needed_within(one, max(least, first), last) if least <= last else None
            if needed is not None:
                return bisect_right(self.ends, self.ends[needed - 1].at, key=_at) if needed else 0
        return len(self.ends) + 1

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """Yield after how many ends at least and at most the same quotas hold, one after the other."""
        first = 0
        for step in self.steps:
            yield first, bisect_left(self.ends, step.at, key=_at)
            first = bisect_right(self.ends, step.at, key=_at)
        yield first, len(self.ends)

    def _needed_within(self, one: PendingWorkload, low: int, last: int) -> int | None:
        """Return after how many ends from `low` to `last` somebody fits; None where after none of them."""
        high, step = low, 1
        while self._take(one, high) is None:
            if high == last:
                return None
            low, high, step = high + 1, min(high + step, last), 2 * step
        return bisect_left(range(high), True, lo=low, key=lambda passed: self._take(one, passed) is not None)

    def start(self, one: PendingWorkload, passed: int) -> float:
        """Give somebody what it wants after so many ends; return when that is, Unix seconds."""
        taken = self._take(one, passed)
        assert taken is not None  # it has been found to fit
        at = self.ends[passed - 1].at if passed else self.now
        self.tree.add(one.queue, taken.usage)
        self.given.append((one.queue, taken.usage))
        np.subtract.at(self.free, taken.rows, taken.amounts)
        if one.seconds is not None:
            # Never before those that have passed: at equal times it ends after them.
            insort(self.ends, ExpectedEnd(at + one.seconds, one.queue, *taken), lo=passed, key=_at)
            self._line_up()
        return at

    def begin_anew(self) -> None:
        """Leave the tree as it was found."""
        self._go_to(0)
        while self.given:
            self.tree.remove(*self.given.pop())

    def _take(self, one: PendingWorkload, passed: int) -> _Taken | None:
        """Return what somebody would be given after so many ends; None where it does not fit."""
        self._go_to(passed)
        free = self._free_after(passed)
        used: list[Usage] = []
        rows, amounts = [np.zeros(0, dtype=np.int64)], [free[:0]]
        for pods in one.pods:
            found = self._place(one.queue, pods, free)
            if found is None:
                break
            usage, many = found
            self.tree.add(one.queue, usage)
            used.append(usage)
            rows.append(np.flatnonzero(many))
            amounts.append(many[rows[-1], None] * pods.requests)
        for usage in reversed(used):
            self.tree.remove(one.queue, usage)
        if len(used) < len(one.pods):
            return None
        return _Taken(_sum(used), np.concatenate(rows), np.concatenate(amounts))

    def _place(self, queue: str, pods: EqualPods, free: Amounts) -> tuple[Usage, NDArray[np.int64]] | None:
        """Return the quota and int64[nodes], how many on each, of the first way that fits; what they take is taken."""
        asked = np.flatnonzero(pods.requests)
        for way in pods.ways:
            if queue in self.tree.queues and not self.tree.fits(queue, way.usage):
                continue
            room = way.nodes * pods.count
            if len(asked):
                room = np.minimum(room, np.clip((free[:, asked] // pods.requests[asked]).min(axis=1), 0, None))
            many = np.clip(pods.count - (np.cumsum(room) - room), 0, room)
            if int(many.sum()) == pods.count:
                free -= many[:, None] * pods.requests
                return dict(way.usage), many
        return None

    def _free_after(self, passed: int) -> Amounts:
        free = self.free.copy()
        rows, taken, offsets = self.back
        np.add.at(free, rows[: offsets[passed]], taken[: offsets[passed]])
        return free

    def _line_up(self) -> None:
        none = ExpectedEnd(0.0, "", {}, np.zeros(0, dtype=np.int64), self.free[:0])
        each = [none, *self.ends]
        offsets = np.cumsum([len(end.rows) for end in each])
        self.back = np.concatenate([end.rows for end in each]), np.concatenate([end.taken for end in each]), offsets

    def _go_to(self, passed: int) -> None:
        for end in self.ends[self.passed : passed]:
            self.tree.remove(end.queue, end.usage)
        for end in reversed(self.ends[passed : self.passed]):
            self.tree.add(end.queue, end.usage)
        self.passed = passed
        at = self.ends[passed - 1].at if passed else self.now
        held = sum(step.at <= at for step in self.steps) if passed else 0
        if held != self.held:
            self.held = held
            self.tree.change_quotas(self.steps[held - 1].quotas if held else self.usual)


def _boundary(step: QuotaStep, resources: int) -> ExpectedEnd:
    """Return the end of nothing at the time when quotas change."""
    return ExpectedEnd(step.at, "", {}, np.zeros(0, dtype=np.int64), np.zeros((0, resources), dtype=np.int64))


def _at(end: ExpectedEnd) -> float:
    return end.at


def _sum(parts: Sequence[Usage]) -> Usage:
    total: Usage = {}
    for part in parts:
        add_to(total, part)
    return total


class _EndsNeeded:
    """After how many ends each of a line fits, as far as that has been worked out."""

    def __init__(self, timeline: _Timeline, line: Sequence[PendingWorkload]) -> None:
        self._timeline = timeline
        self._line = line
        self._least = [0] * len(line)  # how many each needs at least

    def next_of(self, waiting: Sequence[int]) -> tuple[int, int] | None:
        """Return who of some starts next, and after how many ends; of several after the same end the first in line.

        How many one needs at least is kept. More never become fewer: others only take, and what one gives back when it
        ends it has taken before.
        """
        best: tuple[int, int] | None = None
        least = self._least
        for index in waiting:
            if best is not None and least[index] >= best[1]:
                continue
            least[index] = self._timeline.ends_needed(self._line[index], least[index])
            if least[index] <= len(self._timeline.ends) and (best is None or least[index] < best[1]):
                best = index, least[index]
        return best

    def pass_ends(self, count: int) -> None:
        """Note that nobody starts before so many ends any more."""
        self._least = [max(known, count) for known in self._least]
