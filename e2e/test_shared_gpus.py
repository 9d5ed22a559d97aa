"""The user stories about GPUs that pods share: HAMi's device plugin is driven as its own scheduler drives it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.harness.story import PAUSE, Story

GPU = "nvidia.com/gpu"
REGISTER, LOCK, PHASE = "hami.io/node-nvidia-register", "hami.io/mutex.lock", "hami.io/bind-phase"
TO_ALLOCATE, ALLOCATED = "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"
NODE = "hami.io/vgpu-node"
SHARED: dict[str, Any] = {"hami": {}}
SLOTS = 20
"""How many pods may share the two cards, ten each."""


class Plugin:
    """A hollow device plugin of HAMi's on one node with two cards: it finds whom to serve by the lock of the node."""

    def __init__(self, story: Story, node: str) -> None:
        self._story, self.node = story, node

    def register(self) -> None:
        """Tell of the cards."""
        cards = [
            {"id": f"GPU-{at}", "index": at, "count": 10, "devmem": 16000, "devcore": 100, "health": True,
             "type": "NVIDIA-Tesla T4", "mode": "hami-core"}
            for at in range(2)
        ]  # fmt: skip
        self.annotate({REGISTER: json.dumps(cards)})

    def vanish(self) -> None:
        """Be no more: the node tells of nothing, and is locked for nobody."""
        self.annotate({REGISTER: None, LOCK: None})

    def annotate(self, change: dict[str, str | None]) -> None:
        """Change annotations of the node."""
        self._story.core.patch_node(self.node, {"metadata": {"annotations": change}})

    def lock(self) -> str:
        """Who has locked the node; "" where nobody has."""
        return str((self._story.core.read_node(self.node).metadata.annotations or {}).get(LOCK, ""))

    def asked(self) -> str:
        """The pod for which the kubelet would ask now: it is bound, and the node locked for it; "" where none is."""
        _, _, name = self.lock().partition(f",{self._story.namespace},")
        return name if name and self._story.node_of(name) == self.node else ""

    def serve(self, *, fails: bool = False) -> str:
        """Give the next pod what its annotations say, or fail to, and open the lock; returns the pod."""
        self._story.wait(self.asked, "a pod to be bound with the node locked for it")
        name, core, space = self.asked(), self._story.core, self._story.namespace
        said = core.read_namespaced_pod(name, space).metadata.annotations
        assert said[PHASE] == "allocating"
        assert said[TO_ALLOCATE] == said[ALLOCATED]
        change = {PHASE: "failed"} if fails else {PHASE: "success", TO_ALLOCATE: ";"}
        core.patch_namespaced_pod(name, space, {"metadata": {"annotations": change}})
        if fails:  # and the kubelet ends the pod
            self._story.end(name, phase="Failed")
        self.annotate({LOCK: None})
        return name


@pytest.fixture
def plugin(story: Story) -> Iterator[Plugin]:
    """On a node that comes with slots for two cards: what a kubelet offers it writes anew whatever others wrote."""
    machines, node = story.cluster.machines, f"{story.namespace}-cards"
    if why := machines.can_come:
        pytest.skip(why)
    machines.add(node, gpus=SLOTS)
    try:
        story.label_nodes((node,), {"e2e.example.com/cards": story.namespace})
        found = Plugin(story, node)
        found.register()
        yield found
    finally:
        machines.remove(node)


def share(story: Story, name: str, memory: int, *, group: str = "", annotations: dict[str, str] | None = None) -> None:
    """A pod on the node with cards that asks for so many MiB of one."""
    asked = {GPU: "1", "nvidia.com/gpumem": str(memory)} if memory else {}
    spec = {
        "schedulerName": "tutti",
        "nodeSelector": {"e2e.example.com/cards": story.namespace},
        "containers": [
            {"name": "c", "image": PAUSE, "resources": {"requests": {"cpu": "10m", **asked}, "limits": asked}}
        ],
    }
    labels = {"scheduling.tutti.dev/pod-group": group} if group else {}
    meta = {"name": name, "labels": labels, "annotations": annotations or {}}
    story.core.create_namespaced_pod(story.namespace, {"metadata": meta, "spec": spec})


def sharing_gang(story: Story, name: str, size: int, memory: int) -> None:
    story.object("PodGroup", name, {"schedulingPolicy": {"gang": {"minCount": size}}})
    for rank in range(size):
        share(story, f"{name}-{rank}", memory, group=name)


def parts(story: Story, prefix: str) -> Counter[str]:
    """How many pods have which part of which card."""
    return Counter(pod.metadata.annotations.get(ALLOCATED, "") for pod in story.pods(prefix) if pod.spec.node_name)


def test_a_gang_shares_cards_though_the_operator_is_killed_between_the_writes(story: Story, plugin: Plugin) -> None:
    sharing_gang(story, "serve", 3, 7000)
    # What a predecessor leaves that was killed between the lock and the bind.
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    plugin.annotate({LOCK: f"{now},{story.namespace},serve-2"})
    story.start_operator(**SHARED)
    served = [plugin.serve()]
    # Made now: of two gangs of one second the name decides whose turn is first.
    sharing_gang(story, "late", 4, 7000)
    story.wait(plugin.asked, "the second to be bound")
    story.kill_operator()
    served.append(plugin.serve())
    story.start_operator(**SHARED)
    served.append(plugin.serve())

    story.wait(
        lambda: story.condition("PodGroup", "serve", "Scheduled").get("status") == "True", "the gang to be whole"
    )
    assert sorted(served) == [f"serve-{rank}" for rank in range(3)]
    assert parts(story, "serve") == {"GPU-0,NVIDIA,7000,0:;": 2, "GPU-1,NVIDIA,7000,0:;": 1}
    assert {pod.metadata.labels[NODE] for pod in story.pods("serve")} == {plugin.node}
    assert plugin.lock() == ""
    story.wait(
        lambda: "Cards have room for 1 of 4 pods." in story.why("late").get("message", ""),
        "the other to say what it lacks",
    )
    assert not story.where("late")


def test_a_plugin_that_fails_or_vanishes_keeps_nobody_waiting_in_silence(story: Story, plugin: Plugin) -> None:
    story.start_operator(**SHARED)
    share(story, "first", 16000)
    share(story, "fraction", 0, annotations={"gpu-fraction": "0.5"})
    plugin.serve(fails=True)
    share(story, "second", 16000)
    assert plugin.serve() == "second"
    other = "leave the pod to kai-scheduler"
    story.wait(lambda: other in story.pod_condition("fraction")[1], "the fraction to say whose it is")

    plugin.annotate({REGISTER: '[{"id": "GPU-0", "devmem": 99999999999}]'})
    share(story, "third", 1000)
    story.wait(
        lambda: "node(s) whose HAMi annotations cannot be read" in story.pod_condition("third")[1],
        "the third to say why",
    )
    plugin.vanish()
    story.wait(lambda: "node(s) without cards of HAMi" in story.pod_condition("third")[1], "the third to say why")
    plugin.register()
    assert plugin.serve() == "third"
