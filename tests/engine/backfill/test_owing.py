"""With fair sharing nobody waits for ever because he asks for more than his queue has left of its part."""

from __future__ import annotations

import random

import pytest

from tests.engine.world import GPU, World
from tutti.engine.records.decisions import Evict

WEIGHTS = (1, 2, 4)
CAPACITY = 16


def cohort(patience: int | None = None, *, backfill: str = "None", ordering: str = "BorrowedShare") -> World:
    """Three queues that have nothing of their own, and 16 GPUs in their cohort on two nodes."""
    fair = {"enable": True, "ordering": ordering}
    world = World(fairSharing=fair if patience is None else {**fair, "patienceSeconds": patience})
    for number in range(2):
        world.node(f"n{number}", gpus=8)
    world.flavor()
    quota = {"name": "default", "resources": [{"name": GPU, "nominalQuota": CAPACITY}]}
    world.object("Cohort", "c", {"resourceGroups": [{"coveredResources": [GPU], "flavors": [quota]}]})
    for number, weight in enumerate(WEIGHTS):
        more = {"fairSharing": {"weight": weight}, "backfill": backfill}
        world.queue(f"q{number}", 0, cohort="c", local=f"l{number}", **more)
    return world


def gang(world: World, name: str, queue: int, *gpus: int) -> None:
    world.pod_group(name, len(gpus), queueName=f"l{queue}", disruptionMode="PodGroup")
    for rank, number in enumerate(gpus):
        world.pod(f"{name}-{rank}", group=name, gpus=number)


def hungry(world: World, turns: int, seed: int) -> tuple[list[float], dict[str, float]]:
    """Five gangs wait in each queue, always; returns what part each queue had, and since when whoever waits does."""
    chance, number = random.Random(seed), 0
    born: dict[str, float] = {}
    ends: dict[str, float] = {}
    had = [0] * len(WEIGHTS)
    for _ in range(turns):
        world.now += 1
        for queue in range(len(WEIGHTS)):
            for _ in range(5 - sum(name not in ends and name[1] == str(queue) for name in born)):
                gang(
                    world, f"g{queue}x{number}", queue, *(chance.choice((1, 1, 2)) for _ in range(chance.randint(1, 2)))
                )
                born[f"g{queue}x{number}"] = world.now
                number += 1
        world.run(60)
        running: dict[str, int] = {}
        for (_, name), pod in world.pods.items():
            if pod.spec.node_name:
                gpus = int(pod.spec.containers[0].resources.requests[GPU])
                running[name.split("-")[0]] = running.get(name.split("-")[0], 0) + gpus
        for name, gpus in running.items():
            had[int(name[1])] += gpus
            if world.now >= ends.setdefault(name, world.now + chance.randint(5, 40)):
                world.delete(*[pod for _, pod in list(world.pods) if pod.split("-")[0] == name])
                world.remove_object("PodGroup", name)
                del ends[name], born[name]
    return [one / sum(had) for one in had], {name: world.now - at for name, at in born.items() if name not in ends}


@pytest.mark.parametrize("backfill", ["None", "BestEffort"])
def test_queues_that_are_always_hungry_have_their_parts_by_weight_whatever_their_gangs_ask_for(backfill):
    """Without it, in as many turns: 0.03 0.34 0.64 (None), 0.11 0.29 0.59 (BestEffort), and one waits all the time."""
    world = cohort(backfill=backfill)
    parts, waits = hungry(world, 200, seed=11)
    for part, weight in zip(parts, WEIGHTS, strict=True):
        assert part == pytest.approx(weight / sum(WEIGHTS), abs=0.06)
    assert max(waits.values()) < 170


def full(patience: int | None = None, **more: str) -> World:
    """All GPUs are in use by the small work of two queues, more of which waits; the third asks for a gang of 4."""
    world = cohort(patience, **more)
    for queue in (1, 2):
        for number in range(14):
            gang(world, f"g{queue}x{number}", queue, 1)
    gang(world, "large", 0, 2, 2)
    world.run()
    assert world.where("large") == {}
    assert len(world.where()) == CAPACITY
    return world


def evicted(world: World) -> list[str]:
    return [one.name for one in world.log if isinstance(one, Evict)]


def end_one(world: World) -> None:
    """The first that runs of the small work ends."""
    name = next(iter(world.where("g")))
    world.delete(name)
    world.remove_object("PodGroup", name.split("-")[0])
    world.now += 10
    world.run()


@pytest.mark.parametrize("ordering", ["BorrowedShare", "DominantShare", "Proportion"])
def test_a_gang_larger_than_the_part_of_its_queue_starts_once_it_has_waited_long_enough(ordering):
    world = full(ordering=ordering)
    for _ in range(6):
        end_one(world)
    kept = world.why("PodGroup", "large")
    assert "kept for it" in kept.message
    for _ in range(6):
        end_one(world)
    assert len(world.where("large")) == 2
    assert not world.replay().differences


