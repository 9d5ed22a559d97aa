"""Where each kind that Kueue manages has its pod templates, how many pods come of each, and how it is held back.

Facts: Kueue 0.19, pkg/controller/jobs/*, method PodSets of each integration.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from tutti.cli.migrate.kueue import words
from tutti.cli.migrate.kueue.kinds import mapping


class GangScope(enum.Enum):
    """Which pods of an object are admitted together."""

    WHOLE = enum.auto()
    """All of them."""
    APART = enum.auto()
    """Each by itself."""
    OWNED = enum.auto()
    """All of each Job that is made; its name is not known before."""
    SPLIT = enum.auto()
    """All of each replica, whose pods only their controller can tell apart."""


@dataclass(slots=True)
class Role:
    """The pods of one template.

    Attributes:
        name: The pod group they make.
        template: The template in the document; changes to it change the document.
        path: Where it stands; empty for a pod, which is its own template.
        count: How many pods there will be.
        min_count: How many must be admitted together; None: all.
        apart: Whether its pods are admitted apart from those of the other roles, because they are made later.
    """

    name: str
    template: dict[str, Any]
    path: str
    count: int
    min_count: int | None = None
    apart: bool = False


class Remark(NamedTuple):
    """Something about a field that does not mean the same here, and what to do."""

    path: str
    happens: str
    do: str


@dataclass(slots=True)
class Layout:
    """What there is to know of an object that makes pods.

    Attributes:
        roles: Its pod templates.
        gang: Which pods are admitted together.
        said_by: The object whose labels Kueue reads: the document, or the template of the jobs it makes.
        said_at: Where that stands in the document.
        suspends: The mapping whose field `suspend` holds it back; None where nothing does.
        remarks: What does not mean the same here.
    """

    roles: list[Role]
    gang: GangScope
    said_by: dict[str, Any]
    said_at: str = ""
    suspends: dict[str, Any] | None = None
    remarks: list[Remark] = field(default_factory=list)


def layout_of(document: dict[str, Any]) -> Layout | None:
    """The layout of an object; None for a kind whose pods are not known here."""
    group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
    reader = READERS.get((group, str(document.get("kind", ""))))
    return None if reader is None else reader(document)


def _pod(document: dict[str, Any]) -> Layout:
    total = words.read_word(document, words.TOTAL_COUNT)
    grouped = bool(words.read_word(document, words.GROUP_NAME)) and total.isdecimal()
    role = Role("main", document, "", int(total) if grouped else 1)
    whole = grouped or bool(words.read_word(document, words.MAX_SECONDS))
    return Layout([role], GangScope.WHOLE if whole else GangScope.APART, document)


def _job(document: dict[str, Any]) -> Layout:
    spec = mapping(document, "spec")
    named = bool(mapping(document, "metadata").get("name"))
    roles = _job_roles(spec, "spec", least=words.read_word(document, words.MIN_PARALLELISM))
    return Layout(roles, GangScope.WHOLE if named else GangScope.OWNED, document, suspends=spec)


def _cron_job(document: dict[str, Any]) -> Layout:
    jobs = mapping(mapping(document, "spec"), "jobTemplate")
    spec, path = mapping(jobs, "spec"), "spec.jobTemplate.spec"
    roles = _job_roles(spec, path, least=words.read_word(jobs, words.MIN_PARALLELISM))
    return Layout(roles, GangScope.OWNED, jobs, "spec.jobTemplate", suspends=spec)


def _job_roles(spec: dict[str, Any], path: str, *, least: str) -> list[Role]:
    count = pods_of_job(spec)
    min_count = int(least) if least.isdecimal() and 0 < int(least) < count else None
    return _role("main", spec, path, count, min_count=min_count)


def pods_of_job(spec: dict[str, Any]) -> int:
    """How many pods of a Job run at once: its parallelism, or fewer completions."""
    parallelism, completions = _integer(spec, "parallelism", 1), spec.get("completions")
    return min(parallelism, completions) if isinstance(completions, int) else parallelism


def _job_set(document: dict[str, Any]) -> Layout:
    spec = mapping(document, "spec")
    roles: list[Role] = []
    for index, one in enumerate(_mappings(spec.get("replicatedJobs"))):
        job = mapping(mapping(one, "template"), "spec")
        count = _integer(one, "replicas", 1) * pods_of_job(job)
        path = f"spec.replicatedJobs[{index}].template.spec"
        roles += _role(str(one.get("name", "")).lower(), job, path, count)
    return Layout(roles, GangScope.WHOLE, document, suspends=spec)


def _training(at: str) -> Callable[[dict[str, Any]], Layout]:
    """A job of Kubeflow's, whose roles stand under a field: Master, Worker, Launcher, ..."""

    def read(document: dict[str, Any]) -> Layout:
        spec = mapping(document, "spec")
        roles: list[Role] = []
        for role, one in mapping(spec, at).items():
            if isinstance(one, dict):
                roles += _role(str(role).lower(), one, f"spec.{at}.{role}", _integer(one, "replicas", 1))
        layout = Layout(roles, GangScope.WHOLE, document, suspends=mapping(spec, "runPolicy"))
        if spec.get("launcherCreationPolicy") == "WaitForWorkersReady":
            for one in roles:
                one.apart = one.name == "launcher"
            happens = "the launcher is made when the workers are ready, so it is admitted apart from them"
            do = "leave it out, and migrate again, so that launcher and workers are one gang"
            layout.remarks.append(Remark("spec.launcherCreationPolicy", happens, do))
        return layout

    return read


