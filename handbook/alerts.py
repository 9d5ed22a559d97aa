"""The alerts: as prometheus-operator takes them, and the page that says what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True)
class Alert:
    """One rule.

    Attributes:
        name: In CamelCase.
        severity: critical: somebody must look now; warning: today; info: when there is time.
        expression: What is wrong as long as it has any result.
        lasts: How long it must be so.
        summary: What is wrong, with labels in braces.
        means: What follows from it.
        look: Where to look and what to do, in this order.
    """

    name: str
    severity: str
    expression: str
    lasts: str
    summary: str
    means: str
    look: tuple[str, ...]


_PENDING = "sum by (cluster_queue) (kueue_pending_workloads) > 0"
_UNTRIED = 'sum(kueue_pending_workloads{status="active"}) > 0'
_REFUSING = 'kueue_cluster_queue_status{status="pending"} == 1'

ALERTS = (
    Alert(
        "TuttiDown",
        "critical",
        "absent(tutti_leader)",
        "2m",
        "No replica of Tutti is scraped",
        "Nothing new is scheduled. What runs goes on.",
        (
            "`kubectl -n tutti-system get pods`: does one run, and is it ready?",
            "`kubectl -n tutti-system logs deployment/tutti --previous`: the line `crashed` says why it ended.",
            "It runs and is scraped no more: does the namespace of Prometheus have the label `metrics: enabled`?",
            "And may its service account `get` the path /metrics (ClusterRole tutti-metrics-reader)?",
        ),
    ),
    Alert(
        "TuttiNoLeader",
        "critical",
        "sum(tutti_leader) == 0",
        "1m",
        "Tutti runs, and no replica holds the lease",
        "Nothing new is scheduled. What runs goes on.",
        (
            "`kubectl -n tutti-system get lease tutti -o yaml`: who holds it, and when was it renewed?",
            "`/readyz` of a replica: who leads, for how long could the lease not be renewed, what is not listed?",
            "Its log: `lease_not_acquired` says why not, `lease_not_renewed` and `leadership_doubted` why not.",
        ),
    ),
    Alert(
        "TuttiTwoLeaders",
        "critical",
        "sum(tutti_leader) > 1",
        "1m",
        "More than one replica of Tutti believes to lead",
        "Each checks its lease before every write, so that one of them writes nothing; that it lasts is a fault.",
        (
            "Are two installations scraped under one job? Then give them jobs of their own.",
            "Compare the clocks of their nodes, and report it with both logs.",
        ),
    ),
    Alert(
        "TuttiPartialGang",
        "critical",
        "sum(tutti_partial_gangs) > 0",
        "1m",
        "{{ $value }} gangs are bound in part after their bind window",
        "They hold room without being able to start. They are taken out as soon as their binds are answered.",
        (
            "`tutti gangs` names them.",
            "The log: `pod_not_bound` says what became of the binds of the others.",
            "An API server that does not answer keeps them so: see TuttiWriteErrors.",
        ),
    ),
    Alert(
        "TuttiGangDegraded",
        "warning",
        "time() - min by (cluster_queue) (tutti_gang_degraded_since_timestamp_seconds) > 600",
        "0m",
        "A gang of ClusterQueue {{ $labels.cluster_queue }} has lacked members for {{ $value | humanizeDuration }}",
        "It runs with fewer members than it needs, and holds quota and nodes that most such work cannot use. After its "
        "window (onMemberLoss, 5 minutes where nobody says otherwise) it starts again whole; one with `action: Keep` "
        "waits for its successors without end.",
        (
            "`tutti gangs --degraded` names it: how many members it has, since when, and when it is restarted.",
            "`tutti explain workload NAMESPACE/NAME`: are its successors not created, or do they find no node?",
            "`kubectl get nodes`: one gone for good keeps the names of a StatefulSet's pods until it is deleted.",
            "With `Keep`, delete its pods, or set onMemberLoss to Restart, if what is left is of no use.",
        ),
    ),
    Alert(
        "TuttiStalled",
        "critical",
        f"{_UNTRIED} and sum(increase(tutti_decide_duration_seconds_count[5m])) == 0",
        "5m",
        "Workloads wait, and the engine is not asked",
        "Nothing new is scheduled, though a replica leads.",
        (
            "`/healthz` of the leader says which part has ended.",
            "Delete its pod; another takes over. Report it with its log.",
        ),
    ),
    Alert(
        "TuttiLoopStalls",
        "warning",
        "max(tutti_event_loop_longest_stall_seconds) > 5",
        "5m",
        "The loop of Tutti stood still for {{ $value | humanizeDuration }}",
        "At `leaderElection.renewDeadlineSeconds` the lease is lost, and the process ends.",
        (
            "Is its CPU throttled? Give it more, or no limit.",
            "Plugins of users run in the loop: `tutti_plugin_faults_total`, and what they log.",
        ),
    ),
    Alert(
        "TuttiWriteErrors",
        "warning",
        'sum by (writer) (rate(tutti_kube_writes_total{outcome=~"refused|failed|unknown"}[10m]))'
        " / sum by (writer) (rate(tutti_kube_writes_total[10m])) > 0.05",
        "10m",
        "{{ $value | humanizePercentage }} of the writes of {{ $labels.writer }} fail",
        "What was decided is not done: pods stay unbound, victims stay, statuses are old. It is tried again.",
        (
            "`tutti_kube_requests_total` by `code`: 403 is a missing right, 409 another writer, 5xx the server.",
            "The log: `pod_not_bound`, `pod_not_evicted` and `status_not_written` have the answers.",
        ),
    ),
    Alert(
        "TuttiWritesWait",
        "warning",
        "sum(tutti_kube_writes_waiting) > 10 * max(tutti_kube_write_limit)",
        "10m",
        "{{ $value }} writes wait for their turn",
        "The API server is slower than what is decided. Binds go first; statuses and events are late.",
        (
            "The latency of the API server, and its priority and fairness: is Tutti's flow rejected (429)?",
            "`clientConnection.concurrency` is the most that may be under way at once.",
        ),
    ),
    Alert(
        "TuttiStreamNotListed",
        "critical",
        "min by (resource) (tutti_informer_synced) == 0",
        "10m",
        "{{ $labels.resource }} could not be listed",
        "Tutti decides nothing before everything has been listed once.",
        ("The log: `informer_interrupted` and its error. 403: the ClusterRole is older than the operator.",),
    ),
    Alert(
        "TuttiStreamSilent",
        "warning",
        "time() - max by (resource) (tutti_informer_last_event_timestamp_seconds) > 600",
        "5m",
        "Nothing was heard of {{ $labels.resource }} for {{ $value | humanizeDuration }}",
        "Bookmarks come every minute or so, so that the watch is dead; what has changed since is not known.",
        ("Something between Tutti and the API server holds connections that are dead: a proxy, a load balancer?",),
    ),
    Alert(
        "TuttiQueueStuck",
        "warning",
        f"{_PENDING} unless on (cluster_queue) sum by (cluster_queue) (kueue_cluster_queue_resource_usage) > 0 "
        f"unless on (cluster_queue) {_REFUSING}",
        "15m",
        "Workloads wait in ClusterQueue {{ $labels.cluster_queue }}, of which nothing is used",
        "Its quota is there and does not help: other queues have borrowed it, no node fits, or members are missing.",
        (
            "`tutti explain workload NAMESPACE/NAME` of one of them says what would unblock it.",
            "`sum by (gate, reason) (tutti_waiting_workloads{cluster_queue=...})` says it of all of them.",
            "Lent away: `preemption.reclaimWithinCohort` lets a queue take back what is its own.",
        ),
    ),
    Alert(
        "TuttiQueueCannotAdmit",
        "info",
        f"{_REFUSING} and on (cluster_queue) {_PENDING}",
        "15m",
        "Workloads wait in ClusterQueue {{ $labels.cluster_queue }}, which cannot admit",
        "It is stopped, or something that it refers to is missing.",
        ("`kubectl get clusterqueue NAME -o yaml`: its condition `Active` says why.",),
    ),
    Alert(
        "TuttiPluginFails",
        "warning",
        "sum by (plugin, point) (increase(tutti_plugin_faults_total[15m])) > 0",
        "0m",
        "Plugin {{ $labels.plugin }} fails at {{ $labels.point }}",
        "The workloads that it was asked about wait; all others go on.",
        ("The log: `plugin_failed` has the error. docs/plugins.md says what a plugin may do.",),
    ),
    Alert(
        "TuttiEngineFails",
        "critical",
        'sum(increase(tutti_part_failures_total{part="engine"}[15m])) > 0',
        "0m",
        "The engine has failed and was begun again from what is listed",
        "Nothing new is scheduled until the next one has listed everything; what runs goes on and stays charged, and "
        "the lease is kept. Where it fails again at once, up to a minute goes by between two of them.",
        (
            "The log: `engine_failed` says what it raised and where, and `part_failed` when another begins.",
            "With `--journal` the run that crashed is kept. Please report it: nothing should be able to do this.",
        ),
    ),
    Alert(
        "TuttiPartFails",
        "warning",
        'sum by (part) (increase(tutti_part_failures_total{part!="engine"}[15m])) > 3',
        "0m",
        "{{ $labels.part }} of the operator fails again and again",
        "Scheduling goes on. Without `deletions` queues, flavors and topologies that are deleted stay; without "
        "`webhooks` writes of our kinds are refused, and this replica is not ready; without `conditions` those of "
        "queues are old.",
        ("The log: `part_failed` has the error, such as a right that is missing or a definition that was deleted.",),
    ),
    Alert(
        "TuttiSetsAside",
        "warning",
        "sum by (kind, during) (increase(tutti_set_aside_total[15m])) > 0",
        "0m",
        "{{ $labels.kind }} objects are set aside because of a fault during {{ $labels.during }}",
        "These objects wait, each tried again with a growing backoff; all others go on.",
        (
            "The log: `set_aside` names the object, what it raised and where.",
            "`tutti explain` of the object says the same. Please report it: no object should be able to do this.",
        ),
    ),
)


def manifest() -> str:
    """Return the PrometheusRule."""
    document = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "tutti", "namespace": "tutti-system"},
        "spec": {"groups": [{"name": "tutti", "rules": [_rule(one) for one in ALERTS]}]},
    }
    text = yaml.safe_dump(document, sort_keys=False, width=120)
    return "# What somebody should be told of; generated by `make monitoring` from handbook/alerts.py.\n" + text


def _rule(one: Alert) -> dict[str, Any]:
    said = {"summary": one.summary, "description": one.means, "runbook": " ".join(one.look)}
    labels = {"severity": one.severity}
    return {"alert": one.name, "expr": one.expression, "for": one.lasts, "labels": labels, "annotations": said}


INTRODUCTION = """# Alerts

`manifests/overlays/monitoring/alerts.yaml` has them for prometheus-operator. What each means, and what to do:

"""


def page() -> str:
    """Return what to do when an alert fires, in Markdown."""
    return INTRODUCTION + "\n".join(_section(one) for one in ALERTS)


def _section(one: Alert) -> str:
    steps = "".join(f"{number}. {step}\n" for number, step in enumerate(one.look, start=1))
    lasts = f", for {one.lasts}" if one.lasts != "0m" else ""
    return f"## {one.name}\n\n*{one.severity}{lasts}*: `{one.expression}`\n\n{one.means}\n\n{steps}"
