"""What a pod says that is made of a template, in each part by which pods of a class are told apart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tutti.api.core import Container, PodSpec, ResourceRequirements
from tutti.cluster.created_specs import as_created
from tutti.cluster.requests import pod_requests


def of(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec with one container, as it is in a pod, in builtins."""
    made: dict[str, Any] = msgspec.to_builtins(as_created(msgspec.convert(spec, PodSpec)))
    return made


def test_a_template_requests_what_it_limits_as_a_pod_made_of_it_would() -> None:
    limited = Container(
        resources=ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "2", "example.com/x": "3"})
    )
    made = as_created(PodSpec(containers=[limited], init_containers=[Container()]))
    assert pod_requests(made) == {"cpu": 1000, "example.com/x": 3, "pods": 1}
    assert "example.com/x" not in pod_requests(PodSpec(containers=[limited]))


def test_amounts_are_written_as_the_api_server_keeps_them() -> None:
    container = {"resources": {"requests": {"cpu": 1, "memory": "1024Mi"}, "limits": {"nvidia.com/gpu": 8}}}
    (made,) = of({"containers": [container]})["containers"]
    assert made["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "8"},
        "limits": {"nvidia.com/gpu": "8"},
    }


def test_an_amount_that_cannot_be_read_stays_to_be_told() -> None:
    made = of({"containers": [{"resources": {"requests": {"cpu": "one"}}}], "resources": {"limits": {"cpu": "two"}}})
    assert made["containers"][0]["resources"]["requests"] == {"cpu": "one"}
    assert made["resources"]["limits"] == {"cpu": "two"}


def test_in_the_network_of_its_node_every_port_is_one_of_the_node() -> None:
    container = {"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 82}]}
    for here in (True, False):
        (made,) = of({"hostNetwork": here, "containers": [container]})["containers"]
        assert [port.get("hostPort", 0) for port in made["ports"]] == [80 if here else 0, 82]


@pytest.mark.parametrize(
    ("whole", "containers", "requested"),
    [
        ({"limits": {"cpu": 4, "memory": "1Gi"}}, [{}], {"cpu": "4", "memory": "1Gi"}),
        ({"limits": {"cpu": 4}}, [{"cpu": "500m", "memory": "1Gi"}, {"cpu": 1}], {"cpu": "1500m", "memory": "1Gi"}),
        ({"limits": {"cpu": 4}, "requests": {"cpu": 2}}, [{"cpu": 1}], {"cpu": "2"}),
        ({"requests": {"cpu": 2}}, [{"memory": "1Gi"}], {"cpu": "2"}),
        ({"limits": {"hugepages-2Mi": "4Mi"}}, [{"cpu": 1}], {"hugepages-2Mi": "4Mi", "cpu": "1"}),
    ],
)
def test_what_a_pod_is_limited_to_as_a_whole_it_requests_unless_its_containers_do(
    whole: dict[str, Any], containers: list[dict[str, Any]], requested: dict[str, str]
) -> None:
    made = of({"resources": whole, "containers": [{"resources": {"requests": one}} for one in containers]})
    assert made["resources"]["requests"] == requested
