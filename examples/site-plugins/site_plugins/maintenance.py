"""Keeps pods off nodes whose maintenance begins before they would be done.

A node says when with the label `example.com/maintenance-window: 20261121T220000Z`; a pod may say how long it runs with
the label `example.com/runs-hours: "2"`. A window ends when its label is taken away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np
from tutti.plugins import Mask, Nodes, Pods

WINDOW = "example.com/maintenance-window"
RUNS_HOURS = "example.com/runs-hours"
HOUR = 3600.0


class MaintenanceArguments(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What the profile may say.

    Attributes:
        hours_before: How long before a window nothing is placed that does not say how long it runs.
    """

    hours_before: float = 24.0


class Maintenance:
    """A filter. Its answer goes by the time, so it says for how long an answer is good."""

    Arguments = MaintenanceArguments

    def __init__(self, arguments: MaintenanceArguments) -> None:
        self._hours = arguments.hours_before

    @property
    def recheck_seconds(self) -> float:
        """How long an answer is good for."""
        return 60.0

    @property
    def pod_labels(self) -> Sequence[str]:
        """The labels of pods that it reads: pods are told apart by them."""
        return (RUNS_HOURS,)

    def filter(self, pods: Pods, nodes: Nodes, now: float) -> Mapping[str, Mask]:
        """Rule out nodes whose window begins too soon, and those that do not say when in a way that can be read."""
        starts = nodes.numbers(WINDOW, _starts, missing=np.inf)
        unreadable = np.isnan(starts)  # what cannot be read concerns that node only
        soon = ~unreadable & (starts < now + self._needed(pods) * HOUR)
        return {
            "node(s) in maintenance before the pod is done": soon,
            f"node(s) whose label {WINDOW} is no time such as 20261121T220000Z": unreadable,
        }

    def _needed(self, pods: Pods) -> float:
        """Return the hours that a pod needs; one that says nothing useful is taken for a long one."""
        text = pods.labels.get(RUNS_HOURS, "")
        return float(text) if text.isdecimal() else self._hours


def _starts(value: str) -> float:
    try:
        return datetime.strptime(value, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return float("nan")
