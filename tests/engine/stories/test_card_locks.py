"""One pod after another through HAMi's device plugin of a node: its lock, and plugins that fail or fall silent."""

from __future__ import annotations

from tests.engine.hami_world import HamiWorld
from tests.engine.world import replaced
from tutti.api.conditions import timestamp
from tutti.api.hami import ALLOCATED, BIND_PHASE, BOUND_AT, LOCK, NODE, TO_ALLOCATE


def test_the_plugin_of_a_node_is_asked_for_one_pod_after_another():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.sharing_gang("g", 3, 4000)
    world.run()
    bound = world.where("g")
    assert len(bound) == 1

    for _ in range(3):
        first = next(
            name
            for name in world.where("g")
            if world.pods["default", name].metadata.annotations[BIND_PHASE] == "allocating"
        )
        world.serve(first)
        world.run()
    assert len(world.where("g")) == 3
    assert world.lock_of("a") is None
    assert not world.refused
    assert not world.replay().differences


def test_the_next_waits_for_the_lock_though_the_pod_is_seen_served_first():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.sharing_gang("g", 2, 4000)
    world.run()
    (first,) = world.where("g")
    lock = world.lock_of("a")
    world.serve(first)
    world.say("a", {LOCK: lock})  # the watch of nodes is late
    world.run()
    assert len(world.where("g")) == 1
    world.say("a", {LOCK: None})
    world.run()
    assert len(world.where("g")) == 2


def test_a_plugin_that_fails_frees_the_card_with_the_pod():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.card_pod("first", 16000)
    world.run()
    world.serve("first", fails=True)
    world.card_pod("second", 16000)
    world.run()
    assert world.where("second") == {"second": "a"}


def test_a_node_whose_plugin_does_not_answer_is_closed_until_it_does():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.card_pod("first", 4000)
    world.run()
    world.until(40)
    world.machine("b", 1)
    world.card_pod("second", 4000)
    world.run()
    assert world.where("second") == {"second": "b"}
    world.delete("second")
    world.remove_node("b")
    world.card_pod("third", 4000)
    world.run()
    why = world.why("Pod", "third")
    assert why is not None
    assert "1 node(s) where HAMi's device plugin does not answer" in why.message

    world.serve("first")
    world.until(20)
    assert world.where("third") == {"third": "a"}


def test_a_gang_that_was_begun_is_given_up_where_the_plugin_falls_silent():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.sharing_gang("g", 2, 4000)
    world.run()
    assert len(world.where("g")) == 1

    world.until(100)

    assert not world.where("g")


def test_a_card_that_is_given_away_while_a_gang_waits_for_its_turn_is_promised_no_second_time():
    """HAMi's own scheduler beside us: what is kept here for who waits for the lock of a node is nothing to it."""
    world = HamiWorld(answers=False)
    world.machine("a", 2)
    world.card_pod("theirs", 4000, scheduler="hami-scheduler", node="a")
    said(world, "theirs", "GPU-a-0,NVIDIA,4000,0:;", "allocating")
    world.say("a", {LOCK: f"{timestamp(world.now)},default,theirs"})
    world.sharing_gang("g", 2, 12000)
    world.run()
    assert world.reason("PodGroup", "g") == "WaitingForNodeLock"

    world.card_pod("more", 9000, scheduler="hami-scheduler", node="a")
    said(world, "more", "GPU-a-1,NVIDIA,9000,0:;", "success")
    world.answers = True
    world.serve("theirs")
    world.run()
    assert not world.where("g")
    assert world.reason("PodGroup", "g") != "WaitingForNodeLock"

    world.finish("more")
    world.until(120)
    assert len(world.where("g")) == 2
    assert world.taken("a") == [(16000, 0, 2), (12000, 0, 1)]


def said(world: HamiWorld, name: str, parts: str, phase: str) -> None:
    """Have a pod say that it has these parts of cards, as HAMi's scheduler writes it."""
    pod = world.pods["default", name]
    told = {NODE: "a", ALLOCATED: parts, TO_ALLOCATE: parts, BIND_PHASE: phase, BOUND_AT: str(int(world.now))}
    world.put(replaced(pod, metadata=replaced(pod.metadata, annotations=told)))


