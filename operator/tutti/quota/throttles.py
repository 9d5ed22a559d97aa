"""Throttles: which pods one is about, how much these may use together at a moment, and who has to wait.

Rules and names are kube-throttler's (pfnet/kube-throttler 42dd1ec, pkg/apis/schedule/v1alpha1: resource_amount.go,
temporary_threshold_override.go, throttle_types.go and clusterthrottle_types.go), with two differences that only a gang
sees. A gang is asked about as a whole under either kind, never pod by pod, so that it cannot be placed in half. And a
term whose selector cannot be read selects nobody, where kube-throttler then lets no pod of the namespace start.

Nothing here remembers who uses what; that is the engine's (`tutti.engine.records.throttled_pods`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tutti.api.quantity import parse_quantity
from tutti.api.resources import CPU, PODS, AmountError, Amounts
from tutti.api.selectors import LabelSelector
from tutti.api.throttles import (
    CLUSTER_KIND,
    MOST_AMOUNTS,
    MOST_SELECTED,
    SelectorTerm,
    Threshold,
    ThrottleSpec,
    instant,
    selector_size,
)

MILLI = 1000
"""Thousandths, which quantities are read as, of a unit."""
MOST_AHEAD = 16
"""So many times at which an override begins or ends are looked at ahead."""
JUST_AFTER = 0.001
"""An override holds at its end still, and no longer so many seconds after."""


@dataclass(frozen=True, slots=True)
class Load:
    """What some pods are together.

    Attributes:
        pods: How many; None where there are none to count, which no limit is compared with.
        requests: What they request, in scheduling units.
    """

    pods: int | None = None
    requests: Amounts = field(default_factory=dict)

    def __add__(self, other: Load) -> Load:
        """Both together."""
        pods = None if self.pods is None and other.pods is None else (self.pods or 0) + (other.pods or 0)
        names = dict.fromkeys((*self.requests, *other.requests))
        return Load(pods, {name: self.requests.get(name, 0) + other.requests.get(name, 0) for name in names})

    def __sub__(self, other: Load) -> Load:
        """What is left without some of them; without the last of them there is nothing to count."""
        pods = (self.pods or 0) - (other.pods or 0) or None
        left = {name: amount - other.requests.get(name, 0) for name, amount in self.requests.items()}
        return Load(pods, {} if pods is None else left)

    def times(self, count: int) -> Load:
        """So many times that; none of it is nothing to count."""
        pods = None if self.pods is None or not count else self.pods * count
        return Load(pods, {name: amount * count for name, amount in self.requests.items()} if count else {})


NOTHING = Load()


def load_of(requests: Amounts) -> Load:
    """Return one pod that requests this."""
    return Load(1, {name: amount for name, amount in requests.items() if name != PODS})


@dataclass(frozen=True, slots=True)
class Flags:
    """What is over a limit.

    Attributes:
        pods: Whether the number is.
        requests: Of each resource that the limit names, whether it is.
    """

    pods: bool
    requests: Mapping[str, bool]

    def hit(self, pod: Load) -> bool:
        """Whether they concern a pod: the number every one, a resource those that request some of it."""
        return self.pods or any(is_over and pod.requests.get(name, 0) > 0 for name, is_over in self.requests.items())


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be used together.

    Attributes:
        pods: How many pods; None: any number.
        requests: By resource, in scheduling units, rounded up; a resource that is not here is not limited.
        between: Of which resources the limit is no whole number of units, so that what is in `requests` is above it.
    """

    pods: int | None = None
    requests: Amounts = field(default_factory=dict)
    between: frozenset[str] = frozenset()

    def most(self, name: str) -> int:
        """Return the most of a resource that is within its limit, in scheduling units."""
        return self.requests[name] - (name in self.between)

    def over(self, used: Load, *, on_equal: bool) -> Flags:
        """Return what is over, where with `on_equal` it is so as soon as all is used (resource_amount.go)."""
        more = int(not on_equal)
        number = self.pods is not None and used.pods is not None and used.pods >= self.pods + more
        requests = {
            name: name in used.requests and used.requests[name] >= (limit if on_equal else self.most(name) + 1)
            for name, limit in self.requests.items()
        }
        return Flags(number, requests)


