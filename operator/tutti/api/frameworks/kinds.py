"""The kinds of job frameworks that are known here, each a row of one description.

Where each field stands, and who counts what: Kubernetes 1.36 (batch/v1, apps/v1), JobSet 08dfbdfd, Trainer 8c0f5059,
training-operator release-1.9, mpi-operator caa3c47, KubeRay feeaf72f, LeaderWorkerSet 060ab4d, spark-operator 38082f33,
Volcano ed72c7c8, KAI d5bc503a.
"""

from __future__ import annotations

from typing import Any, Final

from tutti.api.conventions import kueue, named_groups
from tutti.api.framework_kind import (
    AmountField,
    ElasticRole,
    FieldCondition,
    FrameworkKind,
    LeaderFirst,
    PodRoles,
    ReplicaGroups,
    RoleDescription,
    TemplatePatches,
)
from tutti.api.model import GROUP

MIN_MEMBER_ANNOTATION: Final = f"{GROUP}/min-member"
"""Annotation of an owner: so many of its pods are placed at once."""
GANG_ANNOTATION: Final = f"{GROUP}/gang"
"""Annotation of an owner: Together asks for a gang where the kind has none by itself, Apart forbids it."""
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_JOBSET = "jobset.sigs.k8s.io/"
_JOBSET_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_LWS = "leaderworkerset.sigs.k8s.io/"
_KUBEFLOW = "training.kubeflow.org/"
KUEUE_LEAST = "kueue.x-k8s.io/job-min-parallelism"
_KAI_LEAST = "kai.scheduler/batch-min-member"
GROUP_KEYS: Final = (
    named_groups.POD_GROUP,
    named_groups.WORKLOAD,
    *named_groups.SCHEDULER_PLUGINS_KEYS,
    *named_groups.VOLCANO_GROUP_NAMES,
    named_groups.VOLCANO_MIN_MEMBER,
    kueue.GROUP_NAME,
)
"""Labels and annotations of a pod template whose pods say themselves of which gang they are."""

_JOB = FrameworkKind(
    group="batch",
    kind="Job",
    plural="jobs",
    versions=["v1"],
    gang="Together",
    # The native rule for a Job that gets a PodGroup (KEP-5547): Indexed, and as many completions as run at once.
    together_when=[
        FieldCondition(path="spec.completionMode", values=["Indexed"]),
        FieldCondition(path="spec.completions", same_as="spec.parallelism"),
    ],
    roles=[
        RoleDescription(
            replicas=AmountField(path="spec.parallelism", limit="spec.completions"),
            total="spec.completions",
            finished="status.succeeded",
            templates=["spec.template"],
        )
    ],
    minimum_annotations=[KUEUE_LEAST, named_groups.VOLCANO_MIN_MEMBER, _KAI_LEAST],
    suspended="spec.suspend",
    startable=True,
)
_CRON_JOB = FrameworkKind(
    group="batch",
    kind="CronJob",
    plural="cronjobs",
    versions=["v1"],
    gang="Transparent",
    roles=[
        RoleDescription(path="spec.jobTemplate.spec", replicas=AmountField(path="parallelism", limit="completions"))
    ],
)


def _serving(kind: str, plural: str, **more: Any) -> FrameworkKind:
    """A kind of apps/v1: its pods start one by one, unless an annotation asks for a gang of its replicas."""
    role = RoleDescription(replicas=AmountField(path="spec.replicas"), templates=["spec.template"])
    annotations = [named_groups.VOLCANO_MIN_MEMBER]
    return FrameworkKind(
        group="apps",
        kind=kind,
        plural=plural,
        versions=["v1"],
        **{"gang": "Requested", "roles": [role], "minimum_annotations": annotations, **more},
    )


