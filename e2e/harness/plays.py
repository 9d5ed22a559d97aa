"""Objects in the shape of each project's documentation, and what its controller makes of them, step by step.

Each is a play: it yields, after each step of the controller, how many pods have to be bound by then and no more, or
None where those that are made may be bound one by one, in room that is kept for them. So one play is told in many ways:
with too little room, with too little quota, and with an operator that dies between steps. The versions of the sources
are those of `e2e.harness.controllers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from e2e.harness.controllers import (
    job_pods,
    kubeflow_pods,
    lws_leader,
    lws_leaders,
    lws_workers,
    mpi_launcher,
    mpi_workers,
    name_of,
    ray_cluster,
    ray_head,
    ray_submitter,
    ray_workers,
    replicated_job,
)
from e2e.harness.frameworks import QUEUE, TEMPLATE, Made, Player

KUEUE = f"{{kueue.x-k8s.io/queue-name: {QUEUE}}}"
"""Labels as users of Kueue write them."""
OURS = f"{{scheduling.tutti.dev/queue-name: {QUEUE}}}"
JOBSET_KIND = "jobset.x-k8s.io/v1alpha2/JobSet"
TRAIN_JOB_KIND = "trainer.kubeflow.org/v1alpha1/TrainJob"
PYTORCH_KIND = "kubeflow.org/v1/PyTorchJob"
MPI_KIND = "kubeflow.org/v2beta1/MPIJob"
RAY_KINDS = ("ray.io/v1/RayCluster", "ray.io/v1/RayJob", "ray.io/v1/RayService")
LWS_KIND = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"

Acts = Callable[[Player], Iterator[int | None]]


@dataclass(frozen=True)
class Play:
    """An object and its controller.

    Attributes:
        room: How many GPUs must be free, and within the quota, for anybody to start; each pod has one.
        kinds: What the project's installation serves.
        most: How many it takes for all to start, where a later stage needs more than the first.
        keeps: Whether room is kept for pods that are made when the first have a node.
    """

    name: str
    room: int
    acts: Acts
    kinds: tuple[str, ...] = ()
    most: int = 0
    keeps: bool = False

    def __str__(self) -> str:
        return self.name


# ---- batch/v1 Job, Kubernetes 1.36

INDEXED_JOB = f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: train, labels: {KUEUE}}}
spec: {{completionMode: Indexed, parallelism: 4, completions: 4, template: {TEMPLATE}}}
"""


def indexed_job(player: Player) -> Iterator[int | None]:
    """All pods at once."""
    job = player.make(INDEXED_JOB)
    yield 0
    job_pods(player, job, [0, 1])
    yield 0
    job_pods(player, job, [2, 3])
    yield 4


# ---- JobSet 08dfbdfd


def job_set(*roles: str, labels: str = OURS, annotations: str = "{}", **spec: str) -> str:
    """A JobSet of replicated jobs."""
    more = "\n".join(f"  {key}: {value}" for key, value in spec.items())
    listed = "\n".join(f"  - {one}" for one in roles)
    return f"""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: set, labels: {labels}, annotations: {annotations}}}
spec:
{more}
  replicatedJobs:
{listed}
"""


def role(name: str, replicas: int = 1, pods: int = 1, *, after: str = "", template: str = TEMPLATE) -> str:
    """A replicated job; `after` names another and its status."""
    waits = "dependsOn: [{{name: {}, status: {}}}], ".format(*after.split()) if after else ""
    job = f"{{spec: {{parallelism: {pods}, completions: {pods}, template: {template}}}}}"
    return f"{{name: {name}, replicas: {replicas}, {waits}template: {job}}}"


def any_order(player: Player) -> Iterator[int | None]:
    """A driver and workers, all Jobs at once (startupPolicyOrder AnyOrder, the default)."""
    found = player.make(job_set(role("driver"), role("workers", 2, 3)))
    for job in replicated_job(player, found, "driver"):
        job_pods(player, job)
    yield 0
    first, second = replicated_job(player, found, "workers")
    job_pods(player, first)
    yield 0
    job_pods(player, second)
    yield 7


def in_order(player: Player) -> Iterator[int | None]:
    """Workers are made when the driver is ready (startupPolicyOrder InOrder)."""
    order = "{startupPolicyOrder: InOrder}"
    found = player.make(job_set(role("driver"), role("workers", 2, 2), startupPolicy=order))
    (job,) = replicated_job(player, found, "driver")
    yield 0
    job_pods(player, job)
    yield 1
    first, second = replicated_job(player, found, "workers")
    job_pods(player, first)
    yield None
    job_pods(player, second)
    yield 5


def after_ready(player: Player) -> Iterator[int | None]:
    """Workers depend on a server that is Ready."""
    found = player.make(job_set(role("server", 1, 2), role("workers", 1, 3, after="server Ready")))
    (job,) = replicated_job(player, found, "server")
    job_pods(player, job)
    yield 2
    (job,) = replicated_job(player, found, "workers")
    yield 2
    job_pods(player, job)
    yield 5


