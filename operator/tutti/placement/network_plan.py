"""Which pods of an application go to which site so that all of them together cost least.

A site is a node, or a place of many nodes. What a plan costs is a quadratic form in how many pods of each ask are on
each site: every pod with everyone it talks to, both inside the gang and among those that are placed. Where there are
few plans (`MOST_PLANS`) all of them are weighed, so that the one that is found is the best there is. Else plans are
begun greedily from several sites, and made better by moving and swapping pods until nothing helps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb, prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Plan = Counts
"""int64[asks, sites], how many pods of each ask are on each site."""

MOST_PLANS: Final = 20_000
"""So many are weighed all; it takes about 10 ms."""
MOST_SITES: Final = 32
"""Of more sites than these, those are looked at that cost least and have most room."""

_PLENTY: Final = 2**62
_MOST_SEEDS: Final = 6
_FEW_CELLS: Final = 64
"""Of larger plans than these only two sites are begun from."""
_MOST_STEPS: Final = 32
_MOST_SWAPS: Final = 16
_MOST_PAIRS: Final = 65_536
"""So many swaps at most are weighed at once; of larger plans pods are only moved."""
_PORTIONS: Final = 8


@dataclass(frozen=True, slots=True)
class PlanningProblem:
    """Pods that talk to one another, and sites that have room for them.

    Attributes:
        cost: int64[sites, sites], of a pod on the one that talks to a pod on the other.
        talks: int64[asks, asks], on how many accounts a pod of the one ask talks to each pod of the other.
        outside: int64[asks, sites], what a pod of each costs there with those that are placed already.
        room: int64[asks, sites], how many pods of each fit, if no others come.
        free: int64[sites, resources], what all of them share.
        request: int64[asks, resources], what a pod takes of it.
        wanted: int64[asks], how many pods there are.
    """

    cost: Counts
    talks: Counts
    outside: Counts
    room: Counts
    free: Counts
    request: Counts
    wanted: Counts

    def total(self, plan: Plan) -> int:
        """Return what a plan costs."""
        pairs = int((self.talks * (plan @ self.cost @ plan.T)).sum())
        itself = int(np.diagonal(self.talks) @ (plan @ np.diagonal(self.cost)))
        return int((self.outside * plan).sum()) + pairs - itself

    def marginal(self, plan: Plan) -> Counts:
        """Return int64[asks, sites]: what one more pod of each would cost on each site."""
        out: Counts = self.outside + self.talks @ (plan @ self.cost.T) + self.talks.T @ (plan @ self.cost)
        return out

    def fits(self, plan: Plan) -> bool:
        """Whether there is room for a plan, as far as sites as a whole tell."""
        return bool((plan <= self.room).all() and (plan.T @ self.request <= self.free).all())

    def left(self, plan: Plan) -> Counts:
        """Return int64[asks, sites]: how many more pods of each fit beside a plan."""
        beside = self.free - plan.T @ self.request
        takes = self.request[:, None, :] > 0
        most = np.where(takes, np.maximum(beside, 0) // np.maximum(self.request[:, None, :], 1), _PLENTY)
        left: Counts = np.minimum(self.room - plan, most.min(axis=2, initial=_PLENTY))
        return np.maximum(left, 0)

    @property
    def least(self) -> int:
        """What no plan can cost less than."""
        talking = self.talks * np.outer(self.wanted, self.wanted)
        pairs = int(talking.sum() - np.diagonal(self.talks) @ self.wanted)
        alone = np.where(self.room > 0, self.outside, _PLENTY).min(axis=1, initial=_PLENTY)
        return int(np.minimum(alone, 2**32) @ self.wanted) + int(self.cost.min(initial=_PLENTY)) * pairs

    def at(self, sites: NDArray[np.int64]) -> PlanningProblem:
        """Return the same on some sites only."""
        cost = self.cost[np.ix_(sites, sites)]
        return PlanningProblem(
            cost, self.talks, self.outside[:, sites], self.room[:, sites], self.free[sites], self.request, self.wanted
        )

    @property
    def plans(self) -> int:
        """How many ways there are to share out the pods, whatever room there is."""
        sites = len(self.cost)
        return prod(comb(count + sites - 1, sites - 1) for count in self.wanted.tolist()) if sites else 0


def plans(problem: PlanningProblem) -> Iterator[Plan]:
    """Yield plans that fit, the best first; of a problem with few plans every one."""
    sites = len(problem.cost)
    if not sites or (np.minimum(problem.room, problem.wanted[:, None]).sum(axis=1) < problem.wanted).any():
        return
    if problem.plans <= MOST_PLANS:
        yield from _every(problem)
        return
    if sites > MOST_SITES:
        kept = np.sort(np.lexsort((-problem.room.sum(axis=0), problem.outside.sum(axis=0)))[:MOST_SITES])
        for plan in plans(problem.at(kept)):
            whole = np.zeros((len(plan), sites), dtype=np.int64)
            whole[:, kept] = plan
            yield whole
        return
    found: dict[bytes, tuple[int, Plan]] = {}
    least = problem.least
    for begun in _begun(problem):
        plan = begun if problem.total(begun) == least else _better(problem, begun)
        total = problem.total(plan)
        known = plan.tobytes() in found
        found[plan.tobytes()] = (total, plan)
        if total == least and not known:  # nothing is better
            yield plan
    rest = (one for one in found.values() if one[0] > least)
    yield from (plan for _, plan in sorted(rest, key=lambda one: (one[0], one[1].tobytes())))


def _every(problem: PlanningProblem) -> Iterator[Plan]:
    """Yield every plan that fits, the best first; ties as the first ask, then the next, fill the first sites."""
    ways = [_ways(int(count), room) for count, room in zip(problem.wanted, problem.room, strict=True)]
    if not all(len(one) for one in ways):
        return
    asks = len(ways)
    total = np.zeros([len(one) for one in ways], dtype=np.int64)
    own = np.diagonal(problem.cost)
    for i, mine in enumerate(ways):
        alone = mine @ problem.outside[i]
        alone = alone + problem.talks[i, i] * (((mine @ problem.cost) * mine).sum(axis=1) - mine @ own)
        total += _along(alone, (i,), asks)
        for j in range(i + 1, asks):
            there = problem.talks[i, j] * (mine @ problem.cost @ ways[j].T)
            back = problem.talks[j, i] * (ways[j] @ problem.cost @ mine.T).T
            total += _along(there + back, (i, j), asks)
    for at in np.argsort(total, axis=None, kind="stable").tolist():
        chosen = np.unravel_index(at, total.shape)
        plan = np.stack([one[way] for one, way in zip(ways, chosen, strict=True)])
        if problem.fits(plan):
            yield plan


def _along(values: Counts, axes: Sequence[int], asks: int) -> Counts:
    """Return values by the ways of some asks as they stand among the ways of all."""
    shape = [1] * asks
    for axis, size in zip(axes, values.shape, strict=True):
        shape[axis] = size
    return values.reshape(shape)


def _ways(count: int, room: Counts) -> Counts:
    """Return int64[ways, sites]: every way to share out pods over sites with room for so many of them."""
    found: list[tuple[tuple[int, ...], int]] = [((), count)]
    for most, after in zip(room.tolist(), _after(room), strict=True):
        found = [
            ((*there, here), left - here)
            for there, left in found
            for here in range(min(most, left), -1, -1)
            if left - here <= after
        ]
    return np.array([there for there, _ in found], dtype=np.int64).reshape(-1, len(room))


def _after(room: Counts) -> list[int]:
    """Return for each site how many pods fit on those after it."""
    behind = np.cumsum(np.minimum(room, 2**31)[::-1])[::-1].tolist()
    return [*behind[1:], 0]


def _begun(problem: PlanningProblem) -> Iterator[Plan]:
    """Yield plans made greedily around the sites that have most room or cost least, in one go or in portions."""
    asks, sites = problem.outside.shape
    nothing = np.zeros((asks, sites), dtype=np.int64)
    whole = problem.left(nothing)
    served = np.minimum(whole, problem.wanted[:, None]).sum(axis=0)
    by_cost = np.lexsort((-served, problem.outside.sum(axis=0) + np.diagonal(problem.cost)))
    by_room = np.lexsort((problem.outside.sum(axis=0), -served))
    seeds = _MOST_SEEDS if asks * sites <= _FEW_CELLS else 1
    for seed in dict.fromkeys([*by_cost[:seeds].tolist(), *by_room[:seeds].tolist()]):
        for portions in (1, _PORTIONS):
            plan = _filled(problem, seed, portions)
            if plan is not None:
                yield plan


def _filled(problem: PlanningProblem, seed: int, portions: int) -> Plan | None:
    """Put all pods where the next costs least, from a first site on; None where some have no room."""
    asks, sites = problem.outside.shape
    plan = np.zeros((asks, sites), dtype=np.int64)
    near = problem.cost[seed] + problem.cost[:, seed]
    near[seed] = -1
    waiting, step = problem.wanted.copy(), -(-problem.wanted // portions)
    while waiting.any():
        for ask in np.flatnonzero(waiting).tolist():
            want = min(int(step[ask]), int(waiting[ask]))
            waiting[ask] -= want
            while want:
                left = problem.left(plan)[ask]
                open_ = np.flatnonzero(left)
                if not len(open_):
                    return None
                price = problem.marginal(plan)[ask, open_]
                site = int(open_[np.lexsort((near[open_], price))[0]])
                many = min(want, int(left[site]))
                plan[ask, site] += many
                want -= many
    return plan


def _better(problem: PlanningProblem, plan: Plan) -> Plan:
    """Move pods, or swap two, as long as that costs less."""
    total = problem.total(plan)
    for _ in range(_MOST_STEPS):
        better = [(problem.total(one), one) for one in _neighbours(problem, plan)]
        least, best = min(better, default=(total, plan), key=lambda one: (one[0], one[1].tobytes()))
        if least >= total:
            return plan
        total, plan = least, best
    return plan


def _neighbours(problem: PlanningProblem, plan: Plan) -> Iterator[Plan]:
    """Yield plans with some pods moved to where they cost less, and with two swapped that would like to be."""
    gain = _gains(problem, plan)
    left = problem.left(plan)
    for at in _lowest(gain):
        ask, origin, to = (int(one) for one in np.unravel_index(at, gain.shape))
        if gain[ask, origin, to] >= 0:
            break
        most = min(int(plan[ask, origin]), int(left[ask, to]))
        for many in {1, most} if most else ():
            yield _moved(plan, ask, origin, to, many)
    if gain.size * len(gain) > _MOST_PAIRS:
        return
    both = gain[:, None] + gain.transpose(0, 2, 1)[None]  # of i from s to t, and of j from t to s
    for at in _lowest(both):
        one, other, origin, to = (int(where) for where in np.unravel_index(at, both.shape))
        if one == other or not (plan[one, origin] and plan[other, to]):
            continue
        swapped = _moved(_moved(plan, one, origin, to, 1), other, to, origin, 1)
        if problem.fits(swapped):
            yield swapped


def _lowest(values: Counts) -> list[int]:
    """Return where the lowest of some values are, the lowest first."""
    flat = values.ravel()
    bound = np.partition(flat, min(_MOST_SWAPS, len(flat)) - 1)[min(_MOST_SWAPS, len(flat)) - 1]
    low = np.flatnonzero(flat <= bound)
    found: list[int] = low[np.argsort(flat[low], kind="stable")][:_MOST_SWAPS].tolist()
    return found


_NEVER: Final = 2**61


def _gains(problem: PlanningProblem, plan: Plan) -> Counts:
    """Return int64[asks, sites, sites]: what more it costs to have one pod on the second instead of the first."""
    price, own = problem.marginal(plan), np.diagonal(problem.talks)[:, None, None]
    both = (problem.cost + problem.cost.T)[None]
    diagonal = 2 * np.diagonal(problem.cost)[None, :, None]
    gain = (price[:, None, :] - own * both) - (price[:, :, None] - own * diagonal)
    same = np.eye(len(problem.cost), dtype=np.bool_)[None]
    return np.where((plan[:, :, None] > 0) & ~same, gain, _NEVER)


def _moved(plan: Plan, ask: int, origin: int, to: int, many: int) -> Plan:
    out = plan.copy()
    out[ask, origin] -= many
    out[ask, to] += many
    return out