_APPS = (
    _serving("DaemonSet", "daemonsets", gang="Alone", minimum_annotations=[]),
    # The annotations of a Deployment are copied to its ReplicaSets, each of which is another generation of pods.
    _serving("Deployment", "deployments", gang="Transparent", minimum_annotations=[]),
    _serving("ReplicaSet", "replicasets"),
    # OrderedReady, the default, makes one pod when the one before it is Ready.
    _serving(
        "StatefulSet",
        "statefulsets",
        made_at_once=[FieldCondition(path="spec.podManagementPolicy", values=["Parallel"])],
    ),
)
_JOBSET_KIND = FrameworkKind(
    group="jobset.x-k8s.io",
    kind="JobSet",
    plural="jobsets",
    versions=["v1", "v1alpha2"],
    gang="Together",
    composes=["batch/Job"],
    roles=[
        RoleDescription(
            form="List",
            path="spec.replicatedJobs",
            replicas=AmountField(path="replicas"),
            size=AmountField(path="template.spec.parallelism", limit="template.spec.completions"),
            finished="succeeded",
            finished_in="status.replicatedJobsStatus",
            templates=["template.spec.template"],
            annotations="template.metadata.annotations",
            after="dependsOn",
        )
    ],
    pod_roles=PodRoles(labels=[f"{_JOBSET}replicatedjob-name"]),
    in_order=[FieldCondition(path="spec.startupPolicy.startupPolicyOrder", values=["InOrder"])],
    # Followers are refused until completion index 0 of their Job has a node, unless node selectors take the place of
    # that webhook (pkg/webhooks/pod_webhook.go, api/jobset/v1alpha2 ExclusiveKey).
    domain_annotations=[_JOBSET_EXCLUSIVE],
    leader_first=LeaderFirst(
        annotations=[_JOBSET_EXCLUSIVE],
        unless=["alpha.jobset.sigs.k8s.io/node-selector"],
        label=COMPLETION_INDEX,
    ),
    suspended="spec.suspend",
    startable=True,
    sub_group_labels=[f"{_JOBSET}replicatedjob-name", f"{_JOBSET}job-index"],
    attempt_label=f"{_JOBSET}restart-attempt",
)
_TRAIN_JOB = FrameworkKind(
    group="trainer.kubeflow.org",
    kind="TrainJob",
    plural="trainjobs",
    versions=["v1alpha1"],
    gang="Together",
    composes=["jobset.x-k8s.io/JobSet"],
    numbers_of="jobset.x-k8s.io/JobSet",
    suspended="spec.suspend",
    startable=True,
    # Its JobSet is made, suspended, of its runtime and these patches while it is suspended itself, and made anew with
    # them when it is resumed (pkg/runtime/framework/plugins/jobset/jobset.go, Build). They may be changed when it is
    # suspended before or after, and nothing of it is active (checkRuntimePatchesImmutability; Trainer 2.2 and later).
    template_patches=TemplatePatches(
        path="spec.runtimePatches",
        roles="trainingRuntimeSpec.template.spec.replicatedJobs",
        template="template.spec.template",
        active_in="status.jobsStatus",
    ),
    startable_when=[
        FieldCondition(path="spec.managedBy", values=["trainer.kubeflow.org/trainjob-controller"], unset=True)
    ],
)


def _kubeflow(kind: str, plural: str, at: str, **more: Any) -> FrameworkKind:
    """A training job of Kubeflow's, version 1: roles stand in a mapping, and a scheduling policy beside them."""
    role = RoleDescription(form="Map", path=f"spec.{at}", replicas=AmountField(path="replicas"))
    labels = [f"{_KUBEFLOW}replica-type", f"{_KUBEFLOW}job-role"]
    return FrameworkKind(
        group="kubeflow.org",
        kind=kind,
        plural=plural,
        gang="Together",
        minimum="spec.runPolicy.schedulingPolicy.minAvailable",
        queue="spec.runPolicy.schedulingPolicy.queue",
        priority_class="spec.runPolicy.schedulingPolicy.priorityClass",
        schedule_timeout="spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
        suspended="spec.runPolicy.suspend",
        **{"versions": ["v1"], "roles": [role], "pod_roles": PodRoles(labels=labels), **more},
    )


def _elastic(role: str) -> ElasticRole:
    return ElasticRole(role=role, least="spec.elasticPolicy.minReplicas", most="spec.elasticPolicy.maxReplicas")


