"""Throttles, AppGroups, NetworkTopologies and limits of users of a cluster file decide in a simulation as they do live."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from tests.simulate.small_traces import NODES, gpu_queue, job, played, times, written
from tutti.engine.records.observations import NetworkObjectSeen, ThrottleSeen
from tutti_simulate.jobs import GPU, JobPods, TraceJob
from tutti_simulate.playing import START, Rules
from tutti_simulate.setting import SettingError, snapshot_of

THROTTLE = """
---
apiVersion: scheduling.tutti.dev/v1alpha1
kind: TuttiConfiguration
throttles: {name: kube-throttler}
---
apiVersion: schedule.k8s.everpeace.github.com/v1alpha1
kind: ClusterThrottle
metadata: {name: cards}
spec:
  throttlerName: kube-throttler
  selector: {selectorTerms: [{podSelector: {matchLabels: {simulate.tutti.dev/user: anna}}}]}
  threshold: {resourceRequests: {nvidia.com/gpu: 4}}
"""
NETWORK = """
nodes:
  - {name: a, count: 2, labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: a}, resources: {cpu: 16, memory: 64Gi, nvidia.com/gpu: 4}}
  - {name: b, count: 2, labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: b}, resources: {cpu: 16, memory: 64Gi, nvidia.com/gpu: 4}}
  - {name: c, count: 2, labels: {topology.kubernetes.io/region: r, topology.kubernetes.io/zone: c}, resources: {cpu: 16, memory: 64Gi, nvidia.com/gpu: 4}}
---
apiVersion: scheduling.tutti.dev/v1alpha1
kind: TuttiConfiguration
network: {networkTopologyName: net, namespaces: [default], weightsName: UserDefined}
---
apiVersion: networktopology.diktyo.x-k8s.io/v1alpha1
kind: NetworkTopology
metadata: {name: net, namespace: default}
spec:
  weights:
    - name: UserDefined
      topologyList:
        - topologyKey: topology.kubernetes.io/zone
          originList:
            - {origin: a, costList: [{destination: b, networkCost: 90}, {destination: c, networkCost: 90}]}
            - {origin: b, costList: [{destination: a, networkCost: 90}, {destination: c, networkCost: 5}]}
            - {origin: c, costList: [{destination: a, networkCost: 90}, {destination: b, networkCost: 5}]}
"""
APP_GROUP = """
---
apiVersion: appgroup.diktyo.x-k8s.io/v1alpha1
kind: AppGroup
metadata: {name: q}
spec:
  workloads:
    - workload: {kind: Deployment, name: ps, selector: ps}
    - workload: {kind: Deployment, name: worker, selector: worker}
      dependencies: [{workload: {kind: Deployment, name: ps, selector: ps}, maxNetworkCost: 20}]
"""


def of_user(name: str, at: float, user: str) -> TraceJob:
    return job(name, at, 100, gpus=2, user=user)


def test_a_throttle_keeps_those_that_it_selects(tmp_path: Path):
    jobs = [of_user("a1", 0, "anna"), of_user("a2", 1, "anna"), of_user("a3", 2, "anna"), of_user("b1", 3, "bert")]
    assert times(played(written(tmp_path, NODES), *jobs)) == [(0, 100), (1, 101), (2, 102), (3, 103)]
    assert times(played(written(tmp_path, NODES + THROTTLE), *jobs)) == [(0, 100), (1, 101), (100, 200), (3, 103)]


def test_an_override_by_the_clock_lets_more_start_at_its_time(tmp_path: Path):
    begin = "2023-11-14T22:14:10Z"  # 50 s after virtual time begins
    assert START == 1_700_000_000
    text = (
        THROTTLE
        + f"  temporaryThresholdOverrides: [{{begin: {begin}, threshold: {{resourceRequests: {{nvidia.com/gpu: 8}}}}}}]\n"
    )
    jobs = [of_user(f"a{number}", number, "anna") for number in range(3)]
    assert times(played(written(tmp_path, NODES + text), *jobs))[2] == pytest.approx((50, 150), abs=0.01)


def test_a_job_is_placed_by_the_plan_of_its_queue(tmp_path: Path):
    """One server of four cards and one worker: together they are cheapest in zones b and c, or in one zone."""

    def apart(text: str) -> list[str]:
        sink = io.BytesIO()
        whole = TraceJob("blocker", 0, 1000, (JobPods(1, {GPU: 4, "cpu": 1000}),), "other")
        parts = TraceJob("app", 1, 100, (JobPods(3, {GPU: 4, "cpu": 1000}), JobPods(1, {GPU: 4, "cpu": 1000})), "q")
        played(written(tmp_path, text), whole, parts, sink=sink)
        bound = re.findall(rb'"name":"(job-1-[0-9]-[0-9])"[^{}]*"node":"([abc])-', sink.getvalue())
        return sorted(zone.decode() for _, zone in set(bound))

    assert apart(NETWORK + APP_GROUP) == ["b", "b", "c", "c"]
    assert apart(NETWORK) != ["b", "b", "c", "c"]


def test_limits_of_users_count(tmp_path: Path):
    users = "---\napiVersion: scheduling.tutti.dev/v1alpha1\nkind: TuttiConfiguration\nusers: {by: Annotation}\n"
    queue = gpu_queue('userLimits: [{users: ["*"], resources: {nvidia.com/gpu: 2}}]')
    jobs = [of_user("a1", 0, "anna"), of_user("a2", 1, "anna"), of_user("b1", 2, "bert")]
    assert times(played(written(tmp_path, NODES + users + queue), *jobs)) == [(0, 100), (100, 200), (2, 102)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (THROTTLE.replace("nvidia.com/gpu: 4", "nvidia.com/gpu: [many]"), "ClusterThrottle cards: spec cannot be read"),
        (APP_GROUP.replace("maxNetworkCost: 20", "maxNetworkCost: cheap"), "AppGroup q: "),
        (APP_GROUP.replace("metadata: {name: q}", "metadata: null"), "AppGroup: metadata.name must be given"),
        ("---\napiVersion: other/v1\nkind: Throttle\nmetadata: {name: t}\n", "Throttle says nothing of a cluster"),
    ],
)
def test_one_that_cannot_be_read_is_refused_with_its_place(tmp_path: Path, text: str, said: str):
    with pytest.raises(SettingError) as error:
        written(tmp_path, NODES + text)
    assert said in str(error.value)
    assert "cluster.yaml, document" in str(error.value)


def test_those_of_a_live_cluster_are_taken_over(tmp_path: Path):
    setting = written(tmp_path, NETWORK + APP_GROUP + THROTTLE)
    live = snapshot_of(setting.seen(), setting.configuration)
    assert live.foreign == setting.foreign
    kinds = {type(one) for one in live.seen()}
    assert {ThrottleSeen, NetworkObjectSeen} <= kinds


def test_nothing_is_written_on_pods_that_no_throttle_could_select(tmp_path: Path):
    """Users of traces are no values of labels: what cannot stand there is left out of them."""
    jobs = [
        job(f"j{number}", number, 10, gpus=1, user=user) for number, user in enumerate(["ü/..", "a b", "-", "x" * 99])
    ]
    assert [ended for _, ended in times(played(written(tmp_path, NODES), *jobs, rules=Rules(step=0.0)))] == [
        10,
        11,
        12,
        13,
    ]
