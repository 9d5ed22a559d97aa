"""Who is tried where a pod has left a node: nobody who cannot fit there, and everybody who may be helped in any way."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace as replaced

from tests.engine.queue.full_nodes import BOTH, LOWER, RECLAIM, full, tried
from tests.engine.world import World
from tutti.api.core import (
    Affinity,
    ContainerPort,
    LabelSelector,
    Namespace,
    ObjectMeta,
    PodAffinity,
    PodAffinityTerm,
)
from tutti.api.selectors import LabelSelectorRequirement
from tutti.engine.records.decisions import Bind, Evict
from tutti.engine.records.observations import NamespaceGone, NamespaceSeen


def test_of_many_that_wait_only_one_is_tried_for_the_room_of_one():
    world = full(queue="queue")
    for gpus in range(1, 9):
        for cpu in range(1, 5):
            world.pod(f"waits-{gpus}-{cpu}", gpus=gpus, cpu=str(cpu), queue="queue")
    world.run()
    assert len(world.binds()) == 0

    world.finish("runs-1")
    before = world.engine.evaluated
    world.run()

    bound = [one.name for one in world.binds()]
    assert sum(int(name.split("-")[1]) for name in bound) == 8, "the node is full again"
    assert world.engine.evaluated - before == len(bound)


def test_who_is_larger_than_what_was_left_is_not_tried():
    world = full()
    world.pod("small", gpus=2, node="")
    world.pod("large", gpus=8)
    world.run()
    world.node("n3", gpus=4)
    world.run()
    assert world.where("small") == {"small": "n3"}

    world.finish("small")  # leaves 4 of the 8 it would take

    assert tried(world) == 0
    world.finish("runs-0")
    assert tried(world) == 1
    assert world.where("large") == {"large": "n0"}


def test_a_head_that_others_were_faster_than_still_blocks_its_strict_queue():
    """The head is called for the room of one pod, another has it first; who is behind the head would fit elsewhere."""
    world = full()
    world.queue("strict", 100, queueingStrategy="StrictFIFO", local="strict")
    world.gang("before", 2, gpus=8)
    world.pod_group("head", 2, queueName="strict")
    for rank in range(2):
        world.pod(f"head-{rank}", group="head", gpus=8, priority=0)
    world.run()
    world.now += 60
    world.pod("urgent", gpus=8, priority=10, preempts=False)
    world.pod("later", gpus=1, queue="strict")
    world.node("small", gpus=1)
    world.run()
    world.finish("runs-0")
    world.run()
    assert world.where("urgent") == {"urgent": "n0"}
    assert world.where("later") == {}


def test_a_gang_is_tried_where_one_of_its_members_may_go():
    world = full()
    world.gang("g", 2, gpus=8)
    world.run()
    world.finish("runs-0")
    assert tried(world) == 1
    assert world.where("g-") == {}
    world.finish("runs-1")
    world.run()
    assert sorted(world.where("g-").values()) == ["n0", "n1"]


def test_who_may_take_out_others_is_tried_though_more_would_have_to_leave():
    world = World()
    world.node("n0")
    world.pod("low", gpus=3, node="n0", priority=-5)
    world.pod("mine", gpus=2, node="n0", priority=10)
    world.pod("also", gpus=3, node="n0", priority=10)
    world.pod("urgent", gpus=6, priority=10)
    world.run()
    assert not [one for one in world.log if isinstance(one, Evict)]

    world.finish("also")
    world.run()

    assert [one.name for one in world.log if isinstance(one, Evict)] == ["low"]


def test_who_was_kept_off_by_the_terms_of_one_that_left_is_tried_wherever_it_may_go():
    """A pod with anti-affinity to a zone keeps others off all nodes there, and leaves more than its own."""
    world = World()
    world.node("a", gpus=1, labels={"zone": "z"})
    world.node("b", gpus=8, labels={"zone": "z"})
    term = PodAffinityTerm("zone", LabelSelector({"app": "x"}))
    pod = world.pod("keeps-off", gpus=1)
    world.delete("keeps-off")
    apart = Affinity(pod_anti_affinity=PodAffinity([term]))
    spec = replaced(pod.spec, affinity=apart, node_name="a")
    world.put(replaced(pod, spec=spec))
    world.pod("x", gpus=8, labels={"app": "x"})
    world.run()
    assert world.where("x") == {}

    world.finish("keeps-off")
    world.run()

    assert world.where("x") == {"x": "b"}


def test_nobody_is_tried_outside_of_what_one_that_left_kept_others_off():
    world = World()
    for name, zone in (("a", "z"), ("b", "z"), ("c", "y")):
        world.node(name, gpus=2, labels={"zone": zone})
    world.pod("on-c", gpus=2, node="c")
    world.pod("on-b", gpus=2, node="b")
    term = PodAffinityTerm("zone", LabelSelector({"app": "x"}))
    pod = world.pod("keeps-off", gpus=1, gated=True)
    spec = replaced(pod.spec, affinity=Affinity(pod_anti_affinity=PodAffinity([term])), node_name="a")
    world.put(replaced(pod, spec=replaced(spec, scheduling_gates=[])))
    for gpus in range(3, 9):
        world.pod(f"waits-{gpus}", gpus=gpus)
    world.run()
    world.finish("keeps-off")
    assert tried(world) == 0, "nobody asks for less than 3"
    world.pod("x", gpus=2, labels={"app": "x"})
    world.run()
    assert world.where("x") == {"x": "a"}


def test_a_gang_that_says_otherwise_who_may_be_taken_out_wakes_those_alone_who_might_have_its_place():
    world = World()
    world.node("n0")
    world.node("n1", gpus=2)
    world.gang("g", 2, gpus=1, node="n1", priority=-5)
    world.pod("runs", gpus=8, node="n0")
    for gpus in range(3, 9):
        world.pod(f"waits-{gpus}", gpus=gpus)
    world.run()
    world.pod_group("g", 1)
    assert tried(world) == 0, "it has 2, and nobody asks for less than 3"


def test_who_waits_for_others_to_come_has_nobody_else_tried_when_they_do():
    world = World()
    world.node("n0", gpus=2, labels={"zone": "z"})
    near = world.pod("near", gpus=1, gated=True)
    wanted = Affinity(pod_affinity=PodAffinity([PodAffinityTerm("zone", LabelSelector({"app": "x"}))]))
    world.put(replaced(near, spec=replaced(near.spec, affinity=wanted, scheduling_gates=[])))
    for gpus in range(3, 9):
        world.pod(f"waits-{gpus}", gpus=gpus)
    world.run()
    world.pod("other", gpus=0, node="n0")
    assert tried(world) == 1, "the one that waits for somebody, though for another"
    world.pod("x", gpus=0, node="n0", labels={"app": "x"})
    world.run()
    assert world.where("near") == {"near": "n0"}


@pytest.mark.parametrize("seen", ["late", "before", "before, and gone since"])
def test_who_was_kept_off_by_pods_of_a_namespace_is_tried_when_that_is_labelled_otherwise(seen):
    def label(name, **labels):
        world.tell(NamespaceSeen(Namespace(ObjectMeta(name=name, labels=labels))))

    world = World(namespaces=("default",))
    world.node("n0", labels={"zone": "z"})
    if seen != "late":
        label("rival", team="a")
    selector = LabelSelector(match_expressions=[LabelSelectorRequirement("team", "NotIn", ["b"])])
    term = PodAffinityTerm("zone", LabelSelector({"app": "x"}), namespace_selector=selector)
    world.pod("x", gpus=1, labels={"app": "x"}, namespace="rival", node="n0")
    pod = world.pod("waits", gpus=1, gated=True)
    spec = replaced(pod.spec, affinity=Affinity(pod_anti_affinity=PodAffinity([term])), scheduling_gates=[])
    world.put(replaced(pod, spec=spec))
    world.run()
    assert world.where("waits") == {}
    if seen == "before, and gone since":
        world.tell(NamespaceGone("rival"))
    label("rival", team="b")
    world.run()
    assert world.where("waits") == {"waits": "n0"}


def test_who_asks_for_a_port_is_tried_when_it_is_free():
    world = World()
    world.node("a")
    for name, node in (("has", "a"), ("wants", "")):
        pod = world.pod(name, gpus=1, gated=True)
        port = ContainerPort(host_port=80)
        containers = [replaced(one, ports=[port]) for one in pod.spec.containers]
        world.put(replaced(pod, spec=replaced(pod.spec, containers=containers, scheduling_gates=[], node_name=node)))
    world.run()
    assert world.where("wants") == {}
    world.finish("has")
    world.run()
    assert world.where("wants") == {"wants": "a"}


def test_quota_that_is_given_back_wakes_nobody_whom_no_node_could_take():
    world = full(queue="queue")
    world.node("tiny", gpus=1)
    world.pod("elsewhere", gpus=1, node="tiny", queue="queue")
    world.pod("waits", gpus=8, queue="queue")
    world.run()
    world.finish("elsewhere")
    assert tried(world) == 0


def test_one_that_fits_a_node_but_had_no_quota_in_its_flavor_is_woken_by_quota():
    world = World()
    world.flavor("old", nodeLabels={"model": "old"})
    world.flavor("new", nodeLabels={"model": "new"})
    world.node("o", gpus=4, labels={"model": "old"})
    world.node("n", gpus=8, labels={"model": "new"})
    world.queue("cq", 8, flavors=("new", "old"))
    world.pod("holds", gpus=4, queue="queue", selector={"model": "old"})
    world.pod("other", gpus=4, queue="queue", selector={"model": "new"})
    world.pod("foreign", gpus=2, node="n", scheduler="default-scheduler")
    world.run()
    world.pod("waits", gpus=4, queue="queue")  # 4 of quota are left in both: 2 GPUs on n, none on o
    world.run()
    assert world.where("waits") == {}
    world.finish("holds")
    world.run()
    assert world.where("waits") == {"waits": "o"}


@pytest.mark.parametrize("seed", [*range(12), 344, 504, 1415])  # the last ones once found somebody
def test_nobody_who_waits_could_start(seed):
    """Whatever came and went, looking at everybody anew, which any change of a flavor does, starts nobody more."""
    draw = random.Random(seed)
    world = World()
    world.flavor()
    policy, cohort = draw.choice([{}, LOWER, RECLAIM, BOTH]), draw.choice(["", "all"])
    strategy = {"queueingStrategy": draw.choice(["StrictFIFO", "BestEffortFIFO"])}
    world.queue("one", draw.choice([6, 12, 100]), local="one", cohort=cohort, **policy, **strategy)
    world.queue("two", draw.choice([6, 12]), local="two", cohort=cohort)
    for number in range(draw.randint(1, 5)):
        world.node(
            f"n{number}", gpus=draw.choice([2, 4, 8]), cpu=draw.choice([4, 16]), labels={"zone": f"z{number % 2}"}
        )
    world.most = draw.choice([None, None, 1, 3])
    number = 0
    for _ in range(60):
        match draw.randrange(8):
            case 0 | 1 | 2:
                more = {"queue": draw.choice(["one", "two", ""]), "priority": draw.choice([0, 0, 0, -5, 5])}
                if draw.random() < 0.2:
                    more["selector"] = {"zone": draw.choice(["z0", "z1"])}
                world.pod(f"p{number}", gpus=draw.randint(0, 8), cpu=str(draw.randint(1, 6)), **more)
                number += 1
            case 3:
                size = draw.randint(2, 4)
                world.pod_group(f"g{number}", size, queueName=draw.choice(["one", "two"]))
                for rank in range(size):
                    world.pod(f"g{number}-{rank}", group=f"g{number}", gpus=draw.randint(1, 4))
                number += 1
            case 4 | 5 | 6 if world.where():
                world.finish(*draw.sample(sorted(world.where()), min(len(world.where()), draw.randint(1, 3))))
            case 7 if draw.random() < 0.3:
                world.node(f"n{draw.randrange(5)}", gpus=8, cpu=16)
        if draw.random() < 0.7:
            world.run(200)
    world.run(200)
    before = len([one for one in world.log if isinstance(one, Bind)])
    world.flavor("unheard-of")
    again = world.run(200)
    assert [one.name for one in again if isinstance(one, (Bind, Evict))] == [], before