_LAUNCHER_WAITS = FieldCondition(path="spec.launcherCreationPolicy", values=["WaitForWorkersReady"])
_MPI_ROLES = [
    RoleDescription(
        path="spec.mpiReplicaSpecs.Launcher",
        name="launcher",
        replicas=AmountField(path="replicas"),
        later_when=[_LAUNCHER_WAITS],
    ),
    RoleDescription(path="spec.mpiReplicaSpecs.Worker", name="worker", replicas=AmountField(path="replicas")),
]
_TRAINING = (
    _kubeflow("JAXJob", "jaxjobs", "jaxReplicaSpecs"),
    # Version 2 makes the launcher by a Job; version 1 makes a pod of it, which has the role in a label.
    _kubeflow(
        "MPIJob",
        "mpijobs",
        "mpiReplicaSpecs",
        versions=["v2beta1", "v1"],
        composes=["batch/Job"],
        roles=_MPI_ROLES,
        pod_roles=PodRoles(
            labels=[f"{_KUBEFLOW}job-role", f"{_KUBEFLOW}replica-type"], by_owner={"batch/Job": "launcher"}
        ),
    ),
    _kubeflow("PaddleJob", "paddlejobs", "paddleReplicaSpecs", elastic=_elastic("worker")),
    _kubeflow("PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs", elastic=_elastic("worker")),
    _kubeflow("TFJob", "tfjobs", "tfReplicaSpecs"),
    _kubeflow("XGBoostJob", "xgboostjobs", "xgbReplicaSpecs"),
)


def _ray_roles(at: str) -> list[RoleDescription]:
    """Head and worker groups (KubeRay, utils/util.go, GetWorkerGroupDesiredReplicas and CalculateMinReplicas)."""
    head = RoleDescription(path=f"{at}.headGroupSpec", name="head")
    workers = RoleDescription(
        form="List",
        path=f"{at}.workerGroupSpecs",
        named_by="groupName",
        replicas=AmountField(path="replicas", default=0),
        size=AmountField(path="numOfHosts"),
        least="minReplicas",
        most="maxReplicas",
        suspended="suspend",
    )
    return [head, workers]