def after_complete(player: Player) -> Iterator[int | None]:
    """Workers depend on an initializer that is Complete."""
    found = player.make(job_set(role("init"), role("workers", 1, 3, after="init Complete")))
    (job,) = replicated_job(player, found, "init")
    pods = job_pods(player, job)
    yield 1
    player.end(*pods)
    player.status(found, {"replicatedJobsStatus": [{"name": "init", "succeeded": 1}]})
    (job,) = replicated_job(player, found, "workers")
    job_pods(player, job, [0, 1])
    yield 0
    job_pods(player, job, [2])
    yield 3


# ---- TrainJob, Trainer 8c0f5059

TRAIN_JOB = f"""
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: tune, labels: {KUEUE}}}
spec:
  runtimeRef: {{name: torchtune-llama3.2-1b}}
  initializer: {{dataset: {{storageUri: "hf://data"}}, model: {{storageUri: "hf://model"}}}}
  trainer: {{numNodes: 2}}
"""


def train_job_set(player: Player, train_job: Made, template: str = TEMPLATE) -> Made:
    """The JobSet of the torchtune runtime: two initializers, then the nodes."""
    init = [role(f"{what}-initializer", template=template) for what in ("dataset", "model")]
    waits = [{"name": f"{what}-initializer", "status": "Complete"} for what in ("dataset", "model")]
    nodes = role("node", 1, 2, template=template).replace("{name: node", f"{{name: node, dependsOn: {waits}", 1)
    manifest = job_set(*init, nodes, labels="{}").replace("name: set", f"name: {name_of(train_job)}")
    return player.make(manifest, train_job)


def train_job(player: Player) -> Iterator[int | None]:
    """Two initializers together, and two nodes when both have succeeded."""
    found = train_job_set(player, player.make(TRAIN_JOB))
    pods = [
        pod
        for what in ("dataset", "model")
        for job in replicated_job(player, found, f"{what}-initializer")
        for pod in job_pods(player, job)
    ]
    yield 2
    player.end(*pods)
    done = [{"name": f"{what}-initializer", "succeeded": 1} for what in ("dataset", "model")]
    player.status(found, {"replicatedJobsStatus": done})
    (job,) = replicated_job(player, found, "node")
    job_pods(player, job)
    yield 2


# ---- Kubeflow's training jobs, training-operator release-1.9


def pytorch_job(workers: int, *, policy: str = "", elastic: str = "", labels: str = KUEUE) -> str:
    """A PyTorchJob of a master and workers; an elastic one has no master, as in its documentation."""
    master = "" if elastic else f"Master: {{replicas: 1, restartPolicy: OnFailure, template: {TEMPLATE}}}"
    return f"""
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: torch, labels: {labels}}}
spec:
  runPolicy: {{{policy}}}
  {f"elasticPolicy: {elastic}" if elastic else ""}
  pytorchReplicaSpecs:
    {master}
    Worker: {{replicas: {workers}, restartPolicy: OnFailure, template: {TEMPLATE}}}
"""


def pytorch(player: Player) -> Iterator[int | None]:
    """Master and workers, made role by role."""
    job = player.make(pytorch_job(3))
    kubeflow_pods(player, job, "Master")
    yield 0
    kubeflow_pods(player, job, "Worker", [0, 1])
    yield 0
    kubeflow_pods(player, job, "Worker", [2])
    yield 4


# ---- MPIJob, mpi-operator caa3c47


def mpi_job(**spec: str) -> str:
    """An MPIJob of a launcher and four workers."""
    more = "\n".join(f"  {key}: {value}" for key, value in spec.items())
    return f"""
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: mpi, labels: {KUEUE}}}
spec:
  slotsPerWorker: 1
  runPolicy: {{cleanPodPolicy: Running}}
{more}
  mpiReplicaSpecs:
    Launcher: {{replicas: 1, template: {TEMPLATE}}}
    Worker: {{replicas: 4, template: {TEMPLATE}}}
"""


def _workers_then_launcher(player: Player, manifest: str, *, alone: int) -> Iterator[int | None]:
    job = player.make(manifest)
    mpi_workers(player, job)
    yield alone
    mpi_launcher(player, job)
    yield 5


def mpi_at_startup(player: Player) -> Iterator[int | None]:
    """Workers, then the launcher, without waiting (launcherCreationPolicy AtStartup, the default)."""
    return _workers_then_launcher(player, mpi_job(), alone=0)


def mpi_when_ready(player: Player) -> Iterator[int | None]:
    """The launcher is made when the workers are ready."""
    return _workers_then_launcher(player, mpi_job(launcherCreationPolicy="WaitForWorkersReady"), alone=4)


def mpi_launcher_works(player: Player) -> Iterator[int | None]:
    """The launcher is the first worker."""
    return _workers_then_launcher(player, mpi_job(runLauncherAsWorker="true"), alone=0)


# ---- Ray, KubeRay feeaf72f


