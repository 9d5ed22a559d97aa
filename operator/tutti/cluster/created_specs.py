"""What a pod says that is made of a template: what the API server fills in, and how it writes amounts.

Objects of ours, and those of most projects that make pods, keep a template as it was written: `cpu: 1` and `1024Mi`
are `"1"` and `1Gi` in its pods. Who was promised is told by what pods say.

Source: kubernetes pkg/apis/core/v1/defaults.go (1.36), SetDefaults_Pod and SetDefaults_PodSpec.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tutti.api import quantity
from tutti.api.core import Container, ContainerPort, PodAffinity, PodAffinityTerm, PodSpec, ResourceRequirements
from tutti.api.resources import CPU, AmountError, to_milli
from tutti.api.selectors import LabelSelectorRequirement
from tutti.cluster.requests import POD_LEVEL, is_pod_level, pod_requests

_Quantities = dict[str, str | int | float]


def as_created(spec: PodSpec) -> PodSpec:
    """Return the spec of a template as the API server would keep it in a pod made of it.

    What a container limits and does not request, it requests: extended resources such as GPUs are hardly ever written
    otherwise. In the network of its node, every port of a container is one of the node.
    """
    on_node = spec.host_network
    made = msgspec.structs.replace(
        spec,
        containers=[_created(one, on_node=on_node) for one in spec.containers],
        init_containers=[_created(one, on_node=on_node) for one in spec.init_containers],
        overhead=_written(spec.overhead),
    )
    return made if spec.resources is None else msgspec.structs.replace(made, resources=_as_whole(made, spec.resources))


def selecting_by(spec: PodSpec, labels: Mapping[str, str]) -> PodSpec:
    """Return a spec with what `matchLabelKeys` and `mismatchLabelKeys` of affinity terms add for a pod of these labels.

    Source: kubernetes pkg/registry/core/pod/strategy.go (1.36), applyMatchLabelKeysAndMismatchLabelKeys. To the
    selectors of spread constraints it is added as well, where these are read.
    """
    affinity = spec.affinity
    if affinity is None:
        return spec
    sides = {
        name: _side_by(side, labels)
        for name in ("pod_affinity", "pod_anti_affinity")
        if (side := getattr(affinity, name)) is not None
    }
    return msgspec.structs.replace(spec, affinity=msgspec.structs.replace(affinity, **sides))


def _side_by(side: PodAffinity, labels: Mapping[str, str]) -> PodAffinity:
    preferred = [
        msgspec.structs.replace(one, pod_affinity_term=_term_by(one.pod_affinity_term, labels))
        for one in side.preferred
    ]
    return PodAffinity([_term_by(one, labels) for one in side.required], preferred)


def _term_by(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = term.label_selector
    asked = [("In", key) for key in term.match_label_keys] + [("NotIn", key) for key in term.mismatch_label_keys]
    added = [LabelSelectorRequirement(key, how, [labels[key]]) for how, key in asked if key in labels]
    if selector is None or not added:
        return term
    merged = msgspec.structs.replace(selector, match_expressions=[*selector.match_expressions, *added])
    return msgspec.structs.replace(term, label_selector=merged)


def _created(container: Container, *, on_node: bool) -> Container:
    limits, requests = _written(container.resources.limits), _written(container.resources.requests)
    resources = ResourceRequirements({**limits, **requests}, limits)
    ports = [_of_node(one) for one in container.ports] if on_node else container.ports
    return msgspec.structs.replace(container, resources=resources, ports=ports)


def _of_node(port: ContainerPort) -> ContainerPort:
    return port if port.host_port else msgspec.structs.replace(port, host_port=port.container_port)


def _as_whole(spec: PodSpec, said: ResourceRequirements) -> ResourceRequirements:
    """Return what a pod asks for as a whole.

    Of what it is limited in, it requests what its containers do, or else so much as its limit is.
    """
    limits, requests = _written(said.limits), _written(said.requests)
    if not limits:
        return ResourceRequirements(requests, limits)
    granted = {name: amount for name, amount in limits.items() if is_pod_level(name)}
    return ResourceRequirements({**granted, **_of_containers(spec), **requests}, limits)


def _of_containers(spec: PodSpec) -> _Quantities:
    """Return what the containers of a pod request together, of cpu and memory."""
    try:
        total = pod_requests(msgspec.structs.replace(spec, resources=None, overhead={}))
    except AmountError:
        return {}  # whoever reads them says so
    texts = [one.resources.requests for one in (*spec.containers, *spec.init_containers)]
    out: _Quantities = {}
    for name in POD_LEVEL:
        if name in total:
            binary = name != CPU and any(str(one.get(name, "")).endswith("i") for one in texts)
            out[name] = quantity.format(to_milli(name, total[name]), binary=binary)
    return out


def _written(quantities: Mapping[str, str | int | float]) -> _Quantities:
    """Return amounts as the API server writes them; one that cannot be read stays, so that this is told."""
    out: _Quantities = {}
    for name, amount in quantities.items():
        try:
            out[name] = quantity.canonical(amount)
        except quantity.QuantityError:
            out[name] = amount
    return out
