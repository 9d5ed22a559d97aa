"""Days at random: work comes and goes, and nodes, members, quota and the operator are taken away in any order.

What must hold in the end does not depend on the day: no node has more than fits, no gang is there in part, and all
work gets its turn. A day is drawn from its seed; `TUTTI_DAYS=10:20` tells others than those of every run, and
`TUTTI_STEPS=70` makes them longer.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import pytest
from kubernetes import client

from e2e.harness.machines import GPUS
from e2e.harness.power import SOON, Power
from e2e.harness.story import Story

STEPS = int(os.environ.get("TUTTI_STEPS", "16"))
QUEUES = "ab"
OF_EACH = 4
"""GPUs of a queue; both together have what there is on four nodes."""
RACK = "e2e.example.com/rack"
FLOODED = "e2e.example.com/flooded"
HELD = "e2e.example.com/held"
"""A finalizer that keeps a pod from going."""
_FIRST, _, _LAST = os.environ.get("TUTTI_DAYS", "1:3").partition(":")


@dataclass
class Day:
    """One cluster and what happens to it.

    Attributes:
        crews: How many members each gang needs that is to run.
        groups: The spec of each one's PodGroup, to make it anew.
        events: What has happened, for whoever reads how it failed.
    """

    story: Story
    power: Power
    draw: random.Random
    crews: dict[str, int] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    dead: str = ""
    cordoned: str = ""
    flooded: str = ""
    stopped: str = ""
    ungrouped: str = ""

    def goes_by(self) -> None:
        """Let so much happen, one thing soon after the other."""
        happens: dict[Callable[[], str], int] = {
            self.comes: 6, self.leaves: 2, self.loses_a_member: 3, self.has_a_node_die: 2, self.has_it_back: 2,
            self.is_cordoned: 1, self.is_open_again: 1, self.has_the_operator_killed: 2, self.has_it_stand_still: 1,
            self.has_another_quota: 2, self.has_the_server_killed: 1, self.is_drained: 1, self.is_flooded: 1,
            self.dries_up: 1, self.has_a_queue_stopped: 1, self.has_it_go_on: 1, self.grows_or_shrinks: 2,
            self.loses_its_group: 1, self.has_its_group_back: 2, self.has_a_pod_held: 1, self.has_all_let_go: 1,
        }  # fmt: skip
        for _ in range(STEPS):
            (what,) = self.draw.choices(list(happens), list(happens.values()))
            if said := what():
                self.events.append(said)
                assert not self.overfull()
                time.sleep(self.draw.choice((0, 0.1, 0.5, 2)))  # how far everybody has come is part of the draw

    def comes(self) -> str:
        name, size, queue = f"crew{len(self.events)}", self.draw.randint(1, 4), self.draw.choice(QUEUES)
        least, priority = self.draw.choice((size, size, (size + 1) // 2)), self.draw.choice(("low", "high"))
        together = self.draw.choice((False, False, True))
        group: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": least}}}
        if together:
            group["schedulingConstraints"] = {"topology": [{"key": RACK, "mode": "Required"}]}
        group["priorityClassName"] = f"{self.story.namespace}-{priority}"
        self.story.crew(name, size, queue=self._named(queue), **group)
        self.crews[name], self.groups[name] = least, {**group, "queueName": self._named(queue)}
        return f"{name} of {least} to {size} comes to {queue}, {priority}{', for one rack' if together else ''}"

    def leaves(self) -> str:
        if not self.crews:
            return ""
        name = self.draw.choice(sorted(self.crews))
        self.remove(name)
        return f"{name} leaves"

    def remove(self, name: str) -> None:
        """Have nobody make a crew's pods any more, and delete what there is of it."""
        del self.crews[name]
        api, namespace = self.story.api, self.story.namespace
        if self.story.cluster.replica_sets:
            client.AppsV1Api(api).delete_namespaced_deployment(name, namespace, propagation_policy="Background")
        else:
            client.BatchV1Api(api).delete_namespaced_job(name, namespace, propagation_policy="Background")
        if name == self.ungrouped:
            self.ungrouped = ""
        else:
            self.story.remove("PodGroup", name)

    def grows_or_shrinks(self) -> str:
        if not self.crews:
            return ""
        name = self.draw.choice(sorted(self.crews))
        size = self.draw.randint(self.crews[name], 4)
        api, namespace = self.story.api, self.story.namespace
        if self.story.cluster.replica_sets:
            client.AppsV1Api(api).patch_namespaced_deployment_scale(name, namespace, {"spec": {"replicas": size}})
        else:
            client.BatchV1Api(api).patch_namespaced_job(name, namespace, {"spec": {"parallelism": size}})
        return f"{name} is to have {size}"

    def loses_its_group(self) -> str:
        if not self.crews or self.ungrouped:
            return ""
        self.ungrouped = self.draw.choice(sorted(self.crews))
        self.story.remove("PodGroup", self.ungrouped)
        return f"the PodGroup of {self.ungrouped} is deleted"

    def has_its_group_back(self) -> str:
        name, self.ungrouped = self.ungrouped, ""
        if not name:
            return ""
        with _gone():  # the operator may show the pods that name a group as one by now
            self.story.remove("PodGroup", name)
        self.story.object("PodGroup", name, self.groups[name])
        return f"the PodGroup of {name} is made anew"

    def has_a_pod_held(self) -> str:
        living = sorted(self.story.living("crew"))
        if not living:
            return ""
        pod, core, namespace = self.draw.choice(living), self.story.core, self.story.namespace
        with _gone(HTTPStatus.UNPROCESSABLE_ENTITY):  # who is being deleted gets no finalizer any more
            core.patch_namespaced_pod(pod, namespace, {"metadata": {"finalizers": [HELD]}})
            core.delete_namespaced_pod(pod, namespace)
            return f"{pod} is deleted, and somebody's finalizer keeps it"
        return ""

    def has_all_let_go(self) -> str:
        held = [pod.metadata.name for pod in self.story.pods("crew") if HELD in (pod.metadata.finalizers or [])]
        for pod in held:
            free = {"metadata": {"$deleteFromPrimitiveList/finalizers": [HELD]}}
            with _gone():
                self.story.core.patch_namespaced_pod(pod, self.story.namespace, free)
        return f"{', '.join(held)} may go" if held else ""

    def is_drained(self) -> str:
        places = self.story.where("crew")
        if not places:
            return ""
        node = self.draw.choice(sorted(set(places.values())))
        for pod in [pod for pod, at in places.items() if at == node]:
            with _gone():
                self.story.core.create_namespaced_pod_eviction(
                    pod, self.story.namespace, client.V1Eviction(metadata=client.V1ObjectMeta(name=pod))
                )
        return f"all pods of {node} are evicted"

    def is_flooded(self) -> str:
        if self.flooded:
            return ""
        self.flooded = self.draw.choice(self.story.cluster.nodes)
        self._taint(self.flooded, client.V1Taint(key=FLOODED, effect="NoExecute"))
        return f"{self.flooded} has a taint that nobody tolerates"

    def dries_up(self) -> str:
        node, self.flooded = self.flooded, ""
        if node:
            self._taint(node)
        return f"{node} has no such taint any more" if node else ""

    def _taint(self, node: str, *taints: client.V1Taint) -> None:
        """Have a node with these taints beside those that others have given it, who write the same list."""
        core = self.story.core
        while True:
            found: Any = core.read_node(node)
            others = [one for one in found.spec.taints or [] if one.key != FLOODED]
            version = {"resourceVersion": found.metadata.resource_version}
            try:
                core.patch_node(node, {"metadata": version, "spec": {"taints": [*others, *taints]}})
            except client.ApiException as other:
                if other.status != HTTPStatus.CONFLICT:
                    raise
            else:
                return

    def has_a_queue_stopped(self) -> str:
        if self.stopped:
            return ""
        self.stopped, policy = self.draw.choice(QUEUES), self.draw.choice(("Hold", "HoldAndDrain"))
        self.story.change("ClusterQueue", self._named(self.stopped), {"stopPolicy": policy})
        return f"{self.stopped} is stopped: {policy}"

    def has_it_go_on(self) -> str:
        queue, self.stopped = self.stopped, ""
        if queue:
            self.story.change("ClusterQueue", self._named(queue), {"stopPolicy": "None"})
        return f"{queue} goes on" if queue else ""

    def loses_a_member(self) -> str:
        living = sorted(self.story.living("crew"))
        if not living:
            return ""
        pod = self.draw.choice(living)
        self.story.core.delete_namespaced_pod(pod, self.story.namespace)
        return f"{pod} is deleted"

    def has_a_node_die(self) -> str:
        if self.dead:
            return ""
        self.dead = self.draw.choice(self.story.cluster.nodes)
        self.power.off(self.dead)
        return f"{self.dead} dies"

    def has_it_back(self) -> str:
        node, self.dead = self.dead, ""
        if node:
            self.power.on(node)
        return f"{node} is back" if node else ""

    def is_cordoned(self) -> str:
        if self.cordoned:
            return ""
        self.cordoned = self.draw.choice(self.story.cluster.nodes)
        self.story.core.patch_node(self.cordoned, {"spec": {"unschedulable": True}})
        return f"{self.cordoned} is cordoned"

    def is_open_again(self) -> str:
        node, self.cordoned = self.cordoned, ""
        if node:
            self.story.core.patch_node(node, {"spec": {"unschedulable": None}})
        return f"{node} is open again" if node else ""

    def has_the_operator_killed(self) -> str:
        self.story.kill_operator()
        time.sleep(self.draw.choice((0, 1, 5)))  # something may happen that it does not see
        self.story.start_operator()
        return "the operator is killed, and another starts"

    def has_it_stand_still(self) -> str:
        assert self.story.operator is not None
        self.story.operator.send_signal(signal.SIGSTOP)
        time.sleep(self.draw.choice((1, 3)))
        self.story.operator.send_signal(signal.SIGCONT)
        return "the operator stands still for a while"

    def has_the_server_killed(self) -> str:
        server = self.story.cluster.server
        if server is None:
            return ""
        server.restart(server.api, self.draw.choice((0, 3)))
        return "the API server is killed, and is back"

    def has_another_quota(self) -> str:
        queue, gpus = self.draw.choice(QUEUES), self.draw.randint(0, 2 * OF_EACH)
        self.grant(queue, gpus)
        return f"{queue} has {gpus} GPUs"

    def grant(self, queue: str, gpus: int) -> None:
        """Give a queue so many GPUs from now on."""
        self.story.change("ClusterQueue", self._named(queue), {"resourceGroups": groups(self.story.namespace, gpus)})

    def _named(self, queue: str) -> str:
        return f"{self.story.namespace}-{queue}"

    # ---- what is seen

    def there(self) -> dict[str, int]:
        """How many members each gang has on nodes, of those that are to run."""
        counts = Counter(map(gang_of, self.story.living("crew")))
        return {name: counts[name] for name in self.crews}

    def is_settled(self) -> bool:
        """Whether each gang is there as a whole or not at all, nobody is leaving, and nobody else is left."""
        pods = self.story.pods("crew")
        if any(
            pod.metadata.deletion_timestamp or pod.metadata.name.partition("-")[0] not in self.crews for pod in pods
        ):
            return False
        return all(count == 0 or count >= self.crews[name] for name, count in self.there().items())

    def overfull(self) -> dict[str, int]:
        """Nodes on which more GPUs are taken than they have."""
        taken = Counter(self.story.where("crew").values())
        return {node: count for node, count in taken.items() if count > GPUS}

    def ends(self) -> None:
        """Let all that is left have its turn: whoever is there as a whole leaves, until nobody is left."""
        for undo in (
            self.has_it_back, self.is_open_again, self.dries_up, self.has_it_go_on, self.has_its_group_back,
        ):  # fmt: skip
            undo()
        self.has_all_let_go()
        for queue in QUEUES:
            self.grant(queue, OF_EACH)
        while self.crews:
            self.story.wait(self._has_somebody_whole, f"somebody of {self.crews} to be there as a whole", SOON)
            assert not self.overfull()
            for name in [one for one, count in self.there().items() if count >= self.crews[one]]:
                self.remove(name)
        self.story.wait(lambda: not self.story.pods("crew"), "the last to be gone", SOON)
        self.story.wait(self._is_all_given_back, "all quota to be given back", SOON)

    def _has_somebody_whole(self) -> bool:
        return self.is_settled() and any(self.there().values())

    def _is_all_given_back(self) -> bool:
        return all(self.used(queue) == 0 for queue in QUEUES)

    def used(self, queue: str) -> int:
        """How many GPUs a queue's status says are used."""
        usage = self.story.get("ClusterQueue", self._named(queue)).get("status", {}).get("flavorsUsage", [])
        return sum(int(one["total"]) for of in usage for one in of["resources"] if one["name"] == "nvidia.com/gpu")


