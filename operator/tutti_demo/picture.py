"""What has been observed, kept so that every promise of the scheduler can be checked and every view be drawn from it.

Pure: the observer hands in what it saw and when it saw it.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field

from tutti.api.messages import counted
from tutti_demo.scenario import FLAVOR, GPU, PAIR, Act, DemoScenario, Job

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Why:
    """Why something waits, as the operator explains it."""

    gate: str
    reason: str
    message: str
    room: str = ""
    """How many of the members would fit, where that is the reason."""

    @property
    def full(self) -> str:
        """The gate and the whole message."""
        return f"{self.gate.lower()}: {self.message}"

    @property
    def numbers(self) -> str:
        """The numbers of the message, in a few words."""
        if self.room:
            return f"room for {self.room} pods"
        message = self.message.replace(f" in flavor {FLAVOR}", "").replace(f"{GPU} in {FLAVOR}", "GPUs")
        return message.partition(": ")[2] if message.startswith("ClusterQueue ") and ": " in message else message

    @property
    def brief(self) -> str:
        """The gate and the numbers."""
        return f"{self.gate.lower()}: {self.numbers}"


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod of the play, by the name of its job; `node` is empty until it is bound."""

    namespace: str
    name: str
    uid: str
    job: str
    node: str = ""
    phase: str = "Pending"
    gpus: int = 0
    why: Why | None = None

    @property
    def occupies(self) -> bool:
        """Whether it takes room on its node."""
        return bool(self.node) and self.phase not in ENDED


class State(enum.StrEnum):
    """How far a job has come."""

    EXPECTED = "expected"
    WAITING = "waiting"
    BINDING = "binding"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(slots=True)
class Track:
    """What has been seen of one job.

    Attributes:
        pods: Its pods by name, also those that have finished.
        arrived_at: When its first pod was seen.
        bound_at: When each pod was first seen with a node.
        finished_at: When the last of its pods was seen to be done.
        partly_since: Since when it is partly bound, if it is.
        partly_seconds: The longest time it was, while that is over.
        gates: The gates it was told to wait at, in order of appearance.
        why: Why it waits now.
        moved: Pods that were seen on a second node.
    """

    job: Job
    pods: dict[str, PodView] = field(default_factory=dict)
    arrived_at: float | None = None
    bound_at: dict[str, float] = field(default_factory=dict)
    finished_at: float | None = None
    partly_since: float | None = None
    partly_seconds: float = 0.0
    gates: list[str] = field(default_factory=list)
    why: Why | None = None
    moved: list[str] = field(default_factory=list)

    @property
    def bound(self) -> int:
        """How many members have a node, or had one until they were done."""
        return sum(bool(pod.node) for pod in self.pods.values())

    @property
    def state(self) -> State:
        """How far it has come."""
        if not self.pods:
            return State.EXPECTED
        phases = Counter(pod.phase for pod in self.pods.values())
        if phases["Failed"]:
            return State.FAILED
        if phases["Succeeded"] == self.job.members:
            return State.FINISHED
        if self.bound == 0:
            return State.WAITING
        return State.BINDING if self.bound < self.job.members else State.RUNNING

    @property
    def waited_seconds(self) -> float | None:
        """From its arrival until every member was bound; None where that has not happened."""
        placed_at = self.placed_at
        return None if self.arrived_at is None or placed_at is None else placed_at - self.arrived_at

    @property
    def spread_seconds(self) -> float | None:
        """From its first to its last bind; None before the last."""
        placed_at = self.placed_at
        return None if placed_at is None else placed_at - min(self.bound_at.values())

    @property
    def placed_at(self) -> float | None:
        """When the last member was bound; None before that."""
        return max(self.bound_at.values()) if len(self.bound_at) == self.job.members else None

    def partly_bound_seconds(self, at: float) -> float:
        """The longest time it has been partly bound, counting one that goes on at `at`."""
        open_seconds = at - self.partly_since if self.partly_since is not None else 0.0
        return max(self.partly_seconds, open_seconds)

    def keep_partly(self, *, at: float) -> None:
        """Note since when it is partly bound, or for how long it was."""
        partly = 0 < self.bound < self.job.members
        if partly and self.partly_since is None:
            self.partly_since = at
        elif not partly and self.partly_since is not None:
            self.partly_seconds = self.partly_bound_seconds(at)
            self.partly_since = None


GATHER = "Gather"
_NAMED_NODES = 4


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node: its rack, what it is called there, and how many GPUs it offers."""

    name: str
    rack: str
    hostname: str
    gpus: int


@dataclass(frozen=True, slots=True)
class QueueView:
    """A ClusterQueue's status; GPUs."""

    name: str
    active: bool = False
    pending: int = 0
    admitted: int = 0
    used: int = 0
    borrowed: int = 0


class Kind(enum.StrEnum):
    """What can happen in the play."""

    ACT = "act"
    ARRIVED = "arrived"
    WAITS = "waits"
    PLACED = "placed"
    FINISHED = "finished"
    FAILED = "failed"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that has happened, at so many seconds of the observer's clock."""

    at: float
    kind: Kind
    subject: str
    text: str = ""
    job: Job | None = None
    brief: str = ""
    """The text in fewer words, where there are any."""


