"""Queues of which many who hold quota have been told to leave, and more has to be found."""

from __future__ import annotations

from typing import Any

import pytest

from tutti.quota.fair_reclaim import fair_victims
from tutti.quota.policy import Preemptible, PreemptionPolicy
from tutti.quota.reclaim import classical_victims
from tutti.quota.snapshot import AdmittedWorkload, Demand, Snapshot
from tutti.quota.tree import Quota, QuotaTree

WHAT = ("f", "gpu")


def leaving(queue: str, many: int, held: int = 8) -> Snapshot:
    """A full queue, as much promised to others as those held of it who are told to leave, and what these still hold."""
    quotas = {"mine": ("all", {WHAT: Quota(100_000)}), "theirs": ("all", {WHAT: Quota(0)})}
    policy = PreemptionPolicy(within=Preemptible.LOWER_PRIORITY, reclaim=Preemptible.ANY)
    snapshot = Snapshot(QuotaTree(quotas, {"all": ("", {})}), {"mine": policy})
    for number in range(many + 100):
        usage = {WHAT: held if number < many else 8}
        snapshot.add(AdmittedWorkload(f"w{number}", queue, usage, uid=f"{number:05}", evicted=number < many))
    snapshot.charge("mine", {WHAT: 100_000 - 800})
    return snapshot


@pytest.mark.parametrize("victims_of", [classical_victims, fair_victims])
def test_who_leaves_and_has_nothing_to_give_back_is_no_step(victims_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What victims held is promised to those they leave for: each was taken out and put back for each resource."""
    snapshot, demand = leaving("theirs", 400, held=0), Demand("mine", {WHAT: 8}, frozenset((WHAT,)), priority=1)
    taken: list[str] = []
    real = Snapshot.remove
    monkeypatch.setattr(Snapshot, "remove", lambda self, one: (taken.append(one.name), real(self, one)))
    assert len(victims_of(snapshot, demand)) == 1
    assert 0 < len(taken) < 10


@pytest.mark.parametrize("queue", ["mine", "theirs"])
def test_who_leaves_already_is_counted_off_together(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was taken out of the tree and put back by itself, for every resource of each who came behind them."""
    steps = {"add": 0, "remove": 0}

    def counting(name: str) -> None:
        real = getattr(QuotaTree, name)

        def count(self: QuotaTree, *arguments: Any, **more: Any) -> None:
            steps[name] += 1
            real(self, *arguments, **more)

        monkeypatch.setattr(QuotaTree, name, count)

    snapshot, demand = leaving(queue, 400), Demand("mine", {WHAT: 8}, frozenset((WHAT,)), priority=1)
    counting("add")
    counting("remove")
    victims = [victim.holder for victim in classical_victims(snapshot, demand)]
    assert len(victims) == 401
    assert [one for one in victims if not one.evicted] == victims[:1]
    assert 0 < steps["add"] + steps["remove"] < 100
    assert steps["add"] == steps["remove"]
