"""What other pods see of a pod: its namespace, its labels, and the terms and ports it brings along.

Selectors are asked once per distinct signature instead of once per pod: the hundred thousand pods of a cluster are
mostly copies of each other.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from tutti.api.core import Affinity, PodAffinityTerm, PodSpec, Volume, WeightedPodAffinityTerm
from tutti.api.selectors import LabelSelector

_ENCODER = msgspec.json.Encoder(order="deterministic")

NO_LABELS: Mapping[str, str] = {}
NO_NAMESPACES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PodQuery:
    """Which pods are meant: those of some namespaces that a selector matches; equal queries have equal keys.

    Attributes:
        selector: None matches no pod, an empty one matches all.
        namespace_selector: Adds the namespaces whose labels it matches; None adds none.
    """

    key: bytes
    namespaces: frozenset[str] = field(compare=False)
    namespace_selector: LabelSelector | None = field(compare=False)
    selector: LabelSelector | None = field(compare=False)

    @classmethod
    def of(
        cls,
        namespaces: Iterable[str],
        selector: LabelSelector | None,
        namespace_selector: LabelSelector | None = None,
    ) -> PodQuery:
        """Make the query of some namespaces and selectors."""
        names = frozenset(namespaces)
        key = _ENCODER.encode((sorted(names), namespace_selector, selector))
        return cls(key, names, namespace_selector, selector)

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Whether a pod of this namespace and these labels is meant."""
        if self.selector is None:
            return False
        here = namespace in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)
        )
        return here and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A pod (anti-)affinity term: which pods, over which topology, and for a preference its weight."""

    topology_key: str
    query: PodQuery
    weight: int = 0


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port that a pod takes on its node."""

    ip: str
    protocol: str
    number: int

    def conflicts(self, other: HostPort) -> bool:
        """Whether two pods with these ports cannot be on one node (plugins/nodeports): 0.0.0.0 is every address."""
        if (self.number, self.protocol) != (other.number, other.protocol):
            return False
        return self.ip == other.ip or "0.0.0.0" in (self.ip, other.ip)  # noqa: S104 - compared, not listened on


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that a pod names itself, without a claim.

    Attributes:
        kind: Of which of the old volume plugins it is.
        name: What tells disks of the kind apart.
        read_only: Whether the pod only reads it, which any number of pods may.
        monitors: Of a Ceph image: the same name is another image elsewhere.
    """

    kind: str
    name: str
    read_only: bool = False
    monitors: frozenset[str] = frozenset()

    def conflicts(self, other: Disk) -> bool:
        """Whether two pods with these disks cannot be on one node (plugins/volumerestrictions)."""
        if (self.kind, self.name) != (other.kind, other.name) or (self.read_only and other.read_only):
            return False
        return self.monitors == other.monitors or bool(self.monitors & other.monitors)


@dataclass(frozen=True, slots=True)
class InterPodConstraints:
    """What a pod demands of, or does to, the pods around it."""

    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred: tuple[PodTerm, ...] = ()
    """Preferred affinity with its weights, and preferred anti-affinity with negative ones."""
    ports: tuple[HostPort, ...] = ()
    disks: tuple[Disk, ...] = ()

    @property
    def terms(self) -> Iterator[PodTerm]:
        """All terms."""
        yield from self.affinity
        yield from self.anti_affinity
        yield from self.preferred

    @property
    def by_kind(self) -> Iterator[OwnTerm]:
        """All terms, with what each of them is."""
        yield from (("affinity", term) for term in self.affinity)
        yield from (("anti_affinity", term) for term in self.anti_affinity)
        yield from (("preferred", term) for term in self.preferred)


UNCONSTRAINED = InterPodConstraints()

TermKind = Literal["affinity", "anti_affinity", "preferred"]
OwnTerm = tuple[TermKind, PodTerm]

Anchor = tuple[str, str | None] | None
"""A label that a pod must have to be meant by a term, by key and value, or by key alone; None: it need not have any."""
_MOST_VALUES = 16
"""Of so many values at most it is noted which a pod must have one of; of more, that it must have the label."""


def inter_pod_constraints(spec: PodSpec, namespace: str) -> InterPodConstraints:
    """Return what a pod of this spec and namespace demands of the pods around it."""
    ports = tuple(dict.fromkeys(_ports(spec)))
    disks = tuple(dict.fromkeys(filter(None, map(_disk, spec.volumes))))
    affinity = spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return InterPodConstraints(ports=ports, disks=disks) if ports or disks else UNCONSTRAINED
    return _with_affinity(affinity, InterPodConstraints(ports=ports, disks=disks), namespace)


def has_disk(volume: Volume) -> bool:
    """Whether a volume is a disk that the pod names itself."""
    return _disk(volume) is not None


def _disk(volume: Volume) -> Disk | None:
    if volume.gce_persistent_disk is not None:
        return Disk("gce", volume.gce_persistent_disk.pd_name, volume.gce_persistent_disk.read_only)
    if volume.aws_elastic_block_store is not None:
        return Disk("aws", volume.aws_elastic_block_store.volume_id)
    if volume.iscsi is not None:
        return Disk("iscsi", volume.iscsi.iqn, volume.iscsi.read_only)
    if volume.rbd is not None:
        image = volume.rbd
        return Disk("rbd", f"{image.pool}/{image.image}", image.read_only, frozenset(image.monitors))
    return None


def _with_affinity(affinity: Affinity, plain: InterPodConstraints, namespace: str) -> InterPodConstraints:
    near, apart = affinity.pod_affinity, affinity.pod_anti_affinity
    return InterPodConstraints(
        affinity=tuple(_term(one, namespace) for one in near.required) if near else (),
        anti_affinity=tuple(_term(one, namespace) for one in apart.required) if apart else (),
        preferred=(
            *(_weighted(one, namespace, 1) for one in (near.preferred if near else ())),
            *(_weighted(one, namespace, -1) for one in (apart.preferred if apart else ())),
        ),
        ports=plain.ports,
        disks=plain.disks,
    )


def _term(one: PodAffinityTerm, namespace: str, weight: int = 0) -> PodTerm:
    own = not one.namespaces and one.namespace_selector is None
    names = [namespace] if own else one.namespaces
    return PodTerm(one.topology_key, PodQuery.of(names, one.label_selector, one.namespace_selector), weight)


def _weighted(one: WeightedPodAffinityTerm, namespace: str, sign: int) -> PodTerm:
    return _term(one.pod_affinity_term, namespace, sign * one.weight)


def _ports(spec: PodSpec) -> Iterator[HostPort]:
    sidecars = [c for c in spec.init_containers if c.restart_policy == "Always"]
    for container in (*sidecars, *spec.containers):
        for port in container.ports:
            if port.host_port > 0:
                yield HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)  # noqa: S104 - as above


@dataclass(slots=True, eq=False)
class PodSignature:
    """Pods that no other pod could tell apart.

    Attributes:
        holders: How many pods are of this signature, wherever they are; kept by `SignatureBook`.
        code, leaving_code: What `LabelIndex` counts them and those being deleted under; -1 while there are none.
    """

    namespace: str
    labels: Mapping[str, str]
    inter_pod: InterPodConstraints
    key: Hashable = None
    holders: int = 0
    code: int = -1
    leaving_code: int = -1
    reach: frozenset[str] | None = field(init=False)
    """The namespaces that its terms may mean pods of; None where a selector says which."""

    _anchored: Mapping[Anchor, Sequence[OwnTerm]] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.reach = _reach(self.inter_pod)

    @property
    def anchored(self) -> Mapping[Anchor, Sequence[OwnTerm]]:
        """Its terms by what a pod must have to be meant by them; one that takes any of several labels is under each."""
        if self._anchored is None:
            anchored: dict[Anchor, list[OwnTerm]] = {}
            for kind, term in self.inter_pod.by_kind:
                for anchor in anchors_of(term.query.selector):
                    anchored.setdefault(anchor, []).append((kind, term))
            self._anchored = anchored
        return self._anchored


def anchors_of(selector: LabelSelector | None) -> Sequence[Anchor]:
    """Return labels of which a pod must have one for a selector to mean it; none where it means nobody."""
    if selector is None:
        return ()
    for label in selector.match_labels.items():
        return (label,)
    listed = [one for one in selector.match_expressions if one.operator == "In"]
    if listed:
        fewest = min(listed, key=lambda one: len(one.values))
        if len(fewest.values) <= _MOST_VALUES:
            return [(fewest.key, value) for value in dict.fromkeys(fewest.values)]
        return ((fewest.key, None),)
    return [(one.key, None) for one in selector.match_expressions if one.operator == "Exists"][:1] or (None,)


def _reach(inter_pod: InterPodConstraints) -> frozenset[str] | None:
    if inter_pod is UNCONSTRAINED:
        return NO_NAMESPACES
    names: set[str] = set()
    for term in inter_pod.terms:
        if term.query.namespace_selector is not None:
            return None
        names |= term.query.namespaces
    return frozenset(names)


class SignatureBook:
    """Finds the one signature of a namespace, labels and constraints, for as long as somebody holds it."""

    def __init__(self) -> None:
        self._known: dict[Hashable, PodSignature] = {}

    def __len__(self) -> int:
        return len(self._known)

    def hold(self, namespace: str, labels: Mapping[str, str], inter_pod: InterPodConstraints) -> PodSignature:
        """Return the signature of a pod like this; give it back with `drop`."""
        key = _key(namespace, labels, inter_pod)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = PodSignature(namespace, labels, inter_pod, key)
        known.holders += 1
        return known

    def rename(self, pod_signature: PodSignature, labels: Mapping[str, str]) -> bool:
        """Find a signature by other labels from now on, where it can be; whoever asks gives it those (`relabel`).

        Returns:
            Whether it is so: it cannot be where several pods hold it, or where others have those labels already.
        """
        key = _key(pod_signature.namespace, labels, pod_signature.inter_pod)
        if pod_signature.holders > 1 or key in self._known:
            return False
        del self._known[pod_signature.key]
        self._known[key], pod_signature.key = pod_signature, key
        return True

    def drop(self, pod_signature: PodSignature) -> None:
        """Give back a signature that was held; it is forgotten with its last holder."""
        pod_signature.holders -= 1
        if not pod_signature.holders:
            del self._known[pod_signature.key]


def _key(namespace: str, labels: Mapping[str, str], inter_pod: InterPodConstraints) -> Hashable:
    plain = _ENCODER.encode((namespace, labels))
    return plain if inter_pod is UNCONSTRAINED else (plain, inter_pod)


def selector_keys(selector: LabelSelector | None) -> Iterator[str]:
    """Yield the label keys that a selector reads."""
    if selector is not None:
        yield from selector.match_labels
        for expression in selector.match_expressions:
            yield expression.key
