"""Whole gangs, with topology, several pod sets, quota and victims, against every arrangement there is.

On worlds of a few nodes and pods all ways are gone through: which flavor each part gets and how many of its pods each
node. The engine admits a workload just where one of them is valid, what it admits is valid, and it takes out others
only where there is none without that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.engine.world import GPU, World
from tutti.engine.records.decisions import Evict

LEVELS = ("block", "rack", "kubernetes.io/hostname")
KINDS = ("a", "b")


@dataclass(frozen=True)
class Machine:
    """A node: where it stands, of which kind it is, and how many GPUs it has."""

    name: str
    block: str
    rack: str
    kind: str
    gpus: int

    def domain(self, level: str) -> str:
        """Where it stands, down to a level."""
        return {"block": self.block, "rack": f"{self.block}-{self.rack}", LEVELS[2]: self.name}[level]

    @property
    def labels(self) -> dict[str, str]:
        return {"block": self.block, "rack": self.domain("rack"), "kind": self.kind}


@dataclass(frozen=True)
class Part:
    """A pod group of the workload.

    Attributes:
        kind: The only kind of node it goes to, by its node selector; "" where that does not matter.
        mode, level: How near one another its pods are to be, "" where that does not matter.
        domain: Shared with the parts that are to be in one domain with it, "" without any.
    """

    name: str
    count: int
    gpus: int
    kind: str = ""
    mode: str = ""
    level: str = ""
    domain: str = ""

    @property
    def party(self) -> str:
        """What is the same for the parts that go to one domain, in one flavor."""
        return self.domain or self.name

    @property
    def raw(self) -> dict[str, Any]:
        near = {"mode": self.mode, "level": self.level, **({"groupName": self.domain} if self.domain else {})}
        return {"name": self.name, "count": self.count, **({"topology": near} if self.mode else {})}


@dataclass
class Given:
    """What there is before the workload comes, and what it asks for.

    Attributes:
        quota: By flavor, what its queue has of its own; None where it asks for no quota.
        lent: By flavor, what another queue of its cohort has and does not use.
        borrow: How much of it in each flavor it may borrow at most; None without a limit.
    """

    machines: Sequence[Machine]
    parts: Sequence[Part]
    quota: Mapping[str, int] | None = None
    lent: Mapping[str, int] = field(default_factory=dict)
    borrow: int | None = None

    def available(self, flavor: str) -> int:
        assert self.quota is not None
        more = self.lent.get(flavor, 0)
        return self.quota[flavor] + (more if self.borrow is None else min(more, self.borrow))

    def flavors(self) -> Iterator[dict[str, str]]:
        """Every way to give each party a flavor; without quota there are none."""
        parties = list(dict.fromkeys(part.party for part in self.parts))
        for chosen in product(self.quota or [""], repeat=len(parties)):
            yield dict(zip(parties, chosen, strict=True))

    def fits(self, taken: Mapping[str, int], used: Mapping[str, int]) -> bool:
        """Whether any arrangement is valid, where so many GPUs of each node are taken, and of each flavor used."""
        return any(
            self._has_quota(flavors, used) and self._fit(list(self.parts), flavors, Counter(taken), {})
            for flavors in self.flavors()
        )

    def _has_quota(self, flavors: Mapping[str, str], used: Mapping[str, int]) -> bool:
        wanted: Counter[str] = Counter(used)
        for part in self.parts:
            wanted[flavors[part.party]] += part.count * part.gpus
        return self.quota is None or all(
            wanted[flavor] <= self.available(flavor) for flavor in set(flavors.values()) if self._asks(flavor, flavors)
        )

    def _asks(self, flavor: str, flavors: Mapping[str, str]) -> bool:
        return any(part.gpus and flavors[part.party] == flavor for part in self.parts)

    def _fit(self, parts: list[Part], flavors: Mapping[str, str], taken: Counter[str], domains: dict[str, str]) -> bool:
        """Whether the pods of some parts fit, one after the other, in every way each can be spread."""
        if not parts:
            return True
        part, rest = parts[0], parts[1:]
        open_ = [one for one in self.machines if self.may_go(part, one, flavors[part.party])]
        if part.mode != "Required":
            return any(self._fit(rest, flavors, taken + spread, domains) for spread in _spreads(part, open_, taken))
        known = domains.get(part.party)
        for domain in sorted({one.domain(part.level) for one in open_}) if known is None else [known]:
            there = [one for one in open_ if one.domain(part.level) == domain]
            for spread in _spreads(part, there, taken):
                if self._fit(rest, flavors, taken + spread, {**domains, part.party: domain}):
                    return True
        return False

    def may_go(self, part: Part, machine: Machine, flavor: str) -> bool:
        """Whether a node is of the kind that a part and its flavor ask for."""
        return part.kind in ("", machine.kind) and flavor in ("", machine.kind)


def _spreads(part: Part, machines: Sequence[Machine], taken: Mapping[str, int]) -> Iterator[Counter[str]]:
    """Every way to spread the pods of a part over some nodes: by node, how many GPUs they take."""

    def ways(left: int, among: Sequence[Machine]) -> Iterator[Counter[str]]:
        if not left:
            yield Counter()
        elif among:
            first, rest = among[0], among[1:]
            free = first.gpus - taken.get(first.name, 0)
            for here in range(left + 1 if not part.gpus else min(left, free // part.gpus) + 1):
                for more in ways(left - here, rest):
                    yield more + Counter({first.name: here * part.gpus})

    yield from ways(part.count, machines)


class Story:
    """The world of what is given, as the engine sees it."""

    def __init__(self, what: Given, **preemption: Any) -> None:
        self.what, self.world = what, World()
        world = self.world
        world.object("Topology", "t", {"levels": [{"nodeLabel": level} for level in LEVELS]})
        for flavor in what.quota or ():
            world.flavor(flavor, nodeLabels={"kind": flavor}, topologyName="t")
        if what.quota is not None:
            self._queue("cq", what.quota, "queue", borrow=what.borrow, **preemption)
        if what.lent:
            self._queue("other", what.lent, "")
        for one in what.machines:
            world.node(one.name, gpus=one.gpus, labels=one.labels)

    def _queue(
        self, name: str, quota: Mapping[str, int], local: str, *, borrow: int | None = None, **spec: Any
    ) -> None:
        limit = {} if borrow is None or not self.what.lent else {"borrowingLimit": borrow}
        plenty = [{"name": "cpu", "nominalQuota": 1000}, {"name": "memory", "nominalQuota": "100Ti"}]
        flavors = [
            {"name": flavor, "resources": [{"name": GPU, "nominalQuota": gpus, **limit}, *plenty]}
            for flavor, gpus in quota.items()
        ]
        groups = [{"coveredResources": [GPU, "cpu", "memory"], "flavors": flavors}]
        cohort = {"cohortName": "c"} if self.what.lent else {}
        self.world.object("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": groups, **cohort, **spec})
        if local:
            self.world.object("LocalQueue", local, {"clusterQueue": name})

    def submit(self, priority: int = 0) -> None:
        """The workload comes, with its pods."""
        queue = {"queueName": "queue"} if self.what.quota is not None else {}
        self.world.workload("w", *(part.raw for part in self.what.parts), priority=priority, **queue)
        for part in self.what.parts:
            for rank in range(part.count):
                self.world.pod(
                    f"w-{part.name}-{rank}",
                    workload="w",
                    group=part.name,
                    gpus=part.gpus,
                    selector={"kind": part.kind} if part.kind else None,
                    priority=priority,
                )
        self.world.run()

    def taken(self, prefix: str = "") -> Counter[str]:
        """How many GPUs of each node the pods of a name take."""
        out: Counter[str] = Counter()
        for (_, name), pod in self.world.pods.items():
            if name.startswith(prefix) and pod.spec.node_name and not pod.terminated:
                asked = pod.spec.containers[0].resources.requests
                out[pod.spec.node_name] += int(asked.get(GPU, "0"))
        return out

    def used(self) -> Counter[str]:
        """How many GPUs of each flavor the queue uses."""
        return Counter({flavor: self.world.used("cq", flavor) for flavor in self.what.quota or ()})

    def check(self) -> bool:
        """Whether the workload runs: all of it or nothing, and in a valid way."""
        placed = {part.name: self._placed(part) for part in self.what.parts}
        assert all(placed.values()) or not any(placed.values())
        machines = {one.name: one for one in self.what.machines}
        for name, gpus in self.taken().items():
            assert gpus <= machines[name].gpus
        if not any(placed.values()):
            return False
        for part in self.what.parts:
            together = [one for other in self.what.parts if other.party == part.party for one in placed[other.name]]
            assert len(placed[part.name]) == part.count
            assert all(part.kind in ("", machines[name].kind) for name in placed[part.name])
            if part.mode == "Required":
                assert len({machines[name].domain(part.level) for name in together}) == 1
            if self.what.quota is not None and part.gpus:
                assert len({machines[name].kind for name in together}) == 1
        if self.what.quota is not None:
            assert all(gpus <= self.what.available(flavor) for flavor, gpus in self.used().items())
        return True

    def _placed(self, part: Part) -> list[str]:
        return list(self.world.where(f"w-{part.name}-").values())


def machines() -> st.SearchStrategy[list[Machine]]:
    one = st.tuples(st.sampled_from("xy"), st.sampled_from("rs"), st.sampled_from(KINDS), st.integers(1, 3))
    return st.lists(one, min_size=2, max_size=5).map(
        lambda rows: [Machine(f"n{i}", *row) for i, row in enumerate(rows)]
    )


@st.composite
def parts(draw: st.DrawFn, most: int = 5) -> list[Part]:
    """Up to three pod groups of up to so many pods in all; some go to one domain."""
    out: list[Part] = []
    shared = (draw(st.sampled_from(["Required", "Preferred"])), draw(st.sampled_from(LEVELS)))
    for name in ("p", "q", "r")[: draw(st.integers(1, 3))]:
        count = draw(st.integers(1, max(1, most - sum(part.count for part in out) - 1)))
        mode, level = draw(
            st.sampled_from([("", ""), ("Required", "rack"), ("Required", "block"), ("Preferred", "rack")])
        )
        domain = "d" if draw(st.booleans()) else ""
        if domain:
            mode, level = shared
        kind = draw(st.sampled_from(["", "", *KINDS]))
        out.append(Part(name, count, draw(st.integers(0, 2)), kind, mode, level, domain))
    return out


@st.composite
def worlds(draw: st.DrawFn, *, flavors: Sequence[str] = KINDS) -> Given:
    quota = {flavor: draw(st.integers(0, 6)) for flavor in flavors}
    lent = {flavor: draw(st.integers(0, 4)) for flavor in flavors} if draw(st.booleans()) else {}
    return Given(draw(machines()), draw(parts()), quota, lent, draw(st.sampled_from([None, 0, 1, 3])))


@examples(150)
@given(machines(), parts())
def test_a_workload_without_quota_is_placed_just_where_some_arrangement_is_valid(there, wanted):
    what = Given(there, wanted)
    story = Story(what)
    story.submit()
    assert story.check() == what.fits({}, {})


@examples(200)
@given(worlds(), st.lists(st.sampled_from(KINDS), max_size=2))
def test_a_workload_is_admitted_just_where_quota_and_nodes_have_room_in_some_flavors(what, before):
    story = Story(what)
    for i, kind in enumerate(before):
        story.world.pod(f"u{i}", queue="queue", selector={"kind": kind})
    story.world.run()
    taken, used = story.taken(), story.used()
    story.submit()
    assert story.check() == what.fits(taken, used)


@dataclass(frozen=True)
class Gang:
    """A gang that runs when the workload comes: it leaves whole, or with pods beyond its minimum only."""

    size: int
    least: int
    gpus: int
    priority: int


def gangs() -> st.SearchStrategy[list[Gang]]:
    one = st.builds(
        lambda least, more, gpus, priority: Gang(least + more, least, gpus, priority),
        st.integers(1, 2),
        st.integers(0, 1),
        st.integers(1, 2),
        st.sampled_from([0, 1, 5]),
    )
    return st.lists(one, min_size=1, max_size=3)


@examples(150)
@given(worlds(flavors=("a",)), gangs(), st.booleans())
def test_others_leave_only_where_that_lets_it_start_and_gangs_leave_whole(what, running, counted):
    what = Given([Machine(m.name, m.block, m.rack, "a", m.gpus) for m in what.machines], what.parts, what.quota)
    what.quota = what.quota if counted else None
    story = Story(what, preemption={"withinClusterQueue": "LowerPriority"})
    world = story.world
    queue = {"queueName": "queue"} if counted else {}
    for i, gang in enumerate(running):
        world.pod_group(f"g{i}", gang.least, disruptionMode="PodGroup", **queue)
        for rank in range(gang.size):
            world.pod(f"g{i}-{rank}", group=f"g{i}", gpus=gang.gpus, priority=gang.priority)
        world.run()
    before, at = {i: world.where(f"g{i}-") for i in range(len(running))}, len(world.log)
    taken, used = story.taken(), story.used()

    story.submit(priority=3)

    started = story.check()
    gone = {one.name for one in world.log[at:] if isinstance(one, Evict)}
    if what.fits(taken, used):
        assert started
        assert not gone
        return
    low = [i for i, gang in enumerate(running) if gang.priority < 3]
    stays, keeps = Counter(taken), Counter(used)
    for i in low:
        for node in before[i].values():
            stays[node] -= running[i].gpus
            keeps["a"] -= running[i].gpus if counted else 0
    assert started == what.fits(stays, keeps)
    assert bool(gone) == started
    for i, gang in enumerate(running):
        mine = gone & before[i].keys()
        assert not mine or gang.priority < 3
        assert mine in (set(), set(before[i])) or len(before[i]) - len(mine) >= gang.least
