"""What is said of a change: how each workload would fare without it, and with it."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec


class Course(enum.StrEnum):
    """How a workload fares from now on.

    RUNS: It runs already, and is left alone; NOW: it starts at once; LATER: it starts at a time that is known; WAITS:
    it does not start in the time that was looked at; DISPLACED: it runs and is taken out, and what is told beside is
    when it starts again; ABSENT: there is no such workload.
    """

    RUNS = "Runs"
    NOW = "Now"
    LATER = "Later"
    WAITS = "Waits"
    DISPLACED = "Displaced"
    ABSENT = "Absent"


class ForecastCourse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How one workload fares.

    Attributes:
        starts_at: When it starts, or starts again, Unix seconds; None where it does not, or has.
        nodes: How many of its pods go to each node at that moment.
        members: The most of its pods that have a node at once in the time that was looked at.
        members_at: Since when it has so many, Unix seconds; None where it has them already, or never has any.
        displaced_at: When it is first taken out, Unix seconds; None: never, as far as was looked.
        displaced_for: Why, as the operator would say it.
        gate: What it waits at in the end, with `reason` and `message`; "" where it does not.
    """

    course: Course
    starts_at: float | None = None
    nodes: Mapping[str, int] = {}
    members: int = 0
    members_at: float | None = None
    displaced_at: float | None = None
    displaced_for: str = ""
    gate: str = ""
    reason: str = ""
    message: str = ""


class ForecastWorkload(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One workload without the change, and with it.

    Attributes:
        asked: Whether it is what was submitted.
    """

    kind: str
    namespace: str
    name: str
    cluster_queue: str
    pods: int
    asked: bool
    before: ForecastCourse
    after: ForecastCourse


class Forecast(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer.

    Attributes:
        changes: What was changed, in words.
        summary: The answer in sentences, the most important one first.
        workloads: What was submitted, and everybody who fares otherwise than without the change.
        same: How many fare as they do without it.
        at: When it was asked, Unix seconds; `until`, how far it was looked.
        notes: What the answer leaves out, or takes for granted.
    """

    changes: tuple[str, ...]
    summary: tuple[str, ...]
    workloads: tuple[ForecastWorkload, ...]
    same: int
    at: float
    until: float
    notes: tuple[str, ...] = ()
