"""The steps of random histories by which users and administrators write gangs, workloads, queues, cohorts and priorities."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.engine.histories.draws import CLASSES, GANGS, OFTEN, POLICIES, RARELY, WORKLOADS
from tests.engine.lifecycle.test_permit import TEMPLATE
from tests.engine.world import GPU
from tutti.api.conditions import timestamp
from tutti.quota.queue_order import Factor

STOPS = st.sampled_from(["None", "None", "Hold", "HoldAndDrain"])
QUOTAS = st.sampled_from([0, 1, 2, 3, 4, 5, "30%", "100%"])
WHOSE = st.sampled_from(["users", "groups"])
ORDERS = st.fixed_dictionaries(
    {
        "factors": st.lists(
            st.fixed_dictionaries(
                {"factor": st.sampled_from([one.value for one in Factor]), "weight": st.integers(1, 5)}
            ),
            min_size=1,
            max_size=3,
            unique_by=lambda one: one["factor"],
        ),
        "among": st.sampled_from(["Priority", "All"]),
        "maxWaitSeconds": st.integers(1, 60),
    }
)
TEMPLATES = [TEMPLATE, {"spec": {**TEMPLATE["spec"], "priorityClassName": "high"}}]
PROMISES = st.sampled_from([None, None, *TEMPLATES])
REQUEUE = {"backoffBaseSeconds": 1, "backoffMaxSeconds": 5, "limit": 2}


class QueueSteps:
    """Steps of a history that has a `world`; rules that do not apply at the moment do nothing."""

    @rule(name=GANGS, min_count=st.integers(1, 4), bad=RARELY)
    def put_pod_group(self, name: str, min_count: int, bad: bool) -> None:
        self.world.pod_group(name, 0 if bad else min_count, **self._queue(name))
        self._forget_partial(name)

    @rule(bad=RARELY)
    def put_pod_group_of_workload(self, bad: bool) -> None:
        self.world.pod_group("h", 0 if bad else 1, workloadRef={"name": "w1", "podGroup": "workers"})
        self._forget_partial("w1")

    @rule(
        name=GANGS,
        min_count=st.integers(2, 4),
        surplus=st.integers(0, 2),
        gpus=st.integers(1, 2),
        priority=st.integers(0, 2),
        leaves=st.sampled_from(["Pod", "PodGroup"]),
    )
    def submit_gang(self, name: str, min_count: int, surplus: int, gpus: int, priority: int, leaves: str) -> None:
        self.world.pod_group(name, min_count, disruptionMode=leaves, **self._queue(name))
        self._forget_partial(name)
        for _ in range(min_count + surplus):
            self.world.pod(self._name(name), group=name, gpus=gpus, priority=priority, annotations=self.says)
        self.world.decide()

    @rule(
        name=WORKLOADS,
        workers=st.integers(1, 3),
        surplus=st.sampled_from([0, 0, 1, 3]),
        promised=PROMISES,
        created=st.integers(0, 6),
    )
    def submit_workload(
        self, name: str, workers: int, surplus: int, promised: dict[str, Any] | None, created: int
    ) -> None:
        self.put_workload(name, workers, surplus=surplus, promised=promised, active=True, priority=0, times={})
        self.world.pod(self._name(f"{name}-leader"), workload=name, group="leader", gpus=0)
        for _ in range(min(created, workers + surplus) if promised else workers + surplus):
            self.world.pod(self._name(f"{name}-workers"), workload=name, group="workers")
        self.world.decide()

    @rule(
        name=WORKLOADS,
        workers=st.integers(1, 3),
        surplus=st.integers(0, 2),
        promised=PROMISES,
        active=OFTEN,
        priority=st.integers(-1, 1),
        times=st.sampled_from(
            [
                {},
                {},
                {},
                {"readyTimeoutSeconds": 15, "requeue": REQUEUE},
                {"maximumExecutionTimeSeconds": 25},
                {"successPolicy": {"podGroups": ["leader"]}},
                {"failurePolicy": {"onMemberFailure": "Deactivate"}},
                {"after": [{"workload": "w0"}]},
                {"after": [{"workload": "g0", "when": "Finished"}, {"workload": "w1", "when": "Finished"}]},
            ]
        ),
    )
    def put_workload(
        self,
        name: str,
        workers: int,
        surplus: int,
        promised: dict[str, Any] | None,
        active: bool,
        priority: int,
        times: dict[str, Any],
    ) -> None:
        group = {"name": "workers", "count": workers + surplus, "minCount": workers}
        if promised:
            group["template"] = promised
        spec = {"active": active, "priority": priority, **self._queue(name), **times}
        self.world.workload(name, {"name": "leader", "count": 1}, group, **spec)
        self._forget_partial(name)

    @rule(queue=st.sampled_from(["cq1", "cq2", "cq3", "q1", "q2", "q3", "q4"]), stop=STOPS)
    def stop_queue(self, queue: str, stop: str) -> None:
        kind = "ClusterQueue" if queue.startswith("c") else "LocalQueue"
        key = (kind, "" if kind == "ClusterQueue" else "default", queue)
        self.world.object(kind, queue, {**self.world.objects[key]["spec"], "stopPolicy": stop})

    @rule(kind=st.sampled_from(["PodGroup", "Workload"]), name=st.one_of(GANGS, WORKLOADS))
    def remove_object(self, kind: str, name: str) -> None:
        if (kind, "default", name) in self.world.objects:
            self.world.remove_object(kind, name)
            self._forget_partial(name)

    @rule(gpus=QUOTAS, flavors=st.sampled_from([("a",), ("a", "b"), ("b", "a"), ("missing",)]))
    def change_quota(self, gpus: int | str, flavors: tuple[str, ...]) -> None:
        self.world.queue("cq1", gpus, cohort="c", borrow=2, flavors=flavors, local="", **self.preempts)

    @rule(
        name=st.sampled_from(["cq1", "cq2", "cq3", "root"]),
        gpus=QUOTAS,
        begin=st.integers(-5, 40),
        seconds=st.integers(1, 40),
        bad=RARELY,
    )
    def open_window(self, name: str, gpus: int | str, begin: int, seconds: int, bad: bool) -> None:
        """Give a queue other quota for a time; or, rarely, in a flavor that it does not have."""
        kind = "Cohort" if name == "root" else "ClusterQueue"
        spec = self.world.objects[kind, "", name]["spec"]
        flavor = "missing" if bad else spec["resourceGroups"][0]["flavors"][0]["name"]
        quotas = [{"name": flavor, "resources": [{"name": GPU, "nominalQuota": gpus}]}]
        times = {"begin": timestamp(self.world.now + begin), "end": timestamp(self.world.now + begin + seconds)}
        windows = [{"name": "w", **times, "flavors": quotas}]
        self.world.object(kind, name, {**spec, "temporaryQuotas": windows})

    @rule(name=st.sampled_from(["cq1", "cq2", "cq3"]), order=ORDERS)
    def change_order(self, name: str, order: dict[str, Any]) -> None:
        spec = self.world.objects["ClusterQueue", "", name]["spec"]
        self.world.object("ClusterQueue", name, {**spec, "ordering": order})

    @rule(name=st.sampled_from(["cq1", "cq2", "cq3"]), gpus=st.integers(0, 5), workloads=st.integers(0, 4), whose=WHOSE)
    def limit_users(self, name: str, gpus: int, workloads: int, whose: str) -> None:
        limit = {"resources": {GPU: gpus}, **({"workloads": workloads} if workloads else {})}
        spec = self.world.objects["ClusterQueue", "", name]["spec"]
        self.world.object("ClusterQueue", name, {**spec, "userLimits": [{whose: ["*"], **limit}] if gpus else []})

    @rule(name=st.sampled_from(["cq1", "cq2"]), preempts=POLICIES)
    def change_preemption(self, name: str, preempts: dict[str, Any]) -> None:
        self.world.object(
            "ClusterQueue", name, {**self.world.objects["ClusterQueue", "", name]["spec"], "preemption": preempts}
        )

    @rule(parent=st.sampled_from(["root", "root", "", "c"]), bad=RARELY)
    def change_cohort(self, parent: str, bad: bool) -> None:
        wrong = {"resourceGroups": [{"coveredResources": [GPU], "flavors": []}]} if bad else {}
        self.world.object("Cohort", "c", ({"parentName": parent} if parent else {}) | wrong)

    @rule(name=st.sampled_from(["cq1", "cq2"]), bad=OFTEN)
    def break_queue(self, name: str, bad: bool) -> None:
        spec = self.world.objects["ClusterQueue", "", name]["spec"]
        strategy = "Random" if bad and spec.get("queueingStrategy") != "Random" else "BestEffortFIFO"
        self.world.object("ClusterQueue", name, {**spec, "queueingStrategy": strategy})

    @rule(name=st.sampled_from(sorted(CLASSES)), value=st.integers(-1, 3))
    def change_priority_class(self, name: str, value: int) -> None:
        self.world.put_class(name, value)

    @rule(name=st.sampled_from(["q2", "q4"]), weight=st.sampled_from(["0", "0.5", "3"]))
    def change_weight(self, name: str, weight: str) -> None:
        spec = self.world.objects["LocalQueue", "default", name]["spec"]
        self.world.object("LocalQueue", name, {**spec, "fairSharing": {"weight": weight}})