class Picture:
    """Everything observed so far. Times are seconds of one monotonic clock.

    Attributes:
        tracks: The jobs of the play by (namespace, name), in the order of the play.
        queues: The ClusterQueues by name.
        nodes: The nodes by name.
        happenings: All that has happened, oldest first.
        act: The act that is on.
        overfull: Nodes that were seen with more on them than they offer.
    """

    def __init__(self, scenario: DemoScenario) -> None:
        self.scenario = scenario
        self.tracks = {(job.team, job.name): Track(job) for job in scenario.jobs}
        self.queues: dict[str, QueueView] = {}
        self.nodes: dict[str, NodeView] = {}
        self.happenings: list[Happening] = []
        self.act: Act | None = None
        self.restarts = 0
        self.overfull: list[str] = []

    def begin(self, act: Act, *, at: float) -> None:
        """Note that an act begins."""
        self.act = act
        self.happenings.append(Happening(at, Kind.ACT, f"Act {act.number}", act.title))

    def operator(self, text: str, *, at: float, restarted: bool = False) -> None:
        """Note what is done to the operator."""
        self.restarts += restarted
        self.happenings.append(Happening(at, Kind.OPERATOR, "operator", text))

    def see_node(self, node: NodeView) -> None:
        """Take a node as it is now."""
        self.nodes[node.name] = node

    def lose_node(self, name: str) -> None:
        """Forget a node."""
        self.nodes.pop(name, None)

    def see_queue(self, queue: QueueView) -> None:
        """Take a ClusterQueue's status as it is now."""
        self.queues[queue.name] = queue

    def see_pod(self, pod: PodView, *, at: float) -> None:
        """Take a pod as it is now; pods that are not of the play are left out."""
        track = self.tracks.get((pod.namespace, pod.job))
        if track is None:
            return
        before = track.pods.get(pod.name)
        if before is not None and before.uid == pod.uid and before.node and before.node != pod.node:
            track.moved.append(f"{pod.namespace}/{pod.name} from {before.node} to {pod.node or 'none'}")
        state = track.state
        track.pods[pod.name] = pod
        if track.arrived_at is None:
            track.arrived_at = at
            self._say(Kind.ARRIVED, track, _shape(track.job), at=at)
        if pod.node:
            track.bound_at.setdefault(pod.name, at)
            self._check_room(pod.node)
        if not track.job.is_gang:
            self._explain(track, pod.why, at=at)
        self._settle(track, state, at=at)

    def lose_pod(self, namespace: str, name: str, *, at: float) -> None:
        """Forget a pod that is no more; one that had finished is remembered as such."""
        for track in self.tracks.values():
            pod = track.pods.get(name)
            if pod is None or pod.namespace != namespace or pod.phase in ENDED:
                continue
            state = track.state
            del track.pods[name]
            track.bound_at.pop(name, None)
            self._settle(track, state, at=at)

    def see_why(self, namespace: str, name: str, why: Why | None, *, at: float) -> None:
        """Take a PodGroup's explanation, or that there is none."""
        track = self.tracks.get((namespace, name))
        if track is not None:
            self._explain(track, why, at=at)

    def used_on(self, node: str) -> dict[str, int]:
        """GPUs in use on a node, by team, in the order of the play."""
        used: Counter[str] = Counter()
        for track in self.tracks.values():
            for pod in track.pods.values():
                if pod.node == node and pod.occupies:
                    used[pod.namespace] += pod.gpus
        return dict(used)

    def finished(self, act: Act | None = None) -> bool:
        """Whether all work of an act, or of the play, is done."""
        jobs = self.scenario.jobs if act is None else act.jobs
        return all(self.tracks[job.team, job.name].state in (State.FINISHED, State.FAILED) for job in jobs)

    def _settle(self, track: Track, before: State, *, at: float) -> None:
        """Say what has changed with a job, and keep the time for which it is partly bound."""
        now = track.state
        track.keep_partly(at=at)
        if now is before:
            return
        if now is State.RUNNING:
            self._say(Kind.PLACED, track, _where(track), at=at)
        elif now is State.FINISHED:
            track.finished_at = at
            self._say(Kind.FINISHED, track, "", at=at)
        elif now is State.FAILED:
            self._say(Kind.FAILED, track, "a pod of it failed", at=at)

    def _explain(self, track: Track, why: Why | None, *, at: float) -> None:
        """Take why a job waits; told once per gate, since the numbers in it change all the time."""
        track.why = why if track.state is State.WAITING else None
        if track.why is None or track.why.gate == GATHER:
            return
        if not track.gates or track.gates[-1] != track.why.gate:
            track.gates.append(track.why.gate)
            self._say(Kind.WAITS, track, track.why.full, at=at, brief=track.why.brief)

    def _check_room(self, name: str) -> None:
        node = self.nodes.get(name)
        used = sum(self.used_on(name).values())
        if node is not None and used > node.gpus and name not in self.overfull:
            self.overfull.append(name)

    def _say(self, kind: Kind, track: Track, text: str, *, at: float, brief: str = "") -> None:
        self.happenings.append(Happening(at, kind, track.job.path, text, track.job, brief or text))


def _shape(job: Job) -> str:
    """The size of a job in words."""
    gpus = counted(job.gpus, "GPU")
    return f"{counted(job.members, 'pod')} of {gpus}, all or none" if job.is_gang else f"1 pod of {gpus}"


def _where(track: Track) -> str:
    """The nodes of a job in words."""
    nodes = sorted({pod.node for pod in track.pods.values()})
    return f"on {', '.join(nodes)}" if len(nodes) <= _NAMED_NODES else f"on {counted(len(nodes), 'node')}"


def pair_of(picture: Picture) -> tuple[str, ...]:
    """The host names of the two nodes that the first act is about: the first ones of the first rack."""
    nodes = sorted(picture.nodes.values(), key=lambda node: (node.rack, node.name))
    return tuple(node.hostname for node in nodes[:PAIR])
