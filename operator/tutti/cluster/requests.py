"""What a pod takes from a node.

Source of the rule: kubernetes component-helpers/resource/helpers.go (1.36), PodRequests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType

import msgspec

from tutti.api.core import Container, ContainerStatus, Pod, PodSpec, ResourceRequirements
from tutti.api.quantity import MAX_UNITS
from tutti.api.resources import AmountError, Amounts, parse_requests

POD_LEVEL = RESIZABLE = ("cpu", "memory")
DEFAULT_REQUESTS: Mapping[str, int] = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""What the score of a node takes a container to use that does not say (plugins/noderesources, scheduler/util)."""

Scored = tuple[int, int]
"""cpu in milli-cores and memory in bytes, as the score of a node counts them."""


def pod_requests(spec: PodSpec) -> Amounts:
    """Return what a pod of this spec asks for, in scheduling units, including one of `pods`.

    Containers and sidecars run together; an ordinary init container runs beside the sidecars started before it;
    pod-level requests replace the sum for the resources they name; overhead comes on top.

    Raises:
        AmountError: a request cannot be read; the message names the resource.
    """
    return _pod_total(spec, _asked, whole=_pod_level(spec))


def pod_limits(spec: PodSpec) -> Amounts:
    """Return what a pod of this spec is limited to, counted as its requests are; what nothing limits is left out.

    Overhead comes on top of what is limited alone. Source: as above, PodLimits.

    Raises:
        AmountError: a limit cannot be read; the message names the resource.
    """
    containers, init = ([_asking_for_limits(one) for one in some] for some in (spec.containers, spec.init_containers))
    whole = None if spec.resources is None else ResourceRequirements(spec.resources.limits)
    total = pod_requests(
        msgspec.structs.replace(spec, containers=containers, init_containers=init, resources=whole, overhead={})
    )
    del total["pods"]
    _add(total, {name: amount for name, amount in parse_requests(spec.overhead).items() if total.get(name)})
    return total


def _asking_for_limits(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=ResourceRequirements(container.resources.limits))


def is_guaranteed(spec: PodSpec) -> bool:
    """Whether a pod of this spec is of the quality of service Guaranteed, so that the kubelet may pin it.

    Every container, init containers too, limits cpu and memory, and they limit in all what they request; pod-level
    resources count in their place. Source: kubernetes pkg/apis/core/v1/helper/qos/qos.go (1.36), ComputePodQOS.
    A quantity that cannot be read is no limit.
    """
    parts = (
        [spec.resources]
        if spec.resources is not None
        else [one.resources for one in (*spec.containers, *spec.init_containers)]
    )
    try:
        requests = sum_of_amounts(_of_quality(one.requests) for one in parts)
        limits = [_of_quality(one.limits) for one in parts]
    except AmountError:
        return False
    return bool(requests) and requests == sum_of_amounts(limits) and all(len(one) == len(POD_LEVEL) for one in limits)


def _of_quality(quantities: Mapping[str, str | int | float]) -> Amounts:
    said = parse_requests({name: quantities[name] for name in POD_LEVEL if name in quantities})
    return {name: amount for name, amount in said.items() if amount > 0}


def scored_requests(spec: PodSpec) -> Scored:
    """Return what a pod of this spec asks for as the score counts it: a container that does not say asks for a little.

    Pod-level requests are left out, as kube-scheduler 1.36 leaves them out for the pod it is placing.

    Raises:
        AmountError: a request cannot be read; the message names the resource.
    """
    return _scored(_pod_total(spec, _asked, unsaid=DEFAULT_REQUESTS))


def scored_weight(spec: PodSpec) -> Scored:
    """Return what a pod of this spec adds to its node as the score counts it; pod-level requests count here.

    Raises:
        AmountError: a request cannot be read; the message names the resource.
    """
    whole = _pod_level(spec)
    return _scored(_pod_total(spec, _asked, unsaid=_unsaid(spec, pod_requests(spec)), whole=whole))


def scored_occupied(pod: Pod, weight: Scored) -> Scored:
    """Return what an assigned pod adds to its node as the score counts it, given what its spec says."""
    statuses = _resized(pod)
    if not statuses and pod.status.resources is None:
        return weight
    return _scored(_held_total(pod, statuses, _unsaid(pod.spec, _held_total(pod, statuses, {}))))


def occupied(pod: Pod, requests: Amounts) -> Amounts:
    """Return what an assigned pod holds, given what its spec asks for.

    While an in-place resize is under way the kubelet may still hold more than the spec asks for (or have refused
    the new request), so per container that runs on, and at pod level, the larger of spec, actuated and allocated
    amounts counts. Without what is actuated, what is allocated says nothing.
    """
    statuses = _resized(pod)
    if not statuses and pod.status.resources is None:
        return requests
    return _held_total(pod, statuses, {})


def granted_amounts(pod: Pod, held: Amounts) -> Amounts:
    """Return what the kubelet of an assigned pod has granted it, given what it holds; that itself where it is as much.

    A raise that waits for the kubelet takes room of the node, as kube-scheduler counts it, and nobody uses it yet. What
    was granted is what the kubelet says it has allocated (Kubernetes 1.33), or what is actuated where that is more;
    where it does not say so, what is actuated while it puts a resize off or has refused it. Only cpu and memory can be
    resized.

    Raises:
        AmountError: an amount cannot be read; the message names the resource.
    """
    said = pod.status
    if not (said.container_statuses or said.init_container_statuses) and said.resources is None:
        return held
    pending = any(one.type == "PodResizePending" for one in said.conditions)
    if not (pending or _is_raised(pod)):
        return held
    statuses, whole = _resized(pod), _pod_level(pod.spec)
    if whole and said.resources is not None:
        most = _granted(whole, said.resources, said.allocated_resources, pending)
        whole = {name: most.get(name, 0) for name in whole}
    return _pod_total(pod.spec, partial(_by_status, statuses, partial(_granted, pending=pending)), whole=whole)


