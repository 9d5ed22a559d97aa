"""Gangs that are made smaller and larger while they run: who is missed then, and a new process at any step agrees."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.ingest.owners import IN_QUEUE, a_world, indexed, template
from tests.engine.stories.manifests_of_users import put
from tests.engine.world import World
from tutti.api.core import OwnerReference
from tutti.engine.records.decisions import Evict
from tutti.engine.records.workloads import Phase

RAY = "ray.io/"


class Gang:
    """A gang of a kind, of members `g-0` and so on that are told apart by nothing but their number."""

    def __init__(self, world: World, size: int) -> None:
        self.world, self.number = world, 0
        self.wants(size)
        self.come(size)
        world.run()
        assert len(self.there()) == size == len(world.where())

    def wants(self, size: int) -> None:
        """Have its object ask for so many."""
        raise NotImplementedError

    def member(self, name: str) -> None:
        """Make one of its pods."""
        raise NotImplementedError

    def come(self, count: int) -> None:
        for _ in range(count):
            self.member(f"g-{self.number}")
            self.number += 1

    def there(self) -> list[str]:
        return sorted((name for _, name in self.world.pods if name.startswith("g-")), key=lambda one: int(one[2:]))

    def go(self, count: int) -> None:
        """The last so many that have a node, or wait for one, are deleted by who made them."""
        self.world.delete(*self.there()[-count:])


class OfJob(Gang):
    def wants(self, size: int) -> None:
        self.owner = self.world.owner("Job", "g", labels=IN_QUEUE, spec=indexed(size))

    def member(self, name: str) -> None:
        self.world.pod(name, owner=self.owner)


class OfRay(Gang):
    def wants(self, size: int) -> None:
        group = {"groupName": "w", "replicas": size - 1, "minReplicas": 0, "maxReplicas": 20, "template": template()}
        spec = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": [group]}
        self.owner = self.world.owner("RayCluster", "g", labels=IN_QUEUE, spec=spec)

    def member(self, name: str) -> None:
        head = name == "g-0"
        labels = {f"{RAY}node-type": "head" if head else "worker", f"{RAY}group": "headgroup" if head else "w"}
        self.world.pod(name, owner=self.owner, labels=labels)


class OfJobSet(Gang):
    """One driver, and one Job of the rest."""

    def wants(self, size: int) -> None:
        roles = [
            {"name": "driver", "template": {"spec": indexed(1)}},
            {"name": "workers", "replicas": 1, "template": {"spec": indexed(size - 1)}},
        ]
        top = self.world.owner("JobSet", "g", labels=IN_QUEUE, spec={"replicatedJobs": roles})
        counts = {"driver": 1, "workers": size - 1}
        self.jobs = {
            role: self.world.owner("Job", f"g-{role}-0", controller=top, spec=indexed(count))
            for role, count in counts.items()
        }

    def member(self, name: str) -> None:
        role = "driver" if name == "g-0" else "workers"
        labels = {
            "jobset.sigs.k8s.io/replicatedjob-name": role,
            "jobset.sigs.k8s.io/job-index": "0",
            "jobset.sigs.k8s.io/restart-attempt": "0",
        }
        self.world.pod(name, owner=self.jobs[role], labels=labels)


class OfOurs(Gang):
    def wants(self, size: int) -> None:
        self.world.pod_group("g", size, queueName="queue")

    def member(self, name: str) -> None:
        self.world.pod(name, group="g")


class OfObject(Gang):
    version, text, field = "", "", "minMember"

    def wants(self, size: int) -> None:
        spec = {self.field: size, "queue": "queue"} if "volcano" in self.version else {self.field: size}
        self.world.gang_object(self.version, "g", spec)

    def member(self, name: str) -> None:
        put(self.world, name, self.text)


class OfVolcano(OfObject):
    version = "scheduling.volcano.sh/v1beta1"
    text = "metadata: {annotations: {scheduling.k8s.io/group-name: g}}"


class OfCoscheduling(OfObject):
    version = "scheduling.x-k8s.io/v1alpha1"
    text = "metadata: {labels: {scheduling.x-k8s.io/pod-group: g}}"


class OfNative(OfObject):
    version = "scheduling.k8s.io/v1beta1"
    text = "spec: {schedulingGroup: {podGroupName: g}}"

    def wants(self, size: int) -> None:
        self.world.gang_object(self.version, "g", {"schedulingPolicy": {"gang": {"minCount": size}}})


KINDS = [OfOurs, OfJob, OfRay, OfJobSet, OfVolcano, OfCoscheduling, OfNative]

Step = tuple[str, int]


def do(gang: Gang, step: Step) -> None:
    match step:
        case ("wants", size):
            gang.wants(size)
        case ("come", count):
            gang.come(count)
        case ("go", count):
            gang.go(count)
        case ("room", gpus):
            gang.world.node("more", gpus=gpus)
        case ("wait", seconds):
            gang.world.until(seconds)


def seen(world: World) -> str:
    """What people see: how many run of how many that are required, and whether any are missed."""
    (found,) = [one for one in world.engine.state.workloads.values() if one.key[0] == "PodGroup"]
    assert found.phase is Phase.SCHEDULED
    assert not [one for one in world.log if isinstance(one, Evict)]
    missed = " missed" if found.degraded_since is not None else ""
    return f"{len(world.where())}/{found.required}{missed}"


def history(kind: type[Gang], size: int, steps: list[Step], restarts: Callable[[int, str], bool]) -> list[str]:
    """What is seen after each step; a new process comes after those steps, or unseen changes, that `restarts` says."""
    world = a_world(0)
    world.node("first", gpus=size)
    gang, out = kind(world, size), []
    for index, step in enumerate(steps):
        do(gang, step)
        if restarts(index, "unseen"):
            world.restart()
        world.run()
        if restarts(index, "seen"):
            world.restart()
            world.run()
        out.append(seen(world))
    return out


HISTORIES: dict[str, tuple[int, list[tuple[Step, str]]]] = {
    "shrinks": (4, [(("wants", 2), "4/2"), (("go", 2), "2/2"), (("wait", 900), "2/2")]),
    "shrinks before its object says so": (
        4,
        [(("go", 2), "2/4 missed"), (("wants", 2), "2/2"), (("wait", 900), "2/2")],
    ),
    "shrinks and grows again": (
        4,
        [
            (("wants", 2), "4/2"),
            (("go", 2), "2/2"),
            (("wants", 4), "2/2"),
            (("wait", 900), "2/2"),
            (("come", 2), "4/4"),
            (("go", 1), "3/4 missed"),
        ],
    ),
    "shrinks, grows a little, and loses one": (
        4,
        [
            (("wants", 2), "4/2"),
            (("go", 2), "2/2"),
            (("wants", 3), "2/2"),
            (("come", 1), "3/3"),
            (("go", 1), "2/3 missed"),
        ],
    ),
    "grows without room": (
        2,
        [(("wants", 4), "2/2"), (("come", 2), "2/2"), (("wait", 900), "2/2"), (("room", 2), "4/4")],
    ),
    "grows one by one": (
        2,
        [
            (("room", 8), "2/2"),
            (("wants", 4), "2/2"),
            (("come", 1), "3/3"),
            (("come", 1), "4/4"),
            (("wants", 6), "4/4"),
        ],
    ),
    "grows without room, and loses what it had": (
        2,
        [(("wants", 4), "2/2"), (("come", 2), "2/2"), (("go", 3), "1/2 missed"), (("wait", 30), "1/2 missed")],
    ),
    "loses one, and shrinks to what is left": (
        4,
        [(("go", 1), "3/4 missed"), (("wants", 3), "3/3"), (("wait", 900), "3/3")],
    ),
    "loses one, and grows": (4, [(("go", 1), "3/4 missed"), (("wants", 6), "3/4 missed"), (("come", 1), "4/4")]),
}


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.__name__)
def test_who_is_missed_of_a_gang_that_is_resized_is_the_same_in_a_new_process_at_any_step(kind, name):
    size, told = HISTORIES[name]
    steps = [step for step, _ in told]
    ways: dict[str, Callable[[int, str], bool]] = {"never": lambda *_: False, "always": lambda *_: True}
    for at in range(len(steps)):
        ways[f"unseen {at}"] = lambda index, of, at=at: (index, of) == (at, "unseen")
    found = {way: history(kind, size, steps, restarts) for way, restarts in ways.items()}
    assert found == {way: [expected for _, expected in told] for way in ways}


@pytest.mark.parametrize("restarts", [False, True], ids=["", "operator restarts"])
def test_one_role_that_wants_more_is_not_taken_to_have_lost_what_another_lost(restarts):
    def wants(**counts: int) -> OwnerReference:
        groups = [{"groupName": name, "replicas": count, "template": template()} for name, count in counts.items()]
        spec = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": groups}
        return world.owner("RayCluster", "g", labels=IN_QUEUE, spec=spec)

    def member(name: str, role: str) -> None:
        labels = {f"{RAY}node-type": "head" if role == "headgroup" else "worker", f"{RAY}group": role}
        world.pod(name, owner=owner, labels=labels)

    world = a_world(5)
    owner = wants(a=2, b=2)
    for name, role in [("head", "headgroup"), ("a-0", "a"), ("a-1", "a"), ("b-0", "b"), ("b-1", "b")]:
        member(name, role)
    world.run()
    wants(a=4, b=2)
    world.delete("b-1")
    world.run()
    assert seen(world) == "4/5 missed"
    if restarts:
        world.restart()
        world.run()
    assert seen(world) == "4/5 missed"
    member("b-2", "b")
    world.until(900)
    assert seen(world) == "5/5"
