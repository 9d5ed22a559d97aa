"""Random histories in which queues ask admission checks, that answer early, late, wrongly, twice or never."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.drawing import TIMES, examples
from tests.engine.histories.draws import OFTEN
from tests.engine.histories.watched import Watched
from tests.engine.stories.test_invariants import Histories
from tutti.engine.records.workloads import Phase

CHECKS = st.sampled_from(["x", "y"])
QUEUES = st.sampled_from(["cq1", "cq2", "cq3"])
STATES = st.sampled_from(["Ready", "Ready", "Ready", "Ready", "Pending", "Retry", "Rejected"])
STRATEGIES = st.sampled_from(
    [
        None,
        [{"name": "x"}],
        [{"name": "x"}],
        [{"name": "x"}, {"name": "y"}],
        [{"name": "y", "onFlavors": ["b"]}],
    ]
)
PENDING = 25


class Checked(Watched):
    """A world in which who waits for checks holds quota and no nodes, and for no longer than it may."""

    def check(self) -> None:
        super().check()
        for key, workload in self.engine.state.workloads.items():
            held = [group for group in workload.groups.values() if group.held is not None]
            assert bool(held) is (workload.held_since is not None), key
            if workload.held_since is None:
                assert workload.phase is not Phase.CHECKING, key
                continue
            assert workload.phase in (Phase.CHECKING, Phase.WAITING), key
            assert not workload.counts().reserved, f"{key} holds quota twice"
            assert workload.phase is Phase.WAITING or workload.held_since + PENDING > self.now, key


class CheckHistories(Histories):
    """The same steps, and those of the controllers of checks."""

    def make_world(self, **configuration: Any) -> Checked:
        world = Checked(**configuration)
        for name in ("x", "y"):
            world.admission_check(name)
        return world

    @rule(queue=QUEUES, checks=STRATEGIES)
    def ask(self, queue: str, checks: list[dict[str, Any]] | None) -> None:
        spec = {**self.world.objects["ClusterQueue", "", queue]["spec"]}
        spec.pop("admissionChecksStrategy", None)
        if checks is not None:
            times = {"pendingTimeoutSeconds": PENDING, "placementTimeoutSeconds": 100_000}
            spec["admissionChecksStrategy"] = {"admissionChecks": checks, **times}
        self.world.object("ClusterQueue", queue, spec)

    @rule(name=CHECKS, active=OFTEN)
    def activate(self, name: str, active: bool) -> None:
        self.world.check_active(name, active=active)

    @rule(refuse=st.sampled_from([False, False, True]))
    def refuse_resets(self, refuse: bool) -> None:
        self.world.refuse_resets = refuse

    @rule(data=st.data(), check=CHECKS, state=STATES, after=st.sampled_from([None, 0, 5, 40]))
    def answer_one(self, data: st.DataObject, check: str, state: str, after: int | None) -> None:
        asked = [key for key, raw in self.world.objects.items() if raw.get("status", {}).get("admissionChecks")]
        if asked:
            kind, _, name = data.draw(st.sampled_from(asked))
            said = {} if after is None else {"requeueAfterSeconds": after}
            self.world.answer_check(check, state, kind=kind, of=name, **said)

    @rule()
    def answer_all(self) -> None:
        self._answer_all()

    def _answer_all(self) -> None:
        for (kind, _, name), raw in list(self.world.objects.items()):
            for one in raw.get("status", {}).get("admissionChecks", []):
                if one["state"] == "Pending":
                    self.world.answer_check(one["name"], "Ready", kind=kind, of=name)

    def _settle(self) -> None:
        """The controllers answer whatever they are asked, in the end."""
        self.world.refuse_resets, self.world.most = False, None
        for name in ("x", "y"):
            self.world.check_active(name, active=True)
        for _ in range(4):
            super()._settle()
            self._answer_all()
        super()._settle()


CheckHistories.TestCase.settings = examples(40, stateful_step_count=50, suppress_health_check=list(HealthCheck))
TestCheckHistories = pytest.mark.timeout(900 * TIMES)(CheckHistories.TestCase)
