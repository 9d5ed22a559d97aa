"""Which LocalQueue of a ClusterQueue goes first, by what each has used lately; nothing of it is lost in a restart."""

from __future__ import annotations

import pytest

from tests.engine.world import GPU, World

BY_USE = {"admissionMode": "UsageBasedAdmissionFairSharing"}
HOUR = 3600.0


def teams(weights: dict[str, object], *, gpus: int = 1, half_life: int = 3600, **spec) -> World:
    """One ClusterQueue with so many GPUs, and a LocalQueue for each team with its weight (None: not said)."""
    said = {"usageHalfLifeSeconds": half_life, "resourceWeights": {"memory": 0, "cpu": 0}}
    world = World(admissionFairSharing=said)
    world.flavor()
    world.queue("cq", gpus, local="", **{"admissionScope": BY_USE, **spec})
    for name, weight in weights.items():
        sharing = {} if weight is None else {"fairSharing": {"weight": weight}}
        world.object("LocalQueue", name, {"clusterQueue": "cq", **sharing})
    world.node("n1", gpus=64)
    return world


def run_in_turn(world: World, teams: list[str], rounds: int, *, priority: dict[str, int] | None = None) -> list[str]:
    """Let every team always have two pods waiting, each pod run for an hour, and return whose ran."""
    serial, ran, running = 0, [], ""
    for _ in range(rounds):
        for team in teams:
            while sum(one.startswith(team) for _, one in world.pods) < 2 + running.startswith(team):
                serial += 1
                important = (priority or {}).get(team, 0)
                world.pod(f"{team}-{serial}", queue=team, priority=important, preempts=False)
        world.now += HOUR
        if running:
            world.delete(running)
        world.run()
        (running,) = world.where()
        ran.append(running.split("-")[0])
    return ran


def consumed(world: World, team: str) -> str:
    status = world.objects["LocalQueue", "default", team]["status"]
    return status["fairSharing"]["admissionFairSharingStatus"]["consumedResources"][GPU]


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ({"a": None, "b": None}, {"a": 30, "b": 30}),
        ({"a": 2, "b": 1}, {"a": 40, "b": 20}),
        ({"a": 1, "b": 2, "c": 3}, {"a": 10, "b": 20, "c": 30}),
    ],
)
def test_shares_in_the_long_run_are_as_the_weights(weights, shares):
    ran = run_in_turn(teams(weights, half_life=24 * 3600), list(weights), 60)
    for team, share in shares.items():
        assert abs(ran.count(team) - share) <= 2


def test_past_use_counts_before_priority_within_the_queue():
    ran = run_in_turn(teams({"a": None, "b": None}), ["a", "b"], 10, priority={"a": 100})
    assert ran.count("b") == 5


def test_a_queue_that_does_not_go_by_past_use_goes_by_priority():
    world = teams({"a": None, "b": None}, admissionScope={"admissionMode": "NoAdmissionFairSharing"})
    assert set(run_in_turn(world, ["a", "b"], 6, priority={"a": 100})) == {"a"}
    assert "fairSharing" not in world.objects["LocalQueue", "default", "a"]["status"]


def test_a_weight_of_0_comes_last():
    world = teams({"a": 0, "b": 1}, gpus=2)
    for name in ("a-1", "a-2", "b-1", "b-2"):
        world.pod(name, queue=name[0])
    world.run()
    assert set(world.where()) == {"b-1", "b-2"}


def test_admissions_of_one_turn_count_at_once():
    world = teams({"a": None, "b": None}, gpus=4)
    for team in ("a", "b"):
        for number in range(4):
            world.pod(f"{team}-{number}", queue=team, priority=number)
    world.run()
    assert [bind.name for bind in world.binds()] == ["a-3", "b-3", "a-2", "b-2"]


def test_what_was_used_decays_by_half_in_each_half_life():
    """Kueue: consumed = (1 - a) * before + a * in use, and a = 0.5 after one half-life; the penalty is a(300 s)."""
    world = teams({"a": None}, gpus=8)
    world.pod("p", queue="a", gpus=8)
    world.run()
    penalty = 8 * (1 - 0.5 ** (300 / 3600))
    assert float(consumed(world, "a").removesuffix("m")) == pytest.approx(1000 * penalty, abs=1)
    world.now += HOUR
    world.delete("p")
    world.run()
    assert float(consumed(world, "a").removesuffix("m")) == pytest.approx(1000 * (penalty / 2 + 4), abs=1)
    world.now += HOUR
    world.pod("q", queue="a", gpus=8)
    world.run()
    assert float(consumed(world, "a").removesuffix("m")) == pytest.approx(1000 * (penalty / 4 + 2 + penalty), abs=1)


def test_a_restart_forgets_nothing():
    """What ran over the restart counts for the time in between."""
    worlds = [teams({"a": None, "b": None}, gpus=2) for _ in range(2)]
    for restarts, world in enumerate(worlds):
        world.pod("a-1", queue="a", gpus=1)
        world.pod("b-1", queue="b", gpus=1)
        world.run()
        world.now += HOUR
        world.delete("b-1")
        world.run()
        world.until(HOUR)
        if restarts:
            world.restart()
            world.run()
        world.delete("a-1")
        for name in ("a-2", "a-3", "b-2"):
            world.pod(name, queue=name[0], gpus=1, priority=9 if name[0] == "a" else 0)
        world.run()
    assert [bind.name for bind in worlds[0].binds()][2:] == ["b-2", "a-2"]
    assert set(worlds[1].where()) == set(worlds[0].where()) == {"a-2", "b-2"}
    for team in ("a", "b"):
        amounts = [float(consumed(world, team).removesuffix("m")) for world in worlds]
        assert amounts[0] == pytest.approx(amounts[1], abs=1)


