"""Which requests stand for extended resources: init containers use what those that come later have (KEP-5004)."""

from __future__ import annotations

import pytest

from tests.engine.devices import device_class
from tutti.api.core import Container, PodSpec, ResourceRequirements
from tutti.cluster.devices.asks import NO_DEVICES
from tutti.cluster.devices.claims import ClaimBook
from tutti.cluster.devices.extended import extended_asks, with_extended

GPU = "deviceclass.resource.kubernetes.io/gpu"
"""By which a class stands for itself."""


def container(count: int, *, stays: bool = False) -> Container:
    said = {GPU: str(count)} if count else {}
    return Container(resources=ResourceRequirements(said, said), restart_policy="Always" if stays else "")


def named(at: int) -> str:
    return f"container-{at}-request-0"


CASES = [
    ([], [2, 0, 1], {0: 2, 2: 1}, {(0, 0), (2, 2)}),
    ([container(1)], [2], {1: 2}, {(1, 1), (0, 1)}),
    ([container(3)], [2], {0: 1, 1: 2}, {(1, 1), (0, 1), (0, 0)}),
    ([container(3), container(5)], [2], {1: 3, 2: 2}, {(2, 2), (0, 2), (0, 1), (1, 2), (1, 1)}),
    ([container(2)], [2, 2], {1: 2, 2: 2}, {(1, 1), (2, 2), (0, 1)}),
    ([container(1, stays=True), container(1)], [1], {0: 1, 2: 1}, {(0, 0), (2, 2), (1, 2)}),
    ([container(1), container(1, stays=True)], [0], {1: 1}, {(1, 1), (0, 1)}),
    ([container(4)], [0], {0: 4}, {(0, 0)}),
]


@pytest.mark.parametrize(("init", "running", "requests", "used"), CASES)
def test_what_is_asked_for_and_which_container_uses_it(init, running, requests, used):
    """kube-scheduler 1.36, plugins/dynamicresources/extendeddynamicresources.go; containers count from the first init."""
    book = ClaimBook()
    book.put_class(device_class("gpu"))
    spec = PodSpec(init_containers=init, containers=[container(count) for count in running])

    (asked,) = extended_asks(spec, book)

    assert dict(asked.requests) == {named(at): count for at, count in requests.items()}
    assert set(asked.mappings) == {(at, named(of)) for at, of in used}


@pytest.mark.parametrize(("containers", "problem"), [(128, ""), (129, "its containers ask 129 times for")])
def test_who_asks_too_often_is_not_weighed(containers, problem):
    book = ClaimBook()
    book.put_class(device_class("gpu"))
    spec = PodSpec(containers=[container(1) for _ in range(containers)])

    needs = with_extended(NO_DEVICES, spec, book)

    assert needs.problem.startswith(problem)
    assert bool(needs.problem) is bool(problem)
    assert len(needs.extended) == (0 if problem else 1)
