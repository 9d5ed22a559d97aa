"""What the controllers of job frameworks make of an object: names, owners, labels and annotations, one step each.

The versions whose source these shapes are from: batch/v1 and apps/v1 of Kubernetes 1.36, JobSet 08dfbdfd, Trainer
8c0f5059, training-operator release-1.9, mpi-operator caa3c47, KubeRay feeaf72f, LeaderWorkerSet 060ab4d, spark-operator
38082f33, argo-workflows f016ad89.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from typing import Any

from e2e.harness.frameworks import Made, Player

JOBSET = "jobset.sigs.k8s.io"
EXCLUSIVE = f"alpha.{JOBSET}/exclusive-topology"
KUBEFLOW = "training.kubeflow.org"
LWS = "leaderworkerset.sigs.k8s.io"


def name_of(made: Made) -> str:
    """The name of an object."""
    return str(made["metadata"]["name"])


# ---- batch/v1


def job_pods(player: Player, job: Made, indexes: Iterable[int] | None = None, **more: Any) -> list[str]:
    """The pods of a Job: all, or those of some completion indexes."""
    spec, meta = job["spec"], job["metadata"]
    most = min(spec.get("parallelism", 1), spec.get("completions") or spec.get("parallelism", 1))
    made = []
    for index in range(most) if indexes is None else indexes:
        labels = {"batch.kubernetes.io/job-name": meta["name"], "batch.kubernetes.io/controller-uid": meta["uid"]}
        counted, part = {}, ""
        if spec.get("completionMode") == "Indexed":
            counted, part = {"batch.kubernetes.io/job-completion-index": str(index)}, f"-{index}"
        name = f"{meta['name']}{part}-{player.suffix()}"
        given = {"labels": {**labels, **counted}, "annotations": counted}
        player.pod(name, spec["template"], job, **{**given, **more})
        made.append(name)
    return made


def job_complete(player: Player, job: Made) -> None:
    """The Job has ended well: all that its controller says then, without which the server takes none of it."""
    conditions = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z"}
    player.status(job, {**times, "conditions": conditions, "succeeded": job["spec"]["completions"]})


# ---- apps/v1


def deployment_pods(player: Player, manifest: Made) -> None:
    """A Deployment, and the pods of its ReplicaSet: those of the cluster's own controllers, where it has them."""
    owner, name = player.make(manifest), manifest["metadata"]["name"]
    if player.story.cluster.replica_sets:
        player.adopt(f"{name}-", manifest["spec"]["replicas"])
        return
    owner = player.make({**manifest, "kind": "ReplicaSet", "metadata": {"name": f"{name}-5d4f8c7b9"}}, owner)
    for _ in range(manifest["spec"]["replicas"]):
        player.pod(f"{name_of(owner)}-{player.suffix()}", manifest["spec"]["template"], owner)


# ---- JobSet


def replicated_job(player: Player, job_set: Made, role: str, attempt: int = 0) -> list[Made]:
    """The Jobs of one replicated job, without their pods."""
    roles = job_set["spec"]["replicatedJobs"]
    (found,) = [one for one in roles if one["name"] == role]
    meta, replicas = job_set["metadata"], found.get("replicas", 1)
    before = sum(one.get("replicas", 1) for one in roles[: roles.index(found)])
    jobs = []
    for index in range(replicas):
        name = f"{meta['name']}-{role}-{index}"
        marks = {
            f"{JOBSET}/jobset-name": meta["name"],
            f"{JOBSET}/jobset-uid": meta["uid"],
            f"{JOBSET}/replicatedjob-name": role,
            f"{JOBSET}/replicatedjob-replicas": str(replicas),
            f"{JOBSET}/global-replicas": str(sum(one.get("replicas", 1) for one in roles)),
            f"{JOBSET}/job-index": str(index),
            f"{JOBSET}/job-global-index": str(before + index),
            f"{JOBSET}/job-key": hashlib.sha1(f"{player.story.namespace}/{name}".encode()).hexdigest(),
            f"{JOBSET}/restart-attempt": str(attempt),
        }
        exclusive = meta.get("annotations", {}).get(EXCLUSIVE)
        notes = {**marks, **({EXCLUSIVE: exclusive} if exclusive else {})}
        template = copy.deepcopy(found["template"])
        pod = template["spec"]["template"]
        pod["metadata"] = {
            "labels": {**pod.get("metadata", {}).get("labels", {}), **marks},
            "annotations": {**pod.get("metadata", {}).get("annotations", {}), **notes},
        }
        given = template.get("metadata", {})
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "labels": {**given.get("labels", {}), **marks},
                "annotations": {**given.get("annotations", {}), **notes},
            },
            "spec": {"completionMode": "Indexed", "backoffLimit": 0, **template["spec"]},
        }
        jobs.append(player.make(body, job_set))
    return jobs


