"""Whom throttles are about, and what those use: followed pod by pod, never read from a status.

A pod counts as used from when it is bound to a node until it has ended, whatever becomes of it there; as reserved from
when it is promised one. Room that is kept for members which are yet to be made is reserved as well.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tutti.api.throttles import CLUSTER_KIND, spec_of
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.placed_pods import Hold
from tutti.cluster.pods import AssumedAlike, PodKey, PodRecord
from tutti.cluster.signatures import selector_keys
from tutti.quota.throttle_terms import TermsOfMany
from tutti.quota.throttles import JUST_AFTER, NOTHING, Limits, Load, Throttle, load_of, throttle_of

ThrottleKey = tuple[str, str, str]
"""Kind, namespace and name."""

_Labels = tuple[tuple[str, str], ...]
_MOST_ANSWERS = 4096
"""So many are kept of a namespace."""
_MOST_NAMESPACES = 4096


class ThrottledAs(NamedTuple):
    """What is counted of a pod, and where."""

    keys: tuple[ThrottleKey, ...]
    load: Load
    is_used: bool


class ThrottleBook:
    """Every throttle, what its pods use, and which threshold is in force.

    Args:
        name: The throttler that those must name which are looked at.
        schedulers: Whose pods count.
        labels_of: Returns the labels of a namespace.
        merge: Whether overrides leave as usual what they do not name.

    Attributes:
        throttles: By key, in the order they were first seen.
        used: By pods that are bound, as far as there are any.
        reserved: By pods that are promised a node, as far as there are any.
        limits: The threshold in force.
        told: The status that each object has, as far as it is known here.
        told_at: When that was written last, Unix seconds.
        changed: Those whose status may be out of date.
    """

    def __init__(
        self,
        name: str = "",
        schedulers: Collection[str] = (),
        labels_of: Callable[[str], Mapping[str, str]] = lambda _: {},
        *,
        merge: bool = False,
    ) -> None:
        self._name = name
        self._schedulers = frozenset(schedulers)
        self._labels_of = labels_of
        self.throttles: dict[ThrottleKey, Throttle] = {}
        self.used: dict[ThrottleKey, Load] = {}
        self.reserved: dict[ThrottleKey, Load] = {}
        self.limits: dict[ThrottleKey, Limits] = {}
        self.told: dict[ThrottleKey, Mapping[str, Any]] = {}
        self.told_at: dict[ThrottleKey, float] = {}
        self.changed: dict[ThrottleKey, None] = {}
        self._merge = merge
        self._helped: dict[str, None] = {}
        self._new: dict[ThrottleKey, None] = {}
        self._changes_at: dict[ThrottleKey, float] = {}
        self._next: list[tuple[float, ThrottleKey]] = []
        self._terms: dict[str, TermsOfMany[ThrottleKey]] = {}  # by namespace
        self._counted: dict[PodKey | Hold, ThrottledAs] = {}
        self._coming: list[tuple[list[PodKey], ThrottledAs]] = []  # who came since it was last asked who is counted
        self._answers: dict[str, dict[_Labels, tuple[ThrottleKey, ...]]] = {}
        self._stale: dict[ThrottleKey, None] = {}

    def __bool__(self) -> bool:
        return bool(self.throttles)

    def put(self, kind: str, raw: Mapping[str, Any]) -> Sequence[str]:
        """Take in a Throttle or ClusterThrottle, or what has changed about one; one of another throttler is nothing.

        Returns:
            The keys of labels of pods that it reads.
        """
        spec = spec_of(dict(raw))
        found = throttle_of(kind, raw["metadata"], spec)
        key = (kind, found.namespace, found.name)
        if not isinstance(spec, str) and spec.throttler_name != self._name:
            self.drop(key)
            return ()
        status = raw.get("status")
        self.told[key] = status if isinstance(status, dict) else {}
        self.changed[key] = None
        before = self.throttles.get(key)
        if before != found:
            self.throttles[key] = found
            self._new[key] = None
            self._helped[found.namespace] = None
            if before is None or before.terms != found.terms:
                self._terms.setdefault(found.namespace, TermsOfMany()).put(key, found.terms)
                self._selects_others(key)
        return _labels_read(found)

    def labels_read(self) -> Iterator[str]:
        """Yield the keys of labels of pods that throttles read."""
        return (label for one in self.throttles.values() for label in _labels_read(one))

    def drop(self, key: ThrottleKey) -> None:
        """Forget one that is gone."""
        found = self.throttles.pop(key, None)
        if found is None:
            return
        self._terms[found.namespace].drop(key)
        if not self._terms[found.namespace]:
            del self._terms[found.namespace]
        for about in (self.used, self.reserved, self.limits, self.told, self.told_at, self.changed, self._new):
            about.pop(key, None)
        self._changes_at.pop(key, None)
        self._helped[found.namespace] = None
        self._selects_others(key)

    def _selects_others(self, key: ThrottleKey) -> None:
        if key[1]:
            self._answers.pop(key[1], None)
        else:
            self._answers.clear()
        self._stale[key] = None

    def namespace_changed(self) -> None:
        """Note that the labels of a namespace are others."""
        self._answers.clear()
        for key in self.throttles:
            if key[0] == CLUSTER_KIND:
                self._stale[key] = None

    def of(self, namespace: str, labels: Mapping[str, str]) -> tuple[ThrottleKey, ...]:
        """Return the throttles that are about pods with these labels, first those of all namespaces.

        Args:
            namespace: Theirs.
            labels: As far as any selector reads them, at least.
        """
        if len(self._answers) >= _MOST_NAMESPACES and namespace not in self._answers:
            self._answers.clear()
        answers, about = self._answers.setdefault(namespace, {}), tuple(sorted(labels.items()))
        known = answers.get(about)
        if known is None:
            if len(answers) >= _MOST_ANSWERS:
                answers.clear()
            spaces, asked = self._labels_of(namespace), dict.fromkeys(("", namespace))
            terms = [self._terms[one] for one in asked if one in self._terms]
            known = answers[about] = tuple(key for one in terms for key in one.selecting(spaces, labels))
        return known

    def seen(self, record: PodRecord) -> None:
        """Count a pod as what it is now: used, reserved, or neither."""
        self._count(record.key, self._counted_as(record))

    def _counted_as(self, record: PodRecord) -> ThrottledAs | None:
        """Return what is to be counted of a pod, and where; None where nothing is."""
        if not (self.throttles and record.place and record.scheduler in self._schedulers):
            return None
        keys = self.of(record.namespace, record.pod_signature.labels)
        return ThrottledAs(keys, load_of(record.granted_requests), bool(record.node)) if keys else None

    def seen_all(self, alike: Sequence[AssumedAlike]) -> None:
        """Count pods that have got a place, those alike together."""
        if not self.throttles:
            return
        for pods in alike:
            keys = self.of(pods.records[0].namespace, pods.pod_signature.labels)
            names = [one.key for one in pods.records]
            are_new = self._by_pod().keys().isdisjoint(names)
            if are_new and not keys:
                continue
            if not are_new or not {one.scheduler for one in pods.records} <= self._schedulers:
                for one in pods.records:
                    self.seen(one)
                continue
            counted = ThrottledAs(keys, load_of(pods.pod_class.requests), is_used=False)
            self._coming.append((names, counted))
            self._add(counted._replace(load=counted.load.times(len(names))), 1)

    def _by_pod(self) -> dict[PodKey | Hold, ThrottledAs]:
        """Return what is counted of whom, those included that have come since this was last asked."""
        known, self._coming, coming = self._counted, [], self._coming
        for names, counted in coming:
            known.update(dict.fromkeys(names, counted))
        return known

    def kept(self, hold: Hold, pod_class: PodClass) -> None:
        """Count room that is kept for a pod of a class which is yet to be made."""
        counted = self._kept_as(pod_class)
        if counted is not None:
            self._count(hold, counted)

    def _kept_as(self, pod_class: PodClass) -> ThrottledAs | None:
        keys = self.of(pod_class.namespace, pod_class.labels) if self.throttles else ()
        return ThrottledAs(keys, load_of(pod_class.requests), is_used=False) if keys else None

    def gone(self, about: PodKey | Hold) -> None:
        """Count a pod that is gone, or room that is kept no more, as nothing."""
        self._count(about, None)

    def _count(self, about: PodKey | Hold, now: ThrottledAs | None) -> None:
        known = self._by_pod()
        before = known.get(about)
        if before == now:
            return
        if before is not None:
            del known[about]
            self._add(before, -1)
        if now is not None:
            known[about] = now
            self._add(now, 1)
        if before is not None and (now is None or before.keys != now.keys):
            self._helped.update(dict.fromkeys(key[1] for key in before.keys))

    def _add(self, counted: ThrottledAs, sign: int) -> None:
        """Add to what throttles have in use, or take from it: those that have the same in use have the same then."""
        amounts, load = self.used if counted.is_used else self.reserved, counted.load
        after: dict[int, tuple[Load, Load]] = {}
        for key in counted.keys:
            if key not in self.throttles:
                continue
            before = amounts.get(key, NOTHING)
            known = after.get(id(before))
            if known is None:
                known = after[id(before)] = (before, before + load if sign > 0 else before - load)
            amounts[key] = known[1]
        if counted.is_used:
            self.changed.update(dict.fromkeys(key for key in counted.keys if key in self.throttles))

    def recount(self, cluster: Cluster) -> None:
        """Count anew the pods of those that select others by now, if there are any; of the others nothing changes.

        Where that raises it is to be done again, and until then nobody knows what these use.
        """
        if not self._stale:
            return
        stale, known, namespaces = self._stale, self._by_pod(), {key[1] for key in self._stale}
        self._helped.update(dict.fromkeys(namespaces))
        for key in stale:
            self.used.pop(key, None)
            self.reserved.pop(key, None)
        others, those = _Part(lambda key: key not in stale), _Part(lambda key: key in stale)
        for about, before in list(known.items()):
            known[about] = before._replace(keys=others.of(before.keys))
        totals: dict[tuple[int, bool], ThrottledAs] = {}
        for about, now in self._all_counted(cluster, namespaces):
            self._count(about, now and now._replace(keys=others.of(now.keys)))
            if now is not None:
                known[about], part = now, those.of(now.keys)
                total = totals.get((id(part), now.is_used), ThrottledAs(part, NOTHING, now.is_used))
                totals[id(part), now.is_used] = total._replace(load=total.load + now.load)
        for total in totals.values():
            self._add(total, 1)
        self._stale = {}

    def _all_counted(
        self, cluster: Cluster, namespaces: Collection[str]
    ) -> Iterator[tuple[PodKey | Hold, ThrottledAs | None]]:
        """Yield what is to be counted of all pods, and all room that is kept, in some namespaces; "": in any."""
        for record in cluster.pods.values():
            if "" in namespaces or record.namespace in namespaces:
                yield record.key, self._counted_as(record)
        for hold, pod_class in cluster.held.all():
            yield hold, self._kept_as(pod_class)

    def is_stuck(self, key: ThrottleKey) -> bool:
        """Whether nobody knows what a throttle allows, or what its pods use, because to find out has raised."""
        return key not in self.limits or key in self._stale

    @property
    def changes_at(self) -> float:
        """When another threshold may be in force, Unix seconds."""
        if self._new:
            return -math.inf
        while self._next and self._changes_at.get(self._next[0][1]) != self._next[0][0]:
            heapq.heappop(self._next)
        return self._next[0][0] if self._next else math.inf

    def take_due(self, now: float) -> list[ThrottleKey]:
        """Return those that are new, or whose threshold may be another by now; each is to be followed."""
        due, self._new = self._new, {}
        while self.changes_at <= now:
            due[heapq.heappop(self._next)[1]] = None
        return list(due)

    def follow(self, key: ThrottleKey, now: float) -> bool:
        """Have the threshold of one in force that holds now; returns True, for it has been done."""
        one = self.throttles[key]
        limits = one.limits_at(now, merge=self._merge)
        if self.limits.get(key) != limits:
            self.limits[key] = limits
            self.changed[key] = None
            self._helped[key[1]] = None
        self.follow_at(key, one.next_change(now - JUST_AFTER) + JUST_AFTER)
        return True

    def follow_at(self, key: ThrottleKey, at: float) -> None:
        """Have one followed at a time, Unix seconds; inf: not until it is written anew."""
        self._changes_at[key] = at
        if math.isfinite(at):
            heapq.heappush(self._next, (at, key))

    def has_helped(self, namespaces: Collection[str]) -> bool:
        """Whether some who are throttled in one of these namespaces may start by now."""
        return bool(namespaces) and ("" in self._helped or any(one in self._helped for one in namespaces))

    def take_helped(self) -> Collection[str]:
        """Return in which namespaces some who are throttled may start by now, and forget that; "": in any."""
        helped, self._helped = self._helped, {}
        return helped

    def counted(self, about: PodKey | Hold) -> ThrottledAs | None:
        """Return what is counted of a pod, and where; None where nothing is."""
        return self._by_pod().get(about)

    @contextmanager
    def supposing(
        self,
        limits: Mapping[ThrottleKey, Limits],
        used: Mapping[ThrottleKey, Load],
        reserved: Mapping[ThrottleKey, Load],
    ) -> Iterator[None]:
        """Have other thresholds in force of some, and other amounts used and reserved, until the end of the block."""
        places: Sequence[tuple[dict[ThrottleKey, Any], Mapping[ThrottleKey, Any]]] = (
            (self.limits, limits),
            (self.used, used),
            (self.reserved, reserved),
        )
        before = [{key: mine.get(key) for key in supposed} for mine, supposed in places]
        for mine, supposed in places:
            mine.update(supposed)
        try:
            yield
        finally:
            for (mine, _), known in zip(places, before, strict=True):
                mine.update((key, one) for key, one in known.items() if one is not None)
                for key in [key for key, one in known.items() if one is None]:
                    del mine[key]

    def changes(self, key: ThrottleKey, now: float) -> Iterator[tuple[float, Limits]]:
        """Yield the thresholds that come after that in force, each with from when on, Unix seconds: the next ones."""
        return self.throttles[key].changes(now, merge=self._merge)


class _Part:
    """Which of some throttles meet a condition, found out once for each tuple of them: those alike share one.

    Args:
        meets: The condition.
    """

    def __init__(self, meets: Callable[[ThrottleKey], bool]) -> None:
        self._meets = meets
        self._known: dict[int, tuple[tuple[ThrottleKey, ...], tuple[ThrottleKey, ...]]] = {}

    def of(self, keys: tuple[ThrottleKey, ...]) -> tuple[ThrottleKey, ...]:
        """Return those of some that meet it."""
        known = self._known.get(id(keys))
        if known is None:
            known = self._known[id(keys)] = keys, tuple(filter(self._meets, keys))
        return known[1]


def _labels_read(throttle: Throttle) -> list[str]:
    return [label for pods, _ in throttle.terms for label in selector_keys(pods)]
