"""A group of pods that has been migrated is admitted as Kueue would admit it: whole in its queue, or not at all.

What is migrated of objects that make pods is asked of the rules on owners in `test_frameworks`.
"""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
import yaml

from tests.engine.world import World
from tutti.api.core import Pod
from tutti.cli.migrate.kueue.jobs import Run
from tutti.cli.migrate.kueue.rewriting import rewrite
from tutti.cli.migrate.streams import migrate

SETUP = """apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: any}
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


def run(quota: int) -> World:
    """The world after the migrated manifests were applied."""
    world = World()
    world.node("node")
    text = migrate(SETUP.replace("QUOTA", str(quota)), "in", partial(rewrite, run=Run())).text
    for second, one in enumerate(yaml.safe_load_all(text)):
        meta = {"uid": f"uid-{second}", "creationTimestamp": f"1970-01-01T00:00:{second:02}Z", **one["metadata"]}
        if one["kind"] == "Pod":
            make(world, "lead", one)
            make(world, "follow", one)
        else:
            world.put_object(one["kind"], {**one, "metadata": meta, "status": {}})
    world.run()
    return world


def make(world: World, name: str, template: dict) -> None:
    meta = {**template["metadata"], "name": name, "namespace": "default", "uid": f"uid-{name}"}
    world.put(msgspec.convert({"metadata": meta, "spec": template["spec"]}, Pod))


@pytest.mark.parametrize(("quota", "bound"), [(3, ["follow", "lead"]), (2, ["follow", "lead"]), (1, [])])
def test_a_migrated_group_is_admitted_whole_or_not_at_all(quota, bound):
    assert sorted(run(quota).where()) == bound