_RAY_POD_ROLES = PodRoles(labels=["ray.io/group"], names={"headgroup": "head"}, by_owner={"batch/Job": "submitter"})
_RAY_REPLICAS = ["ray.io/worker-group-replica-name"]
_RAY = (
    FrameworkKind(
        group="ray.io",
        kind="RayCluster",
        plural="rayclusters",
        versions=["v1"],
        gang="Together",
        roles=_ray_roles("spec"),
        pod_roles=_RAY_POD_ROLES.model_copy(update={"by_owner": {}}),
        autoscaled="spec.enableInTreeAutoscaling",
        suspended="spec.suspend",
        startable=True,
        sub_group_labels=_RAY_REPLICAS,
    ),
    FrameworkKind(
        group="ray.io",
        kind="RayJob",
        plural="rayjobs",
        versions=["v1"],
        gang="Together",
        composes=["ray.io/RayCluster", "batch/Job"],
        numbers_of="ray.io/RayCluster",
        current="status.rayClusterName",
        roles=[
            *_ray_roles("spec.rayClusterSpec"),
            # It is made when the cluster is ready, and the cluster waits for nobody: it cannot count in the minimum
            # (KubeRay, batchscheduler/volcano, handleRayJob).
            RoleDescription(
                name="submitter",
                templates=["spec.submitterPodTemplate"],
                only_when=[FieldCondition(path="spec.submissionMode", values=["K8sJobMode"], unset=True)],
                later_when=[],
            ),
        ],
        pod_roles=_RAY_POD_ROLES,
        autoscaled="spec.rayClusterSpec.enableInTreeAutoscaling",
        suspended="spec.suspend",
        startable=True,
        # KubeRay suspends no other (utils/validation.go, ValidateRayJobSpec).
        startable_when=[FieldCondition(path="spec.shutdownAfterJobFinishes", values=[True])],
        ended_when=[FieldCondition(path="status.jobDeploymentStatus", values=["Complete", "Failed"])],
        sub_group_labels=_RAY_REPLICAS,
    ),
    FrameworkKind(
        group="ray.io",
        kind="RayService",
        plural="rayservices",
        versions=["v1"],
        gang="Together",
        composes=["ray.io/RayCluster"],
        numbers_of="ray.io/RayCluster",
        roles=_ray_roles("spec.rayClusterConfig"),
        pod_roles=_RAY_POD_ROLES.model_copy(update={"by_owner": {}}),
        autoscaled="spec.rayClusterConfig.enableInTreeAutoscaling",
        sub_group_labels=_RAY_REPLICAS,
    ),
)
_LEADER_WORKER_SET = FrameworkKind(
    group="leaderworkerset.x-k8s.io",
    kind="LeaderWorkerSet",
    plural="leaderworkersets",
    versions=["v1"],
    gang="Together",
    composes=["apps/StatefulSet"],
    replica_groups=ReplicaGroups(
        label=f"{_LWS}group-key",
        size_annotation=f"{_LWS}size",
        sized="worker",
        led_by="leader",
    ),
    roles=[
        RoleDescription(
            name="leader",
            templates=["spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"],
        ),
        # The StatefulSet of the workers is made when the leader has a node, or is Ready (pod_controller.go).
        RoleDescription(
            name="worker",
            replicas=AmountField(path="spec.leaderWorkerTemplate.size", minus=1),
            templates=["spec.leaderWorkerTemplate.workerTemplate"],
            later_when=[
                FieldCondition(path="spec.startupPolicy", values=["LeaderReady"]),
                FieldCondition(annotation=f"{_LWS}exclusive-topology"),
            ],
        ),
    ],
    domain_annotations=[f"{_LWS}exclusive-topology"],
    pod_roles=PodRoles(labels=[f"{_LWS}worker-index"], names={"0": "leader"}, rest="worker"),
    sub_group_labels=[f"{_LWS}subgroup-index"],
)
_SPARK_APPLICATION = FrameworkKind(
    group="sparkoperator.k8s.io",
    kind="SparkApplication",
    plural="sparkapplications",
    versions=["v1beta2"],
    gang="Together",
    roles=[
        RoleDescription(path="spec.driver", name="driver", scheduler="schedulerName"),
        # The driver asks for them one by one when it runs, and makes do with what it gets.
        RoleDescription(
            path="spec.executor",
            name="executor",
            replicas=AmountField(path="instances"),
            scheduler="schedulerName",
            later_when=[],
            keeps_room=False,
        ),
    ],
    pod_roles=PodRoles(labels=["spark-role"]),
    elastic=ElasticRole(
        role="executor", least="spec.dynamicAllocation.minExecutors", most="spec.dynamicAllocation.maxExecutors"
    ),
    suspended="spec.suspend",
)
_VOLCANO_JOB = FrameworkKind(
    group="batch.volcano.sh",
    kind="Job",
    plural="jobs",
    versions=["v1alpha1"],
    gang="Together",
    roles=[RoleDescription(form="List", path="spec.tasks", replicas=AmountField(path="replicas"))],
    pod_roles=PodRoles(labels=[named_groups.VOLCANO_TASK]),
    minimum="spec.minAvailable",
    queue="spec.queue",
    priority_class="spec.priorityClassName",
    scheduler="spec.schedulerName",
)


def _transparent(group: str, kind: str, plural: str, version: str) -> FrameworkKind:
    return FrameworkKind(group=group, kind=kind, plural=plural, versions=[version], gang="Transparent")


KNOWN_KINDS: Final = (
    *_APPS,
    _CRON_JOB,
    _JOB,
    _transparent("argoproj.io", "Workflow", "workflows", "v1alpha1"),
    _VOLCANO_JOB,
    _JOBSET_KIND,
    *_TRAINING,
    _LEADER_WORKER_SET,
    *_RAY,
    _SPARK_APPLICATION,
    _TRAIN_JOB,
    _transparent("workload.codeflare.dev", "AppWrapper", "appwrappers", "v1beta2"),
)
"""Every kind that is known without being described by a user."""
