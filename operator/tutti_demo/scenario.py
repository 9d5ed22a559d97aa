"""The play: who the teams are, what arrives in which act and when, and the objects that the API server is given for it.

Data only, the same for the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tutti.api.conventions.named_groups import POD_GROUP, QUEUE_NAME
from tutti.api.crds import crd
from tutti.api.kinds import KINDS
from tutti.api.model import API_VERSION

GPU = "nvidia.com/gpu"
COHORT = "lab"
FLAVOR = "a100-sxm"
LOCAL_QUEUE = "main"
PLATFORM = "platform"
"""The namespace of work outside of any queue: no quota is counted for it."""

NODES = 20
GPUS_PER_NODE = 8
QUOTA_PER_GPU = ((GPU, 1, ""), ("cpu", 8, ""), ("memory", 64, "Gi"))
"""What a queue has for each of its GPUs: as nodes do, so that pods may ask for cpu and memory as pods do elsewhere."""
PAIR = 2
"""How many nodes the gangs of the first act are pinned to."""


@dataclass(frozen=True, slots=True)
class Team:
    """A namespace with a LocalQueue, and the ClusterQueue of the same name behind it; amounts are GPUs."""

    name: str
    nominal: int
    borrowing_limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A gang, or a single pod where `members` is 1.

    Attributes:
        at: When its pods are created, seconds after its act has begun.
        gpus: What each member asks for.
        run_seconds: How long each member runs once it is bound.
        pinned: Whether only the pair of nodes set apart for it will do.
    """

    name: str
    team: str
    members: int = 1
    gpus: int
    at: float
    run_seconds: float
    pinned: bool = False

    @property
    def is_gang(self) -> bool:
        """Whether its pods are placed together."""
        return self.members > 1

    @property
    def queue(self) -> str:
        """The LocalQueue it waits in; empty outside of the teams."""
        return "" if self.team == PLATFORM else LOCAL_QUEUE

    @property
    def pods(self) -> tuple[str, ...]:
        """The names of its pods."""
        return tuple(f"{self.name}-{index}" for index in range(self.members)) if self.is_gang else (self.name,)

    @property
    def path(self) -> str:
        """Namespace and name."""
        return f"{self.team}/{self.name}"


@dataclass(frozen=True, slots=True)
class Wave:
    """Pods that arrive together, in the order in which they are created."""

    at: float
    pods: tuple[tuple[Job, str], ...]

    @property
    def gangs(self) -> tuple[Job, ...]:
        """The gangs among them, each once."""
        return tuple(dict.fromkeys(job for job, _ in self.pods if job.is_gang))


@dataclass(frozen=True, slots=True)
class Act:
    """A part of the play; the next one begins when all its work is done."""

    number: int
    title: str
    hint: str
    jobs: tuple[Job, ...]
    waves: tuple[Wave, ...]

    @property
    def gangs(self) -> tuple[Job, ...]:
        """The gangs, in the order in which they are shown."""
        return tuple(job for job in self.jobs if job.is_gang)


