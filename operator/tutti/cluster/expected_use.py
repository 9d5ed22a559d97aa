"""What a pod is expected to use of cpu and memory before anybody has measured it, by the rules of those who guess.

Sources, as facts: scheduler-plugins pkg/trimaran (TargetLoadPacking's prediction, and what its risk policies count as
requests and limits), koordinator pkg/scheduler/plugins/loadaware/estimator, Volcano pkg/scheduler/plugins/usage.
Amounts are milli-cores and bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tutti.api.core import Container, PodSpec
from tutti.api.resources import AmountError, parse_requests
from tutti.cluster.columns import MOST_AMOUNT
from tutti.cluster.requests import pod_limits, pod_requests

CPU, MEMORY = 0, 1
"""Where the two stand in pairs and columns."""

NAMES: Final = ("cpu", "memory")
BEST_EFFORT: Final = (250.0, 200.0 * 1024 * 1024)
"""What koordinator and Volcano take a pod to use that asks for nothing."""

Pair = tuple[float, float]


class FreshColumn:
    """Which column of what has come since a measurement holds whose estimate; pairs are cpu and memory."""

    PREDICTED: Final = 0
    """TargetLoadPacking's, cpu alone."""
    SCALED: Final = 1
    """koordinator's, a pair."""
    CALM: Final = 3
    """Volcano's where a node is calm, a pair."""
    HOT: Final = 5
    """Volcano's where a node is loaded, a pair."""
    COUNT: Final = 7


class Estimates(NamedTuple):
    """The numbers by which the use of a pod is estimated.

    Attributes:
        request_multiplier: What a request without a limit is multiplied with (TargetLoadPacking).
        default_cpu: What a container is taken to use that says neither, in milli-cores (TargetLoadPacking).
        scaling: To how many percent the larger of limit and request is scaled: cpu and memory (koordinator).
        request_ratio, burst_ratio: How much of a request, and of what a limit is above it, is used (Volcano).
        risk_factor: By how much more where the node is loaded already (Volcano).
        risk_load: From which composite load on it is, as a part of 1 (Volcano).
    """

    request_multiplier: float = 1.5
    default_cpu: int = 1000
    scaling: Pair = (85, 70)
    request_ratio: float = 0.7
    burst_ratio: float = 0.0
    risk_factor: float = 1.2
    risk_load: float = 0.6


@dataclass(frozen=True, slots=True)
class ExpectedUse:
    """What is expected of one pod of a class.

    Attributes:
        requests: int64[2], cpu and memory that it asks for, as Trimaran counts them.
        limits: int64[2], what it is limited to, at least what it asks for.
        fresh: float64[FreshColumn.COUNT], what it is expected to use until it is measured.
        drawing: The cpu by which power is estimated: its request, with overhead only beside one (Peaks).
    """

    requests: NDArray[np.int64]
    limits: NDArray[np.int64]
    fresh: NDArray[np.float64]
    drawing: int

    @property
    def is_nothing(self) -> bool:
        """Whether it neither asks for anything nor is limited."""
        return not (self.requests.any() or self.limits.any())


def expected_use(spec: PodSpec, by: Estimates) -> ExpectedUse:
    """Return what is expected of a pod of this spec; of one whose amounts cannot be read, nothing is known."""
    try:
        requests, limits = effective(spec, "requests"), effective(spec, "limits")
        predicted = predicted_cpu(spec, by)
        asked_for, bounds = pod_requests(spec), pod_limits(spec)
        above = parse_requests(spec.overhead).get("cpu", 0)
    except AmountError:
        requests, limits, asked_for, bounds = (0, 0), (0, 0), {}, {}
        above, predicted = 0, float(by.default_cpu)
    fresh = np.zeros(FreshColumn.COUNT)
    fresh[FreshColumn.PREDICTED] = predicted
    is_best_effort = not any(amount for name, amount in asked_for.items() if name != "pods")
    for at, name in enumerate(NAMES):
        request, limit = asked_for.get(name, 0), bounds.get(name, 0)
        fresh[FreshColumn.SCALED + at] = scaled_estimate(max(request, limit), limit, by.scaling[at], BEST_EFFORT[at])
        for column, factor in ((FreshColumn.CALM, 1.0), (FreshColumn.HOT, max(by.risk_factor, 1.0))):
            fresh[column + at] = (
                best_effort_estimate(BEST_EFFORT[at], factor)
                if is_best_effort
                else burst_estimate(request, limit, by, factor)
            )
    fresh = np.minimum(np.round(fresh), MOST_AMOUNT)  # whole, so that what is added can be taken off again
    asked = np.array(requests, dtype=np.int64)
    drawing = requests[CPU] if requests[CPU] > above else 0
    return ExpectedUse(asked, np.maximum(asked, np.array(limits, dtype=np.int64)), fresh, drawing)


