"""Random histories in which nodes are asked for, and come, fail to, expire, are taken back, or are asked for in vain."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.drawing import TIMES, examples
from tests.engine.histories.draws import KINDS, OFTEN
from tests.engine.stories.test_check_histories import Checked
from tests.engine.stories.test_invariants import Histories
from tutti.api.kinds.provisioning import PROVISIONING_CONTROLLER
from tutti.engine.records.provisioning import ProvisioningStage
from tutti.engine.records.workloads import ADMITTED

QUEUES = st.sampled_from(["cq1", "cq2", "cq3"])
SAID = st.sampled_from(["Accepted", "Provisioned", "Provisioned", "Failed", "BookingExpired", "CapacityRevoked"])
STRATEGIES = st.sampled_from(
    [None, [{"name": "nodes"}], [{"name": "nodes", "onFlavors": ["b"]}], [{"name": "x"}, {"name": "nodes"}]]
)
CLASSES = st.sampled_from(["check-capacity.autoscaling.x-k8s.io", "queued-provisioning.gke.io"])
TIMES_OUT = {"pendingTimeoutSeconds": 25, "placementTimeoutSeconds": 100_000}


def asking(class_name: str, retries: int) -> dict[str, Any]:
    retry = {"backoffLimitCount": retries, "backoffBaseSeconds": 1, "backoffMaxSeconds": 4}
    return {
        "controllerName": PROVISIONING_CONTROLLER,
        "provisioning": {"provisioningClassName": class_name, "retryStrategy": retry},
    }


class Provisioned(Checked):
    """A world in which what is asked for is asked for once, by whoever holds quota for it."""

    def check(self) -> None:
        super().check()
        for key, workload in self.engine.state.workloads.items():
            under_way = [one for one in workload.provisioning if one.is_under_way]
            assert len(under_way) <= 1, key
            has_quota = workload.held_since is not None or workload.phase in ADMITTED
            assert has_quota or not under_way, f"{key} asks without quota"
            names = [one.request for one in workload.provisioning]
            assert len(set(names)) == len(names), f"{key} has asked twice under one name"


class ProvisioningHistories(Histories):
    """The same steps, and those of an autoscaler and of tenants who meddle."""

    def make_world(self, **configuration: Any) -> Provisioned:
        world = Provisioned(**configuration)
        world.autoscaler.serve()
        world.admission_check("x")
        world.object("AdmissionCheck", "nodes", asking("check-capacity.autoscaling.x-k8s.io", 1))
        return world

    @rule(queue=QUEUES, checks=STRATEGIES)
    def ask(self, queue: str, checks: list[dict[str, Any]] | None) -> None:
        spec = {**self.world.objects["ClusterQueue", "", queue]["spec"]}
        spec.pop("admissionChecksStrategy", None)
        if checks is not None:
            spec["admissionChecksStrategy"] = {"admissionChecks": checks, **TIMES_OUT}
        self.world.object("ClusterQueue", queue, spec)

    @rule(name=st.sampled_from(["g1", "g2"]), size=st.integers(2, 3), checks=STRATEGIES.filter(bool))
    def starve(self, name: str, size: int, checks: list[dict[str, Any]]) -> None:
        """A gang comes when there are no nodes."""
        for queue in ("cq1", "cq2", "cq3"):
            self.ask(queue, checks)
        for node in list(self.world.nodes):
            self.lose_node(node)
        self.submit_gang(name, size, 0, 1, 0, "PodGroup")

    @rule(kind=KINDS, data=st.data())
    def provide(self, kind: str, data: st.DataObject) -> None:
        """Nodes come, and the autoscaler says so."""
        names = self.world.autoscaler.names()
        for node in ("n0", "n1"):
            self._node(node, gpus=4, kind=kind)
        if names:
            self.world.autoscaler.say("Provisioned", data.draw(st.sampled_from(names)))
            self.world.decide()

    @rule(class_name=CLASSES, retries=st.sampled_from([0, 1, 3]))
    def ask_otherwise(self, class_name: str, retries: int) -> None:
        self.world.object("AdmissionCheck", "nodes", asking(class_name, retries))

    @rule(served=OFTEN)
    def serve(self, served: bool) -> None:
        self.world.autoscaler.serve(served=served)

    @rule(refuses=st.sampled_from(["", "", "403 Forbidden"]))
    def refuse_requests(self, refuses: str) -> None:
        self.world.autoscaler.refuses = refuses

    @rule(data=st.data(), said=SAID)
    def say(self, data: st.DataObject, said: str) -> None:
        names = self.world.autoscaler.names()
        if names:
            self.world.autoscaler.say(said, data.draw(st.sampled_from(names)))

    @rule(data=st.data(), changed=st.booleans())
    def meddle(self, data: st.DataObject, changed: bool) -> None:
        names = self.world.autoscaler.names()
        if not names:
            return
        name = data.draw(st.sampled_from(names))
        raw = self.world.autoscaler.requests["default", name]
        if changed:
            self.world.autoscaler.put({**raw, "metadata": {**raw["metadata"], "generation": 2}})
        else:
            self.world.autoscaler.delete(name)

    @rule(backwards=st.booleans())
    def die_between_writes(self, backwards: bool) -> None:
        """What is decided now is written, and nobody hears of it."""
        self.world.autoscaler.lost = True
        self.world.decide()
        self.world.autoscaler.lost = False
        self.world.restart(backwards=backwards)

    @rule()
    def answer_all(self) -> None:
        self._answer_all()

    def _answer_all(self) -> None:
        world = self.world
        for (kind, _, name), raw in list(world.objects.items()):
            for one in raw.get("status", {}).get("admissionChecks", []):
                if one["state"] == "Pending":
                    world.answer_check(one["name"], "Ready", kind=kind, of=name)
        for name in world.autoscaler.names():
            world.autoscaler.say("Provisioned", name)

    def _settle(self) -> None:
        """The autoscaler answers whatever it is asked in the end, and nothing is left that nobody needs."""
        world = self.world
        world.autoscaler.refuses, world.most = "", None
        world.autoscaler.serve()
        for _ in range(6):
            super()._settle()
            self._answer_all()
        super()._settle()
        known = [one for workload in world.engine.state.workloads.values() for one in workload.provisioning]
        needed = {one.request for one in known if one.stage is not ProvisioningStage.WITHDRAWN}
        assert set(world.autoscaler.names()) <= needed, "a request is left that nobody needs"


ProvisioningHistories.TestCase.settings = examples(20, stateful_step_count=50, suppress_health_check=list(HealthCheck))
TestProvisioningHistories = pytest.mark.timeout(900 * TIMES)(ProvisioningHistories.TestCase)
