"""What the writer of a pod, or of a template of pods, is warned of, though it is accepted (api/pod/warnings.go)."""

from __future__ import annotations

from collections.abc import Iterator

from tutti_sim.meta import Json, names
from tutti_sim.meta.amounts import amount

NULL_SELECTOR = "a null labelSelector results in matching no pod"
BYTES = ("memory", "ephemeral-storage")
OF_PODS = "Pod names and hostnames"
"""What the names of those who make pods are used in."""
LISTS = ("initContainers", "containers")
DEPRECATED = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
TERMS = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")


def warn_of_name(name: str, used: str = "the Pod's hostname") -> list[str]:
    """What is said of a pod's name, which is that of its host as well, or of the name of what makes pods."""
    faults = names.label_faults(name)
    if not faults:
        return []
    text = f"this is used in {used}, which can result in surprising behavior; a DNS label is recommended"
    return [f"metadata.name: {text}: [{' '.join(faults)}]"]


def warn_of_spec(spec: Json, at: str) -> list[str]:
    """What is said of a specification; `at` is its path, for example `spec`."""
    found = list(_nodes(spec, at))
    for index, one in enumerate(spec.get("topologySpreadConstraints", ())):
        place, key = f"{at}.topologySpreadConstraints[{index}]", one.get("topologyKey", "")
        if key in DEPRECATED:
            found.append(f"{place}.topologyKey: {key} is {DEPRECATED[key]}")
        if "labelSelector" not in one:
            found.append(f"{place}.labelSelector: {NULL_SELECTOR}")
    found.extend(_hosts(spec, at))
    found.extend(_secrets(spec.get("imagePullSecrets", ()), f"{at}.imagePullSecrets"))
    found.extend(_fractions(spec.get("overhead", {}), f"{at}.overhead"))
    for container, place in _containers(spec, at):
        for field in ("limits", "requests"):
            found.extend(_fractions(container.get("resources", {}).get(field, {}), f"{place}.resources.{field}"))
        found.extend(_hidden(container.get("env", ()), f"{place}.env"))
    found.extend(_ports(spec, at))
    found.extend(_port_names(spec, at))
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        found.append(f"{at}.terminationGracePeriodSeconds: {text}")
    return [*found, *_terms(spec.get("affinity", {}), f"{at}.affinity")]


def _containers(spec: Json, at: str) -> Iterator[tuple[Json, str]]:
    for field in LISTS:
        for index, container in enumerate(spec.get(field, ())):
            yield container, f"{at}.{field}[{index}]"


def _nodes(spec: Json, at: str) -> Iterator[str]:
    """What is said of labels of nodes that have other names by now."""
    yield from (
        f"{at}.nodeSelector[{key}]: {DEPRECATED[key]}" for key in spec.get("nodeSelector", {}) if key in DEPRECATED
    )
    affinity, place = spec.get("affinity", {}).get("nodeAffinity", {}), f"{at}.affinity.nodeAffinity"
    for index, term in enumerate(affinity.get(TERMS[0], {}).get("nodeSelectorTerms", ())):
        yield from _node_term(term, f"{place}.{TERMS[0]}.nodeSelectorTerms[{index}]")
    for index, one in enumerate(affinity.get(TERMS[1], ())):
        yield from _node_term(one.get("preference", {}), f"{place}.{TERMS[1]}[{index}].preference")


def _node_term(term: Json, at: str) -> Iterator[str]:
    for index, one in enumerate(term.get("matchExpressions", ())):
        key = one.get("key", "")
        if key in DEPRECATED:
            yield f"{at}.matchExpressions[{index}].key: {key} is {DEPRECATED[key]}"


def _hosts(spec: Json, at: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, one in enumerate(spec.get("hostAliases", ())):
        address = one.get("ip", "")
        if address in seen:
            yield f'{at}.hostAliases[{index}].ip: duplicate ip "{address}"'
        seen.add(address)


def _secrets(secrets: list[Json], at: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, one in enumerate(secrets):
        name = one.get("name", "")
        if name in seen:
            yield f'{at}[{index}].name: duplicate name "{name}"'
        seen.add(name)
    for index, one in enumerate(secrets):
        if not one.get("name"):
            yield f'{at}[{index}].name: invalid empty name ""'


def _fractions(sizes: Json, at: str) -> Iterator[str]:
    for name in BYTES:
        if name in sizes and amount(sizes[name]).denominator != 1:
            yield f'{at}[{name}]: fractional byte value "{sizes[name]}" is invalid, must be an integer'


def _hidden(variables: list[Json], at: str) -> Iterator[str]:
    """What is said of variables that are set again, and not from what they were."""
    seen: set[str] = set()
    for index, one in enumerate(variables):
        name, value = one.get("name", ""), one.get("value", "")
        before = f"$({name})"
        if name in seen and ("valueFrom" in one or value == before or before not in value):
            yield f'{at}[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _ports(spec: Json, at: str) -> Iterator[str]:
    """What is said of a port that another one is, or nearly is."""
    taken: dict[tuple[int, str], list[tuple[str, Json]]] = {}
    for container, place in _containers(spec, at):
        for index, port in enumerate(container.get("ports", ())):
            where = f"{place}.ports[{index}]"
            others = taken.setdefault((port.get("containerPort", 0), port.get("protocol", "TCP")), [])
            for other_at, other in others:
                said = _clash(port, other)
                if said:
                    yield f"{where}: {said} port definition with {other_at}"
            others.append((where, port))


def _clash(port: Json, other: Json) -> str:
    (number, address), (their_number, theirs) = (
        (one.get("hostPort", 0), one.get("hostIP", "")) for one in (port, other)
    )
    if (number, address) == (their_number, theirs):
        return "duplicate"
    if not number or not their_number:
        return "overlapping"
    return "dangerously ambiguous" if number == their_number and bool(address) != bool(theirs) else ""


def _port_names(spec: Json, at: str) -> Iterator[str]:
    first: dict[str, str] = {}
    for container, place in _containers(spec, at):
        for index, port in enumerate(container.get("ports", ())):
            name, where = port.get("name", ""), f"{place}.ports[{index}]"
            if name in first:
                used = f"services and probes that select ports by name will use {first[name]}"
                yield f'{where}: duplicate port name "{name}" with {first[name]}, {used}'
            elif name:
                first[name] = where


def _terms(affinity: Json, at: str) -> Iterator[str]:
    for field in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(field, {})
        for index, term in enumerate(terms.get(TERMS[0], ())):
            if "labelSelector" not in term:
                yield f"{at}.{field}.{TERMS[0]}[{index}].labelSelector: {NULL_SELECTOR}"
        for index, one in enumerate(terms.get(TERMS[1], ())):
            if "labelSelector" not in one.get("podAffinityTerm", {}):
                yield f"{at}.{field}.{TERMS[1]}[{index}].podAffinityTerm.labelSelector: {NULL_SELECTOR}"
