"""What has been migrated is admitted as Kueue would admit it: the whole job in its queue, or nothing of it."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from tests.engine.world import World
from tutti.api.core import OwnerReference, Pod
from tutti.cli.migrate.kueue.jobs import Run
from tutti.cli.migrate.kueue.rewriting import rewrite
from tutti.cli.migrate.streams import migrate

SETUP = """apiVersion: kueue.x-k8s.io/v1beta1
kind: Topology
metadata: {name: hall}
spec: {levels: [{nodeLabel: rack}]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: any}
spec: {topologyName: hall}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  cohort: all
  resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: any, resources: [{name: cpu, nominalQuota: QUOTA}]}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: train, namespace: default}
spec: {clusterQueue: team}
---
apiVersion: batch/v1
kind: Job
metadata: {generateName: whole-, namespace: default, labels: {kueue.x-k8s.io/queue-name: train}}
spec:
  suspend: true
  parallelism: 4
  template:
    metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: rack}}
    spec: {containers: [{name: work, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: lead
  namespace: default
  labels: {kueue.x-k8s.io/queue-name: train, kueue.x-k8s.io/pod-group-name: pair}
  annotations: {kueue.x-k8s.io/pod-group-total-count: "2"}
spec:
  schedulingGates: [{name: kueue.x-k8s.io/admission}]
  containers: [{name: work, resources: {requests: {cpu: 1}}}]
"""


def run(quota: int, *nodes: tuple[str, int]) -> World:
    """The world after the migrated manifests were applied, and a Job controller made the pods.

    Args:
        quota: Of the ClusterQueue, in CPUs.
        nodes: The rack of each node, and its CPUs.
    """
    world = World()
    world.follow_owners()
    for number, (rack, cpu) in enumerate(nodes or [("a", 64)]):
        world.node(f"node-{number}", cpu=str(cpu), labels={"rack": rack})
    text = migrate(SETUP.replace("QUOTA", str(quota)), "in", partial(rewrite, run=Run())).text
    for second, one in enumerate(yaml.safe_load_all(text)):
        meta = {"uid": f"uid-{second}", "creationTimestamp": f"1970-01-01T00:00:{second:02}Z", **one["metadata"]}
        if one["kind"] == "Job":
            assert "suspend" not in one["spec"]
            name = f"{meta.pop('generateName')}x1"
            texts = {of: meta.get(of) for of in ("labels", "annotations")}
            owner = world.owner("Job", name, spec=one["spec"], **texts)
            for rank in range(one["spec"]["parallelism"]):
                make(world, f"{name}-{rank}", one["spec"]["template"], owner)
        elif one["kind"] == "Pod":
            make(world, "lead", one)
            make(world, "follow", one)
        else:
            world.put_object(one["kind"], {**one, "metadata": meta, "status": {}})
    world.run()
    return world


def make(world: World, name: str, template: dict, *owners: OwnerReference) -> None:
    meta = {**template["metadata"], "name": name, "namespace": "default", "uid": f"uid-{name}"}
    pod = msgspec.convert({"metadata": meta, "spec": template["spec"]}, Pod)
    world.put(replace(pod, metadata=replace(pod.metadata, owner_references=list(owners))))


PAIR, WHOLE = ["follow", "lead"], [f"whole-x1-{rank}" for rank in range(4)]


@pytest.mark.parametrize(("quota", "bound"), [(6, PAIR + WHOLE), (5, WHOLE), (3, PAIR), (1, [])])
def test_a_migrated_job_and_group_are_each_admitted_whole_or_not_at_all(quota, bound):
    assert sorted(run(quota).where()) == bound


def test_a_migrated_job_whose_name_the_server_makes_keeps_to_its_rack():
    world = run(9, ("a", 3), ("a", 0), ("b", 2), ("b", 2), ("c", 3))

    where = world.where("whole")
    assert set(where.values()) == {"node-2", "node-3"}
    assert len(where) == 4


def test_a_migrated_job_that_has_no_rack_waits():
    assert run(9, ("a", 3), ("b", 3), ("c", 3)).where("whole") == {}
