"""PodDisruptionBudgets by the thousand, which whoever edits a namespace may write, beside somebody who preempts."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from tests.engine.world import World
from tutti.api.limits import PodDisruptionBudget
from tutti.engine.records.observations import BudgetSeen
from tutti.placement.preemption.victim_cost import MOST_TERMS, Budget

NODES = 20


def budget(world: World, namespace: str, name: str, selector: dict[str, object], allowed: int = 0) -> None:
    raw = {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed},
    }
    world.tell(BudgetSeen(msgspec.convert(raw, PodDisruptionBudget)))


@pytest.mark.parametrize("namespace", ["default", "theirs"])
def test_budgets_by_the_thousand_are_not_held_against_everybody_who_may_have_to_go(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each preemption asked every budget of the cluster about all unlike pods."""
    world = World(namespaces=("default", "theirs"))
    budget(world, "default", "honest", {"matchLabels": {"keep": "yes"}})
    for number in range(MOST_TERMS // 2 + 1):
        expression = {"key": "number", "operator": "NotIn", "values": [f"{number}"]}
        budget(world, namespace, f"b{number}", {"matchExpressions": [expression]}, allowed=9)
    for number in range(NODES):
        world.node(f"n{number}", gpus=8)
        world.pod(f"p{number}", gpus=8, labels={"number": f"{number}", **({} if number == 7 else {"keep": "yes"})})
        world.run()
    asked, means = Counter[str](), Budget.means

    def counted(self: Budget, signature: object) -> bool:
        asked[self.namespace] += 1
        return means(self, signature)

    monkeypatch.setattr(Budget, "means", counted)
    world.pod("important", gpus=8, priority=10)
    world.run()
    assert namespace == "default" or "p7" not in world.where()
    assert len(world.where("p")) == NODES - 1
    assert asked["theirs"] == 0
    assert asked["default"] <= NODES


def test_who_is_covered_stays_in_a_namespace_of_many_services():
    world = World()
    for number in range(400):
        labels = {"app": f"s{number}", "team": "t", "env": "prod"}
        budget(world, "default", f"s{number}", {"matchLabels": labels})
    world.node("n0", gpus=4)
    world.node("n1", gpus=4)
    world.pod("kept", gpus=4, node="n0", labels={"app": "s399", "team": "t", "env": "prod"})
    world.pod("free", gpus=4, priority=1, node="n1")
    world.run()
    world.pod("high", gpus=4, priority=10)
    world.run()
    assert "kept" in world.where()
    assert "free" not in world.where()
