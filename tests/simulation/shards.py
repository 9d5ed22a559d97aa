"""Two shards on one simulated cluster, each with processes of its own, between which nodes, queues and tenants move.

What must never happen is told by the API server alone: that a shard binds to a node that another one has, or under the
quota of another one's queue; that a node or a tree holds more than it has; that anybody writes without the lease of his
shard. And everything ends once nothing goes wrong any more.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.simulation.loop import VirtualLoop
from tests.simulation.loss_steps import loss_steps
from tests.simulation.losses import Losses
from tests.simulation.network import Network, Sent
from tests.simulation.operator import CONFIGURATION, CheckedEngine, Operator
from tests.simulation.pods import GPU, GROUP, gpus_of, lives, plain
from tests.simulation.run import quiet, seeded, uncollected
from tests.simulation.server import Json, Server
from tutti.api.selectors import LabelSelector
from tutti.api.shards import DEFAULT_SHARD, SHARD_ANNOTATION, Shard, lease_of
from tutti.kube.fencing import LeadershipLost
from tutti_sim.kinds.resource import Resource
from tutti_sim.store.collection import Version

RIGHT = "right"
POOL = "pool"
SHARDS = CONFIGURATION.model_copy(
    update={"shards": [Shard(name=RIGHT, cohorts=[RIGHT], nodes=LabelSelector({POOL: RIGHT}))]}
)
LEASES = {shard: lease_of("tutti", shard) for shard in (DEFAULT_SHARD, RIGHT)}
REPLICAS = {"a": DEFAULT_SHARD, "b": DEFAULT_SHARD, "c": RIGHT, "d": RIGHT}
QUOTA = 4
TREES = {"stays-left": "left", "stays-right": RIGHT, "moves": "left"}
"""ClusterQueues, and the cohort that each is in at first; a namespace of the same name leads to each."""
NODES = {"n0": "left", "n1": "left", "n2": RIGHT, "n3": RIGHT, "n4": "left"}
NODE_GPUS = 4
PATIENCE_SECONDS = 900.0


class Step(msgspec.Struct, frozen=True):
    """Something that happens: an action of `ShardedWorld`, by name, and what it is given."""

    at: float
    do: str
    args: dict[str, Any] = {}


@dataclass
class ShardedOutcome:
    """What became of a run: what was wrong, every write of the operators, how often something was handed over."""

    violations: list[str]
    trace: list[str]
    handed_over: list[str]
    engines: int


class ShardOperator(Operator):
    """A process of one shard: it makes an engine anew whenever its shard has become another."""

    engines = 0

    def _make_engine(self) -> CheckedEngine:
        self.engine = None
        self.engines += 1
        return super()._make_engine()

    @property
    def faults(self) -> float:
        """How often its engine has failed in its present life."""
        failures = self.room._context.metrics.part_failures if self.room is not None else None
        return 0.0 if failures is None else failures.labels("engine")._value.get()


@dataclass
class _User:
    """One who keeps his pods coming until they have succeeded."""

    namespace: str
    pods: dict[str, Json] = field(default_factory=dict)


class ShardedWorld:
    """Carries out steps, and notes what must never happen in `violations`."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop = loop
        self.server = Server(seed)
        self.network = Network(self.server, random.Random(f"{seed}/network"))
        self.losses = Losses(self.network, loop, self.do, self.server.backend.store.forget)
        self.operators: dict[str, ShardOperator] = {}
        self.violations: list[str] = []
        self.trace: list[str] = []
        self.handed_over: list[str] = []
        self.failed = asyncio.Event()
        self._draw = random.Random(f"{seed}/users")
        self._users: dict[str, _User] = {}
        self.namespaces = self.server.resource("", "v1", "namespaces")
        self.network.sending.append(self._check_leader)
        self.network.handled.append(self._note)
        self.server.backend.after.append(self._follow)

    def complain(self, what: str) -> None:
        if what not in self.violations:
            self.violations.append(f"at {self.loop.time():.3f} s: {what}")
        self.failed.set()

    async def do(self, action: str, args: Mapping[str, Any]) -> None:
        """Carry out a step."""
        doer: Any = self if hasattr(self, f"do_{action}") else self.losses
        await getattr(doer, f"do_{action}")(**args)

    # What there is.

    async def do_node(self, name: str, pool: str) -> None:
        await self.server.put_node(name, NODE_GPUS, {POOL: pool})

    async def do_relabel(self, name: str, pool: str) -> None:
        """A node goes to another pool."""
        found = self.server.backend.collection(self.server.nodes).get("", name)
        if found is not None:
            meta = {**found.obj["metadata"], "labels": {**found.obj["metadata"]["labels"], POOL: pool}}
            self.server.user.write(self.server.nodes, found, {**found.obj, "metadata": meta})

    async def do_tenant(self, name: str, cohort: str) -> None:
        """A ClusterQueue in a cohort, and a namespace with a LocalQueue that leads to it."""
        if self.server.backend.find("namespaces", "", name) is None:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self.server.user.create(self.namespaces, "", body)
        await self.do_move(name, cohort)
        await self.server.put("LocalQueue", "queue", {"clusterQueue": name}, namespace=name)

    async def do_move(self, name: str, cohort: str) -> None:
        """A ClusterQueue goes to another cohort; it is made where it is not there."""
        quotas = [
            {"name": GPU, "nominalQuota": str(QUOTA)},
            {"name": "cpu", "nominalQuota": "1000"},
            {"name": "memory", "nominalQuota": "1000Gi"},
        ]
        group = {
            "coveredResources": [quota["name"] for quota in quotas],
            "flavors": [{"name": "default", "resources": quotas}],
        }
        spec = {"namespaceSelector": {}, "resourceGroups": [group], "cohortName": cohort}
        found = self.server.backend.find("clusterqueues.scheduling.tutti.dev", "", name)
        if found is None or found["spec"] != spec:
            await self.server.put("ClusterQueue", name, spec)

    async def do_door(self, namespace: str, cluster_queue: str) -> None:
        """A namespace is made, and a LocalQueue in it that leads to a ClusterQueue."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await self.server.user.create(self.namespaces, "", body)
        await self.server.put("LocalQueue", "queue", {"clusterQueue": cluster_queue}, namespace=namespace)

    async def do_flavor(self) -> None:
        await self.server.put("ResourceFlavor", "default", {})

    async def do_gang(self, name: str, namespace: str, size: int, gpus: int, seconds: float) -> None:
        """So many pods that start together; one alone is a single pod."""
        user = self._users.setdefault(namespace, _User(namespace))
        labels = {f"{GROUP}/queue-name": "queue"}
        if size > 1:
            labels = {f"{GROUP}/pod-group": name}
            spec = {"schedulingPolicy": {"gang": {"minCount": size}}, "queueName": "queue"}
            await self.server.put("PodGroup", name, spec, namespace=namespace)
        for rank in range(size):
            pod = plain(f"{name}-{rank}", gpus, seconds, labels=labels, annotations={})
            pod["metadata"]["namespace"] = namespace
            user.pods[f"{name}-{rank}"] = pod
            await self._create(pod)

    async def _create(self, pod: Json) -> None:
        meta = pod["metadata"]
        if self.server.pod(meta["name"], meta["namespace"]) is None:
            await self.server.user.create(self.server.pods, meta["namespace"], json.loads(json.dumps(pod)))

    # Processes and the wire.

    async def do_start(self, replica: str) -> None:
        one = self.operators.get(replica)
        if one is None:
            one = self.operators[replica] = ShardOperator(
                replica,
                self.network,
                self.loop,
                complain=self.complain,
                local_queues=(),
                draw=self._draw.random,
                lacks=lambda *_: "",
                was_whole=lambda _: True,
                configuration=SHARDS,
                shard=REPLICAS[replica],
            )
        one.start()

    async def do_crash(self, replica: str) -> None:
        if replica in self.operators:
            self.operators[replica].crash()

    async def do_away(self, replica: str) -> None:
        """A process ends in an orderly way, and nobody starts it again."""
        if replica in self.operators:
            await self.operators[replica].shut()

    async def do_pause(self, replica: str, seconds: float) -> None:
        if replica in self.operators:
            self.operators[replica].pause(seconds)

    async def heal(self) -> None:
        self.losses.heal()

    # What must hold.

    def _note(self, sent: Sent, status: int) -> None:
        if sent.is_write and sent.what not in ("leases", "events"):
            self.trace.append(f"{self.loop.time():9.3f} {sent.owner} {sent.method} {sent.path} {status}")

    def _check_leader(self, sent: Sent) -> None:
        """Nobody writes, but to leases, without the lease of his shard; or that of a shard for which he stands in."""
        if not sent.is_write or sent.what == "leases":
            return
        held = {shard: self._holder(shard) for shard in LEASES}
        mine = REPLICAS[sent.owner.split(".")[0]]
        stands_in = sent.method == "PATCH" and sent.what in ("nodes", "namespaces", "clusterqueues", "cohorts")
        others = [one for shard, one in held.items() if shard != mine]
        if held[mine] != sent.owner and not (stands_in and any(one and "." not in one for one in others)):
            self.complain(f"{sent.owner} sends {sent.method} {sent.path} while the lease of {mine} is {held[mine]}'s")

    def _holder(self, shard: str) -> str:
        lease = self.server.backend.find("leases.coordination.k8s.io", "kube-system", LEASES[shard])
        return str((lease or {}).get("spec", {}).get("holderIdentity", ""))

    def _follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        if resource.storage == "pods":
            self._pod_changed(old, new)
        elif new is not None and old is not None and _has(old.obj) != _has(new.obj):
            self.handed_over.append(f"{new.obj['kind']} {new.key[1]}: {_has(old.obj)} to {_has(new.obj)}")

    def _pod_changed(self, old: Version | None, new: Version | None) -> None:
        if new is not None and new.obj["spec"].get("nodeName") and (old is None or not old.obj["spec"].get("nodeName")):
            self._bound(new.obj)
        version = new or old
        assert version is not None
        user = self._users.get(version.key[0])
        gone = new is None or new.obj.get("status", {}).get("phase") == "Failed"
        if user is not None and version.key[1] in user.pods and gone:
            again = user.pods[version.key[1]]
            self.loop.call_later(0.5 + 3 * self._draw.random(), lambda: self.loop.create_task(self._renew(again)))

    async def _renew(self, pod: Json) -> None:
        meta = pod["metadata"]
        found = self.server.backend.collection(self.server.pods).get(meta["namespace"], meta["name"])
        if found is not None and found.obj.get("status", {}).get("phase") == "Failed":
            self.server.user.remove(self.server.pods, found, grace=0)
        await self._create(pod)

    def _bound(self, pod: Json) -> None:
        """A pod has got a node: it was for the shard that has its node, its namespace and its queue to give."""
        meta, node = pod["metadata"], pod["spec"]["nodeName"]
        queue = json.loads(meta["annotations"].get(f"{GROUP}/admission", "{}")).get("clusterQueue", "")
        if not queue:
            self.complain(f"{meta['name']} is bound without quota")
            return
        backend = self.server.backend
        home = backend.find("nodes", "", node)
        owners = {
            f"node {node}": _has(home or {}),
            f"namespace {meta['namespace']}": _has(backend.find("namespaces", "", meta["namespace"]) or {}),
            f"queue {queue}": _has(backend.find("clusterqueues.scheduling.tutti.dev", "", queue) or {}),
        }
        if len(set(owners.values())) > 1:
            said = ", ".join(f"{what} is {shard}'s" for what, shard in owners.items())
            self.complain(f"{meta['name']} is bound where {said}")
        here = sum(gpus_of(one) for one in self._running() if one["spec"]["nodeName"] == node)
        if home is not None and here > NODE_GPUS:
            self.complain(f"{here} GPUs are on {node}, with {meta['name']}")
        self._check_quota(queue, owners[f"queue {queue}"], meta["name"])

    def _check_quota(self, queue: str, shard: str, pod: str) -> None:
        """Who is beyond his own may use only what others of the same shard have and do not use."""
        used: dict[str, int] = {}
        for one in self._running():
            said = json.loads(one["metadata"]["annotations"].get(f"{GROUP}/admission", "{}"))
            used[said.get("clusterQueue", "")] = used.get(said.get("clusterQueue", ""), 0) + gpus_of(one)
        if used[queue] <= QUOTA:
            return
        trees = [one for one in self.server.objects("ClusterQueue") if _has(one) == shard]
        together = sum(used.get(one["metadata"]["name"], 0) for one in trees)
        if together > QUOTA * len(trees):
            self.complain(f"{together} GPUs are used of {QUOTA * len(trees)} that {shard} has quota of, with {pod}")

    def _running(self) -> list[Json]:
        return [
            one
            for one in self.server.all_pods()
            if one["spec"].get("nodeName") and lives(one) and not one["metadata"].get("deletionTimestamp")
        ]

    def unfinished(self) -> list[str]:
        """Return what has not succeeded yet."""
        found = []
        for user in self._users.values():
            for name in user.pods:
                pod = self.server.pod(name, user.namespace)
                phase = (pod or {}).get("status", {}).get("phase", "missing")
                found += [] if phase == "Succeeded" else [f"{user.namespace}/{name} ({phase})"]
        return found

    def misplaced(self) -> list[str]:
        """Return the nodes that are not their pool's."""
        nodes = [one.obj for one in self.server.backend.collection(self.server.nodes).scan()]
        return [
            f"node {one['metadata']['name']} ({_has(one)})"
            for one in nodes
            if _has(one) != (RIGHT if one["metadata"]["labels"][POOL] == RIGHT else DEFAULT_SHARD)
        ]


