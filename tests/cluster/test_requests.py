"""What a pod takes from a node.

Source of the rule and of the cases: Kubernetes 1.36, component-helpers/resource/helpers.go (PodRequests) and its tests.
"""

from __future__ import annotations

import pytest

from tutti.api.core import (
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from tutti.api.quantity import MAX_UNITS
from tutti.api.resources import AmountError
from tutti.cluster.requests import (
    granted_amounts,
    occupied,
    pod_requests,
    scored_occupied,
    scored_weight,
    sum_of_amounts,
)

GI = 1024**3


def asks(cpu: str = "", memory: str = "", **more: str) -> ResourceRequirements:
    amounts = {"cpu": cpu, "memory": memory, **{name.replace("_", "/"): text for name, text in more.items()}}
    return ResourceRequirements({name: text for name, text in amounts.items() if text})


def container(*args: str, name: str = "", sidecar: bool = False, **more: str) -> Container:
    return Container(name, resources=asks(*args, **more), restart_policy="Always" if sidecar else "")


def total(spec: PodSpec) -> dict[str, int]:
    found = pod_requests(spec)
    assert found.pop("pods") == 1
    return found


CASES = {
    "containers run together": (
        PodSpec(containers=[container("1", "1Gi"), container("500m", "2Gi")]),
        {"cpu": 1500, "memory": 3 * GI},
    ),
    "a large init container needs its room before the others start": (
        PodSpec(init_containers=[container("4", "1Gi")], containers=[container("1", "2Gi")]),
        {"cpu": 4000, "memory": 2 * GI},
    ),
    "init containers run one after another": (
        PodSpec(init_containers=[container("2"), container("3"), container("1")], containers=[container("1")]),
        {"cpu": 3000},
    ),
    "a sidecar runs beside the containers": (
        PodSpec(init_containers=[container("1", sidecar=True)], containers=[container("2")]),
        {"cpu": 3000},
    ),
    "an init container runs beside the sidecars started before it": (
        PodSpec(
            init_containers=[container("1", sidecar=True), container("5"), container("10", sidecar=True)],
            containers=[container("1")],
        ),
        {"cpu": 12000},
    ),
    "an init container does not run beside the sidecars started after it": (
        PodSpec(
            init_containers=[container("5"), container("1", sidecar=True)],
            containers=[container("1")],
        ),
        {"cpu": 5000},
    ),
    "an init container with its sidecar is the peak": (
        PodSpec(init_containers=[container("1", sidecar=True), container("5")], containers=[container("2")]),
        {"cpu": 6000},
    ),
    "overhead comes on top": (
        PodSpec(containers=[container("1")], overhead={"cpu": "100m", "memory": "120Mi"}),
        {"cpu": 1100, "memory": 120 * 1024**2},
    ),
    "pod-level requests replace the sum": (
        PodSpec(containers=[container("1", "1Gi")], resources=asks("3"), overhead={"cpu": "1"}),
        {"cpu": 4000, "memory": GI},
    ),
    "pod-level requests may be below the sum": (
        PodSpec(init_containers=[container("8")], containers=[container("4")], resources=asks("2")),
        {"cpu": 2000},
    ),
    "pod-level requests say nothing of devices": (
        PodSpec(containers=[container(example_gpu="2")], resources=asks("1", example_gpu="9")),
        {"cpu": 1000, "example/gpu": 2},
    ),
    "huge pages may be asked for at pod level": (
        PodSpec(
            containers=[Container(resources=ResourceRequirements({"hugepages-2Mi": "2Mi"}))],
            resources=ResourceRequirements({"hugepages-2Mi": "8Mi"}),
        ),
        {"hugepages-2Mi": 8 * 1024**2},
    ),
    "less than the smallest unit is rounded up": (
        PodSpec(containers=[container("0.1m", "1.5"), container(example_gpu="500m")]),
        {"cpu": 1, "memory": 2, "example/gpu": 1},
    ),
    "a pod that asks for nothing takes its place only": (PodSpec(containers=[container()]), {}),
}


@pytest.mark.parametrize(("spec", "takes"), CASES.values(), ids=CASES.keys())
def test_what_a_pod_asks_for(spec, takes):
    assert total(spec) == takes


def test_requests_that_are_valid_one_by_one_never_exceed_what_a_column_holds():
    huge = container("", "8E")
    assert total(PodSpec(containers=[huge, huge], overhead={"memory": "8E"})) == {"memory": MAX_UNITS}


def test_a_request_that_cannot_be_read_is_named():
    with pytest.raises(AmountError, match="cpu: 'one' is not a quantity"):
        pod_requests(PodSpec(containers=[container("one")]))


def resized(spec_cpu: str, *, actual: str = "", allocated: str = "", infeasible: bool = False) -> dict[str, int]:
    pod = Pod(
        spec=PodSpec(containers=[container(spec_cpu, name="c")], node_name="n"),
        status=PodStatus(
            container_statuses=[
                ContainerStatus(
                    "c",
                    resources=asks(actual) if actual else None,
                    allocated_resources={"cpu": allocated} if allocated else {},
                )
            ],
            conditions=[PodCondition("PodResizePending", "True", "Infeasible")] if infeasible else [],
        ),
    )
    held = occupied(pod, pod_requests(pod.spec))
    assert granted_amounts(pod, held)["cpu"] <= held["cpu"]
    return held


@pytest.mark.parametrize(
    ("case", "cpu"),
    [
        ({"spec_cpu": "1"}, 1000),
        ({"spec_cpu": "1", "actual": "1", "allocated": "1"}, 1000),
        ({"spec_cpu": "3", "actual": "1", "allocated": "1"}, 3000),  # growing: the kubelet may grant it any moment
        ({"spec_cpu": "1", "actual": "3", "allocated": "1"}, 3000),  # shrinking: it still holds more
        ({"spec_cpu": "1", "actual": "1", "allocated": "2"}, 2000),
        ({"spec_cpu": "9", "actual": "1", "allocated": "2", "infeasible": True}, 2000),  # refused for good
        ({"spec_cpu": "1", "allocated": "2"}, 1000),  # nothing is known to run with it
    ],
)
def test_while_a_pod_is_resized_it_holds_the_most_it_may_have(case, cpu):
    assert resized(**case)["cpu"] == cpu


def test_a_pod_that_is_not_resized_holds_what_it_asks_for():
    pod = Pod(spec=PodSpec(containers=[container("1")]))
    requests = pod_requests(pod.spec)
    assert occupied(pod, requests) is requests


ONE_CPU = PodSpec(containers=[container("1", name="c")], resources=asks("2"), overhead={"cpu": "500m"})
REFUSED = [PodCondition("PodResizePending", "True", "Infeasible")]


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        (PodStatus(), 2500),
        (PodStatus(resources=asks("4")), 4500),  # shrinking: it still holds more
        (PodStatus(resources=asks("1")), 2500),
        (PodStatus(resources=asks("1"), allocated_resources={"cpu": "3"}), 3500),
        (PodStatus(allocated_resources={"cpu": "3"}), 2500),  # nothing is known to run with it
        (PodStatus(resources=asks("1"), conditions=REFUSED), 1500),
        (PodStatus(resources=ResourceRequirements(), conditions=REFUSED), 500),
    ],
)
def test_a_pod_level_resize_counts_too(status, cpu):
    """Overhead comes on top of whichever amount counts (PodRequests)."""
    pod = Pod(spec=ONE_CPU, status=status)
    assert occupied(pod, pod_requests(pod.spec)) == {"cpu": cpu, "pods": 1}