class ThrottleStatus(enum.StrEnum):
    """What a throttle says to a pod, in kube-throttler's words (its plugin's reasons)."""

    NOT_THROTTLED = "not-throttled"
    EXCEEDS = "pod-requests-exceeds-threshold"
    ACTIVE = "active"
    INSUFFICIENT = "insufficient"
    INSUFFICIENT_FOR_GROUP = "insufficient-including-pod-group"


def check(
    limits: Limits, used: Load, reserved: Load, pod: Load, *, rest: Load = NOTHING, cluster: bool = False
) -> ThrottleStatus:
    """Say whether a pod, and the rest of its gang with it, may start; the first rule that it breaks counts.

    Args:
        limits: The threshold in force.
        used: By the pods on nodes that the throttle selects.
        reserved: By those that are promised a node.
        pod: The pod.
        rest: The others of its gang that the throttle selects and that have no node yet.
        cluster: Whether it is a ClusterThrottle, which lets all be reserved that there is (throttle_types.go and
            clusterthrottle_types.go, `CheckThrottledFor`).
    """
    first = len(_RULES)
    if limits.pods is not None:
        first = _broken(limits.pods, limits.pods, used.pods, reserved.pods, pod.pods or 0, rest.pods or 0, cluster)
    for name, asked in pod.requests.items():
        limit = limits.requests.get(name) if asked > 0 and first else None
        if limit is not None:
            now, then, more = used.requests.get(name), reserved.requests.get(name), rest.requests.get(name, 0)
            first = min(first, _broken(limits.most(name), limit, now, then, asked, more, cluster))
    return _RULES[first] if first < len(_RULES) else ThrottleStatus.NOT_THROTTLED


_RULES = (
    ThrottleStatus.EXCEEDS,
    ThrottleStatus.ACTIVE,
    ThrottleStatus.INSUFFICIENT,
    ThrottleStatus.INSUFFICIENT_FOR_GROUP,
)
"""In the order in which they are asked; resources that a pod asks nothing of are not asked about."""


def _broken(
    most: int,
    limit: int,
    used: int | None,
    reserved: int | None,
    asked: int,
    rest: int,
    cluster: bool,
) -> int:
    """Return which rule is broken first by one limit, of which `most` is the most that is within it."""
    if asked > most:
        return 0
    held = (used or 0) + (reserved or 0)
    is_held = used is not None or reserved is not None
    if (used is not None and used >= limit) or (is_held and held >= (most + 1 if cluster else limit)):
        return 1
    if held + asked > most:
        return 2
    return 3 if held + asked + rest > most else len(_RULES)


@dataclass(frozen=True, slots=True)
class ThrottleOverride:
    """Limits for a time.

    Attributes:
        begin: Unix seconds, and so is `end`; both belong to it.
    """

    begin: float
    end: float
    limits: Limits

    def is_active(self, now: float) -> bool:
        """Whether it holds now."""
        return self.begin <= now <= self.end


