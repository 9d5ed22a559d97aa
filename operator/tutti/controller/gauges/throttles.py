"""What throttles allow and what is used of it, under the names that kube-throttler has (its pkg/metrics).

`throttle_*` for Throttles, `clusterthrottle_*` for ClusterThrottles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric

from tutti.api.resources import PODS
from tutti.api.throttles import CLUSTER_KIND, NAMESPACED_KIND
from tutti.controller.gauges import Row, gauges, in_units
from tutti.engine.records.throttled_pods import ThrottleKey
from tutti.engine.status import StatusState
from tutti.quota.throttles import NOTHING, Limits, Load

_LABELS: Final = {NAMESPACED_KIND: ("namespace", "name"), CLUSTER_KIND: ("name",)}
_COUNT: Final = "pod"
Figures = Callable[[StatusState, ThrottleKey], tuple[int | None, Mapping[str, float]]]
"""Of a throttle the number of pods, and amounts by resource."""


def throttle_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield what each throttle says; families without values where there is no state."""
    for kind, labels in _LABELS.items():
        for field, says, figures in _FIELDS:
            for of, amounts in (("resourceCounts", False), ("resourceRequests", True)):
                what = "by resource: cores, bytes, devices" if amounts else "of pods"
                yield gauges(
                    f"{kind.lower()}_{field}_{of}",
                    f"{says} of a {kind}, {what}.",
                    (*labels, "resource"),
                    () if state is None else _rows(state, kind, figures, amounts=amounts),
                )


def _rows(state: StatusState, kind: str, figures: Figures, *, amounts: bool) -> Iterator[Row]:
    for key in state.throttles.throttles:
        if key[0] != kind:
            continue
        labels = key[1:] if kind == NAMESPACED_KIND else key[2:]
        count, requests = figures(state, key)
        if amounts:
            for name, amount in requests.items():
                yield (*labels, name), amount
        elif count is not None:
            yield (*labels, _COUNT), float(count)


def _of(found: Limits | Load) -> tuple[int | None, dict[str, float]]:
    return found.pods, {name: in_units(name, amount) for name, amount in found.requests.items() if name != PODS}


def _spec(state: StatusState, key: ThrottleKey) -> tuple[int | None, dict[str, float]]:
    return _of(state.throttles.throttles[key].limits)


def _threshold(state: StatusState, key: ThrottleKey) -> tuple[int | None, dict[str, float]]:
    return _of(state.throttles.limits.get(key, Limits()))


def _used(state: StatusState, key: ThrottleKey) -> tuple[int | None, dict[str, float]]:
    return _of(state.throttles.used.get(key, NOTHING))


def _throttled(state: StatusState, key: ThrottleKey) -> tuple[int | None, dict[str, float]]:
    limits, used = state.throttles.limits.get(key, Limits()), state.throttles.used.get(key, NOTHING)
    flags = limits.over(used, on_equal=True)
    return int(flags.pods), {name: float(is_over) for name, is_over in flags.requests.items()}


_FIELDS: Final[tuple[tuple[str, str, Figures], ...]] = (
    ("spec_threshold", "The usual threshold", _spec),
    ("status_calculated_threshold", "The threshold in force", _threshold),
    ("status_used", "What pods use", _used),
    ("status_throttled", "1 where nothing is left", _throttled),
)