def test_what_ended_while_the_operator_was_away_counts_but_for_the_last_interval():
    world = teams({"a": None}, gpus=8)
    world.pod("a-1", queue="a", gpus=8)
    world.run()
    world.until(HOUR)
    world.restart()
    world.delete("a-1")
    world.run()
    world.pod("a-2", queue="a", gpus=8)
    world.run()
    penalty = 8 * (1 - 0.5 ** (300 / 3600))
    assert float(consumed(world, "a").removesuffix("m")) >= 1000 * (penalty / 2 + 4 + penalty) - 1000 * penalty


def test_who_waits_is_told_who_has_used_less():
    world = teams({"a": None, "b": None}, gpus=2)
    world.pod("a-1", queue="a", gpus=2)
    world.run()
    world.now += HOUR
    world.delete("a-1")
    for name in ("b-1", "a-2"):
        world.pod(name, queue=name[0], gpus=2)
    world.run()
    assert set(world.where()) == {"b-1"}
    text = world.why("Pod", "a-2").message  # 2 GPUs: (penalty 0.1123 / 2 + 2 / 2) h / ln 2, and 0.1123 h / ln 2
    assert f"default/a has used 1.5 {GPU} hours lately, default/b 0.2" in text


def test_a_local_queue_that_is_made_anew_begins_anew():
    world = teams({"a": None, "b": None}, gpus=2)
    world.pod("a-1", queue="a", gpus=2)
    world.run()
    world.now += HOUR
    world.delete("a-1")
    world.run()
    world.remove_object("LocalQueue", "a")
    world.object("LocalQueue", "a", {"clusterQueue": "cq"})
    world.run()
    world.pod("a-2", queue="a", gpus=2)
    world.run()
    assert float(consumed(world, "a").removesuffix("m")) == pytest.approx(2000 * (1 - 0.5 ** (300 / 3600)), abs=1)


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize(("by_use", "victim"), [(True, "a-1"), (False, "b-1")])
def test_who_has_used_more_leaves_first(by_use, victim, fair):
    """Kueue, preemption/common/ordering.go: within one ClusterQueue past use goes before priority."""
    mode = BY_USE if by_use else {"admissionMode": "NoAdmissionFairSharing"}
    world = World(fairSharing={"enable": fair}, admissionFairSharing={"usageHalfLifeSeconds": 3600})
    world.flavor()
    world.queue("cq", 2, local="", admissionScope=mode, preemption={"withinClusterQueue": "LowerPriority"})
    for name in ("a", "b", "c"):
        world.object("LocalQueue", name, {"clusterQueue": "cq"})
    world.node("n1", gpus=64)
    world.pod("a-1", queue="a", priority=1)
    world.run()
    world.now += HOUR
    world.pod("b-1", queue="b")  # less important, and it came later
    world.run()
    world.pod("c-1", queue="c", priority=2)
    world.run()
    assert set(world.where()) == {"a-1", "b-1", "c-1"} - {victim}


@pytest.mark.parametrize(("by_use", "head"), [(True, "b-big"), (False, "a-big")])
def test_room_is_kept_for_the_one_who_has_used_less(by_use, head):
    mode = BY_USE if by_use else {"admissionMode": "NoAdmissionFairSharing"}
    world = teams({"a": None, "b": None}, gpus=8, backfill="Reserved", admissionScope=mode)
    world.pod("a-1", queue="a", gpus=8)
    world.run()
    world.now += HOUR
    world.delete("a-1")
    world.workload("runs", {"count": 1}, queueName="b", maximumExecutionTimeSeconds=900)
    world.pod("runs-0", workload="runs", gpus=4)
    world.run()
    for name, priority in (("a-big", 9), ("b-big", 0)):
        world.pod(name, queue=name[0], gpus=8, priority=priority, preempts=False)
        world.run()
    (kept,) = world.engine.state.shadows.of.values()
    assert kept.workload == ("Pod", "default", head)
    world.finish("runs-0")
    world.run()
    assert set(world.where()) == {"runs-0", head}


def test_whoever_comes_before_a_blocking_head_by_what_has_been_used_since_is_tried():
    world = World(admissionFairSharing={"usageHalfLifeSeconds": 30, "usageSamplingIntervalSeconds": 5})
    world.flavor()
    by_use = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    world.queue("cq", 4, local="x", queueingStrategy="StrictFIFO", **by_use)
    world.object("LocalQueue", "y", {"clusterQueue": "cq"})
    world.node("n0", gpus=8)
    world.pod("y-0", gpus=2, queue="y")
    world.run()
    world.until(40)
    world.finish("y-0")
    world.pod("x-0", gpus=2, queue="x")
    world.run()
    world.pod("large", gpus=4, queue="x")
    world.pod("small", queue="y")
    world.run()
    assert "large is before it" in world.why("Pod", "small").message
    world.until(60)
    assert "small" in world.where()
    assert world.replay().differences == []