def _has(obj: Json) -> str:
    found = (obj.get("metadata") or {}).get("annotations") or {}
    return str(found.get(SHARD_ANNOTATION, DEFAULT_SHARD))


def basics(replicas: str = "ac", nodes: Mapping[str, str] = NODES) -> list[Step]:
    """Nodes of two pools, three tenants, and a process for each shard."""
    steps = [Step(0.0, "node", {"name": name, "pool": pool}) for name, pool in nodes.items()]
    steps.append(Step(0.0, "flavor"))
    steps += [Step(0.0, "tenant", {"name": name, "cohort": cohort}) for name, cohort in TREES.items()]
    return steps + [Step(0.0, "start", {"replica": one}) for one in replicas]


def drawn(seed: int) -> list[Step]:
    """The steps of a seed."""
    draw = random.Random(seed)
    steps = basics("".join(one for one in "abcd" if one in "ac" or draw.random() < 0.4))
    for number in range(draw.randint(6, 14)):
        size = draw.choice((1, 1, 2, 3, 4))
        args = {"name": f"g{number}", "namespace": draw.choice(list(TREES)), "size": size}
        args |= {"gpus": draw.randint(1, max(1, 4 // size)), "seconds": round(draw.uniform(2, 40), 1)}
        steps.append(Step(draw.uniform(1, 100), "gang", args))
    for _ in range(draw.randint(1, 6)):
        # One node of each pool stays, so that in the end everything has room somewhere.
        args = {"name": draw.choice(("n1", "n3", "n4")), "pool": draw.choice(("left", RIGHT))}
        steps.append(Step(draw.uniform(2, 110), "relabel", args))
    for _ in range(draw.randint(0, 3)):
        steps.append(Step(draw.uniform(2, 110), "move", {"name": "moves", "cohort": draw.choice(("left", RIGHT))}))
    if draw.random() < 0.6:
        at, name = draw.uniform(5, 90), "comes"
        steps.append(Step(at, "tenant", {"name": name, "cohort": draw.choice(("left", RIGHT))}))
        args = {"name": "late", "namespace": name, "size": 2, "gpus": 1, "seconds": 10.0}
        steps.append(Step(at + draw.uniform(0, 5), "gang", args))
    if draw.random() < 0.5:
        steps.append(Step(draw.uniform(5, 90), "node", {"name": "n9", "pool": draw.choice(("left", RIGHT))}))
    for _ in range(draw.randint(0, 3)):
        steps.append(Step(draw.uniform(1, 120), "crash", {"replica": draw.choice("abcd")}))
    for _ in range(draw.randint(0, 2)):
        args = {"replica": draw.choice("abcd"), "seconds": draw.choice((3.0, 20.0, 45.0))}
        steps.append(Step(draw.uniform(1, 110), "pause", args))
    for _ in range(draw.randint(0, 3)):
        what, method = draw.choice(
            (("nodes", "PATCH"), ("pods/binding", "POST"), ("clusterqueues", "PATCH"), ("", "GET"))
        )
        how = draw.choice(("refuse", "spoil", "lose", "swallow", "hold"))
        trouble = {"what": what, "method": method, "how": how, "seconds": 12.0, "times": draw.randint(1, 4)}
        steps.append(Step(draw.uniform(0, 100), "trouble", trouble))
    for _ in range(draw.randint(0, 2)):
        steps.append(Step(draw.uniform(0, 90), "lag", {"what": draw.choice(("pods", "nodes", "")), "seconds": 8.0}))
    for _ in range(draw.randint(0, 2)):
        steps.append(Step(draw.uniform(0, 90), "drop", {"what": draw.choice(("pods", "nodes", ""))}))
    moments = [step.at for step in steps if step.do in ("gang", "relabel", "move")]
    return steps + [Step(at, do, args) for at, do, args in loss_steps(seed, moments, clocks=True)]


Prepare = Callable[[ShardedWorld], None]


def play(
    steps: list[Step], seed: int = 0, *, heal_at: float = 130.0, prepare: Prepare = lambda _: None
) -> ShardedOutcome:
    """Run steps; the same ones give the same outcome, to the last write."""
    loop = VirtualLoop(random.Random(f"{seed}/order"))
    with seeded(seed), quiet(), uncollected():
        world = loop.run_until_complete(_play(loop, steps, seed, heal_at, prepare))
        loop.drain()
    for error in loop.errors:
        cause = error.get("exception")
        if cause is None or not isinstance(cause, LeadershipLost):
            world.complain(f"{error.get('message')}: {cause!r}")
    loop.close()
    engines = sum(one.engines for one in world.operators.values())
    return ShardedOutcome(world.violations, world.trace, world.handed_over, engines)


async def _play(loop: VirtualLoop, steps: list[Step], seed: int, heal_at: float, prepare: Prepare) -> ShardedWorld:
    world = ShardedWorld(loop, seed)
    prepare(world)
    await world.server.start()
    for step in sorted(steps, key=lambda one: one.at):
        if step.at > loop.time() and await _failed_by(world, step.at):
            break
        await world.do(step.do, step.args)
    if not await _failed_by(world, max(heal_at, loop.time())):
        await world.heal()
        await _end_well(world)
    for one in world.operators.values():
        if one.faults:
            world.complain(f"the engine of {one.name} failed")
        await one.shut()
    await world.server.stop()
    return world


async def _end_well(world: ShardedWorld) -> None:
    until = world.loop.time() + PATIENCE_SECONDS
    while left := world.unfinished() + world.misplaced():
        if world.loop.time() > until:
            world.complain(f"has not come to its end: {', '.join(left)}")
            return
        if await _failed_by(world, world.loop.time() + 5.0):
            return


async def _failed_by(world: ShardedWorld, moment: float) -> bool:
    try:
        async with asyncio.timeout_at(moment):
            await world.failed.wait()
    except TimeoutError:
        return False
    return True
