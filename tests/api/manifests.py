"""Specs that are right, for the parser, the CEL rules and a real API server alike."""

from __future__ import annotations

from typing import Any

import yaml

from tutti.api.kinds import KINDS
from tutti.api.model import API_VERSION

QUOTA = """
resourceGroups:
- coveredResources: [cpu, memory]
  flavors:
  - name: on-demand
    resources: [{name: cpu, nominalQuota: 9}, {name: memory, nominalQuota: 36Gi}]
"""


def manifest(kind: str, spec: str) -> dict[str, Any]:
    metadata = {"name": "sample"} | ({"namespace": "default"} if KINDS[kind].NAMESPACED else {})
    frame: dict[str, Any] = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}
    body = yaml.safe_load(spec)
    return frame | (body if kind == "WorkloadPriorityClass" else {"spec": body})


RIGHT: dict[str, tuple[str, str]] = {
    "empty flavor": ("ResourceFlavor", "{}"),
    "flavor as Kueue documents it": (
        "ResourceFlavor",
        """
        nodeLabels: {instance-type: spot}
        nodeTaints: [{effect: NoSchedule, key: spot, value: "true"}]
        tolerations:
        - {key: spot-taint, operator: Exists, effect: NoSchedule}
        - {operator: Exists, effect: NoExecute, tolerationSeconds: 30}
        - {key: a, value: b}
        """,
    ),
    "flavor with weights": ("ResourceFlavor", "resourceWeights: {a: 2, b: '0.5', c: 10m, d: '1e-3', e: 1Ei}"),
    "topology": ("Topology", "levels: [{nodeLabel: example.com/block}, {nodeLabel: kubernetes.io/hostname}]"),
    "admission check": (
        "AdmissionCheck",
        "{controllerName: example.com/budget, parameters: {apiGroup: example.com, kind: Budget, name: lab}}",
    ),
    "nodes that are asked for": (
        "AdmissionCheck",
        """
        controllerName: scheduling.tutti.dev/provisioning-request
        provisioning:
          provisioningClassName: queued-provisioning.gke.io
          parameters: {maxRunDurationSeconds: "3600"}
          managedResources: [nvidia.com/gpu]
          retryStrategy: {backoffLimitCount: 0, backoffBaseSeconds: 5, backoffMaxSeconds: 5}
          podSetUpdates:
            nodeSelector: [{key: autoscaling.gke.io/provisioning-request, valueFromProvisioningClassDetail: ResizeRequestName}]
        """,
    ),
    "cluster queue with admission checks": (
        "ClusterQueue",
        """
        admissionChecksStrategy:
          admissionChecks: [{name: budget}, {name: capacity, onFlavors: [spot]}]
          pendingTimeoutSeconds: 600
          placementTimeoutSeconds: 60
        """,
    ),
    "smallest cluster queue": ("ClusterQueue", "{}"),
    "cluster queue as Kueue documents it": ("ClusterQueue", "namespaceSelector: {}\n" + QUOTA),
    "cluster queue with every default spelt out": (
        "ClusterQueue",
        """
        cohortName: team-ab
        queueingStrategy: StrictFIFO
        stopPolicy: Hold
        namespaceSelector:
          matchLabels: {team: a}
          matchExpressions: [{key: env, operator: NotIn, values: [prod]}, {key: x, operator: Exists}]
        flavorFungibility: {whenCanBorrow: MayStopSearch, whenCanPreempt: TryNextFlavor}
        preemption:
          withinClusterQueue: Never
          reclaimWithinCohort: Never
          borrowWithinCohort: {policy: Never}
        fairSharing: {weight: 1}
        admissionScope: {admissionMode: NoAdmissionFairSharing}
        priority: {offset: 0, fence: false}
        resourceGroups:
        - coveredResources: [nvidia.com/gpu]
          flavors:
          - name: a100
            resources: [{name: nvidia.com/gpu, nominalQuota: "8", borrowingLimit: 4, lendingLimit: 0}]
        """,
    ),
    "preemption": (
        "ClusterQueue",
        """
        preemption:
          withinClusterQueue: LowerOrNewerEqualPriority
          reclaimWithinCohort: Any
          borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 100}
        """,
    ),
    "fungibility": ("ClusterQueue", "flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: MayStopSearch}"),
    "weight": ("ClusterQueue", "fairSharing: {weight: 2}"),
    "weight of a cohort": ("Cohort", 'fairSharing: {weight: "0.5"}'),
    "priority": ("ClusterQueue", "priority: {offset: -5, fence: true}"),
    "backfill": ("ClusterQueue", "queueingStrategy: StrictFIFO\nbackfill: Reserved\nreservationSeconds: 600"),
    "no backfill": ("ClusterQueue", "backfill: None"),
    "weight of a local queue": ("LocalQueue", "fairSharing: {weight: 3}"),
    "usage ordering": ("ClusterQueue", "admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}"),
    "weight as text": ("ClusterQueue", 'fairSharing: {weight: "1"}'),
    "quota that follows the nodes": (
        "ClusterQueue",
        """
        cohortName: c
        resourceGroups:
        - coveredResources: [cpu, memory]
          flavors:
          - name: f
            resources: [{name: cpu, nominalQuota: 80%, lendingLimit: 3}, {name: memory, nominalQuota: "12.5%"}]
        """,
    ),
    "windows of time": (
        "ClusterQueue",
        """
        defaultMaximumExecutionTimeSeconds: 86400
        temporaryQuotas:
        - name: deadline
          begin: "2026-12-24T18:00:00+01:00"
          end: "2027-01-07T06:00:00Z"
          flavors: [{name: f, resources: [{name: cpu, nominalQuota: 80%}]}]
        - {name: from-then-on, begin: "2027-02-01T00:00:00.5Z", flavors: [{name: f, resources: [{name: cpu, nominalQuota: 2}]}]}
        - {name: until-then, end: "2026-11-01T00:00:00Z", flavors: [{name: f, resources: [{name: cpu, nominalQuota: 2}]}]}
        - name: night
          schedule: 0 18 * * 1-5
          timeZone: Europe/Berlin
          durationSeconds: 43200
          flavors: [{name: f, resources: [{name: cpu, nominalQuota: "2500m", borrowingLimit: 0, lendingLimit: 1}]}]
        """,
    ),
    "root cohort": ("Cohort", QUOTA),
    "child cohort": ("Cohort", "parentName: org\nfairSharing: {}\n" + QUOTA),
    "local queue": ("LocalQueue", "clusterQueue: team-a\nstopPolicy: None"),
    "drained local queue": ("LocalQueue", "clusterQueue: team-a\nstopPolicy: HoldAndDrain"),
    "priority class": ("WorkloadPriorityClass", "value: -5\ndescription: sample priority"),
    "workload": (
        "Workload",
        """
        queueName: user-queue
        priorityClassRef: {name: urgent}
        priority: 100
        active: true
        scheduleTimeoutSeconds: 60
        requeue: {backoffBaseSeconds: 1, backoffMaxSeconds: 2, limit: 3}
        readyTimeoutSeconds: 60
        failurePolicy: {onMemberFailure: Deactivate}
        maximumExecutionTimeSeconds: 3600
        podGroups:
        - {name: driver, count: 1}
        - name: workers
          count: 8
          minCount: 4
          template: {spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}], nodeSelector: {a: b}}}
        """,
    ),
    "workload of which parts go to one domain each": (
        "Workload",
        """
        podGroups:
        - {name: lead, count: 1, topology: {mode: Required, level: rack, groupName: x}}
        - {name: work, count: 4, topology: {mode: Required, level: rack, groupName: x, sliceSize: 2, sliceLevel: host}}
        - {name: data, count: 2, topology: {mode: Preferred, level: zone, groupName: y}}
        - {name: more, count: 2, topology: {mode: Unconstrained, groupName: z}}
        - {name: most, count: 2, topology: {mode: Unconstrained, groupName: z}}
        - {name: rest, count: 2, topology: {mode: Preferred, level: host}}
        """,
    ),
    "workload with a class of the cluster": (
        "Workload",
        "{priorityClassRef: {group: scheduling.k8s.io, kind: PriorityClass, name: high}, podGroups: [{count: 1}]}",
    ),
    "gang": ("PodGroup", "schedulingPolicy: {gang: {minCount: 4}}"),
    "basic group with everything that is there": (
        "PodGroup",
        """
        schedulingPolicy: {basic: {}}
        schedulingConstraints: {}
        disruptionMode: PodGroup
        priorityClassName: high
        queueName: user-queue
        scheduleTimeoutSeconds: 30
        workloadRef: {name: w, podGroup: workers}
        """,
    ),
}