def effective(spec: PodSpec, of: str) -> tuple[int, int]:
    """Return the requests or limits of a pod: all containers together, or one init container if that is more.

    Overhead comes on top (Trimaran counts sidecars as init containers, and pod-level amounts not at all).

    Raises:
        AmountError: an amount cannot be read.
    """
    together = _sums(spec, of)
    first = [_amounts(one, of) for one in spec.init_containers]
    above = parse_requests(spec.overhead)
    return tuple(  # type: ignore[return-value]  # of two
        min(max(together[at], *(one[at] for one in first), 0) + above.get(NAMES[at], 0), MOST_AMOUNT)
        for at in (CPU, MEMORY)
    )


def predicted_cpu(spec: PodSpec, by: Estimates) -> float:
    """Return what cpu a pod is predicted to use, in milli-cores (TargetLoadPacking); init containers do not count.

    Raises:
        AmountError: an amount cannot be read.
    """
    total = 0.0
    for container in spec.containers:
        said = container.resources
        limit, request = _amounts(container, "limits")[CPU], _amounts(container, "requests")[CPU]
        if "cpu" in said.limits:
            total += limit
        else:
            total += half_away(request * by.request_multiplier) if "cpu" in said.requests else by.default_cpu
    return total + parse_requests(spec.overhead).get("cpu", 0)


def scaled_estimate(largest: float, limit: float, percent: float, unsaid: float) -> float:
    """Return koordinator's estimate: the larger of limit and request, scaled, and at most the limit."""
    if not largest:
        return unsaid
    scaled = half_away(largest * percent / 100)  # in this order: a factor of 0.7 is less than 70 %
    return min(scaled, limit) if limit else scaled


def burst_estimate(request: float, limit: float, by: Estimates, factor: float) -> float:
    """Return Volcano's estimate: parts of the request and of what lies above it, scaled by risk, within the limit.

    What has no limit, or one below its request, is taken to use no more than it asks for.
    """
    most = max(limit, request)
    return min((by.request_ratio * request + by.burst_ratio * (most - request)) * factor, most)


def best_effort_estimate(value: float, factor: float) -> float:
    """Return Volcano's estimate of a pod that asks for nothing; less than nothing counts as nothing."""
    return max(value, 0.0) * factor


def half_away(value: float) -> float:
    """Round to whole numbers, halves away from zero, as Go's math.Round does."""
    return math.copysign(math.floor(abs(value) + 0.5), value)


def _sums(spec: PodSpec, of: str) -> tuple[int, int]:
    cpu, memory = 0, 0
    for one in _each(spec, of):
        cpu, memory = min(cpu + one[CPU], MOST_AMOUNT), min(memory + one[MEMORY], MOST_AMOUNT)
    return cpu, memory


def _each(spec: PodSpec, of: str) -> Iterator[tuple[int, int]]:
    for container in spec.containers:
        yield _amounts(container, of)


def _amounts(container: Container, of: str) -> tuple[int, int]:
    said: Mapping[str, str | int | float] = getattr(container.resources, of)
    amounts = parse_requests({name: said[name] for name in NAMES if name in said})
    return amounts.get("cpu", 0), amounts.get("memory", 0)