def test_without_patience_it_goes_by_shares_alone():
    world = full(patience=0)
    for _ in range(12):
        end_one(world)
    assert world.where("large") == {}
    assert not world.engine.state.shadows.of


def test_a_restart_makes_nobody_wait_anew():
    world = full()
    world.until(59.0)
    world.restart()
    world.until(2.0)
    assert "kept for it" in world.why("PodGroup", "large").message
    assert world.engine.state.shadows.of["q0"].owed


def test_after_its_turn_a_queue_waits_until_it_has_made_up_for_it():
    world = full()
    world.until(61.0)
    for _ in range(6):
        end_one(world)
    assert len(world.where("large")) == 2  # 4 of 16 GPUs for a weight of 1 in 7
    gang(world, "larger", 0, 2, 2)
    world.until(400.0)
    debt = world.engine.state.debts.of["q0"]
    assert debt.seconds > 200
    world.delete("large-0", "large-1")
    world.remove_object("PodGroup", "large")
    world.run()
    assert "q0" not in world.engine.state.shadows.of
    for _ in range(3):
        end_one(world)
    assert world.where("larger") == {}
    world.until(debt.seconds + 100)
    assert "q0" not in world.engine.state.debts.of
    assert "kept for it" in world.why("PodGroup", "larger").message


def test_nothing_is_kept_for_a_queue_that_has_more_than_its_part():
    world = cohort()
    for queue in range(len(WEIGHTS)):
        for number in range(14):
            gang(world, f"g{queue}x{number}", queue, 1)
    world.run()
    parts = [CAPACITY * weight / sum(WEIGHTS) for weight in WEIGHTS]
    over = [queue for queue, part in enumerate(parts) if world.used(f"q{queue}") > part]
    assert over
    world.until(500.0)
    assert {one.queue for one in world.engine.state.shadows.of.values()}.isdisjoint(f"q{queue}" for queue in over)


def test_it_is_the_turn_of_who_has_waited_longest():
    """Both ask for more than their parts: 6 GPUs of 4.6, and 4 of 2.3; what runs ends in no order of queues."""
    world = cohort()
    for number in range(CAPACITY):
        gang(world, f"g2x{number}", 2, 1)
    world.run()
    world.now += 1
    gang(world, "first", 1, 2, 2, 2)
    world.run()
    world.now += 1
    gang(world, "second", 0, 2, 2)
    for number in range(CAPACITY):
        gang(world, f"g2more{number}", 2, 1)
    world.run()
    world.now += 70.0
    world.run()
    world.until(2.0)
    assert list(world.engine.state.shadows.of) == ["q1"]
    for _ in range(7):
        end_one(world)
    assert len(world.where("first")) == 3
    world.until(2.0)
    assert list(world.engine.state.shadows.of) == ["q0"]


def test_a_gang_within_its_part_starts_too_where_so_much_never_becomes_free_at_once():
    """8 of 16 GPUs, by weight 1 of 2: its share is the smaller one, but it would need 8 at one moment."""
    world = cohort()
    world.queue("other", 0, cohort="c", local="other", fairSharing={"weight": 4}, backfill="BestEffort")
    for number in range(40):
        world.pod_group(f"g{number}", 1, queueName="other")
        world.pod(f"g{number}-0", group=f"g{number}")
    world.run()
    world.now += 1
    gang(world, "large", 2, 4, 4)
    for _ in range(24):
        end_one(world)
    assert len(world.where("large")) == 2


def test_room_is_kept_for_longer_each_time_that_it_was_kept_in_vain():
    """It is kept for an hour, then left to others for an hour; then for two of each."""
    world = full()
    world.until(62.0)
    kept = [world.engine.state.shadows.of["q0"].until - world.now]
    world.until(3601.0)
    assert "q0" not in world.engine.state.shadows.of
    world.until(3602.0)
    kept.append(world.engine.state.shadows.of["q0"].until - world.now)
    assert kept == pytest.approx([3600, 7200], abs=5)


def owners(*, cohorts_own: int = 0, **policy: str) -> World:
    """Queue a owns 4 GPUs, b 4, c nothing, with one node for all of that."""
    world = World(fairSharing={"enable": True})
    world.node("n0", gpus=8 + cohorts_own)
    world.flavor()
    for name, nominal in (("a", 4), ("b", 4), ("c", 0)):
        world.queue(name, nominal, cohort="c", local=name, preemption={"reclaimWithinCohort": "Any", **policy})
    if cohorts_own:
        world.queue("lender", cohorts_own, cohort="c", local="lender")
    return world