def _ray(at: str) -> Callable[[dict[str, Any]], Layout]:
    """An object of KubeRay's, whose cluster stands under a field of its spec; empty: in the spec itself."""

    def read(document: dict[str, Any]) -> Layout:
        spec = mapping(document, "spec")
        cluster, path = (mapping(spec, at), f"spec.{at}") if at else (spec, "spec")
        roles = _role("head", mapping(cluster, "headGroupSpec"), f"{path}.headGroupSpec", 1)
        for index, one in enumerate(_mappings(cluster.get("workerGroupSpecs"))):
            count = _integer(one, "replicas", 1) * _integer(one, "numOfHosts", 1)
            name = str(one.get("groupName", "")).lower()
            roles += _role(name, one, f"{path}.workerGroupSpecs[{index}]", count)
        layout = Layout(roles, GangScope.WHOLE, document, suspends=spec)
        if at == "rayClusterSpec" and spec.get("submissionMode") in (None, "K8sJobMode"):
            _submitter(spec, layout)
        return layout

    return read


def _submitter(spec: dict[str, Any], layout: Layout) -> None:
    """The pod that submits a RayJob, made when its cluster is ready."""
    path, template = "spec.submitterPodTemplate", spec.get("submitterPodTemplate")
    if isinstance(template, dict):
        layout.roles.append(Role("submitter", template, path, 1, apart=True))
        happens = "its pod is made when the cluster is ready, so it is admitted apart from it"
        layout.remarks.append(Remark(path, happens, "see that the queue keeps room for it"))
    else:
        happens = "the pod that submits is not written here, so it is placed by the default scheduler, without quota"
        layout.remarks.append(Remark(path, happens, "write this template, and migrate again, if it is to be counted"))


def _deployment(document: dict[str, Any]) -> Layout:
    spec = mapping(document, "spec")
    return Layout(_role("main", spec, "spec", _integer(spec, "replicas", 1)), GangScope.APART, document)


def _stateful_set(document: dict[str, Any]) -> Layout:
    spec = mapping(document, "spec")
    together = spec.get("podManagementPolicy") == "Parallel"
    count = _integer(spec, "replicas", 1)
    roles = _role("main", spec, "spec", count, min_count=None if together or count == 1 else 1)
    layout = Layout(roles, GangScope.WHOLE, document)
    if roles and roles[0].min_count is not None:
        happens = "its pods are made one after the other, so the first is admitted without the others"
        do = "set podManagementPolicy: Parallel, and take minCount out of its Workload"
        layout.remarks.append(Remark("spec.podManagementPolicy", happens, do))
    return layout


def _leader_worker_set(document: dict[str, Any]) -> Layout:
    both = mapping(mapping(document, "spec"), "leaderWorkerTemplate")
    path = "spec.leaderWorkerTemplate"
    roles = [
        Role(name, both[field], f"{path}.{field}", 1)
        for name, field in (("leader", "leaderTemplate"), ("worker", "workerTemplate"))
        if isinstance(both.get(field), dict)
    ]
    return Layout(roles, GangScope.SPLIT, document)


def _role(name: str, holder: dict[str, Any], path: str, count: int, *, min_count: int | None = None) -> list[Role]:
    """The role of a holder's template; none where it has no template or makes no pods."""
    template = holder.get("template")
    if not isinstance(template, dict) or count < 1:
        return []
    return [Role(name, template, f"{path}.template", count, min_count)]


def _integer(holder: dict[str, Any], field: str, default: int) -> int:
    found = holder.get(field, default)
    return found if isinstance(found, int) else default


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


READERS: Mapping[tuple[str, str], Callable[[dict[str, Any]], Layout]] = MappingProxyType(
    {
        ("", "Pod"): _pod,
        ("batch", "Job"): _job,
        ("batch", "CronJob"): _cron_job,
        ("apps", "Deployment"): _deployment,
        ("apps", "StatefulSet"): _stateful_set,
        ("jobset.x-k8s.io", "JobSet"): _job_set,
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
        ("kubeflow.org", "MPIJob"): _training("mpiReplicaSpecs"),
        ("kubeflow.org", "PyTorchJob"): _training("pytorchReplicaSpecs"),
        ("kubeflow.org", "TFJob"): _training("tfReplicaSpecs"),
        ("kubeflow.org", "XGBoostJob"): _training("xgbReplicaSpecs"),
        ("kubeflow.org", "PaddleJob"): _training("paddleReplicaSpecs"),
        ("kubeflow.org", "JAXJob"): _training("jaxReplicaSpecs"),
        ("ray.io", "RayCluster"): _ray(""),
        ("ray.io", "RayJob"): _ray("rayClusterSpec"),
        ("ray.io", "RayService"): _ray("rayClusterConfig"),
    }
)
"""How each kind is read, by API group and kind."""