def test_a_lock_of_a_bind_that_never_was_is_taken_over_after_a_restart():
    world = HamiWorld()
    world.machine("a", 1)
    world.hold_binds = True
    world.card_pod("one", 4000)
    world.card_pod("two", 4000)
    world.run()
    bind = world.pending_binds[0]
    world.say("a", {LOCK: bind.card_lock.text})  # the operator is killed between the lock and the bind

    world.hold_binds = False
    world.restart()
    world.run()

    assert set(world.where()) == {"one", "two"}
    assert world.lock_of("a") is None


def test_a_lock_of_another_scheduler_is_waited_for_and_then_taken_over():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.card_pod("theirs", 4000, scheduler="hami-scheduler", node="a")
    parts = {
        NODE: "a",
        ALLOCATED: "GPU-a-0,NVIDIA,4000,0:;",
        TO_ALLOCATE: "GPU-a-0,NVIDIA,4000,0:;",
        BIND_PHASE: "allocating",
        "hami.io/bind-time": str(int(world.now)),
    }
    pod = world.pods["default", "theirs"]
    world.put(replaced(pod, metadata=replaced(pod.metadata, annotations=parts)))
    world.say("a", {LOCK: "1970-01-12T13:46:40Z,default,theirs"})
    world.sharing_gang("g", 2, 4000)
    world.run()
    assert not world.where("g")
    assert world.reason("PodGroup", "g") == "WaitingForNodeLock"

    world.answers = True
    world.serve("theirs")
    world.run()
    assert len(world.where("g")) == 2
    assert world.taken("a") == [(12000, 0, 3)]


def test_the_lock_of_a_pod_that_is_no_more_closes_no_node():
    world = HamiWorld()
    world.machine("a", 1)
    world.say("a", {LOCK: f"{timestamp(world.now - 60)},default,gone"})
    world.card_pod("pod", 4000)
    world.hold_binds = True
    world.run()
    assert [bind.node for bind in world.pending_binds] == ["a"]


def test_a_gang_that_is_half_bound_goes_on_when_a_plugin_that_fell_silent_answers():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.machine("b", 1)
    world.sharing_gang("g", 4, 8000)
    world.run()
    first = {node: name for name, node in world.where("g").items()}
    assert set(first) == {"a", "b"}
    world.serve(first["a"])
    world.run()
    assert len(world.where("g")) == 3
    world.serve(next(name for name, node in world.where("g").items() if node == "a" and name != first["a"]))
    world.until(40)
    assert "b" in world.engine.state.cluster.nodes.cards.silent
    assert len(world.where("g")) == 3

    world.serve(first["b"])
    world.run()
    assert len(world.where("g")) == 4


def test_who_is_served_or_gone_is_awaited_on_his_node_no_more():
    world = HamiWorld(answers=False)
    for node in ("a", "b"):
        world.machine(node, 1)
        world.card_pod(f"on-{node}", 12000)
    world.run()
    where, allocating = world.where(), world.engine.state.cluster.nodes.card_holders.allocating
    assert {node: [name for _, name in pods] for node, pods in allocating.items()} == {
        node: [name] for name, node in where.items()
    }
    world.serve("on-a")
    world.delete("on-b")
    world.run()
    assert not allocating


def test_whose_pod_has_the_lock_of_a_node_is_told_by_name_in_its_own_namespace_alone():
    """What is written of why a gang waits is read by whoever may look into its namespace."""
    for namespace, named in (("default", True), ("elsewhere", False)):
        world = HamiWorld(answers=False)
        world.machine("a", 1)
        pod = world.card_pod("secret-plan", 4000, scheduler="hami-scheduler", node="a", namespace=namespace)
        world.say("a", {LOCK: f"{timestamp(world.now)},{namespace},secret-plan"})
        world.sharing_gang("g", 2, 4000)
        world.run()
        why = world.why("PodGroup", "g")

        assert why.reason == "WaitingForNodeLock"
        assert ("secret-plan" in why.message) is named
        if not named:
            assert f"a Pod of another namespace (uid {pod.metadata.uid})" in why.message
            assert not [one for one in world.events() if "secret-plan" in one.note or "elsewhere" in one.note]