@dataclass(frozen=True, slots=True)
class Throttle:
    """A Throttle or ClusterThrottle.

    Attributes:
        kind: Which of the two.
        namespace: Whose pods it is about; "": those of the namespaces that its terms match.
        terms: The pods, and the namespaces, of which each term is about.
        limits: What holds while no override does.
        overrides: In the order in which they are written; those that cannot be read are left out.
        begins: Of these, when those begin of which that can be read, Unix seconds; kube-throttler looks again then.
        problems: What cannot be read, each with its place.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    terms: tuple[tuple[LabelSelector, LabelSelector | None], ...]
    limits: Limits
    overrides: tuple[ThrottleOverride, ...] = ()
    begins: tuple[float, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_cluster(self) -> bool:
        """Whether it is a ClusterThrottle."""
        return self.kind == CLUSTER_KIND

    def limits_at(self, now: float, *, merge: bool = False) -> Limits:
        """Return the threshold in force.

        Of the overrides that hold, the first one that names a number or a resource counts for that. Together they
        stand in place of the usual threshold as a whole, unless that is to `merge` with them: then what none of
        them names is as usual.
        """
        active = [one.limits for one in self.overrides if one.is_active(now)]
        if not active:
            return self.limits
        if merge:
            active.append(self.limits)
        pods = next((one.pods for one in active if one.pods is not None), None)
        by: dict[str, Limits] = {}
        for one in reversed(active):
            by.update(dict.fromkeys(one.requests, one))
        requests = {name: one.requests[name] for name, one in by.items()}
        return Limits(pods, requests, frozenset(name for name, one in by.items() if name in one.between))

    def next_change(self, now: float) -> float:
        """Return when an override begins or ends next, Unix seconds; infinity: never."""
        times = [at for one in self.overrides for at in (one.begin, one.end) if at > now]
        return min([*times, *(at for at in self.begins if at > now)], default=math.inf)

    def changes(self, now: float, *, merge: bool = False) -> Iterator[tuple[float, Limits]]:
        """Yield the thresholds that come after that in force, each with from when on, Unix seconds.

        No more than MOST_AHEAD times are looked at: of who writes hundreds, the later ones would take as long as all
        that was asked before.
        """
        at, before = now, self.limits_at(now, merge=merge)
        for _ in range(MOST_AHEAD):
            at = self.next_change(at)
            if not math.isfinite(at):
                return
            limits = self.limits_at(at + JUST_AFTER, merge=merge)
            if limits != before:
                yield at, limits
            before = limits


def throttle_of(kind: str, metadata: Mapping[str, Any], spec: ThrottleSpec | str) -> Throttle:
    """Return a Throttle or ClusterThrottle; what cannot be read of it limits nobody, and is told as its problem."""
    namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
    uid = str(metadata.get("uid", ""))
    wrong = spec if isinstance(spec, str) else _excess(spec)
    if isinstance(spec, str) or wrong:
        return Throttle(kind, namespace, name, uid, (), Limits(), problems=(wrong,))
    problems: list[str] = []
    overrides: list[ThrottleOverride] = []
    begins: list[float] = []
    for index, one in enumerate(spec.temporary_threshold_overrides):
        begin = None
        try:
            begin = instant(one.begin)
            end = instant(one.end)
            limits = limits_of(one.threshold)
        except ValueError as error:
            problems.append(f"index {index}: {error}")
            begins += [] if begin is None else [begin]
        else:
            bounds = (-math.inf if begin is None else begin, math.inf if end is None else end)
            overrides.append(ThrottleOverride(*bounds, limits))
    try:
        limits = limits_of(spec.threshold)
    except AmountError as error:
        return Throttle(kind, namespace, name, uid, (), Limits(), problems=(f"threshold: {error}",))
    terms = tuple(_term_of(one, cluster=kind == CLUSTER_KIND) for one in spec.selector.selector_terms)
    return Throttle(kind, namespace, name, uid, terms, limits, tuple(overrides), tuple(begins), tuple(problems))


def _excess(spec: ThrottleSpec) -> str:
    """Return of what a throttle says more than is weighed, or ""."""
    thresholds = (spec.threshold, *(one.threshold for one in spec.temporary_threshold_overrides))
    amounts = sum(len(one.resource_requests or ()) for one in thresholds)
    if amounts > MOST_AMOUNTS:
        return f"its thresholds name {amounts} amounts, and {MOST_AMOUNTS} is the most that is weighed"
    said = sum(
        selector_size(one)
        for term in spec.selector.selector_terms
        for one in (term.pod_selector, term.namespace_selector)
    )
    if said > MOST_SELECTED:
        return f"its selectors have {said} labels and values, and {MOST_SELECTED} is the most that is weighed"
    return ""


def limits_of(threshold: Threshold) -> Limits:
    """Return a threshold in scheduling units.

    Raises:
        AmountError: A quantity cannot be read.
    """
    amounts, said = threshold.amounts(), threshold.resource_requests or {}
    between = (name for name in amounts if name != CPU and parse_quantity(said[name]) % MILLI)
    return Limits(threshold.pods, amounts, frozenset(between))


def _term_of(said: SelectorTerm, *, cluster: bool) -> tuple[LabelSelector, LabelSelector | None]:
    return said.pod_selector, said.namespace_selector if cluster else None
