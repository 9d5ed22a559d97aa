"""The Grafana dashboard: what it shows, and its JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

RATE = "$__rate_interval"
SPAN = f"[{RATE}]"
WIDTH = 24


@dataclass(frozen=True)
class Line:
    """An expression, and what its series are called; labels of theirs in double braces."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One picture.

    Attributes:
        title: What it shows.
        lines: Its series.
        unit: As Grafana calls it.
        says: How to read it.
        number: Whether it is one number, green at 0 or, with `wanted`, at that.
        stacked: Whether its series add up.
        width: Of 24 columns.
    """

    title: str
    lines: tuple[Line, ...]
    unit: str = "short"
    says: str = ""
    number: bool = False
    wanted: int = 0
    stacked: bool = False
    width: int = 8


@dataclass(frozen=True)
class Row:
    """The question that some panels answer."""

    question: str
    panels: tuple[Panel, ...]


def _quantiles(metric: str, by: str = "") -> tuple[Line, ...]:
    """Lines for the median and the 99th percentile of a histogram."""
    more, legend = (f", {by}", f" {{{{{by}}}}}") if by else ("", "")
    return tuple(
        Line(f"histogram_quantile({q}, sum by (le{more}) (rate({metric}_bucket{SPAN})))", f"p{round(q * 100)}{legend}")
        for q in (0.5, 0.99)
    )


def _rate(metric: str, by: str, legend: str, *, factor: str = "", match: str = "") -> Line:
    return Line(f"sum by ({by}) (rate({metric}{match}{SPAN})){factor}", legend)


_CHOSEN = '{resource="$resource"}'

ROWS = (
    Row(
        "Is it healthy?",
        (
            Panel("Leaders", (Line("sum(tutti_leader)"),), says="Exactly one may act.", number=True, wanted=1, width=4),
            Panel(
                "Gangs bound in part",
                (Line("sum(tutti_partial_gangs)"),),
                says="After their bind window; must stay 0.",
                number=True,
                width=4,
            ),
            Panel(
                "Degraded gangs",
                (Line("sum(tutti_gangs_degraded)"),),
                says="They run with fewer members than they need; tutti gangs --degraded names them.",
                number=True,
                width=4,
            ),
            Panel(
                "Streams not listed yet",
                (Line("count(tutti_informer_synced == 0) or sum(tutti_informer_synced) * 0"),),
                number=True,
                width=4,
            ),
            Panel(
                "Queues that cannot admit",
                (Line('sum(kueue_cluster_queue_status{status="pending"})'),),
                says="Stopped, or something they refer to is missing; their condition says which.",
                number=True,
                width=4,
            ),
            Panel(
                "Longest stall of the loop",
                (Line("max(tutti_event_loop_longest_stall_seconds)"),),
                unit="s",
                says="In the last minute or two. The lease is lost after leaderElection.renewDeadlineSeconds.",
                width=4,
            ),
            Panel("One turn of the engine", _quantiles("tutti_decide_duration_seconds"), unit="s"),
            Panel(
                "Writes",
                (_rate("tutti_kube_writes_total", "writer, outcome", "{{writer}} {{outcome}}"),),
                unit="ops",
                says="By writer and what became of them.",
            ),
            Panel(
                "Writes under way and waiting",
                (
                    Line("sum by (lane) (tutti_kube_writes_waiting)", "waiting: {{lane}}"),
                    Line("max(tutti_kube_write_limit)", "may be under way"),
                ),
                says="Where many wait, the API server is the bottleneck.",
            ),
        ),
    ),
    Row(
        "Who waits, and why?",
        (
            Panel(
                "Waiting workloads by reason",
                (Line("sum by (gate, reason) (tutti_waiting_workloads)", "{{gate}} {{reason}}"),),
                stacked=True,
                says="tutti explain tells the same of one of them.",
            ),
            Panel(
                "Waiting workloads by queue",
                (Line("sum by (cluster_queue) (kueue_pending_workloads)", "{{cluster_queue}}"),),
                stacked=True,
            ),
            Panel(
                "Pods without a node",
                (Line("sum by (queue) (scheduler_pending_pods)", "{{queue}}"),),
                stacked=True,
            ),
            Panel("Wait of a gang, from its first pod to its bind", _quantiles("tutti_gang_wait_seconds"), unit="s"),
            Panel(
                "Wait for admission by queue, 99th percentile",
                _quantiles("kueue_admission_wait_time_seconds", "cluster_queue")[1:],
                unit="s",
            ),
            Panel("From the first to the last bind of a gang", _quantiles("tutti_bind_spread_seconds"), unit="s"),
            Panel(
                "Workloads a minute",
                (
                    Line(f"sum(rate(kueue_admitted_workloads_total{SPAN})) * 60", "admitted"),
                    Line(f"sum(rate(kueue_finished_workloads_total{SPAN})) * 60", "finished"),
                    Line(f"sum(rate(kueue_evicted_workloads_total{SPAN})) * 60", "evicted"),
                ),
            ),
            Panel(
                "Evicted a minute, by reason",
                (_rate("kueue_evicted_workloads_total", "reason", "{{reason}}", factor=" * 60"),),
            ),
            Panel(
                "Degraded gangs by queue",
                (
                    Line(
                        f"sum by (cluster_queue) (rate(tutti_gang_degraded_seconds_total{SPAN}))",
                        "{{cluster_queue}}",
                    ),
                ),
                says="On average: the seconds that gangs ran with fewer members than they need, in each second.",
            ),
            Panel(
                "Reservations held, 99th percentile",
                _quantiles("tutti_reservation_held_seconds", "outcome")[1:],
                unit="s",
                says="For members, approvals or volumes; nobody else can use what is held.",
            ),
        ),
    ),
    Row(
        "Where does the GPU time go?",
        (
            Panel(
                "All of it",
                (Line(f"sum by (state) (tutti_node_resources{_CHOSEN})", "{{state}}"),),
                stacked=True,
                says="Closed: free on nodes that are not ready or cordoned.",
            ),
            Panel(
                "Used by queue",
                (Line(f"sum by (cluster_queue) (kueue_cluster_queue_resource_usage{_CHOSEN})", "{{cluster_queue}}"),),
                stacked=True,
            ),
            Panel(
                "Used, of what a queue is given",
                (
                    Line(
                        f"sum by (cluster_queue) (kueue_cluster_queue_resource_usage{_CHOSEN})"
                        f" / sum by (cluster_queue) (kueue_cluster_queue_nominal_quota{_CHOSEN})",
                        "{{cluster_queue}}",
                    ),
                ),
                unit="percentunit",
                says="Above 100 % it borrows.",
            ),
            Panel(
                "Free, and not in whole domains",
                (Line(f"max by (topology, level) (tutti_fragmentation{_CHOSEN})", "{{topology}} {{level}}"),),
                unit="percentunit",
                says="The part of what is free that large gangs cannot use.",
            ),
            Panel(
                "Largest hole",
                (Line(f"max by (topology, level) (tutti_largest_free{_CHOSEN})", "{{topology}} {{level}}"),),
                says="The most that is free in any one domain.",
            ),
            Panel(
                "Preempted a minute, by rule",
                (_rate("kueue_preempted_workloads_total", "reason", "{{reason}}", factor=" * 60"),),
            ),
        ),
    ),
)


def document() -> str:
    """Return the dashboard as Grafana (11 and later) imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in ROWS:
        place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
        panels.append({"type": "row", "title": row.question, "collapsed": False, "panels": [], "gridPos": place})
        top, left = top + 1, 0
        for panel in row.panels:
            if left + panel.width > WIDTH:
                top, left = top + 7, 0
            panels.append(_panel(panel, {"h": 7, "w": panel.width, "x": left, "y": top}))
            left += panel.width
        top += 7
    for number, one in enumerate(panels, start=1):
        one["id"] = number
    variables = [
        {"name": "datasource", "type": "datasource", "query": "prometheus"},
        {
            "name": "resource",
            "type": "query",
            "datasource": _SOURCE,
            "query": "label_values(tutti_node_resources, resource)",
            "current": {"text": "nvidia.com/gpu", "value": "nvidia.com/gpu"},
            "refresh": 1,
        },
    ]
    board = {
        "title": "Tutti",
        "uid": "tutti",
        "tags": ["kubernetes", "scheduling"],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": variables},
        "panels": panels,
    }
    return json.dumps(board, indent=2) + "\n"


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "expr": line.expression, "legendFormat": line.legend, "datasource": _SOURCE}
        for number, line in enumerate(panel.lines)
    ]
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.number:
        steps: list[dict[str, Any]] = [{"color": "green", "value": None}, {"color": "red", "value": panel.wanted + 1}]
        if panel.wanted:
            steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.wanted}, steps[1]]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    else:
        stacking = {"mode": "normal" if panel.stacked else "none"}
        defaults["custom"] = {"fillOpacity": 30 if panel.stacked else 0, "stacking": stacking}
        defaults["min"] = 0
    return {
        "type": "stat" if panel.number else "timeseries",
        "title": panel.title,
        "description": panel.says,
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
    }