def test_nobody_has_a_turn_at_what_others_own_and_ask_for():
    """C would have 4 of the 8 GPUs that a and b own: they would take it out."""
    world = owners()
    world.gang("a1", 4, queue="a")
    world.gang("b1", 3, queue="b")
    world.run()
    world.gang("b2", 1, queue="b", gpus=2)
    world.gang("c1", 4, queue="c")
    world.until(500.0)
    assert not world.engine.state.shadows.of


def test_who_asks_for_its_own_has_it_though_room_is_kept_and_nobody_leaves():
    """Room for 8 is kept for c, of which 4 GPUs are free by now: they are a's own, and a comes and asks for 2."""
    world = owners(cohorts_own=8)
    world.pod_group("b1", 12, queueName="b")
    for rank in range(12):
        world.pod(f"b1-{rank}", group="b1", queue="b")
    world.run()
    world.gang("b2", 5, queue="b")
    world.gang("c1", 8, queue="c")
    world.until(100.0)
    assert list(world.engine.state.shadows.of) == ["c"]
    world.gang("a1", 2, queue="a")
    world.until(5.0)
    assert len(world.where("a1")) == 2
    assert not evicted(world)


def test_nobody_leaves_for_one_that_lacks_only_what_is_kept():
    """Of 16 GPUs 4 are free, and kept for c; e, that may take out d's work for its smaller share, waits."""
    world = owners(cohorts_own=8)
    world.queue("d", 0, cohort="c", local="d")
    for number in range(12):
        world.gang(f"d{number}", 1, queue="d")
    world.run()
    world.gang("d12", 5, queue="d")
    world.queue("c", 0, cohort="c", local="c", preemption={})
    world.gang("c1", 8, queue="c")
    world.until(100.0)
    assert list(world.engine.state.shadows.of) == ["c"]
    world.queue("e", 0, cohort="c", local="e", preemption={"reclaimWithinCohort": "Any"})
    world.gang("e1", 2, queue="e")
    world.until(100.0)
    assert world.why("PodGroup", "e1").reason == "WouldDelay"
    assert not evicted(world)


def test_who_was_taken_out_after_its_turn_does_not_come_back_at_once():
    """Else it would be taken out again and again by those of its queue that go before it (a case that was drawn)."""
    world = cohort()
    for number in range(14):
        gang(world, f"g1x{number}", 1, 1)
        gang(world, f"g2x{number}", 2, 1)
    found = world.objects["ClusterQueue", "", "q0"]["spec"]
    world.object("ClusterQueue", "q0", {**found, "preemption": {"withinClusterQueue": "LowerPriority"}})
    gang(world, "large", 0, 2, 2)
    world.until(61.0)
    for _ in range(8):
        end_one(world)
    assert len(world.where("large")) == 2
    for _, name in [key for key, pod in world.pods.items() if not pod.spec.node_name]:
        world.delete(name)
        world.remove_object("PodGroup", name.split("-")[0])
    world.pod_group("urgent", 2, queueName="l0")
    for rank in range(2):
        world.pod(f"urgent-{rank}", group="urgent", gpus=1, priority=9)
    world.until(5.0)
    assert len(world.where("urgent")) == 2
    for rank in range(2):
        world.pod(f"large-{rank}x", group="large", gpus=2)
    world.until(600.0)
    assert "q0" not in world.engine.state.shadows.of
    world.until(3600.0)
    assert world.engine.state.shadows.of["q0"].workload[2] == "large"


def test_nothing_is_kept_without_fair_sharing():
    world = World()
    world.node("n0", gpus=4)
    world.flavor()
    for number in range(2):
        world.queue(f"q{number}", 2, cohort="c", local=f"l{number}")
    world.pod("runs", gpus=3, queue="l0")
    world.run()
    world.pod("waits", gpus=3, queue="l1")
    world.until(1000.0)
    assert not world.engine.state.shadows.of


def test_who_went_out_of_turn_is_not_taken_out_for_smaller_shares_but_for_quota_that_is_anothers_own():
    world = full()
    for queue in (1, 2):
        found = world.objects["ClusterQueue", "", f"q{queue}"]["spec"]
        world.object("ClusterQueue", f"q{queue}", {**found, "preemption": {"reclaimWithinCohort": "Any"}})
    world.until(61.0)
    for _ in range(8):
        end_one(world)
    assert len(world.where("large")) == 2
    for number in range(4):
        gang(world, f"g1more{number}", 1, 1)
    world.until(30.0)
    assert len(world.where("large")) == 2
    world.queue("owner", 12, cohort="c", local="own", preemption={"reclaimWithinCohort": "Any"}, backfill="None")
    found = world.objects["Cohort", "", "c"]["spec"]
    found["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 4
    world.object("Cohort", "c", found)
    world.pod_group("all", 12, queueName="own")
    for rank in range(12):
        world.pod(f"all-{rank}", group="all")
    world.until(30.0)
    assert len(world.where("all")) == 12
    assert world.where("large") == {}