PUT_OFF = [PodCondition("PodResizePending", "True", "Deferred")]


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        (PodStatus(), 2500),
        (PodStatus(conditions=PUT_OFF), 2500),  # nothing tells what it has
        (PodStatus(resources=asks("1"), conditions=PUT_OFF), 1500),
        (PodStatus(resources=asks("1"), allocated_resources={"cpu": "1"}), 1500),
        (PodStatus(resources=asks("1"), allocated_resources={"cpu": "2"}), 2500),
        (PodStatus(resources=asks("4"), allocated_resources={"cpu": "2"}), 4500),
        (PodStatus(resources=asks("1"), conditions=REFUSED), 1500),
    ],
)
def test_of_a_raise_at_pod_level_counts_what_was_granted(status, cpu):
    pod = Pod(spec=ONE_CPU, status=status)
    assert granted_amounts(pod, occupied(pod, pod_requests(pod.spec))) == {"cpu": cpu, "pods": 1}


def test_what_is_written_otherwise_and_is_as_much_is_granted():
    said = ContainerStatus("c", resources=asks("1000m"), allocated_resources={"cpu": "1000m"})
    pod = Pod(spec=PodSpec(containers=[container("1", name="c")]), status=PodStatus(container_statuses=[said]))
    requests = pod_requests(pod.spec)
    assert granted_amounts(pod, requests) == requests


def test_a_pod_level_resize_is_of_what_is_asked_for_at_pod_level():
    pod = Pod(spec=ONE_CPU, status=PodStatus(resources=asks("2", "3Gi", example_gpu="1")))
    assert occupied(pod, pod_requests(pod.spec)) == {"cpu": 2500, "pods": 1}


@pytest.mark.parametrize(("sidecar", "cpu"), [(False, 1000), (True, 4000)])
def test_of_init_containers_only_sidecars_are_resized(sidecar, cpu):
    pod = Pod(
        spec=PodSpec(
            init_containers=[container("1", name="i", sidecar=sidecar)], containers=[container("1", name="c")]
        ),
        status=PodStatus(init_container_statuses=[ContainerStatus("i", resources=asks("3"))]),
    )
    assert occupied(pod, pod_requests(pod.spec))["cpu"] == cpu


@pytest.mark.parametrize(
    ("spec", "weight"),
    [
        (PodSpec(containers=[container("1"), container("", "1Gi")]), (1100, GI + 200 * 1024**2)),
        (PodSpec(containers=[container("1"), container("", "1Gi")], resources=asks("3")), (3000, GI)),
        (PodSpec(containers=[container("1"), container()], resources=asks("3")), (3000, 400 * 1024**2)),
        (PodSpec(containers=[container("0"), container()], resources=asks("", "1Gi")), (0, GI)),
        (
            PodSpec(containers=[container()], init_containers=[container("0")], resources=asks("", "1Gi")),
            (0, GI),
        ),
    ],
)
def test_with_pod_level_requests_only_what_nothing_says_is_taken_for_a_little(spec, weight):
    """Source: kubernetes pkg/scheduler/framework/types.go (1.36), getNonMissingContainerRequests."""
    assert scored_weight(spec) == weight
    running = Pod(spec=spec, status=PodStatus(container_statuses=[ContainerStatus("other", resources=asks("9"))]))
    assert scored_occupied(running, weight) == weight


def test_amounts_are_summed_by_name():
    assert sum_of_amounts([{"a": 1}, {"a": 2, "b": 3}, {}]) == {"a": 3, "b": 3}