@dataclass(frozen=True, slots=True)
class DemoScenario:
    """The whole play."""

    teams: tuple[Team, ...]
    acts: tuple[Act, ...]
    nodes: int = NODES
    gpus_per_node: int = GPUS_PER_NODE

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Everything that arrives."""
        return tuple(job for act in self.acts for job in act.jobs)


TEAMS = (Team("vision", nominal=64, borrowing_limit=16), Team("speech", nominal=96, borrowing_limit=64))


def compose(*, seed: int = 0, speed: float = 1.0) -> DemoScenario:
    """Return the play: its gangs are always the same; the seed moves single pods and the order of creation.

    Args:
        seed: Of what is left to chance.
        speed: How many times faster than written it is played.
    """
    chance = Random(seed)  # noqa: S311 - varies a show, guards nothing
    acts = (_deadlock(), _quota(chance), _too_large(chance))
    return DemoScenario(TEAMS, tuple(_act(number, act, chance, speed) for number, act in enumerate(acts, start=1)))


@dataclass(frozen=True, slots=True)
class _Written:
    """An act as written, before it is given its number and pace."""

    title: str
    hint: str
    jobs: tuple[Job, ...]


def _deadlock() -> _Written:
    """Two gangs of 3 for two nodes with room for 2 members each: one fits, two halves would hang for ever."""
    gangs = (
        Job(name="tango", team="vision", members=3, gpus=4, at=0.5, run_seconds=4.5, pinned=True),
        Job(name="waltz", team="speech", members=3, gpus=4, at=0.5, run_seconds=4.5, pinned=True),
    )
    return _Written(
        "two gangs, one deadlock that does not happen",
        "Each needs 3 pods at once, and their two nodes hold 4. Half and half, both would hang for ever.",
        gangs,
    )


def _quota(chance: Random) -> _Written:
    """Team vision asks for more than its quota, and its last gang waits although nodes are empty."""
    gangs = (
        Job(name="train-1", team="vision", members=4, gpus=8, at=0.3, run_seconds=7),
        Job(name="train-2", team="vision", members=4, gpus=8, at=0.6, run_seconds=9),
        Job(name="train-3", team="vision", members=4, gpus=8, at=1.2, run_seconds=5),
        Job(name="tune", team="vision", members=2, gpus=8, at=1.8, run_seconds=5),
        Job(name="decode", team="speech", members=3, gpus=4, at=2.4, run_seconds=5),
    )
    return _Written(
        "a queue at its limit waits its turn, though nodes are empty",
        "vision may use 64 GPUs and borrow 16: train-3 has to wait, tune borrows, speech is not held up.",
        (*gangs, *_singles(chance, "clip", teams=("speech",), count=4, between=(1.5, 6.0))),
    )


def _too_large(chance: Random) -> _Written:
    """A gang within its quota, larger than what is free, waits as a whole; smaller work goes by."""
    serving = tuple(
        Job(name=f"serve-{index}", team=PLATFORM, gpus=8, at=0.2, run_seconds=round(chance.uniform(8.0, 10.0), 1))
        for index in range(10)
    )
    gangs = (
        Job(name="pretrain", team="speech", members=12, gpus=8, at=1.2, run_seconds=5),
        Job(name="eval", team="speech", members=2, gpus=4, at=2.4, run_seconds=3),
        Job(name="probe", team="vision", members=3, gpus=2, at=3.2, run_seconds=3),
    )
    return _Written(
        "a gang too large for now waits whole, smaller work goes by",
        "pretrain needs 12 whole nodes and holds none while it waits; eval, probe and single pods use them.",
        (*gangs, *serving, *_singles(chance, "note", teams=("vision", "speech"), count=5, between=(2.0, 4.5))),
    )


def _singles(
    chance: Random, name: str, *, teams: tuple[str, ...], count: int, between: tuple[float, float]
) -> Iterator[Job]:
    """Single pods of these teams, arriving within a span of seconds."""
    for index in range(count):
        yield Job(
            name=f"{name}-{index}",
            team=chance.choice(teams),
            gpus=chance.choice((1, 1, 2)),
            at=round(chance.uniform(*between), 1),
            run_seconds=round(chance.uniform(1.5, 2.5), 1),
        )


def _act(number: int, written: _Written, chance: Random, speed: float) -> Act:
    """Give an act its pace and its waves; what arrives at once is created in an order left to chance."""
    jobs = tuple(_paced(job, speed) for job in written.jobs)
    times = sorted({job.at for job in jobs})
    waves = []
    for at in times:
        pods = [(job, pod) for job in jobs if job.at == at for pod in job.pods]
        chance.shuffle(pods)
        waves.append(Wave(at, tuple(pods)))
    return Act(number, written.title, written.hint, jobs, tuple(waves))


def _paced(job: Job, speed: float) -> Job:
    return Job(
        name=job.name,
        team=job.team,
        members=job.members,
        gpus=job.gpus,
        at=job.at / speed,
        run_seconds=job.run_seconds / speed,
        pinned=job.pinned,
    )


JOB = "demo.tutti.dev/job"
"""The label that says which job of the play a pod belongs to."""
RUN_SECONDS = "sim.tutti.dev/run-seconds"
"""The annotation by which hollow nodes know when a pod is done."""
HOSTNAME = "kubernetes.io/hostname"
RACK = "topology.tutti.dev/rack"

Document = dict[str, Any]


def definitions() -> list[Document]:
    """The CustomResourceDefinitions, generated from the kinds as they are in this very version."""
    return [crd(kind) for kind in KINDS.values()]


def fixtures(scenario: DemoScenario) -> list[Document]:
    """What stands before the first act: namespaces, the flavor, the cohort, and each team's queues; in this order."""
    names = [*(team.name for team in scenario.teams), PLATFORM]
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    shared = [_ours("ResourceFlavor", FLAVOR, {}), _ours("Cohort", COHORT, {})]
    queues = [document for team in scenario.teams for document in _queues(team)]
    return [*namespaces, *shared, *queues]


def pod_group(job: Job) -> Document:
    """The PodGroup of a gang: all its members or none."""
    spec: Document = {"schedulingPolicy": {"gang": {"minCount": job.members}}}
    if job.queue:
        spec["queueName"] = job.queue
    return _ours("PodGroup", job.name, spec, namespace=job.team)


def pod(job: Job, name: str, *, pinned_to: Sequence[str] = ()) -> Document:
    """One pod of a job.

    Args:
        job: What it is a member of.
        name: Its own name.
        pinned_to: The host names that will do for a pinned job.
    """
    labels = {JOB: job.name}
    if job.queue:
        labels[QUEUE_NAME] = job.queue
    if job.is_gang:
        labels[POD_GROUP] = job.name
    container = {"name": "main", "image": "demo", "resources": {"limits": {GPU: str(job.gpus)}}}
    spec: Document = {"schedulerName": "tutti", "restartPolicy": "Never", "containers": [container]}
    if job.pinned:
        spec["affinity"] = _on(pinned_to)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job.team,
            "labels": labels,
            "annotations": {RUN_SECONDS: f"{job.run_seconds:.2f}"},
        },
        "spec": spec,
    }


def _queues(team: Team) -> list[Document]:
    quotas = [
        {
            "name": name,
            "nominalQuota": f"{team.nominal * each}{unit}",
            "borrowingLimit": f"{team.borrowing_limit * each}{unit}",
        }
        for name, each, unit in QUOTA_PER_GPU
    ]
    covered = [name for name, *_ in QUOTA_PER_GPU]
    group = {"coveredResources": covered, "flavors": [{"name": FLAVOR, "resources": quotas}]}
    cluster_queue = {"cohortName": COHORT, "namespaceSelector": {}, "resourceGroups": [group]}
    return [
        _ours("ClusterQueue", team.name, cluster_queue),
        _ours("LocalQueue", LOCAL_QUEUE, {"clusterQueue": team.name}, namespace=team.name),
    ]


def _on(hosts: Sequence[str]) -> Document:
    expression = {"key": HOSTNAME, "operator": "In", "values": list(hosts)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _ours(kind: str, name: str, spec: Document, *, namespace: str = "") -> Document:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
