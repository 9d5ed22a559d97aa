"""How long a large gang waits behind a stream of small jobs, and how much is in use meanwhile, by its queue's mode.

Ten hours on 12 nodes of 8 GPUs, around the engine alone: no API server, no I/O, no clock. Jobs of one GPU come a tenth
faster than they can run; they take 5 to 55 minutes and say up to three times as much (maximumExecutionTimeSeconds).
After two hours, with some of them waiting, a gang of 8 pods of 8 GPUs comes, of the same priority as they.

Prints a table, or JSON with `-o json`: when the gang was told that it starts at the latest, how long it waited, and
which part of the GPUs was in use from when it came until it started, and over all ten hours.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from tutti.api.configuration import TuttiConfiguration
from tutti.api.core import Container, Namespace, Node, NodeStatus, ObjectMeta, Pod, PodSpec, ResourceRequirements
from tutti.engine.cycle.engine import Engine
from tutti.engine.records.decisions import AnyDecision, Bind, Deactivate, Evict
from tutti.engine.records.observations import (
    BindFinished,
    NamespaceSeen,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    Synced,
)

START = 1_700_000_000.0
HOUR = 3600.0
GANG_COMES = 2 * HOUR
GPU = "nvidia.com/gpu"
GPUS = 8
LEAST, MOST = 300, 3300
LOAD = 1.1
GANG_RUNS = 2700
GANG = "gang"

replaced = msgspec.structs.replace


@dataclass(frozen=True)
class Mode:
    """A row: what the ClusterQueue says, and whether jobs say how long they may run."""

    backfill: str
    ends_known: bool = True
    reservation_seconds: int | None = None

    @property
    def title(self) -> str:
        """How it is called in the table."""
        return self.backfill if self.ends_known else f"{self.backfill}, no ends known"


MODES = (
    Mode("None"),
    Mode("BestEffort"),
    Mode("Reserved"),
    Mode("Reserved", ends_known=False, reservation_seconds=6 * 3600),
)


@dataclass
class Simulation:
    """Some hours in one mode, on so many nodes, with a gang of so many members that take a node each."""

    mode: Mode
    seed: int = 1
    hours: int = 10
    nodes: int = 12
    members: int = 8
    now: float = 0.0
    promised: float | None = None
    gang_started: float | None = None
    used: float = 0.0
    used_waiting: float = 0.0
    busy: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    agenda: list[tuple[float, int, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.capacity, self.span = self.nodes * GPUS, self.hours * HOUR
        self.numbers = itertools.count()
        self.engine = Engine(TuttiConfiguration())
        self.engine.observe(NamespaceSeen(Namespace(ObjectMeta(name="team"))))
        offered: dict[str, str | int | float] = {"pods": "110", GPU: str(GPUS)}
        for number in range(self.nodes):
            self.engine.observe(NodeSeen(Node(ObjectMeta(name=f"n{number}"), status=NodeStatus(offered))))
        quota = {"name": GPU, "nominalQuota": str(self.capacity)}
        group = {"coveredResources": [GPU], "flavors": [{"name": "default", "resources": [quota]}]}
        spec: dict[str, Any] = {"resourceGroups": [group], "namespaceSelector": {}, "backfill": self.mode.backfill}
        if self.mode.reservation_seconds is not None:
            spec["reservationSeconds"] = self.mode.reservation_seconds
        self.see("ResourceFlavor", "default", {})
        self.see("ClusterQueue", "cq", spec)
        self.see("LocalQueue", "queue", {"clusterQueue": "cq"}, "team")
        self.engine.observe(Synced())
        self.plan(0.0, "arrive", "")
        self.plan(GANG_COMES, "gang", GANG)

    def plan(self, at: float, what: str, name: str) -> None:
        """Have something happen at a time."""
        heapq.heappush(self.agenda, (at, next(self.numbers), what, name))

    def see(self, kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> None:
        """Tell the engine of an object."""
        meta: dict[str, Any] = {"name": name, "uid": f"{kind}-{name}", "generation": 1, "creationTimestamp": self.time}
        if namespace:
            meta["namespace"] = namespace
        self.engine.observe(ObjectSeen(kind, {"metadata": meta, "spec": spec}))

    @property
    def time(self) -> str:
        """Now, as objects say it."""
        return datetime.fromtimestamp(START + self.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def submit(self, name: str, seconds: float, *, pods: int = 1, gpus: int = 1) -> None:
        """A workload comes."""
        self.seconds[name] = seconds
        spec: dict[str, Any] = {
            "queueName": "queue",
            "podGroups": [{"name": "main", "count": pods, "minCount": pods}],
        }
        if self.mode.ends_known:
            spec["maximumExecutionTimeSeconds"] = int(seconds * self.random.uniform(1, 3)) + 1
        self.see("Workload", name, spec, "team")
        requests: dict[str, str | int | float] = {GPU: str(gpus)}
        for rank in range(pods):
            meta = ObjectMeta(
                name=f"{name}-{rank}",
                namespace="team",
                uid=f"{name}-{rank}",
                labels={"scheduling.tutti.dev/workload": name},
                creation_timestamp=datetime.fromtimestamp(START + self.now, UTC),
            )
            containers = [Container("c", resources=ResourceRequirements(requests))]
            self.pods[meta.name] = Pod(meta, PodSpec(scheduler_name="tutti", containers=containers))
            self.engine.observe(PodSeen(self.pods[meta.name]))

    def run(self) -> None:
        """Let the time pass."""
        while self.now < self.span:
            due = self.engine.wakeup()
            soonest = min(self.agenda[0][0], self.span if due is None else due - START)
            self.pass_time(min(max(soonest, self.now), self.span))
            while self.agenda and self.agenda[0][0] <= self.now:
                _, _, what, name = heapq.heappop(self.agenda)
                self.happen(what, name)
            for decision in self.engine.decide(START + self.now):
                self.carry_out(decision)
            self.look_at_the_gang()

    def pass_time(self, to: float) -> None:
        """Count what is in use until then."""
        self.used += self.busy * (to - self.now)
        if self.now >= GANG_COMES and self.gang_started is None:
            self.used_waiting += self.busy * (to - self.now)
        self.now = to

    def happen(self, what: str, name: str) -> None:
        """A job comes, the gang comes, or a workload has ended."""
        if what == "arrive":
            self.submit(f"job{next(self.numbers)}", self.random.uniform(LEAST, MOST))
            rate = LOAD * self.capacity / ((LEAST + MOST) / 2)
            self.plan(self.now + self.random.expovariate(rate), "arrive", "")
        elif what == "gang":
            self.submit(GANG, GANG_RUNS, pods=self.members, gpus=GPUS)
        else:
            self.busy -= self.members * GPUS if name == GANG else 1
            for rank in range(self.members if name == GANG else 1):
                pod = self.pods.pop(f"{name}-{rank}")
                self.engine.observe(PodSeen(replaced(pod, status=replaced(pod.status, phase="Succeeded"))))
                self.engine.observe(PodGone("team", pod.metadata.name, pod.metadata.uid))
            self.engine.observe(ObjectGone("Workload", "team", name))

    def carry_out(self, decision: AnyDecision) -> None:
        """Bind; nothing here is to be taken out."""
        match decision:
            case Bind(namespace=namespace, name=name, uid=uid, node=node):
                pod = self.pods[name]
                self.pods[name] = replaced(pod, spec=replaced(pod.spec, node_name=node))
                self.engine.observe(PodSeen(self.pods[name]))
                self.engine.observe(BindFinished(namespace, name, uid, node, "Bound"))
                workload, rank = name.rsplit("-", 1)
                self.busy += GPUS if workload == GANG else 1
                if rank == "0":
                    self.plan(self.now + self.seconds[workload], "end", workload)
            case Evict() | Deactivate():
                raise AssertionError(f"nobody runs for longer than it said: {decision}")
            case _:
                pass

    def look_at_the_gang(self) -> None:
        """Note what it was told first, and when it starts."""
        if self.now < GANG_COMES or self.gang_started is not None:
            return
        if self.pods[f"{GANG}-0"].spec.node_name:
            self.gang_started = self.now
        elif self.promised is None:
            shadow = self.engine.state.backfill_reservations.of.get("cq")
            if shadow is not None and shadow.starts_at is not None and shadow.workload[2] == GANG:
                self.promised = shadow.starts_at - START

    def figures(self) -> dict[str, float | None]:
        """What came of it: waits in minutes, use in percent."""
        started = self.gang_started
        waited = (started or self.span) - GANG_COMES
        return {
            "promised_minutes": None if self.promised is None else round((self.promised - GANG_COMES) / 60, 1),
            "waited_minutes": None if started is None else round(waited / 60, 1),
            "used_while_it_waited_percent": round(100 * self.used_waiting / (self.capacity * waited), 1),
            "used_percent": round(100 * self.used / (self.capacity * self.span), 1),
        }


def main() -> None:
    """Run it once in each mode, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found: dict[str, dict[str, float | None]] = {}
    for mode in MODES:
        simulation = Simulation(mode, arguments.seed)
        simulation.run()
        found[mode.title] = simulation.figures()
    if arguments.output == "json":
        Console().print_json(json.dumps(found))
        return
    table = Table("backfill", "told: at the latest", "waited", "in use meanwhile", "in use, all ten hours")
    for title, one in found.items():
        told, waited = one["promised_minutes"], one["waited_minutes"]
        table.add_row(
            title,
            "-" if told is None else f"{told} min",
            "to the end" if waited is None else f"{waited} min",
            f"{one['used_while_it_waited_percent']} %",
            f"{one['used_percent']} %",
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