@contextlib.contextmanager
def _gone(*statuses: HTTPStatus) -> Iterator[None]:
    """What is done to an object that may be gone by now, which is as good; or be refused for another such reason."""
    try:
        yield
    except client.ApiException as refused:
        if refused.status not in (HTTPStatus.NOT_FOUND, *statuses):
            raise


def gang_of(pod: str) -> str:
    """Whose member a pod is by its name, which a controller has made."""
    return pod.partition("-")[0]


def groups(flavor: str, gpus: int) -> list[dict[str, Any]]:
    """The resource groups of a queue: so many GPUs, and plenty of the rest."""
    amounts = {"nvidia.com/gpu": gpus, "cpu": 1000, "memory": "10Ti"}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    return [{"coveredResources": list(amounts), "flavors": [{"name": flavor, "resources": resources}]}]


@pytest.fixture
def day(story: Story, power: Power, seed: int) -> Iterator[Day]:
    levels = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
    story.object("Topology", story.namespace, {"levels": levels})
    story.object("ResourceFlavor", story.namespace, {"topologyName": story.namespace})
    for queue in QUEUES:
        name = f"{story.namespace}-{queue}"
        preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
        offers = {"resourceGroups": groups(story.namespace, OF_EACH), "cohortName": story.namespace}
        story.object("ClusterQueue", name, {**offers, "namespaceSelector": {}, "preemption": preemption})
        story.object("LocalQueue", name, {"clusterQueue": name})
    for at, node in enumerate(story.cluster.nodes):
        story.label_nodes((node,), {RACK: "left" if at % 2 else "right"})
    story.priority_class("low", 1)
    story.priority_class("high", 10)
    story.start_operator()
    found = Day(story, power, random.Random(seed))
    yield found
    found.is_open_again()
    found.dries_up()
    found.has_all_let_go()
    story.label_nodes(story.cluster.nodes, {RACK: None})


@pytest.mark.parametrize("seed", range(int(_FIRST), int(_LAST)))
def test_no_gang_is_there_in_part_and_all_work_gets_its_turn(day: Day) -> None:
    try:
        day.goes_by()
        day.ends()
    except Exception as failure:
        raise AssertionError("\n".join([*day.events, str(day.there()), str(failure)])) from failure
