"""Throttles and ClusterThrottles (schedule.k8s.everpeace.github.com/v1alpha1), as far as they are read.

The fields are those of the project's CRDs (pfnet/kube-throttler 42dd1ec, pkg/apis/schedule/v1alpha1); the manifests
that its users have are read unchanged. What a tenant may write is bounded here, before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from pydantic import TypeAdapter, ValidationError

from tutti.api import resources
from tutti.api.core import View
from tutti.api.kinds.temporary_quotas import Moment, seconds_of
from tutti.api.messages import shortened
from tutti.api.resources import Amounts
from tutti.api.selectors import LabelSelector

GROUP = "schedule.k8s.everpeace.github.com"
VERSION = "v1alpha1"
NAMESPACED_KIND, CLUSTER_KIND = "Throttle", "ClusterThrottle"
PLURALS: Mapping[str, str] = MappingProxyType({NAMESPACED_KIND: "throttles", CLUSTER_KIND: "clusterthrottles"})
"""Where they are served, by kind."""

MOST_TERMS = 64
"""Selectors of one object."""
MOST_OVERRIDES = 256
"""Of one object."""
MOST_RESOURCES = 64
"""That one threshold names."""

MOST_AMOUNTS = 2048
"""That all thresholds of one object name together."""
MOST_SELECTED = 1024
"""Labels, requirements and values in all selectors of one object."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Quantities = Annotated[dict[str, str | int | float], msgspec.Meta(max_length=MOST_RESOURCES)]


class Counts(View, frozen=True):
    """How many objects."""

    pod: _Count | None = None


class Threshold(View, frozen=True):
    """How much may be used at most; what is not named is not limited."""

    resource_counts: Counts | None = None
    resource_requests: _Quantities | None = None

    @property
    def pods(self) -> int | None:
        """How many pods; None: any number."""
        return None if self.resource_counts is None else self.resource_counts.pod

    def amounts(self) -> Amounts:
        """What pods may request together, in scheduling units.

        Raises:
            AmountError: A quantity cannot be read.
        """
        return resources.parse_requests(self.resource_requests or {})


class Override(View, frozen=True):
    """A threshold for a time, from `begin` to `end`, both included; "" leaves that side open."""

    begin: str = ""
    end: str = ""
    threshold: Threshold = Threshold()


class SelectorTerm(View, frozen=True):
    """Pods by their labels and, of a ClusterThrottle, by those of their namespace; both must match."""

    pod_selector: LabelSelector = LabelSelector()
    namespace_selector: LabelSelector = LabelSelector()


class Selector(View, frozen=True):
    """Pods that any of the terms matches; without terms there are none."""

    selector_terms: Annotated[list[SelectorTerm], msgspec.Meta(max_length=MOST_TERMS)] = []


class ThrottleSpec(View, frozen=True):
    """Who is throttled, and from when on."""

    throttler_name: str = ""
    selector: Selector = Selector()
    threshold: Threshold = Threshold()
    temporary_threshold_overrides: Annotated[list[Override], msgspec.Meta(max_length=MOST_OVERRIDES)] = []


def selector_size(selector: LabelSelector) -> int:
    """Return how many labels, requirements and values a selector has."""
    return len(selector.match_labels) + sum(1 + len(one.values) for one in selector.match_expressions)


def spec_of(raw: dict[str, Any]) -> ThrottleSpec | str:
    """Read the spec of a Throttle or ClusterThrottle; returns what is wrong with it where it cannot be read."""
    try:
        return msgspec.convert(raw.get("spec") or {}, ThrottleSpec, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        return shortened(f"spec cannot be read: {error}")


_MOMENT = TypeAdapter[str](Moment)


def instant(text: str) -> float | None:
    """Return a time as Unix seconds; None for "", which stands for no bound.

    Raises:
        ValueError: It is no RFC 3339 time.
    """
    if not text:
        return None
    try:
        return seconds_of(_MOMENT.validate_python(text))
    except ValidationError as error:
        raise ValueError(f"{shortened(text)!r} is no time; write one such as 2026-12-24T18:00:00+01:00") from error
