"""A simulated cluster in which a scenario's steps happen, with its users, and what must hold of it at any moment.

The users are steady: a member that was deleted, failed or lost is created anew until it has succeeded, as a Job's
controller does. So with the faults over, every gang that was not cancelled must come to its end.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.cards import Cards
from tests.simulation.devices import Devices
from tests.simulation.limits import COHORT, exceeded, held
from tests.simulation.loop import VirtualLoop
from tests.simulation.losses import Losses
from tests.simulation.machines import Machines
from tests.simulation.mistakes import Mistakes
from tests.simulation.network import Network, Sent
from tests.simulation.operator import CONFIGURATION, Journals, Operator
from tests.simulation.pods import GPU, HOLD, NATIVE, is_held_back, lives, plain, pod_of
from tests.simulation.policies import Policies
from tests.simulation.server import NATIVE_GROUPS, Json, Server
from tests.simulation.waits import Waits
from tutti.api.configuration import TuttiConfiguration
from tutti_sim.kinds.resource import Resource
from tutti_sim.rest import binding
from tutti_sim.store.collection import Version

LOCAL_QUEUES = ("default/q1", "default/q2", "default/q3")


@dataclass
class Gang:
    """A gang as its user wants it: members by name, with what each is."""

    name: str
    about: Json | None = None
    members: dict[str, Json] = field(default_factory=dict)
    cancelled: bool = False
    together: bool = False
    """Whether as many as must be have had nodes at once."""
    whole: bool = False
    """Whether that was so since it last had none."""

    @property
    def is_endless(self) -> bool:
        """Whether it runs until somebody takes it out."""
        return self.about is not None and self.about.get("endless", False)


class World:
    """Carries out steps, plays the users, and notes what must never happen in `violations`."""

    def __init__(
        self, loop: VirtualLoop, seed: int, configuration: TuttiConfiguration = CONFIGURATION, *, natives: bool = False
    ) -> None:
        self.loop = loop
        self.server = Server(seed, guests=configuration.throttles is not None, natives=natives)
        self.mistakes = Mistakes(self.server, loop.time)
        self.machines = Machines(self.server, loop, self._replace)
        self.devices = Devices(self.server, loop, self.complain)
        self.cards = Cards(self.server, loop, self.complain, draw=random.Random(f"{seed}/plugins"))
        self.waits = Waits(self.server, loop, self.complain, self._about)
        self.policies = Policies(self.server, loop, self.complain)
        self.network = Network(self.server, random.Random(f"{seed}/network"))
        self.losses = Losses(self.network, loop, self.do, self.server.backend.store.forget)
        self.configuration = configuration
        self.operators: dict[str, Operator] = {}
        self.gangs: dict[str, Gang] = {}
        self.violations: list[str] = []
        self.trace: list[str] = []
        self.state: Json = {}
        self.journals: Journals | None = None
        self.failed = asyncio.Event()
        self._draw = random.Random(f"{seed}/users")
        self._gang_of: dict[str, str] = {}
        self.network.sending.append(self._check_leader)
        self.network.handled.append(self._note)
        self.server.backend.after.append(self._follow)

    def lacks(self, name: str, placed: frozenset[str]) -> str:
        """What a gang would lack of what its user has asked for, if these of it had nodes; empty if nothing.

        What a gang that has had nodes for all at once has lost since, it may get back one by one.
        """
        gang = self.gangs.get(self._gang_of.get(name, ""))
        if gang is None or gang.about is None or gang.about["how"] == "Pod" or gang.together:
            return ""
        least = gang.about["least"]
        gang.together = len(placed) >= least
        return f"only {len(placed)} of {least} have nodes" if len(placed) < least else ""

    def complain(self, what: str) -> None:
        """Note a violation; the run ends."""
        if what not in self.violations:
            self.violations.append(f"at {self.loop.time():.3f} s: {what}")
        self.failed.set()

    async def do(self, action: str, args: Json) -> None:
        """Carry out a step."""
        rooms = (self.mistakes, self.machines, self.devices, self.cards, self.waits, self.policies, self.losses, self)
        doer: Any = next(one for one in rooms if hasattr(one, f"do_{action}"))
        await getattr(doer, f"do_{action}")(**args)

    # Objects.

    async def do_put(self, kind: str, name: str, spec: Json) -> None:
        await self.mistakes.put(kind, name, spec)

    async def do_create(self, group: str, version: str, plural: str, body: Json) -> None:
        """Create an object that is not ours."""
        resource = self.server.resource(group, version, plural)
        await self.server.user.create(resource, "default" if resource.namespaced else "", body)

    async def do_remove(self, kind: str, name: str) -> None:
        self.server.remove(kind, name)

    # Gangs and their members.

    async def do_gang(self, **about: Any) -> None:
        gang = self.gangs.setdefault(about["gang"], Gang(about["gang"]))
        gang.about = about
        if gang.cancelled:
            return
        queue = {"queueName": about["queue"]} if about["queue"] else {}
        if about["how"] == "PodGroup":
            policy = {"schedulingPolicy": {"gang": {"minCount": about["least"]}}}
            await self.mistakes.put("PodGroup", gang.name, {**policy, **queue, **about.get("spec", {})})
        elif about["how"] == NATIVE:
            policy = {"schedulingPolicy": {"gang": {"minCount": about["least"]}}}
            kind = {"apiVersion": "/".join(NATIVE_GROUPS[:2]), "kind": "PodGroup"}
            body = {**kind, "metadata": {"name": gang.name}, "spec": {**policy, **about.get("spec", {})}}
            if self.server.native_group(gang.name) is None:
                await self.server.user.create(self.server.resource(*NATIVE_GROUPS), "default", body)
        elif about["how"] == "Workload":
            group = {"name": "main", "count": about["size"], "minCount": about["least"]}
            await self.server.put_priority(about["priority"])
            named = {"priorityClassRef": {"name": f"of-{about['priority']}"}}
            spec = {"podGroups": [group], **named, **queue, **about.get("spec", {})}
            await self.mistakes.put("Workload", gang.name, spec)
        for member in gang.members.values():
            await self._create(gang, member)

    async def do_member(self, **member: Any) -> None:
        gang = self.gangs.setdefault(member["gang"], Gang(member["gang"]))
        gang.members[member["name"]] = member
        self._gang_of[member["name"]] = gang.name
        await self._create(gang, member)

    async def do_ungate(self, name: str) -> None:
        gang = self.gangs[self._gang_of[name]] if name in self._gang_of else None
        if gang is not None:
            gang.members[name] = {**gang.members[name], "gated": False}
        found = self.server.backend.collection(self.server.pods).get("default", name)
        if found is not None and found.obj["spec"].get("schedulingGates"):
            spec = {key: value for key, value in found.obj["spec"].items() if key != "schedulingGates"}
            meta = dict(found.obj["metadata"])
            self.server.user.write(self.server.pods, found, {**found.obj, "metadata": meta, "spec": spec})

    async def do_delete_pod(self, name: str) -> None:
        found = self.server.backend.collection(self.server.pods).get("default", name)
        if found is not None:
            self.server.user.remove(self.server.pods, found)

    async def do_cancel(self, gang: str, stays: bool = False) -> None:
        """The user gives a gang up: its pods go, and then what stands for it, unless it `stays`."""
        found = self.gangs.get(gang)
        if found is None:
            return
        found.cancelled = True
        for name in found.members:
            await self.do_delete_pod(name)
        self._remove_native(gang)
        stands = found.about is not None and found.about["how"] in ("PodGroup", "pods of a PodGroup", "Workload")
        if found.about is not None and stands and not stays:
            self.server.remove("Workload" if found.about["how"] == "Workload" else "PodGroup", gang)

    def _remove_native(self, gang: str) -> None:
        """Delete the PodGroup of Kubernetes that stands for a gang, if there is one."""
        if self.server.native_group(gang) is not None:
            groups = self.server.resource(*NATIVE_GROUPS)
            found = self.server.backend.collection(groups).get("default", gang)
            assert found is not None  # it has just been seen
            self.server.user.remove(groups, found)

    async def _create(self, gang: Gang, member: Json) -> None:
        """Create a pod of a gang, once it is known how the gang is told of."""
        if gang.about is None or gang.cancelled or self.server.pod(member["name"]) is not None:
            return
        await self.server.user.create(self.server.pods, "default", pod_of(gang.about, member))

    def _about(self, name: str) -> Json | None:
        """What is known of the gang of a pod."""
        gang = self.gangs.get(self._gang_of.get(name, ""))
        return gang.about if gang is not None else None

    async def end_the_endless(self) -> None:
        """The users give up what would run for ever: everybody else has come to the end of theirs beside it."""
        for gang in list(self.gangs.values()):
            if gang.is_endless:
                await self.do_cancel(gang.name)

    def is_given_up(self, gang: Gang) -> bool:
        """Whether nobody wants a gang to run any more: its user, or who has set its Workload inactive."""
        workload = self.server.backend.find("workloads.scheduling.tutti.dev", "default", gang.name)
        return gang.cancelled or (workload is not None and not workload["spec"].get("active", True))

    def _member_changed(self, old: Version | None, new: Version | None) -> None:
        """Have a member created anew that is gone or has failed."""
        version = new or old
        assert version is not None
        name = version.key[1]
        if name not in self._gang_of:
            return
        phase = version.obj.get("status", {}).get("phase")
        if new is not None and is_held_back(new.obj):
            if old is None or not is_held_back(old.obj):
                self.loop.call_later(0.5 + 9 * self._draw.random(), self._let_go, name)
        elif new is None or phase == "Failed":
            self.loop.call_later(self._pause(name), self._renew, name)

    def _pause(self, name: str) -> float:
        """How long the user of a gang takes to make a member of it again, in seconds."""
        gang = self.gangs[self._gang_of[name]]
        slow = gang.about.get("slow", 0.0) if gang.about is not None else 0.0
        return 0.5 + (3 + slow) * self._draw.random()

    def _replace(self, name: str) -> None:
        """A member was told to end where nobody says when it has: its user has another in its place."""
        gang = self.gangs.get(self._gang_of.get(name, ""))
        if gang is None or name not in gang.members:
            return
        member = gang.members.pop(name)
        again = {**member, "name": f"{name}x"}
        gang.members[again["name"]] = again
        self._gang_of[again["name"]] = gang.name
        self.loop.call_later(self._pause(again["name"]), self._renew, again["name"])

    def _let_go(self, name: str) -> None:
        """A Job's controller has counted a pod that was deleted."""
        found = self.server.backend.collection(self.server.pods).get("default", name)
        if found is not None and is_held_back(found.obj):
            self.server.user.without_finalizer(self.server.pods, found, HOLD)

    def _renew(self, name: str) -> None:
        gang = self.gangs[self._gang_of[name]]
        if name not in gang.members:
            return  # another is there in its place
        pod = self.server.pod(name)
        if pod is not None and pod.get("status", {}).get("phase") == "Failed":
            found = self.server.backend.collection(self.server.pods).get("default", name)
            assert found is not None
            self.server.user.remove(self.server.pods, found, grace=0)
        elif pod is None and not self.is_given_up(gang):
            self.loop.create_task(self._create(gang, gang.members[name]))

    # Another scheduler.

    async def do_foreign(self, name: str, node: str, gpus: int, seconds: float) -> None:
        """Another scheduler puts a pod on a node, where it fits by what is bound there."""
        home = self.server.backend.find("nodes", "", node)
        if home is None or held(self.server, node) + gpus > int(home["status"]["allocatable"][GPU]):
            return
        pod = plain(name, gpus, seconds, labels={}, annotations={}, scheduler="default-scheduler")
        await self.server.user.create(self.server.pods, "default", pod)
        binding.bind(
            self.server.backend, "default", name, {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        )

    async def do_stray(self, name: str, labels: Json, annotations: Json) -> None:
        """Somebody creates a pod that cannot be what he means."""
        await self.mistakes.add_stray(plain(name, 1, 5.0, labels=labels, annotations=annotations))

    # Processes.

    async def do_start(self, replica: str) -> None:
        one = self.operators.get(replica)
        if one is None:
            one = self.operators[replica] = Operator(
                replica,
                self.network,
                self.loop,
                complain=self.complain,
                local_queues=LOCAL_QUEUES,
                draw=self._draw.random,
                lacks=self.lacks,
                was_whole=lambda name: name in self.gangs and self.gangs[name].whole,
                configuration=self.configuration,
                journals=self.journals,
            )
        one.start()

    async def do_crash(self, replica: str) -> None:
        for one in self._meant(replica):
            one.crash()

    async def do_pause(self, replica: str, seconds: float) -> None:
        for one in self._meant(replica):
            one.pause(seconds)

    async def do_stop(self, replica: str, seconds: float) -> None:
        for one in self._meant(replica):
            one.stop(seconds)

    def _meant(self, replica: str) -> list[Operator]:
        """The replica of that name, or whoever leads; nobody where there is none."""
        if replica == "leader":
            return [one for one in self.operators.values() if one.leads]
        return [one for name, one in self.operators.items() if name == replica]

    # The end of the faults.

    async def heal(self) -> None:
        """From now on nothing goes wrong any more."""
        self.losses.heal()
        self.network.slowness = 1.0
        await self.machines.heal()
        await self.devices.heal()
        await self.cards.heal()
        await self.mistakes.mend_all()
        for gang in self.gangs.values():
            for name in gang.members:
                await self.do_ungate(name)

    async def tidy(self) -> None:
        """The users delete what they have made."""
        for gang in list(self.gangs):
            await self.do_cancel(gang)
        await self.waits.tidy()
        self.mistakes.tidy()

    # What must hold of the cluster at any moment.

    def _note(self, sent: Sent, status: int) -> None:
        if sent.is_write and sent.what not in ("leases", "events"):
            self.trace.append(f"{self.loop.time():9.3f} {sent.owner} {sent.method} {sent.path} {status}")

    def _check_leader(self, sent: Sent) -> None:
        """Nobody writes, but to the lease, while another holds it."""
        if not sent.is_write or sent.what == "leases":
            return
        lease = self.server.backend.find("leases.coordination.k8s.io", "kube-system", "tutti")
        holder = (lease or {}).get("spec", {}).get("holderIdentity", "")
        if holder != sent.owner:
            self.complain(f"{sent.owner} sends {sent.method} {sent.path} while {holder or 'nobody'} holds the lease")

    def _follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        if resource.storage != "pods":
            return
        if new is not None and new.obj["spec"].get("nodeName") and (old is None or not old.obj["spec"].get("nodeName")):
            in_parts = any(self.mistakes.was_spoilt_lately("ClusterQueue", queue) for queue in COHORT)
            # A node of that name may have come back: what was sent to the former one is none that it was given.
            engines = [one.engine for one in self.operators.values() if one.engine is not None]
            strays = frozenset(uid for engine in engines for uid in engine.strays)
            for what in exceeded(self.server, new.obj, strays, in_parts=in_parts):
                self.complain(what)
        self._note_together((new or old).key[1])
        self._member_changed(old, new)

    def _note_together(self, name: str) -> None:
        gang = self.gangs.get(self._gang_of.get(name, ""))
        if gang is not None and gang.about is not None:
            pods = [self.server.pod(one) for one in gang.members]
            bound = [pod for pod in pods if pod and pod["spec"].get("nodeName")]
            enough = len(bound) >= gang.about["least"]
            gang.together = gang.together or enough
            gang.whole = enough or (gang.whole and any(map(lives, bound)))
