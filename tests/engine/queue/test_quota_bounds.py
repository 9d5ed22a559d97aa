"""Who is tried where quota was given back: nobody who cannot have it, and everybody who may be helped in any way."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.engine.world import GPU, START, World
from tutti.api.conditions import timestamp
from tutti.api.throttles import GROUP, VERSION
from tutti.engine.queue import quota_bounds
from tutti.engine.records.decisions import AnyDecision, Bind, Evict

USER = "scheduling.tutti.dev/user"


def cohort(gpus: int, *queues: str, own: int = 0, settings: dict[str, Any] | None = None, **more: Any) -> World:
    """Queues that have so many GPUs together, beside so many of their own, and nodes enough for all."""
    world = World(**settings or {})
    world.flavor()
    for number in range(8):
        world.node(f"n{number}", gpus=16)
    quotas = [{"name": GPU, "nominalQuota": gpus}]
    group = {"coveredResources": [GPU], "flavors": [{"name": "default", "resources": quotas}]}
    world.object("Cohort", "all", {"resourceGroups": [group]})
    for name in queues:
        world.queue(name, own, cohort="all", local=name, **more)
    return world


def tried(world: World) -> int:
    """Run, and return how many workloads were tried."""
    before = world.engine.evaluated
    world.run()
    return world.engine.evaluated - before


def test_of_many_queues_only_those_are_tried_whose_turn_it_is_and_who_fit():
    names = [f"q{number:02}" for number in range(20)]
    world = cohort(8, *names)
    world.pod("has", gpus=8, queue="q00")
    world.run()
    for number, name in enumerate(names):
        world.pod(f"waits-{number:02}", gpus=5 + number % 3, queue=name)
    world.run()
    assert world.where("waits") == {}

    world.finish("has")

    assert tried(world) == 1
    assert list(world.where("waits")) == ["waits-00"]


def test_who_comes_later_and_fits_is_found_behind_those_who_do_not():
    world = cohort(8, "a", "b", "c")
    world.pod("large", gpus=6, queue="a")
    world.pod("small", gpus=2, queue="b")
    world.run()
    world.pod("first", gpus=6, queue="a", priority=10)
    world.pod("second", gpus=4, queue="b", priority=5)
    world.pod("third", gpus=2, queue="c")
    world.run()

    world.finish("small")

    assert tried(world) == 1
    assert [bind.name for bind in world.binds()] == ["large", "small", "third"]


def test_a_queue_is_helped_by_its_own_quota_before_anybody_is_who_would_borrow():
    """All have the same that they could use; whose own it is goes first, though it came last and is called so."""
    world = cohort(0, "a", "b", own=4)
    world.pod("has-b", gpus=4, queue="b")
    world.pod("has-a", gpus=4, queue="a")
    world.run()
    world.pod("borrows", gpus=4, queue="a", priority=10)
    world.run()
    world.pod("own", gpus=4, queue="b")
    world.run()

    world.finish("has-b")
    world.run()

    assert [bind.name for bind in world.binds()][2:] == ["own"]


def test_a_queue_may_not_borrow_more_than_its_limit_though_there_is_more():
    world = cohort(8, "a", "b", borrow=2)
    world.pod("one", gpus=2, queue="a")
    world.pod("other", gpus=2, queue="b")
    world.run()
    world.pod("more", gpus=1, queue="a")
    world.run()
    world.finish("other")
    assert tried(world) == 0
    world.finish("one")
    world.run()
    assert list(world.where("more")) == ["more"]


def test_what_they_lack_is_told_anew_in_time_though_they_are_not_tried():
    world = cohort(8, "a", "b", "c")
    for name in "abc":
        world.pod(f"has-{name}", gpus=2, queue=name)
    world.run()
    for name in "ab":
        world.pod(f"waits-{name}", gpus=8, queue=name)
    world.run(10)
    said = world.why("Pod", "waits-b").message

    world.finish("has-c")
    assert tried(world) == 0
    world.now += 11
    world.run(2)

    assert world.why("Pod", "waits-b").message != said


def test_several_flavors_help_each_by_itself():
    world = World()
    for name in ("old", "new"):
        world.flavor(name, nodeLabels={"model": name})
        world.node(name, gpus=16, labels={"model": name})
    world.queue("a", 4, flavors=("old", "new"), local="a", cohort="all")
    world.queue("b", 0, flavors=("old", "new"), local="b", cohort="all")
    world.pod("on-old", gpus=4, queue="a", selector={"model": "old"})
    world.pod("on-new", gpus=4, queue="a", selector={"model": "new"})
    world.run()
    world.pod("waits", gpus=3, queue="b")
    world.pod("only-old", gpus=3, queue="b", selector={"model": "old"}, priority=10)
    world.run()
    world.finish("on-new")
    assert tried(world) == 1
    assert world.where("waits") == {"waits": "new"}
    assert world.where("only") == {}


def throttle(pods: int) -> dict[str, Any]:
    spec = {
        "throttlerName": "kube-throttler",
        "selector": {"selectorTerms": [{"podSelector": {"matchLabels": {"app": "x"}}}]},
        "threshold": {"resourceCounts": {"pod": pods}},
    }
    meta = {"name": "t", "uid": "u-t", "namespace": "default"}
    return {"apiVersion": f"{GROUP}/{VERSION}", "metadata": meta, "spec": spec}


def drawn_world(draw: random.Random, *, flat: bool) -> tuple[World, list[str]]:
    """Queues of a forest, with limits, policies, flavors and windows as drawn; and their LocalQueues.

    A flat one has one cohort, whose queues compete by fair shares.
    """
    fair = draw.random() < 0.15 or flat
    settings: dict[str, Any] = {"fairSharing": {"enable": True}} if fair else {}
    if flat:
        sharing = {"ordering": draw.choice(["BorrowedShare", "DominantShare"])}
        settings["fairSharing"] |= {**sharing, "patienceSeconds": draw.choice([0, 20, 60])}
    if draw.random() < 0.2:
        settings |= {"throttles": {"name": "kube-throttler"}}
    if draw.random() < 0.2:
        settings |= {"users": {"by": "Annotation"}}
    world = World(**settings)
    if "throttles" in settings:
        world.throttle("Throttle", throttle(draw.randint(1, 4)))
    flavors = ("old", "new") if draw.random() < 0.3 else ("default",)
    for name in flavors:
        world.flavor(name, **({"nodeLabels": {"model": name}} if len(flavors) > 1 else {}))
    for number in range(draw.choice([2, 6, 6])):
        model = {"model": flavors[number % len(flavors)]}
        world.node(f"n{number}", gpus=8, cpu=64, labels=model)
    limits = [None, None, None, None, None, 2, 4]

    def group(gpus: int) -> dict[str, Any]:
        quota = [{"name": GPU, "nominalQuota": gpus}]
        return {"coveredResources": [GPU], "flavors": [{"name": name, "resources": quota} for name in flavors]}

    cohorts = ["", *["top"] * 6]
    world.object("Cohort", "top", {"resourceGroups": [group(draw.randint(6, 12))]})
    if not flat and draw.random() < 0.5:
        cohorts += ["below"] * 4
        world.object("Cohort", "below", {"parentName": "top", "resourceGroups": [group(draw.randint(0, 3))]})
    names = [f"q{number}" for number in range(draw.randint(2, 6))]
    for name in names:
        more: dict[str, Any] = {"queueingStrategy": draw.choice(["StrictFIFO", "BestEffortFIFO", "BestEffortFIFO"])}
        if draw.random() < 0.15:
            within, reclaim = draw.choice(["Never", "LowerPriority"]), draw.choice(["Never", "Any", "LowerPriority"])
            more["preemption"] = {"withinClusterQueue": within, "reclaimWithinCohort": reclaim}
        if "users" in settings and draw.random() < 0.5:
            more["userLimits"] = [{"users": ["*"], "resources": {GPU: draw.randint(1, 4)}}]
        if draw.random() < 0.2:
            quota = [{"name": GPU, "nominalQuota": draw.randint(0, 6)}]
            held = [{"name": one, "resources": quota} for one in flavors]
            begin = START + draw.randint(0, 90)
            times = {"begin": timestamp(begin), "end": timestamp(begin + draw.randint(5, 90))}
            more["temporaryQuotas"] = [{"name": "for-now", **times, "flavors": held}]
        cohort_name = draw.choice(cohorts)
        if flat:
            more["fairSharing"] = {"weight": draw.choice(["1", "1", "500m", "2", "0"])}
        bounds = {"borrow": draw.choice(limits), "lend": draw.choice(limits)} if cohort_name else {}
        world.queue(name, draw.choice([0, 0, 2, 4]), cohort=cohort_name, local=name, flavors=flavors, **bounds, **more)
    return world, names


def is_running(world: World, name: str) -> bool:
    return world.pods["default", name].status.phase != "Succeeded"


def history(seed: int, *, flat: bool = False) -> World:
    """Play a random history to its end."""
    draw = random.Random(seed)
    world, names = drawn_world(draw, flat=flat)
    world.most = draw.choice([None, None, None, 1, 3])
    for number in range(70):
        match draw.randrange(10):
            case 0 | 1 | 2 | 3 | 4 | 5:
                more: dict[str, Any] = {"queue": draw.choice(names), "priority": draw.choice([0, 0, 0, 5])}
                more |= {"labels": {"app": draw.choice("xy")}, "annotations": {USER: draw.choice("uv")}}
                if draw.random() < 0.1:
                    more["selector"] = {"model": draw.choice(["old", "new", "default"])}
                world.pod(f"p{number}", gpus=draw.randint(1, 4), **more)
            case 6:
                size, name = draw.randint(2, 3), draw.choice(names)
                world.pod_group(f"g{number}", size, queueName=name)
                for rank in range(size):
                    world.pod(f"g{number}-{rank}", group=f"g{number}", gpus=draw.randint(1, 3))
            case 7 | 8 if running := sorted(name for name in world.where() if is_running(world, name)):
                world.finish(*draw.sample(running, min(len(running), draw.randint(1, 3))))
            case 9 if draw.random() < 0.4:
                waiting = sorted(name for (_, name), pod in world.pods.items() if not pod.spec.node_name)
                if waiting:
                    world.delete(draw.choice(waiting))
        if draw.random() < 0.3:
            world.now += draw.choice([1, 5, 12])
        if draw.random() < 0.7:
            world.run(200)
    world.run(200)
    return world


@pytest.mark.parametrize("seed", range(12))
def test_nobody_who_is_parked_could_start(seed):
    """Whatever came and went, asking everybody anew, which any change of a flavor does, starts nobody more."""
    world = history(seed)
    world.flavor("unheard-of")
    assert [one.name for one in world.run(200) if isinstance(one, Bind)] == []


@pytest.mark.parametrize("seed", [*range(10), 502, 507])
def test_the_same_is_decided_as_where_everybody_is_asked(seed, monkeypatch):
    few = history(seed)
    monkeypatch.setattr(quota_bounds, "options_of", lambda *_: None)
    everybody = history(seed)
    assert few.log == everybody.log
    assert few.engine.evaluated <= everybody.engine.evaluated


def test_of_those_who_compete_by_shares_only_the_one_whose_turn_it_is_is_tried():
    names = [f"q{number:02}" for number in range(20)]
    world = fair_cohort(8, *names)
    world.pod("has", gpus=8, queue="q07")
    world.run()
    for number, name in enumerate(names):
        world.pod(f"waits-{number:02}", gpus=6 + (number != 11), queue=name)
    world.run()
    assert world.where("waits") == {}

    world.finish("has")

    assert tried(world) == 1
    assert list(world.where("waits")) == ["waits-11"]


def test_a_smaller_share_goes_first_though_another_has_waited_longer():
    world = fair_cohort(8, "a", "b")
    for name in ("a", "b"):
        world.pod(f"has-{name}", gpus=4, queue=name)
    world.run()
    world.pod("first", gpus=4, queue="a", priority=10)
    world.run()
    world.pod("second", gpus=3, queue="b")
    world.run()

    world.finish("has-b")

    assert tried(world) == 1
    assert [bind.name for bind in world.binds()][2:] == ["second"]


def acts(world: World) -> list[AnyDecision]:
    """Everything decided; where turns are cut short, numbers may be told a turn later, and only what is done counts."""
    return world.log if world.most is None else [one for one in world.log if isinstance(one, Bind | Evict)]


def fair_cohort(gpus: int, *queues: str) -> World:
    """The same as `cohort`, where queues compete by what they borrow."""
    return cohort(gpus, *queues, settings={"fairSharing": {"enable": True}})


@pytest.mark.parametrize("seed", range(20))
def test_the_same_is_decided_by_shares_as_where_everybody_is_asked(seed, monkeypatch):
    few = history(seed, flat=True)
    monkeypatch.setattr(quota_bounds, "options_of", lambda *_: None)
    everybody = history(seed, flat=True)
    assert acts(few) == acts(everybody)
    assert few.engine.evaluated <= everybody.engine.evaluated
