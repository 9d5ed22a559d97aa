"""Specs that are wrong, and what is said of them, for the parser, the CEL rules and a real API server alike."""

from __future__ import annotations

from typing import NamedTuple


class Wrong(NamedTuple):
    """A spec that is refused; `server` is False where only the parser can tell."""

    kind: str
    spec: str
    path: str
    message: str
    server: bool = True


_FLAVOR_OF_CPU = "{name: f, resources: [{name: cpu, nominalQuota: 1}]}"
WRONG: dict[str, Wrong] = {
    "toleration of nothing": Wrong(
        "ResourceFlavor",
        "tolerations: [{effect: NoSchedule}]",
        "spec.tolerations[0]",
        "an empty key needs operator Exists",
    ),
    "toleration of a value that exists": Wrong(
        "ResourceFlavor", "tolerations: [{key: a, operator: Exists, value: b}]", "spec.tolerations[0]", "takes no value"
    ),
    "toleration for a time without eviction": Wrong(
        "ResourceFlavor",
        "tolerations: [{key: a, tolerationSeconds: 3}]",
        "spec.tolerations[0]",
        "needs effect NoExecute",
    ),
    "taint without effect": Wrong(
        "ResourceFlavor", "nodeTaints: [{key: a}]", "spec.nodeTaints[0].effect", "must be given"
    ),
    "flavor with a weight of 0": Wrong(
        "ResourceFlavor", "resourceWeights: {cpu: 0}", "spec", "resourceWeights must be above 0"
    ),
    "flavor with a weight of 0 in words": Wrong(
        "ResourceFlavor", 'resourceWeights: {cpu: 1, memory: "0.00e5"}', "spec", "resourceWeights must be above 0"
    ),
    "limit of nobody": Wrong(
        "ClusterQueue", "userLimits: [{workloads: 1}]", "spec.userLimits[0]", "a limit needs users or groups"
    ),
    "limit of nothing": Wrong(
        "ClusterQueue", "userLimits: [{users: [a]}]", "spec.userLimits[0]", "a limit needs resources or workloads"
    ),
    "no levels": Wrong("Topology", "levels: []", "spec.levels", "at least 1 item"),
    "a level twice": Wrong(
        "Topology", "levels: [{nodeLabel: a}, {nodeLabel: a}]", "spec", "may stand in one level only"
    ),
    "hostname above another level": Wrong(
        "Topology",
        "levels: [{nodeLabel: kubernetes.io/hostname}, {nodeLabel: a}]",
        "spec",
        "can only be the last level",
    ),
    "misspelt field": Wrong("ClusterQueue", "cohort: a", "spec.cohort", "did you mean 'cohortName'?"),
    "empty cohort name": Wrong("ClusterQueue", 'cohortName: ""', "spec.cohortName", "does not have the form"),
    "selector without values": Wrong(
        "ClusterQueue",
        "namespaceSelector: {matchExpressions: [{key: a, operator: In}]}",
        "spec.namespaceSelector.matchExpressions[0]",
        "need at least one value",
    ),
    "selector with values too many": Wrong(
        "ClusterQueue",
        "namespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}",
        "spec.namespaceSelector.matchExpressions[0]",
        "take none",
    ),
    "flavor that lacks a resource": Wrong(
        "ClusterQueue",
        "resourceGroups: [{coveredResources: [cpu, memory], flavors: [" + _FLAVOR_OF_CPU + "]}]",
        "spec.resourceGroups[0]",
        "exactly the coveredResources",
    ),
    "flavor in another order": Wrong(
        "ClusterQueue",
        "resourceGroups: [{coveredResources: [cpu, memory], flavors: [{name: f, resources: "
        "[{name: memory, nominalQuota: 1}, {name: cpu, nominalQuota: 1}]}]}]",
        "spec.resourceGroups[0]",
        "in the same order",
    ),
    "resource in two groups": Wrong(
        "ClusterQueue",
        "resourceGroups: [{coveredResources: [cpu], flavors: [" + _FLAVOR_OF_CPU + "]}, {coveredResources: [cpu], "
        "flavors: [{name: g, resources: [{name: cpu, nominalQuota: 1}]}]}]",
        "spec",
        "one resource group only",
        server=False,
    ),
    "borrowing without a cohort": Wrong(
        "ClusterQueue",
        "resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: "
        "[{name: cpu, nominalQuota: 1, borrowingLimit: 1}]}]}]",
        "spec",
        "need a cohortName",
    ),
    "lending more than there is": Wrong(
        "ClusterQueue",
        "{cohortName: c, resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: "
        "[{name: cpu, nominalQuota: 1, lendingLimit: 2}]}]}]}",
        "spec",
        "cannot be above nominalQuota",
        server=False,
    ),
    "negative quota": Wrong(
        "ClusterQueue",
        "resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: -1}]}]}]",
        "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
        "greater than or equal to 0",
    ),
    "negative quota as text": Wrong(
        "ClusterQueue",
        'resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: "-1"}]}]}]',
        "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
        "greater than or equal to 0",
    ),
    "quota that is no quantity": Wrong(
        "ClusterQueue",
        "resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1 Gi}]}]}]",
        "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
        "'1 Gi' is not a quantity",
    ),
    "unknown strategy": Wrong(
        "ClusterQueue", "queueingStrategy: FIFO", "spec.queueingStrategy", "must be 'StrictFIFO' or 'BestEffortFIFO'"
    ),
    "unknown backfill": Wrong("ClusterQueue", "backfill: Easy", "spec.backfill", "'None', 'BestEffort' or 'Reserved'"),
    "a time for a reservation that is not made": Wrong(
        "ClusterQueue",
        "backfill: BestEffort\nreservationSeconds: 60",
        "spec",
        "reservationSeconds needs backfill Reserved",
    ),
    "preference without its condition": Wrong(
        "ClusterQueue",
        "flavorFungibility: {preference: PreemptionOverBorrowing}",
        "spec.flavorFungibility",
        "preference needs TryNextFlavor",
    ),
    "borrowing by preemption without reclaiming": Wrong(
        "ClusterQueue",
        "preemption: {borrowWithinCohort: {policy: LowerPriority}}",
        "spec.preemption",
        "needs reclaimWithinCohort",
    ),
    "more than everything": Wrong(
        "ClusterQueue",
        "resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, "
        "nominalQuota: 101%}]}]}]",
        "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
        "such as 80%",
    ),
    "a limit by percentage": Wrong(
        "ClusterQueue",
        "cohortName: c\nresourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, "
        "nominalQuota: 10, borrowingLimit: 50%}]}]}]",
        "spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit",
        "not a quantity",
    ),
    "a window that ends before it begins": Wrong(
        "ClusterQueue",
        "temporaryQuotas: [{name: w, begin: '2027-01-01T00:00:00Z', end: '2026-12-31T23:00:00-01:00', flavors: ["
        + _FLAVOR_OF_CPU
        + "]}]",
        "spec.temporaryQuotas[0]",
        "end must be after begin",
    ),
    "a window of a cohort that ends before it begins": Wrong(
        "Cohort",
        "temporaryQuotas: [{name: w, begin: '2027-01-01T00:00:00Z', end: '2026-12-31T23:00:00-01:00', flavors: ["
        + _FLAVOR_OF_CPU
        + "]}]",
        "spec.temporaryQuotas[0]",
        "end must be after begin",
    ),
    "a window of a cohort without a time": Wrong(
        "Cohort",
        "temporaryQuotas: [{name: w, flavors: [" + _FLAVOR_OF_CPU + "]}]",
        "spec.temporaryQuotas[0]",
        "a window has begin, end or both",
    ),
    "a window without a time": Wrong(
        "ClusterQueue",
        "temporaryQuotas: [{name: w, flavors: [" + _FLAVOR_OF_CPU + "]}]",
        "spec.temporaryQuotas[0]",
        "a window has begin, end or both",
    ),
    "a window that comes once and again": Wrong(
        "ClusterQueue",
        "temporaryQuotas: [{name: w, schedule: '@daily', durationSeconds: 60, end: '2027-01-01T00:00:00Z', flavors: ["
        + _FLAVOR_OF_CPU
        + "]}]",
        "spec.temporaryQuotas[0]",
        "or else schedule and durationSeconds",
    ),
    "a window that begins again and again and never ends": Wrong(
        "ClusterQueue",
        "temporaryQuotas: [{name: w, schedule: '@daily', flavors: [" + _FLAVOR_OF_CPU + "]}]",
        "spec.temporaryQuotas[0]",
        "schedule and durationSeconds",
    ),
    "a window on a day that there is not": Wrong(
        "ClusterQueue",
        "temporaryQuotas: [{name: w, begin: '2026-02-30T00:00:00Z', flavors: [" + _FLAVOR_OF_CPU + "]}]",
        "spec.temporaryQuotas[0].begin",
        "is no time",
    ),
    "a window at no time": Wrong(
        "ClusterQueue",
        "temporaryQuotas: [{name: w, begin: tomorrow, flavors: [" + _FLAVOR_OF_CPU + "]}]",
        "spec.temporaryQuotas[0].begin",
        "is no time",
    ),
    "no time at all to run": Wrong(
        "ClusterQueue",
        "defaultMaximumExecutionTimeSeconds: 0",
        "spec.defaultMaximumExecutionTimeSeconds",
        "greater than or equal to 1",
    ),
    "a time to run that is no number": Wrong(
        "LocalQueue",
        "defaultMaximumExecutionTimeSeconds: 4h",
        "spec.defaultMaximumExecutionTimeSeconds",
        "integer",
    ),
    "no such stop": Wrong("ClusterQueue", "stopPolicy: Drain", "spec.stopPolicy", "HoldAndDrain"),
    "no minimum runtime": Wrong(
        "ClusterQueue",
        "preemption: {minimumRuntimeSeconds: 0}",
        "spec.preemption.minimumRuntimeSeconds",
        "greater than or equal to 1",
    ),
    "no controller": Wrong("AdmissionCheck", "{}", "spec.controllerName", "must be given"),
    "provisioning by somebody else": Wrong(
        "AdmissionCheck",
        "{controllerName: example.com/budget, provisioning: {provisioningClassName: a}}",
        "spec",
        "provisioning goes with controllerName",
    ),
    "retries that come ever sooner": Wrong(
        "AdmissionCheck",
        """
        controllerName: scheduling.tutti.dev/provisioning-request
        provisioning: {provisioningClassName: a, retryStrategy: {backoffBaseSeconds: 2000}}
        """,
        "spec.provisioning.retryStrategy",
        "must not be less than backoffBaseSeconds",
    ),
    "admission checks": Wrong(
        "ClusterQueue",
        "admissionChecksStrategy: {admissionChecks: [{name: a}], pendingTimeoutSeconds: 0}",
        "spec.admissionChecksStrategy.pendingTimeoutSeconds",
        "greater than or equal to 1",
    ),
    "concurrent admission": Wrong(
        "ClusterQueue",
        "concurrentAdmissionPolicy: {migration: {mode: RetainFirstAdmission}}",
        "spec.concurrentAdmissionPolicy",
        "not supported yet",
    ),
    "cohort flavor that lacks a resource": Wrong(
        "Cohort",
        "resourceGroups: [{coveredResources: [cpu, memory], flavors: [" + _FLAVOR_OF_CPU + "]}]",
        "spec.resourceGroups[0]",
        "exactly the coveredResources",
    ),
    "limits of a root cohort": Wrong(
        "Cohort",
        "resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: "
        "[{name: cpu, nominalQuota: 1, lendingLimit: 1}]}]}]",
        "spec",
        "need a parentName",
    ),
    "wall time": Wrong(
        "LocalQueue", "wallTimePolicy: {wallTimeAllocatedHours: 3}", "spec.wallTimePolicy", "not supported yet"
    ),
    "priority beyond int32": Wrong("WorkloadPriorityClass", "value: 2147483648", "value", "less than or equal to"),
    "priority missing": Wrong("WorkloadPriorityClass", "description: a", "value", "must be given"),
    "no pod groups": Wrong("Workload", "podGroups: []", "spec.podGroups", "at least 1 item"),
    "pod groups of one name": Wrong(
        "Workload", "podGroups: [{name: a, count: 1}, {name: a, count: 2}]", "spec", "a name of its own"
    ),
    "minCount above count": Wrong(
        "Workload", "podGroups: [{count: 2, minCount: 3}]", "spec.podGroups[0]", "minCount cannot be above count"
    ),
    "minCount of nothing": Wrong(
        "Workload", "podGroups: [{count: 2, minCount: 0}]", "spec.podGroups[0].minCount", "greater than or equal to 1"
    ),
    "topology without level": Wrong(
        "Workload", "podGroups: [{count: 2, topology: {mode: Required}}]", "spec.podGroups[0].topology", "need a level"
    ),
    "slices of no level": Wrong(
        "Workload",
        "podGroups: [{count: 1}, {name: b, count: 2, topology: {mode: Unconstrained, sliceSize: 2}}]",
        "spec.podGroups[1].topology",
        "give both, or none",
    ),
    "slices within nothing": Wrong(
        "Workload",
        "podGroups: [{count: 2, topology: {mode: Unconstrained, innerSlices: [{level: rack, size: 1}]}}]",
        "spec.podGroups[0].topology",
        "innerSlices are parts of slices",
    ),
    "balanced in one domain": Wrong(
        "Workload",
        "podGroups: [{count: 2, topology: {mode: Required, level: rack, balanced: true}}]",
        "spec.podGroups[0].topology",
        "set mode to Preferred",
    ),
    "pod groups of one domain at different levels": Wrong(
        "Workload",
        """
        podGroups:
        - {name: a, count: 1, topology: {mode: Required, level: rack, groupName: x}}
        - {name: b, count: 1}
        - {name: c, count: 2, topology: {mode: Required, level: zone, groupName: x}}
        """,
        "spec",
        "the same mode and level",
    ),
    "pod groups of one domain more and less firmly": Wrong(
        "Workload",
        """
        podGroups:
        - {name: a, count: 1, topology: {mode: Required, level: rack, groupName: x}}
        - {name: b, count: 2, topology: {mode: Preferred, level: rack, groupName: x}}
        """,
        "spec",
        "the same mode and level",
    ),
    "class of another group": Wrong(
        "Workload",
        "{podGroups: [{count: 1}], priorityClassRef: {kind: PriorityClass, name: a}}",
        "spec.priorityClassRef",
        "PriorityClass to scheduling.k8s.io",
    ),
    "backoff upside down": Wrong(
        "Workload",
        "{podGroups: [{count: 1}], requeue: {backoffBaseSeconds: 9, backoffMaxSeconds: 3}}",
        "spec.requeue",
        "below",
    ),
    "success of nobody": Wrong(
        "Workload",
        "{podGroups: [{name: a, count: 1}], successPolicy: {podGroups: [b]}}",
        "spec",
        "must be names of podGroups",
    ),
    "no ready timeout": Wrong(
        "Workload",
        "{podGroups: [{count: 1}], readyTimeoutSeconds: 0}",
        "spec.readyTimeoutSeconds",
        "greater than or equal to 1",
    ),
    "no policy": Wrong("PodGroup", "schedulingPolicy: {}", "spec.schedulingPolicy", "exactly one policy"),
    "two policies": Wrong(
        "PodGroup", "schedulingPolicy: {basic: {}, gang: {minCount: 1}}", "spec.schedulingPolicy", "exactly one policy"
    ),
    "gang of nothing": Wrong(
        "PodGroup",
        "schedulingPolicy: {gang: {minCount: 0}}",
        "spec.schedulingPolicy.gang.minCount",
        "greater than or equal",
    ),
}