def _is_raised(pod: Pod) -> bool:
    """Whether a pod may ask for more, as a whole or in one of its containers, than its kubelet says was allocated."""
    said, asks = pod.status, pod.spec.resources
    if asks is not None and said.allocated_resources and said.allocated_resources != asks.requests:
        return True
    statuses = (*said.container_statuses, *said.init_container_statuses)
    allocated = {one.name: one.allocated_resources for one in statuses if one.allocated_resources}
    return bool(allocated) and any(
        one.resources.requests != allocated.get(one.name, one.resources.requests)
        for one in (*pod.spec.containers, *pod.spec.init_containers)
    )


def _resized(pod: Pod) -> dict[str, ContainerStatus]:
    if not (pod.status.container_statuses or pod.status.init_container_statuses):
        return {}
    return {
        s.name: s
        for s in (*pod.status.container_statuses, *pod.status.init_container_statuses)
        if s.resources is not None
    }


def _held_total(pod: Pod, statuses: Mapping[str, ContainerStatus], unsaid: Mapping[str, int]) -> Amounts:
    infeasible = any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions)
    whole, said = _pod_level(pod.spec), pod.status
    if whole and said.resources is not None:
        most = _most(whole, said.resources, said.allocated_resources, not infeasible)
        whole = {name: most.get(name, 0) for name in whole}
    return _pod_total(
        pod.spec, partial(_by_status, statuses, partial(_most, spec_counts=not infeasible)), unsaid=unsaid, whole=whole
    )


def _unsaid(spec: PodSpec, total: Mapping[str, int]) -> Mapping[str, int]:
    """What is counted for containers that do not say: with pod-level requests only what nothing of the pod says.

    Source: kubernetes pkg/scheduler/framework/types.go (1.36), getNonMissingContainerRequests.
    """
    if not _pod_level(spec):
        return DEFAULT_REQUESTS
    return {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in total}


def _scored(total: Mapping[str, int]) -> Scored:
    return total.get("cpu", 0), total.get("memory", 0)


def _pod_total(
    spec: PodSpec,
    amounts: Callable[[Container], Amounts],
    *,
    unsaid: Mapping[str, int] = MappingProxyType({}),
    whole: Mapping[str, int] = MappingProxyType({}),
) -> Amounts:
    running: Amounts = {}
    for container in spec.containers:
        _add(running, {**unsaid, **amounts(container)})
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        if container.restart_policy == "Always":
            _add(sidecars, {**unsaid, **amounts(container)})
            _raise_to(peak, sidecars)
        else:
            beside = dict(sidecars)
            _add(beside, {**unsaid, **_asked(container)})
            _raise_to(peak, beside)
    _add(running, sidecars)
    _raise_to(running, peak)
    running |= whole
    _add(running, parse_requests(spec.overhead))
    running["pods"] = 1
    return running


def _asked(container: Container) -> Amounts:
    return parse_requests(container.resources.requests)


_Rule = Callable[[Amounts, ResourceRequirements, Mapping[str, str | int | float]], Amounts]
"""Says what of a container counts, by what it asks for, what the kubelet says is actuated, and what is allocated."""


def _by_status(statuses: Mapping[str, ContainerStatus], rule: _Rule, container: Container) -> Amounts:
    """What of a container counts by a rule; what it asks for, where its kubelet says nothing of it."""
    asked = _asked(container)
    status = statuses.get(container.name)
    if status is None or status.resources is None:
        return asked
    return rule(asked, status.resources, status.allocated_resources)


def _granted(
    asked: Amounts, actuated: ResourceRequirements, allocated: Mapping[str, str | int | float], pending: bool
) -> Amounts:
    """What the kubelet says is so, as far as it tells what it has granted, and else also what is asked for."""
    if not (allocated or pending):
        return _most(asked, actuated, allocated, True)
    fixed = {name: amount for name, amount in asked.items() if name not in RESIZABLE}
    return _most(fixed, actuated, allocated, True)


def _most(
    asked: Amounts, actuated: ResourceRequirements, allocated: Mapping[str, str | int | float], spec_counts: bool
) -> Amounts:
    """The larger of what is asked for, unless it was refused for good, and of what the kubelet says is so."""
    held = dict(asked) if spec_counts else {}
    _raise_to(held, parse_requests(actuated.requests))
    _raise_to(held, parse_requests(allocated))
    return held


def _pod_level(spec: PodSpec) -> Amounts:
    """What the pod asks for as a whole, of the resources that can be asked for so."""
    if spec.resources is None:
        return {}
    asked = parse_requests(spec.resources.requests)
    return {name: amount for name, amount in asked.items() if is_pod_level(name)}


def is_pod_level(resource: str) -> bool:
    """Whether a pod can ask for a resource as a whole."""
    return resource in POD_LEVEL or resource.startswith("hugepages-")


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    """Add, up to what a column can hold: several requests may each be valid and be beyond it together."""
    for name, amount in more.items():
        total[name] = min(total.get(name, 0) + amount, MAX_UNITS)


def _raise_to(total: Amounts, least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        if amount > total.get(name, -1):  # one of nothing is said all the same
            total[name] = amount


def sum_of_amounts(parts: Iterable[Mapping[str, int]]) -> Amounts:
    """Return the sum of several amounts."""
    total: Amounts = {}
    for part in parts:
        _add(total, part)
    return total
