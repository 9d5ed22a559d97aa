"""What is long to try costs others little: a turn ends with its share of time, terms have a bound, failures a rest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.engine.world import World, replaced
from tutti.api.core import Affinity, Pod
from tutti.engine.records.decisions import Bind
from tutti.engine.records.never_admitted import MOST_TERMS, MOST_TERMS_TOGETHER, TOO_MANY_TERMS

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def expressions(count: int, tail: str = "") -> list[dict[str, Any]]:
    return [{"key": f"made-up-{number}{tail}", "operator": "DoesNotExist"} for number in range(count)]


def required(count: int, tail: str = "") -> dict[str, Any]:
    terms = [{"matchExpressions": [one]} for one in expressions(count, tail)]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def preferred(count: int) -> dict[str, Any]:
    return {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": expressions(count)}}]}}


def apart(count: int, side: str = "podAntiAffinity") -> dict[str, Any]:
    terms = [
        {"topologyKey": f"key-{number % 7}", "labelSelector": {"matchLabels": {f"made-up-{number}": "x"}}}
        for number in range(count)
    ]
    return {side: {REQUIRED: terms}}


def drawn(count: int) -> dict[str, Any]:
    term = {"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {"matchExpressions": expressions(1)}}
    return {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term} for _ in range(count)]}}


def with_affinity(world: World, name: str, affinity: dict[str, Any], **fields: Any) -> Pod:
    pod = world.pod(name, **fields)
    spec = replaced(pod.spec, affinity=msgspec.convert(affinity, Affinity))
    changed = replaced(pod, spec=spec)
    world.put(changed)
    return changed


@pytest.mark.parametrize("affinity", [required, preferred, apart, drawn])
def test_a_pod_with_more_terms_than_are_weighed_waits_and_says_so_and_one_with_as_many_is_placed(affinity):
    world = World()
    world.node("n0")
    with_affinity(world, "many", affinity(MOST_TERMS))
    with_affinity(world, "bomb", affinity(MOST_TERMS + 1))
    world.pod("honest")
    world.run()
    assert set(world.where()) == {"many", "honest"}
    why = world.why("Pod", "bomb")
    assert (why.reason, why.details) == (TOO_MANY_TERMS, {"terms": str(MOST_TERMS + 1)})
    assert "500 is the most that is weighed" in why.message
    assert world.replay().differences == []


def test_tolerations_selectors_and_long_lists_of_values_count_too():
    world = World()
    world.node("n0", labels={"a": "v7"})
    values = [f"v{number}" for number in range(64 * (MOST_TERMS - 3))]
    listed = {"key": "a", "operator": "In", "values": values}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [listed]}]}}}
    with_affinity(world, "fits", affinity, selector={"a": "v7"})
    with_affinity(world, "bomb", affinity, selector={"a": "v7", "kubernetes.io/hostname": "n0", "b": "c"})
    world.run()
    assert set(world.where()) == {"fits"}
    assert world.why("Pod", "bomb").reason == TOO_MANY_TERMS


def test_unlike_pods_of_a_gang_have_a_bound_together_and_like_ones_count_once():
    each = MOST_TERMS_TOGETHER // 8
    world = World()
    world.node("n0", gpus=64, cpu="64")
    for gang, unlike in (("like", 1), ("bomb", 9)):
        world.pod_group(gang, 9)
        for number in range(9):
            with_affinity(world, f"{gang}-{number}", required(each, str(number % unlike)), group=gang)
    world.run()
    assert set(world.where()) == {f"like-{number}" for number in range(9)}
    assert world.why("PodGroup", "bomb").reason == TOO_MANY_TERMS


def test_a_turn_ends_with_its_share_of_time_and_the_rest_follows_in_the_next_ones():
    world = World()
    world.share = 2
    world.node("n0", gpus=8)
    for number in range(5):
        world.pod(f"p{number}", cpu=f"{1 + number}")
    assert [sum(isinstance(one, Bind) for one in world.decide()) for _ in range(3)] == [2, 2, 1]
    assert world.replay().differences == []


def test_who_goes_first_and_fails_for_ever_does_not_keep_others_from_their_turn():
    """Room comes in each turn, so those who wait for it are tried again in each; the last one would fit all along."""
    world = World()
    world.share = 1
    world.node("full", gpus=1, cpu="64")
    world.node("free", labels={"kind": "free"}, gpus=1)
    for number in range(6):
        world.pod(f"waits{number}", gpus=4 + number)
    world.pod("last", selector={"kind": "free"})
    for number in range(10):
        world.pod(f"other{number}", node="full", scheduler="other", gpus=0)
        world.decide(1.0)
        world.delete(f"other{number}")
    assert set(world.where()) == {"last"}
    assert world.replay().differences == []


def test_who_is_long_to_try_and_fails_rests_whatever_happens_and_is_tried_again_after_it():
    world = World()
    world.node("n0", gpus=1)
    with_affinity(world, "heavy", required(100), gpus=8)
    world.pod("light", selector={"kind": "new"})
    world.run()
    before = world.engine.evaluated
    for number in range(5):  # room that would do, on a node that will not, wakes the light one each time
        world.pod(f"other{number}", node="n0", scheduler="other", gpus=0)
        world.run()
        world.delete(f"other{number}")
        world.run()
    assert world.engine.evaluated == before + 5
    world.node("n1", gpus=16, labels={"kind": "new"})
    world.run()
    assert set(world.where()) == {"light"}
    world.until(2.0)
    assert set(world.where()) == {"light", "heavy"}
    assert world.replay().differences == []


@pytest.mark.parametrize(("unlike", "tries"), [(17, 1), (16, 3)])
def test_a_gang_of_many_unlike_members_that_fails_rests_for_each_is_placed_by_itself(unlike, tries):
    world = World()
    world.node("n0", gpus=1, cpu="64")
    world.pod_group("g", unlike)
    for number in range(unlike):
        world.pod(f"g-{number}", group="g", gpus=2, cpu=f"{1 + number}m")
    world.run()
    before = world.engine.evaluated - 1
    for number in range(2):
        world.node("n0", gpus=2 + number, cpu="64")  # more than there was, and too little
        world.run()
    assert world.engine.evaluated - before == tries
    world.node("n1", gpus=64, cpu="64")
    world.until(4.0)
    assert len(world.where()) == unlike
    assert world.replay().differences == []


def test_a_gang_of_unlike_members_takes_as_much_of_a_turn_as_so_many_pods():
    world = World()
    world.most = 8
    world.node("n0", gpus=64, cpu="64")
    world.pod_group("g", 8)
    for number in range(8):
        world.pod(f"g-{number}", group="g", gpus=1, cpu=f"{1 + number}m", priority=1)
    world.pod("next", cpu="2")
    assert [one.name.partition("-")[0] for one in world.decide() if isinstance(one, Bind)] == ["g"] * 8
    world.run()
    assert "next" in world.where()


def test_keys_that_no_node_has_share_one_column_until_one_has_them():
    world = World()
    world.node("n0")
    with_affinity(world, "p", required(100))
    world.run()
    nodes = world.engine.state.cluster.nodes
    assert nodes.label("made-up-0") is nodes.label("made-up-99")
    world.node("n1", labels={"made-up-0": "x"})
    assert nodes.label("made-up-0").values == ["x"]
    assert nodes.label("made-up-1").values == []
