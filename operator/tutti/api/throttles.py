"""Throttles and ClusterThrottles (schedule.k8s.everpeace.github.com/v1alpha1), as far as they are read.

The fields are those of the project's CRDs (pfnet/kube-throttler 42dd1ec, pkg/apis/schedule/v1alpha1); the manifests
that its users have are read unchanged. What a tenant may write is bounded here, before anything is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from tutti.api import resources
from tutti.api.core import View
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


_INSTANT = re.compile(
    r"([0-9]{4})(-[0-9]{2}-[0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,32}))?"
    r"(?:Z|([+-])([01][0-9]|2[0-4]):([0-5][0-9]|60))",
    re.ASCII,
)
_NO_TIME = datetime.min.replace(tzinfo=UTC).timestamp()
"""What Go writes of a time that nobody has set."""
_SAME_YEAR, _ERA_SECONDS = "0400", 146_097 * 86_400
"""In that year the calendar begins again, so many seconds later; so is the year 0 counted, which `datetime` has not."""


def instant(text: str) -> float | None:
    """Return a time as Unix seconds; None for "", and for the beginning of the year 1: they stand for no bound.

    What Go's time.Parse takes by RFC 3339 is taken, which is what kube-throttler reads it with: an hour may have one
    digit, a fraction any number of them, and a zone be up to 24 hours and 60 minutes away
    (temporary_threshold_override.go).

    Raises:
        ValueError: It is no such time.
    """
    if not text:
        return None
    found = _INSTANT.fullmatch(text)
    at = None if found is None else _seconds(*found.groups(default=""))
    if at is None:
        raise ValueError(f"{shortened(text)!r} is no time; write one such as 2026-12-24T18:00:00+01:00")
    return None if at == _NO_TIME else at


def _seconds(
    year: str, day: str, hour: str, minute: str, second: str, fraction: str, sign: str, *zone: str
) -> float | None:
    """Return the Unix seconds of the parts of a time; None where there is no such day or hour."""
    is_year_0 = int(year) == 0
    try:
        clock = time(int(hour), int(minute), int(second), int(fraction.ljust(6, "0")[:6]), UTC)
        at = datetime.combine(date.fromisoformat((_SAME_YEAR if is_year_0 else year) + day), clock)
    except ValueError:
        return None
    hours, minutes = (int(one or 0) for one in zone)
    east = (hours * 60 + minutes) * (-60 if sign == "-" else 60)
    return at.timestamp() - east - is_year_0 * _ERA_SECONDS
