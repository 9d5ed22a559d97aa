"""What no filter knows must not be placed as if it had not been asked for."""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.world import World
from tutti.api.core import PodSpec
from tutti.placement.unsupported import unsupported

TERM = {"topologyKey": "zone", "labelSelector": {}}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}, "podAffinity"),
        ({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}, "AntiAffinity"),
        ({"topologySpreadConstraints": [{"topologyKey": "zone"}]}, "topologySpreadConstraints"),
        ({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}, "hostPort"),
        ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, "PersistentVolumeClaim"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
    ],
)
def test_a_constraint_that_is_not_known_is_named(spec, named):
    assert named in ", ".join(unsupported(msgspec.convert(spec, PodSpec)))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"volumes": [{"name": "tmp", "emptyDir": {}}]},
        {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}]},
    ],
)
def test_what_constrains_no_node_is_no_obstacle(spec):
    assert unsupported(msgspec.convert(spec, PodSpec)) == []


def test_a_pod_that_cannot_be_weighed_waits_and_asks_for_no_nodes():
    world = World()
    world.node("n1")
    pod = world.pod("spread")
    plain = msgspec.to_builtins(pod.spec)
    spec = msgspec.convert({**plain, "topologySpreadConstraints": [{"topologyKey": "zone"}]}, PodSpec)
    world.put(msgspec.structs.replace(pod, spec=spec))
    world.run()

    assert world.where() == {}
    assert world.why("Pod", "spread").reason == "UnsupportedConstraint"
    assert world.why("Pod", "spread").pod_reason == "UnsupportedConstraint"