def ray_spec(*groups: str, more: str = "") -> str:
    """The spec of a RayCluster."""
    listed = ", ".join(groups)
    return (
        f'{{rayVersion: "2.52.0", {more} headGroupSpec: {{rayStartParams: {{}}, template: {TEMPLATE}}}, '
        f"workerGroupSpecs: [{listed}]}}"
    )


def ray_group(name: str, replicas: int, *, least: int | None = None, most: int | None = None, more: str = "") -> str:
    """A worker group."""
    bounds = f"minReplicas: {replicas if least is None else least}, maxReplicas: {most or replicas}"
    return f"{{groupName: {name}, replicas: {replicas}, {bounds}, {more} rayStartParams: {{}}, template: {TEMPLATE}}}"


def ray_object(kind: str, name: str, spec: str, labels: str = KUEUE) -> str:
    """An object of KubeRay's."""
    return f"{{apiVersion: ray.io/v1, kind: {kind}, metadata: {{name: {name}, labels: {labels}}}, spec: {spec}}}"


def ray(player: Player) -> Iterator[int | None]:
    """Head, then each group; a replica of one has four hosts."""
    spec = ray_spec(ray_group("small", 2, least=1, most=5), ray_group("hosts", 1, more="numOfHosts: 4,"))
    cluster = player.make(ray_object("RayCluster", "ray", spec))
    ray_head(player, cluster)
    yield 0
    ray_workers(player, cluster, "small")
    yield 0
    ray_workers(player, cluster, "hosts")
    yield 7


RAY_JOB = ray_object(
    "RayJob",
    "rj",
    f"""{{entrypoint: python main.py, submissionMode: K8sJobMode, submitterPodTemplate: {TEMPLATE},
    rayClusterSpec: {ray_spec(ray_group("small", 2))}}}""",
)


def ray_job_cluster(player: Player, job: Made, name: str) -> Made:
    """The cluster of one attempt, which the status names first."""
    player.status(job, {"rayClusterName": name, "jobDeploymentStatus": "Initializing"})
    return ray_cluster(player, job, job["spec"]["rayClusterSpec"], name)


def ray_job(player: Player) -> Iterator[int | None]:
    """The cluster, and a submitter when it is ready."""
    job = player.make(RAY_JOB)
    cluster = ray_job_cluster(player, job, f"{name_of(job)}-abcde")
    ray_head(player, cluster)
    yield 0
    ray_workers(player, cluster, "small")
    yield 3
    player.status(cluster, {"state": "ready"})
    ray_submitter(player, job)
    yield 4


# ---- LeaderWorkerSet 060ab4d


def leader_worker_set(replicas: int, size: int, *, annotations: str = "{}", more: str = "") -> str:
    """A LeaderWorkerSet whose pods are all of one template but for the leaders."""
    return f"""
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: vllm, labels: {KUEUE}, annotations: {annotations}}}
spec:
  replicas: {replicas}
  {more}
  leaderWorkerTemplate: {{size: {size}, leaderTemplate: {TEMPLATE}, workerTemplate: {TEMPLATE}}}
"""


def lws(player: Player) -> Iterator[int | None]:
    """Leader, and its workers as soon as it exists (startupPolicy LeaderCreated, the default)."""
    found = player.make(leader_worker_set(1, 4))
    leaders = lws_leaders(player, found)
    leader = lws_leader(player, leaders, found, 0)
    yield 0
    lws_workers(player, leader, found, 0)
    yield 4


def lws_leader_ready(player: Player) -> Iterator[int | None]:
    """The workers are made when the leader is ready."""
    found = player.make(leader_worker_set(1, 4, more="startupPolicy: LeaderReady"))
    leaders = lws_leaders(player, found)
    yield 0
    leader = lws_leader(player, leaders, found, 0)
    yield 1
    lws_workers(player, leader, found, 0)
    yield 4


PLAYS = (
    Play("job", 4, indexed_job),
    Play("jobset", 7, any_order, (JOBSET_KIND,)),
    Play("jobset-in-order", 5, in_order, (JOBSET_KIND,), keeps=True),
    Play("jobset-after-ready", 5, after_ready, (JOBSET_KIND,), keeps=True),
    Play("jobset-after-complete", 1, after_complete, (JOBSET_KIND,), most=3),
    Play("trainjob", 2, train_job, (JOBSET_KIND, TRAIN_JOB_KIND)),
    Play("pytorchjob", 4, pytorch, (PYTORCH_KIND,)),
    Play("mpijob", 5, mpi_at_startup, (MPI_KIND,)),
    Play("mpijob-when-ready", 5, mpi_when_ready, (MPI_KIND,), keeps=True),
    Play("mpijob-launcher-works", 5, mpi_launcher_works, (MPI_KIND,)),
    Play("raycluster", 7, ray, RAY_KINDS),
    Play("rayjob", 4, ray_job, RAY_KINDS, keeps=True),
    Play("leaderworkerset", 4, lws, (LWS_KIND,)),
    Play("leaderworkerset-leader-ready", 4, lws_leader_ready, (LWS_KIND,), keeps=True),
)
"""Every object whose pods are one gang, or several one after the other."""
