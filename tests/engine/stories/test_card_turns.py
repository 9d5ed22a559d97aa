"""Whose turn it is at HAMi's device plugin of a node, how long that is waited for, and what a bind says with its lock."""

from __future__ import annotations

from tests.engine.hami_world import HamiWorld
from tests.engine.stories.test_card_locks import said
from tutti.api.conditions import timestamp
from tutti.api.hami import LOCK, LOCK_SECONDS
from tutti.engine.records.decisions import Bind


def theirs(world: HamiWorld, name: str, memory: int = 1000) -> str:
    """HAMi's own scheduler binds a pod to node a, and locks that for it; returns the lock."""
    world.card_pod(name, memory, scheduler="hami-scheduler", node="a")
    said(world, name, f"GPU-a-0,NVIDIA,{memory},0:;", "allocating")
    lock = f"{timestamp(world.now)},default,{name}"
    world.say("a", {LOCK: lock})
    return lock


def binds_of(world: HamiWorld, names: str) -> list[Bind]:
    return [one for one in world.binds() if one.name.startswith(names)]


def test_a_lock_that_the_plugin_never_opens_is_taken_over_after_five_minutes():
    """HAMi: NodeLockTimeout (pkg/util/nodelock): its scheduler has locked the node, and never bound the pod.

    Nobody tells of it: the time alone has to pass. Whether a pod that waits elsewhere exists, the API server is asked.
    """
    world = HamiWorld()
    world.machine("a", 1)
    world.card_pod("theirs", 1000, scheduler="hami-scheduler")
    lock = f"{timestamp(world.now)},default,theirs"
    world.say("a", {LOCK: lock})
    world.sharing_gang("g", 2, 4000)
    world.until(LOCK_SECONDS - 10)
    assert not world.where("g")

    world.until(200)

    assert len(world.where("g")) == 2
    assert {one.card_lock.replaces for one in binds_of(world, "g")} == {"", lock}


def test_what_is_kept_for_who_waits_for_a_turn_is_given_back_in_time():
    """Others may lock a node again and again; a gang that has not begun holds its cards for so long and no longer."""
    world = HamiWorld(volume_binding_timeout_seconds=60)
    world.machine("a", 1)
    theirs(world, "first")
    world.sharing_gang("g", 2, 4000)
    world.run()
    assert world.reason("PodGroup", "g") == "WaitingForNodeLock"

    for at in range(4):
        world.until(20)
        theirs(world, f"next-{at}")
        world.finish("first" if not at else f"next-{at - 1}")
    world.run()

    assert not world.where("g")
    assert [one.note for one in world.events("CardAllocationFailed", "g")]


def serve_next(world: HamiWorld, served: set[str]) -> None:
    """Have the device plugin serve the one member of `g` that has come to a node since, after 25 s."""
    (now,) = set(world.where("g")) - served
    world.until(25)
    world.serve(now)
    served.add(now)


def test_a_gang_that_has_begun_has_its_bind_window_anew_with_each_turn():
    """The members of a node are served one after another: that takes as many turns as there are members."""
    world = HamiWorld(answers=False, bind_window_seconds=45)
    world.machine("a", 1)
    world.sharing_gang("g", 5, 3000)
    world.run()

    served: set[str] = set()
    for _ in range(5):
        serve_next(world, served)
        world.run()

    assert len(served) == 5
    assert not world.events("CardAllocationFailed")


def test_a_member_that_is_lost_meanwhile_does_not_hide_that_another_had_its_turn():
    world = HamiWorld(answers=False, bind_window_seconds=45)
    world.machine("a", 1)
    world.sharing_gang("g", 5, 3000)
    world.run()

    served: set[str] = set()
    for turn in range(6):
        serve_next(world, served)
        if turn == 2:
            world.delete("g-0")
            world.card_pod("g-9", 3000, group="g")
        world.run()

    assert not world.events("RolledBack")
    assert len(world.where("g")) == 5


def test_a_member_that_is_never_bound_keeps_its_gang_in_part_no_longer_because_it_has_cards():
    world = HamiWorld(bind_window_seconds=45)
    for machine in "ab":
        world.machine(machine, 1)
    world.hold_binds = True
    world.sharing_gang("g", 2, 9000)
    world.run()
    last = max(bind.name for bind in world.pending_binds)
    for _ in range(47):
        for bind in list(world.pending_binds):
            world.answer(bind, "Failed" if bind.name == last else "Bound")
        world.until(1.0)
    assert [event.reason for event in world.events("RolledBack")] == ["RolledBack"]


def test_a_bind_says_which_pods_were_counted_and_what_is_left_of_its_cards_without_them():
    """Behind the lock the writer looks at pods that were not: what is left must be enough for them."""
    world = HamiWorld()
    world.machine("a", 1)
    first = world.card_pod("first", 5000, cores=20)
    world.run()
    world.card_pod("second", 4000, cores=30)
    world.run()

    (bind,) = binds_of(world, "second")
    assert set(bind.card_lock.counted) - {bind.uid} == {first.metadata.uid}
    assert bind.card_lock.left == {"GPU-a-0": (16000 - 9000, 50, 8)}


def test_who_waits_for_a_turn_gives_its_cards_back_where_the_plugin_falls_silent():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    theirs(world, "theirs")
    world.sharing_gang("g", 2, 4000)
    world.run()
    assert world.reason("PodGroup", "g") == "WaitingForNodeLock"

    world.until(40)

    (event,) = world.events("CardAllocationFailed", "g")
    assert "its reservation is given back: HAMi's device plugin does not answer on a" in event.note
    assert "1 node(s) where HAMi's device plugin does not answer" in world.why("PodGroup", "g").message
    world.machine("b", 1)
    world.run()
    assert set(world.where("g").values()) == {"b"}


def test_the_next_waits_until_the_pod_is_seen_served_though_the_lock_is_open_before():
    world = HamiWorld(answers=False)
    world.machine("a", 1)
    world.sharing_gang("g", 2, 4000)
    world.run()
    (first,) = world.where("g")
    lock = world.lock_of("a")
    world.say("a", {LOCK: None})  # the watch of pods is late
    world.run()
    assert set(world.where("g")) == {first}

    world.say("a", {LOCK: lock})
    world.serve(first)
    world.run()
    assert len(world.where("g")) == 2
