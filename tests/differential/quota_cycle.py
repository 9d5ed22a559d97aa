"""The topics of the quota corpus that run whole cycles."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.differential.quota_flavors import flavors, pod_set, queue
from tests.differential.quota_reading import Record, requeuing, snapshot, when
from tests.differential.quota_rules import Answer, in_units, in_whole
from tests.differential.quota_topology import places
from tutti.api.quantity import parse
from tutti.queueing.cycle import Cycle
from tutti.queueing.heads import head_key
from tutti.queueing.local_usage import local_usage, penalty
from tutti.queueing.nomination import Entry, Head, Nominator
from tutti.queueing.requeue import Requeue, goes_aside
from tutti.quota.domains import DomainTree
from tutti.quota.fair_reclaim import STRATEGIES, Strategy
from tutti.quota.oracle import Rules
from tutti.quota.outcome import Choice
from tutti.quota.references import queue_problem
from tutti.quota.snapshot import Holder
from tutti.quota.topologies import Topologies
from tutti.quota.topology import Placement


@dataclass
class World:
    """The queues and workloads of a record, over as many cycles as it has."""

    case: Record
    waiting: dict[str, list[Record]] = field(default_factory=dict)
    aside: dict[str, list[Record]] = field(default_factory=dict)
    admitted: dict[str, Choice] = field(default_factory=dict)
    preempted: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    penalties: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        case = self.case
        self.flavors = flavors(case)
        trees = {
            name: DomainTree(one.levels, places(case, dict(one.node_labels)))
            for name, one in self.flavors.items()
            if one.levels
        }
        self.snapshot = snapshot(case, [one for one in case["workloads"] if one.get("queue")], Topologies(trees))
        told = [queue(one) for one in case["clusterQueues"]]
        self.queues = {one.name: replace(one, problem=queue_problem(one, self.flavors, {})) for one in told}
        self.by_usage = {
            one["name"] for one in case["clusterQueues"] if one.get("admissionMode", "").startswith("UsageBased")
        }
        self.doors = {one["name"]: one for one in case["localQueues"]}
        for one in case["workloads"]:
            door = self.doors.get(self.door(one))
            if not one.get("queue") and door is not None and door["clusterQueue"] in self.queues:
                self.waiting.setdefault(door["clusterQueue"], []).append(one)
        options = case["options"]
        rules = Rules(options["fairSharing"], tuple(map(Strategy, options.get("strategies", STRATEGIES))))
        self.nominator = Nominator(self.snapshot, self.queues, self.flavors, rules)

    def door(self, one: Record) -> str:
        return f"{one['name'].split('/')[0]}/{one.get('localQueue')}"

    def local_usage(self, one: Record) -> float:
        name = self.door(one)
        consumed = in_whole(self.case.get("localQueueConsumed", {}).get(name))
        weight = parse(self.doors[name].get("weight", "1")) / 1000
        return local_usage(consumed, self.penalties.get(name, {}), weight=weight)

    def key(self, name: str, one: Record) -> tuple[object, ...]:
        used = self.local_usage(one) if name in self.by_usage else 0.0
        return head_key(
            one.get("priority", 0), when(one, requeuing(self.case)), one.get("uid", one["name"]), local_usage=used
        )

    def head(self, name: str, one: Record) -> Head:
        labels = self.case.get("namespaces", {}).get(one["name"].split("/")[0], {})
        return Head(
            one["name"],
            name,
            tuple(map(pod_set, one["podSets"])),
            one.get("priority", 0),
            when(one, requeuing(self.case)),
            one.get("uid", ""),
            labels=labels,
        )

    def cycle(self) -> None:
        heads, records = [], {}
        for name, them in self.waiting.items():
            active = not self.queues[name].hold and self.queues[name].problem is None
            if them and active:
                first = min(them, key=lambda one, name=name: self.key(name, one))
                them.remove(first)
                heads.append(self.head(name, first))
                records[first["name"]] = first
        for entry in Cycle(self.nominator).run(heads):
            self.settle(entry, records[entry.head.name])

    def settle(self, entry: Entry, record: Record) -> None:
        head = entry.head
        if entry.overtaken:
            self.skipped[head.queue] = self.skipped.get(head.queue, 0) + 1
        if entry.admitted:
            self.admit(entry, record)
            return
        self.reasons[head.name] = entry.reason
        if entry.requeue is Requeue.PENDING_PREEMPTION:
            fresh = [victim for victim in entry.victims if not victim.holder.evicted]
            self.preempted |= {victim.holder.name: victim.reason.value for victim in fresh}
        strict = self.queues[head.queue].strict
        if not goes_aside(entry.requeue, strict=strict, scan=entry.scan):
            self.waiting[head.queue].append(record)
            return
        aside = self.aside.setdefault(head.queue, [])
        aside.append(record)
        if not strict and entry.requeue in (Requeue.NO_FIT, Requeue.NO_CANDIDATES):
            for other in [one for one in self.waiting[head.queue] if self.head(head.queue, one).is_like(head)]:
                self.waiting[head.queue].remove(other)
                aside.append(other)

    def admit(self, entry: Entry, record: Record) -> None:
        head = entry.head
        self.admitted[head.name] = entry.choice
        self.reasons.pop(head.name, None)
        self.snapshot.add(Holder(head.name, head.queue, entry.choice.usage, head.priority, head.queued_at))
        options = self.case["options"].get("admissionFairSharing")
        if options:
            asked: dict[str, float] = {}
            for pods in record["podSets"]:
                for name, amount in in_whole(pods["requests"]).items():
                    asked[name] = asked.get(name, 0.0) + amount * pods["count"]
            more = penalty(asked, sampling=options["usageSamplingSeconds"], half_life=options["usageHalfLifeSeconds"])
            mine = self.penalties.setdefault(self.door(record), {})
            for name, amount in more.items():
                mine[name] = mine.get(name, 0.0) + amount


def names(by_queue: dict[str, list[Record]]) -> dict[str, list[str]]:
    return {name: sorted(one["name"] for one in them) for name, them in by_queue.items() if them}


def assignment(choice: Choice) -> list[Answer]:
    return [
        {
            "name": pods.name,
            "count": pods.count,
            "flavors": {name: one.flavor for name, one in pods.flavors.items()},
            "usage": {name: pods.requests[name] for name in pods.flavors},
            **({"topology": shown(pods.placement)} if pods.placement else {}),
        }
        for pods in choice.pod_sets
    ]


def shown(placement: Placement) -> Answer:
    domains = [{"values": list(values), "count": count} for values, count in placement.domains]
    return {"levels": list(placement.levels), "domains": domains}


def cycle(case: Record, expect: Record) -> tuple[Answer, Answer]:
    world = World(case)
    for _ in range(case["options"].get("cycles", 1)):
        world.cycle()
    answer: Answer = {
        "admitted": sorted(world.admitted),
        "assignments": {name: assignment(choice) for name, choice in world.admitted.items()},
    }
    expected: Answer = {
        "admitted": sorted(expect["admitted"]),
        "assignments": {name: recorded(expect, name) for name in expect["admitted"]},
    }
    if "reasons" in expect:
        answer["reasons"], expected["reasons"] = world.reasons, expect["reasons"]
    if "reserved" in expect:
        holding = [one["name"] for one in case["workloads"] if one.get("queue")]
        answer["reserved"], expected["reserved"] = sorted([*holding, *world.admitted]), sorted(expect["reserved"])
        skipped = expect.get("skippedPreemptions", {})
        answer["skipped"], expected["skipped"] = world.skipped, {name: n for name, n in skipped.items() if n}
    if "preempted" in expect:
        answer["preempted"] = world.preempted
        expected["preempted"] = {one["name"]: one["reason"] for one in expect["preempted"]}
        answer |= {"pending": names(world.waiting), "inadmissible": names(world.aside)}
        for key in ("pending", "inadmissible"):
            expected[key] = {name: sorted(them) for name, them in expect[key].items()}
    else:
        left = [one["name"] for by_queue in (world.waiting, world.aside) for them in by_queue.values() for one in them]
        answer["pending"], expected["pending"] = sorted(left), sorted(expect["pending"])
    return answer, expected


def recorded(expect: Record, name: str) -> list[Answer]:
    return [
        {**one, "usage": {r: units for (_, r), units in in_units({"": one["usage"]}).items()}}
        for one in expect["assignments"][name]["podSets"]
    ]
