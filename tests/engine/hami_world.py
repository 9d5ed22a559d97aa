"""A cluster whose GPUs are shared by HAMi: nodes tell of cards, and a hollow device plugin answers when a test likes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec

from tests.engine.world import GPU, World, replaced
from tutti.api import quantity
from tutti.api.core import Node, NodeSpec, NodeStatus, ObjectMeta, Pod, ResourceRequirements
from tutti.api.hami import (
    ALLOCATED,
    BIND_PHASE,
    CORES,
    FAILED,
    LOCK,
    MEMORY,
    NODE,
    PERCENTAGE,
    REGISTER,
    SUCCESS,
    TO_ALLOCATE,
    read_parts,
)
from tutti.engine.records.decisions import Bind
from tutti.engine.records.observations import BindAnswer, BindFinished, NodeSeen


def card(at: int, node: str, **more: Any) -> dict[str, Any]:
    """A card as the plugin writes it."""
    known = {"id": f"GPU-{node}-{at}", "index": at, "count": 10, "devmem": 16000, "devcore": 100}
    return {**known, "type": "NVIDIA-Tesla T4", "mode": "hami-core", "health": True, **more}


class HamiWorld(World):
    """With `answers` the plugin serves each pod at once; else a test calls `serve`."""

    def __init__(self, *, answers: bool = True, **more: Any) -> None:
        self.answers = answers
        self.refused: list[str] = []
        super().__init__(**{"hami": {}, **more})

    def machine(
        self, name: str, cards: int = 2, *, annotations: dict[str, str] | None = None, labels: Any = None, **more: Any
    ) -> None:
        """A node with so many cards, of 16000 MiB each unless said otherwise."""
        told = [card(at, name, **more) for at in range(cards)]
        said = {REGISTER: json.dumps(told), **(annotations or {})}
        slots = sum(one["count"] for one in told)
        meta = ObjectMeta(name=name, labels={"kubernetes.io/hostname": name, **(labels or {})}, annotations=said)
        offers = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(slots)}
        self.nodes[name] = Node(meta, NodeSpec(), NodeStatus(offers))
        self.tell(NodeSeen(self.nodes[name]))

    def say(self, name: str, change: dict[str, str | None]) -> None:
        """Change annotations of a node."""
        node = self.nodes[name]
        said = {**node.metadata.annotations, **{key: value for key, value in change.items() if value is not None}}
        said = {key: value for key, value in said.items() if change.get(key, "") is not None}
        self.nodes[name] = replaced(node, metadata=replaced(node.metadata, annotations=said))
        self.tell(NodeSeen(self.nodes[name]))

    def lock_of(self, node: str) -> str | None:
        """The lock of a node as it is."""
        return self.nodes[node].metadata.annotations.get(LOCK)

    def card_pod(
        self,
        name: str,
        memory: int = 0,
        *,
        count: int = 1,
        cores: int = 0,
        percent: int = 0,
        limits: dict[str, str] | None = None,
        begun: dict[str, str] | None = None,
        **more: Any,
    ) -> Pod:
        """A pod with one container that asks for parts of cards; `begun` are the limits of an init container.

        Amounts are written as an API server keeps them: 8000 is `8k`.
        """
        said = {GPU: count, MEMORY: memory, CORES: cores, PERCENTAGE: percent}
        asked = {key: quantity.canonical(amount) for key, amount in said.items()}
        asked = {key: value for key, value in asked.items() if value != "0"} if limits is None else limits
        tell, self.tell = self.tell, lambda _: None  # type: ignore[method-assign] - made in two steps, seen once
        pod = super().pod(name, gpus=0, **more)
        self.tell = tell  # type: ignore[method-assign]
        container = pod.spec.containers[0]
        resources = ResourceRequirements({**container.resources.requests, **asked}, dict(asked))
        init = [replaced(container, name="first", resources=ResourceRequirements(begun, begun))] if begun else []
        spec = replaced(pod.spec, containers=[replaced(container, resources=resources)], init_containers=init)
        self.put(replaced(pod, spec=spec))
        return self.pods[pod.metadata.namespace, name]

    def sharing_gang(self, name: str, size: int, memory: int = 0, **more: Any) -> None:
        """A PodGroup and its pods, all of which ask for the same."""
        spec = {"queueName": more["queue"]} if "queue" in more else {}
        self.pod_group(name, size, **spec)
        for rank in range(size):
            self.card_pod(f"{name}-{rank}", memory, group=name, **{k: v for k, v in more.items() if k != "queue"})

    def parts(self, name: str) -> list[list[tuple[str, int, int]]]:
        """What a pod has by its annotations: per container id, MiB and cores."""
        pod = self.pods["default", name]
        number = len(pod.spec.init_containers) + len(pod.spec.containers)
        return [[msgspec.structs.astuple(one) for one in mine] for mine in read_parts(pod.metadata.annotations, number)]

    def taken(self, node: str) -> list[tuple[int, int, int]]:
        """MiB, cores and slots that all pods on a node have of each card, by their own annotations."""
        cards = {one["id"]: [0, 0, 0] for one in json.loads(self.nodes[node].metadata.annotations[REGISTER])}
        for (_, name), pod in self.pods.items():
            if pod.spec.node_name == node and pod.status.phase not in ("Succeeded", "Failed"):
                for one, memory, cores in itertools.chain.from_iterable(self.parts(name)):
                    for at, more in enumerate((memory, cores, 1)):
                        cards[one][at] += more
        return [(memory, cores, slots) for memory, cores, slots in cards.values()]

    # What the writer and the plugin do.

    def answer(self, bind: Bind, outcome: str = "Bound", *, seen: bool = True) -> None:
        if bind.card_lock is not None:
            lock = self.lock_of(bind.node)
            mine = f",{bind.namespace},{bind.name}"
            if lock is not None and lock != bind.card_lock.replaces and not lock.endswith(mine):
                self.pending_binds.remove(bind)
                self.refused.append(bind.name)
                about = (bind.namespace, bind.name, bind.uid, bind.node)
                self.tell(BindFinished(*about, BindAnswer("Failed"), f"node {bind.node} is locked"))
                return
            if outcome == "Bound":
                self.say(bind.node, {LOCK: bind.card_lock.text})
        super().answer(bind, outcome, seen=seen)
        if self.answers and bind.card_lock is not None and outcome == "Bound":
            self.serve(bind.name)

    def serve(self, *names: str, fails: bool = False) -> None:
        """The plugin finds pods by the lock of their nodes, and gives them their cards, or fails to."""
        for name in names:
            pod = self.pods["default", name]
            node = pod.spec.node_name
            said = pod.metadata.annotations
            assert (self.lock_of(node) or "").endswith(f",default,{name}"), f"{name} is not found by the lock of {node}"
            assert said[NODE] == node
            assert said[TO_ALLOCATE] == said[ALLOCATED]
            now = {**said, BIND_PHASE: FAILED if fails else SUCCESS, TO_ALLOCATE: ";"}
            self.put(replaced(pod, metadata=replaced(pod.metadata, annotations=now)))
            self.say(node, {LOCK: None})
            if fails:
                self.finish(name, phase="Failed")
