"""What no filter knows must not be placed as if it had not been asked for."""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.world import World
from tutti.api.core import PodSpec
from tutti.placement.spec_limits import unsupported_fields

TERM = {"topologyKey": "zone", "labelSelector": {}}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
    ],
)
def test_a_constraint_that_is_not_known_is_named(spec, named):
    assert named in ", ".join(unsupported_fields(msgspec.convert(spec, PodSpec)))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
        {"topologySpreadConstraints": [{"topologyKey": "zone"}]},
        {"volumes": [{"name": "tmp", "emptyDir": {}}]},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]},
        {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
    ],
)
def test_what_is_known_is_no_obstacle(spec):
    assert unsupported_fields(msgspec.convert(spec, PodSpec)) == []


def test_a_pod_that_cannot_be_weighed_waits_and_asks_for_no_nodes():
    world = World()
    world.node("n1")
    pod = world.pod("claims")
    plain = msgspec.to_builtins(pod.spec)
    spec = msgspec.convert({**plain, "resourceClaims": [{"name": "gpu"}]}, PodSpec)
    world.put(msgspec.structs.replace(pod, spec=spec))
    world.run()

    assert world.where() == {}
    assert world.why("Pod", "claims").reason == "UnsupportedConstraint"
    assert world.why("Pod", "claims").pod_reason == "UnsupportedConstraint"