def exclusive_leader(player: Player, job: Made, key: str) -> list[str]:
    """The leader of a Job with exclusive placement, with the affinities that JobSet's webhook gives it."""
    mine = job["metadata"]["labels"][f"{JOBSET}/job-key"]
    same = {"key": f"{JOBSET}/job-key", "operator": "In", "values": [mine]}
    others = [
        {"key": f"{JOBSET}/job-key", "operator": "Exists"},
        {"key": f"{JOBSET}/job-key", "operator": "NotIn", "values": [mine]},
    ]

    def term(*expressions: Made) -> list[Made]:
        return [{"labelSelector": {"matchExpressions": [*expressions]}, "topologyKey": key, "namespaceSelector": {}}]

    affinity = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term(same)},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term(*others)},
    }
    spec = {**job["spec"]["template"]["spec"], "affinity": affinity}
    return job_pods(player, job, [0], spec=spec)


def exclusive_followers(player: Player, job: Made, key: str, domain: str) -> list[str]:
    """The others, which the webhook lets be made when the leader has a node, and sends to its domain."""
    spec = {**job["spec"]["template"]["spec"], "nodeSelector": {key: domain}}
    return job_pods(player, job, range(1, job["spec"]["parallelism"]), spec=spec)


# ---- Kubeflow's training jobs, version 1, and MPIJob version 2


def kubeflow_pods(player: Player, job: Made, role: str, indexes: Iterable[int] | None = None) -> list[str]:
    """The pods of one role."""
    field = next(key for key in job["spec"] if key.endswith("ReplicaSpecs"))
    found, name = job["spec"][field][role], name_of(job)
    made = []
    for index in range(found.get("replicas", 1)) if indexes is None else indexes:
        labels = {
            f"{KUBEFLOW}/job-name": name,
            f"{KUBEFLOW}/operator-name": f"{job['kind'].lower()}-controller",
            f"{KUBEFLOW}/replica-type": role.lower(),
            f"{KUBEFLOW}/replica-index": str(index),
            **({f"{KUBEFLOW}/job-role": "master"} if role == "Master" else {}),
        }
        pod = f"{name}-{role.lower()}-{index}"
        player.pod(pod, found["template"], job, labels=labels)
        made.append(pod)
    return made


def mpi_workers(player: Player, job: Made) -> list[str]:
    """The workers of an MPIJob; with a launcher that works too, they are counted from 1 on."""
    found, name = job["spec"]["mpiReplicaSpecs"]["Worker"], name_of(job)
    first = int(bool(job["spec"].get("runLauncherAsWorker")))
    made = []
    for index in range(found["replicas"]):
        labels = {
            f"{KUBEFLOW}/operator-name": "mpi-operator",
            f"{KUBEFLOW}/job-name": name,
            f"{KUBEFLOW}/job-role": "worker",
            f"{KUBEFLOW}/replica-index": str(index + first),
        }
        player.pod(f"{name}-worker-{index}", found["template"], job, labels=labels)
        made.append(f"{name}-worker-{index}")
    return made


def mpi_launcher(player: Player, job: Made) -> list[str]:
    """The launcher: a pod of a Job of the MPIJob."""
    template, name = copy.deepcopy(job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]), name_of(job)
    labels = {
        f"{KUBEFLOW}/operator-name": "mpi-operator",
        f"{KUBEFLOW}/job-name": name,
        f"{KUBEFLOW}/job-role": "launcher",
        **({f"{KUBEFLOW}/replica-index": "0"} if job["spec"].get("runLauncherAsWorker") else {}),
    }
    template["metadata"] = {"labels": labels}
    meta = {"name": f"{name}-launcher", "labels": {"app": name}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}
    return job_pods(player, player.make(body, job))


# ---- Ray


def ray_cluster(player: Player, owner: Made, spec: Made, name: str) -> Made:
    """The RayCluster of a RayJob or RayService."""
    labels = {"ray.io/originated-from-crd": owner["kind"], "ray.io/originated-from-cr-name": name_of(owner)}
    meta = {"name": name, "labels": labels}
    return player.make({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta, "spec": spec}, owner)


def ray_head(player: Player, cluster: Made) -> list[str]:
    """The head of a RayCluster, which is made first."""
    name = f"{name_of(cluster)}-head-{player.suffix()}"
    labels = _ray_labels(cluster, "head", "headgroup")
    player.pod(name, cluster["spec"]["headGroupSpec"]["template"], cluster, labels=labels)
    return [name]


def ray_workers(player: Player, cluster: Made, group: str, replicas: Iterable[int] | None = None) -> list[str]:
    """The workers of one group, all hosts of each replica."""
    (found,) = [one for one in cluster["spec"]["workerGroupSpecs"] if one["groupName"] == group]
    hosts = found.get("numOfHosts", 1)
    made = []
    for replica in range(found["replicas"]) if replicas is None else replicas:
        shared = {"ray.io/worker-group-replica-name": f"{group}-{replica}"} if hosts > 1 else {}
        for _ in range(hosts):
            name = f"{name_of(cluster)}-{group}-worker-{player.suffix()}"
            labels = {**_ray_labels(cluster, "worker", group), **shared}
            player.pod(name, found["template"], cluster, labels=labels)
            made.append(name)
    return made


def ray_submitter(player: Player, job: Made) -> list[str]:
    """The submitter of a RayJob, a pod of a Job: it is made when the cluster is ready."""
    labels = {"ray.io/originated-from-crd": "RayJob", "ray.io/originated-from-cr-name": name_of(job)}
    template = copy.deepcopy(job["spec"]["submitterPodTemplate"])
    meta = {"name": name_of(job), "labels": labels}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}
    return job_pods(player, player.make(body, job))


def _ray_labels(cluster: Made, node_type: str, group: str) -> dict[str, str]:
    return {
        "ray.io/is-ray-node": "yes",
        "ray.io/cluster": name_of(cluster),
        "ray.io/identifier": f"{name_of(cluster)}-{node_type}",
        "ray.io/node-type": node_type,
        "ray.io/group": group,
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }


# ---- LeaderWorkerSet


def lws_leaders(player: Player, found: Made) -> Made:
    """The StatefulSet of the leaders."""
    spec = found["spec"]["leaderWorkerTemplate"]
    return _stateful_set(player, name_of(found), found, found["spec"]["replicas"], _leader_template(spec))


def lws_leader(player: Player, leaders: Made, found: Made, group: int, *, size: int | None = None) -> Made:
    """The leader of one replica."""
    spec = found["spec"]["leaderWorkerTemplate"]
    labels, notes = _lws_marks(player, found, group, 0, size=size)
    name = f"{name_of(found)}-{group}"
    return player.pod(name, _leader_template(spec), leaders, labels=labels, annotations=notes)


def lws_workers(player: Player, leader: Made, found: Made, group: int, *, size: int | None = None) -> list[str]:
    """The StatefulSet that a leader owns, and its pods."""
    spec = found["spec"]["leaderWorkerTemplate"]
    count, template = (size or spec["size"]) - 1, spec["workerTemplate"]
    owner = _stateful_set(player, name_of(leader), leader, count, template)
    made = []
    for index in range(1, count + 1):
        labels, notes = _lws_marks(player, found, group, index, size=size)
        name = f"{name_of(leader)}-{index}"
        notes = {**notes, f"{LWS}/leader-name": name_of(leader)}
        player.pod(name, template, owner, labels=labels, annotations=notes)
        made.append(name)
    return made


def _leader_template(spec: Made) -> Made:
    return dict(spec.get("leaderTemplate") or spec["workerTemplate"])


def _stateful_set(player: Player, name: str, owner: Made, replicas: int, template: Made) -> Made:
    labelled = {**copy.deepcopy(template), "metadata": {"labels": {f"{LWS}/name": name}}}
    # A StatefulSet takes no other policy than this one (apps/v1, validation).
    labelled["spec"]["restartPolicy"] = "Always"
    body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {f"{LWS}/name": name}},
            "template": labelled,
        },
    }
    return player.make(body, owner)


def _lws_marks(player: Player, found: Made, group: int, index: int, *, size: int | None) -> tuple[Made, Made]:
    """The labels and annotations of a pod, the latter of the revision that it is of."""
    count = size or found["spec"]["leaderWorkerTemplate"]["size"]
    key = hashlib.sha1(f"{player.story.namespace}/{name_of(found)}-{group}".encode()).hexdigest()
    labels = {
        f"{LWS}/name": name_of(found),
        f"{LWS}/group-index": str(group),
        f"{LWS}/worker-index": str(index),
        f"{LWS}/group-key": key,
        f"{LWS}/template-revision-hash": f"revision-{count}",
    }
    topology = found["metadata"].get("annotations", {}).get(f"{LWS}/exclusive-topology")
    return labels, {f"{LWS}/size": str(count), **({f"{LWS}/exclusive-topology": topology} if topology else {})}


# ---- Spark


def spark_driver(player: Player, app: Made, template: Made) -> Made:
    """The driver, which spark-submit makes."""
    return player.pod(f"{name_of(app)}-driver", template, app, labels=_spark_labels(app, "driver"))


def spark_executor(player: Player, app: Made, driver: Made, number: int, template: Made) -> list[str]:
    """An executor: the driver makes and controls it, and the operator's webhook makes the application an owner too."""
    name = f"{name_of(app)}-5e8f-exec-{number}"
    labels = {**_spark_labels(app, "executor"), "spark-exec-id": str(number)}
    player.pod(name, template, driver, app, labels=labels)
    return [name]


def _spark_labels(app: Made, role: str) -> dict[str, str]:
    return {
        "spark-role": role,
        "spark-app-selector": f"spark-{app['metadata']['uid']}",
        "sparkoperator.k8s.io/app-name": name_of(app),
        "sparkoperator.k8s.io/launched-by-spark-operator": "true",
        "sparkoperator.k8s.io/submission-id": app["metadata"]["uid"],
    }
