"""Which plugins decide, with their weights and arguments, and what the filters among them say of a class of pods.

The default is kube-scheduler's default profile. Filters stand in its order, because a node is counted under the first
filter that rules it out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tutti.api.resources import PODS
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import (
    NO_FLAVOR,
    AllocationScorer,
    FlavorConstraints,
    InterPodFilter,
    InterPodScorer,
    Mask,
    NodeFilter,
    NodeScorer,
    PreFilterState,
    PreScoreState,
    Rejection,
)
from tutti.placement.plugins.accelerator_packing import Packing
from tutti.placement.plugins.data_locality import DataRules
from tutti.placement.plugins.devices import DynamicResources
from tutti.placement.plugins.inter_pod_affinity import InterPodAffinity
from tutti.placement.plugins.leaving_nodes import LeavingNodes
from tutti.placement.plugins.network_overhead import NetworkFilter, NetworkOverhead, NetworkRules
from tutti.placement.plugins.node_affinity import NAMED_ELSE, FlavorLabels, NodeAffinity, PreferredNodeAffinity
from tutti.placement.plugins.node_ports import NodePorts
from tutti.placement.plugins.node_resources import (
    AllocationScore,
    BalancedAllocation,
    NodeResourcesFit,
)
from tutti.placement.plugins.node_state import (
    ImageLocality,
    NodeDeclaredFeatures,
    NodeUnschedulable,
    PreferUntainted,
    TaintToleration,
)
from tutti.placement.plugins.preferred_pod_affinity import PreferredPodAffinity
from tutti.placement.plugins.soft_spread import PreferredSpread
from tutti.placement.plugins.topology_spread import PodTopologySpread
from tutti.placement.plugins.volume_binding import VolumeBinding
from tutti.placement.plugins.volumes import NodeVolumeLimits, VolumeRestrictions, VolumeZone


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """A set of plugins.

    Attributes:
        filters: Filters that look at nodes alone.
        ports, fit, volumes, inter_pod: Filters that look at the pods on them, and at what those use.
        devices: The filter that looks at devices, and who holds them.
        late: Filters that look at nodes alone and count after all others.
        fill: Scores by how full a node is.
        preferences: Scores by nodes alone.
        changing: The same, of which the answer can change while the columns do not: by the time, or by what was
            heard from outside.
        neighbours: Scores by who is where.
        packing: What stands in for `fill` where pods ask for accelerators; None: nothing.
        links: The attributes of devices, without their domains, by which members of a gang are near one another.
        data: Where the data of pods is, and how long they wait for nodes near it; None: nobody looks at that.
        network: What of the network counts where pods of an application are placed together; None: nothing.
        beside_network: The same without those plugins that go by the network; None: there are none.
    """

    filters: tuple[NodeFilter, ...] = (
        NodeUnschedulable(),
        TaintToleration(),
        LeavingNodes(),
        NodeAffinity(),
        FlavorLabels(),
    )
    ports: InterPodFilter = field(default_factory=NodePorts)
    fit: NodeResourcesFit = field(default_factory=NodeResourcesFit)
    volumes: tuple[InterPodFilter, ...] = (VolumeRestrictions(), NodeVolumeLimits(), VolumeBinding(), VolumeZone())
    inter_pod: tuple[InterPodFilter, ...] = (PodTopologySpread(), InterPodAffinity())
    devices: InterPodFilter = field(default_factory=DynamicResources)
    late: tuple[NodeFilter, ...] = (NodeDeclaredFeatures(),)
    fill: tuple[AllocationScorer, ...] = (AllocationScore(), BalancedAllocation())
    preferences: tuple[NodeScorer, ...] = (
        PreferUntainted(),
        PreferredNodeAffinity(),
        ImageLocality(),
    )
    changing: tuple[NodeScorer, ...] = (DynamicResources(),)
    neighbours: tuple[InterPodScorer, ...] = (PreferredSpread(), PreferredPodAffinity())
    packing: Packing | None = None
    links: frozenset[str] = frozenset()
    data: DataRules | None = None
    network: NetworkRules | None = None
    beside_network: Profile | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.network is not None:
            bare = replace(
                self,
                inter_pod=tuple(one for one in self.inter_pod if not isinstance(one, NetworkFilter)),
                neighbours=tuple(one for one in self.neighbours if not isinstance(one, NetworkOverhead)),
                network=None,
            )
            object.__setattr__(self, "beside_network", bare)

    def packing_of(self, pod_class: PodClass) -> Packing | None:
        """Return how pods of a class are packed; None where they are scored by how full a node is as all others."""
        return self.packing if self.packing is not None and self.packing.concerns(pod_class) else None

    def fill_of(self, pod_class: PodClass) -> tuple[AllocationScorer, ...]:
        """Return what scores pods of a class by how full a node is."""
        packing = self.packing_of(pod_class)
        return self.fill if packing is None else (packing,)

    def gathers(self, pod_class: PodClass) -> bool:
        """Whether of nodes worth the same pods of a class take the first, so that they gather (`ties.py`).

        All do that ask for anything, and all others where fuller nodes are worth more.
        """
        return pod_class.keep(("gathers", self), None, lambda: self._gathers(pod_class))

    def _gathers(self, pod_class: PodClass) -> bool:
        return (
            any(amount for name, amount in pod_class.requests.items() if name != PODS)
            or bool(pod_class.features & Feature.DEVICES)
            or self.packing_of(pod_class) is not None
            or any(isinstance(one, AllocationScore) and one.gathers for one in self.fill)
        )

    @property
    def spreads_by_default(self) -> bool:
        """Whether pods that do not say how they are spread may be kept off nodes by a default constraint."""
        return any(one.defaults.are_strict for one in self.inter_pod if isinstance(one, PodTopologySpread))


DEFAULT_PROFILE = Profile()


@dataclass(frozen=True, slots=True)
class StaticFilterResult:
    """What the filters that look at nodes alone say.

    Attributes:
        mask: bool[rows], True where the class may run as far as they are concerned.
        rejections: Per filter, in order; those of the profile's late filters last.
    """

    mask: Mask
    rejections: tuple[Sequence[Rejection], ...]


@dataclass(frozen=True, slots=True)
class FilterResult:
    """What all filters say.

    Attributes:
        feasible: bool[rows], where one pod of the class could go now.
        reasons: How many nodes were ruled out for what; one that lacks several resources counts for each.
        final: bool[rows], ruled out such that taking pods out of the node could not help.
        fault: What cannot be told of a node that would do else, so that none is feasible, or "".
    """

    feasible: Mask
    reasons: Counter[str]
    final: Mask
    fault: str = ""


def static_filter_result(
    pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints, profile: Profile
) -> StaticFilterResult:
    """Return what the node filters say, kept on the class while the columns they read are unchanged."""
    stamp = (nodes.version, len(nodes.names))
    return pod_class.keep(
        ("standing", where, profile), stamp, lambda: _ask_static_filters(pod_class, nodes, where, profile)
    )


def _ask_static_filters(
    pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints, profile: Profile
) -> StaticFilterResult:
    features = pod_class.features | (Feature.FLAVOR_LABELS if where.node_labels else 0)
    features |= Feature.TAINTS if len(nodes.taint_sets) > 1 else 0
    features |= Feature.CORDONS if nodes.unschedulable.any() else 0
    mask = nodes.present.copy()
    said = []
    for one in (*profile.filters, *profile.late):
        rejections = one.rejections(pod_class, nodes, where) if one.concerns & features else ()
        for rejection in rejections:
            mask &= ~rejection.rows
        said.append(rejections)
    return StaticFilterResult(mask, tuple(said))


def pre_filter(
    pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints, profile: Profile
) -> list[PreFilterState]:
    """Begin a choice: return what the filters that look at other pods know, in order, resources left out."""
    features = features_of(pod_class, nodes)
    asked = [
        one for one in (profile.ports, *profile.volumes, *profile.inter_pod, profile.devices) if one.concerns & features
    ]
    found = [one.pre_filter(pod_class, nodes, where) for one in asked]
    return [one for one in found if one is not None]


def pre_score(pod_class: PodClass, nodes: NodeColumns, profile: Profile) -> list[PreScoreState | None]:
    """Begin a choice: return what each score by who is where knows, None where it has no opinion."""
    features = features_of(pod_class, nodes)
    return [one.pre_score(pod_class, nodes) if one.concerns & features else None for one in profile.neighbours]


def features_of(pod_class: PodClass, nodes: NodeColumns) -> int:
    """Return what plugins that look at other pods go by: bits of `Feature`, of the class and of the cluster."""
    features = pod_class.features
    if not nodes.numa:
        features &= ~Feature.NUMA_ZONES
    if nodes.label_index.with_terms or (nodes.nominated is not None and nodes.nominated.with_terms):
        features |= Feature.PLACED_TERMS
    if pod_class.namespace in nodes.namespaces.services:
        features |= Feature.SERVICES
    return features


def filter_nodes(
    pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints = NO_FLAVOR, profile: Profile = DEFAULT_PROFILE
) -> FilterResult:
    """Return what all filters say of one more pod of a class, on the columns as they are now."""
    if pod_class.volumes.problem or pod_class.devices.problem:
        return FilterResult(np.zeros(len(nodes), dtype=np.bool_), Counter(), nodes.present.copy())
    left = nodes.present.copy()
    final = np.zeros(len(nodes), dtype=np.bool_)
    reasons: Counter[str] = Counter()
    fault = ""
    for rejection, hit in counted_rejections(pod_class, nodes, where, profile):
        reasons[rejection.reason] += int(np.count_nonzero(hit))
        final |= hit & rejection.final
        left &= ~hit
        if rejection.faulty and not fault and hit.any():
            fault = rejection.reason
    return FilterResult(left & (not fault), +reasons, final, fault)


def counted_rejections(
    pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints, profile: Profile
) -> Iterator[tuple[Rejection, Mask]]:
    """Yield what rules nodes out, with the nodes that count for it: bool[rows].

    A node counts for the first filter that rules it out, and there for everything that the filter says of it.
    """
    left = nodes.present.copy()
    for rejections in _said(pod_class, nodes, where, profile):
        out = np.zeros(len(nodes), dtype=np.bool_)
        for rejection in rejections:
            hit = left & rejection.rows
            yield rejection, hit
            out |= hit
        left &= ~out


def _said(
    pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints, profile: Profile
) -> list[Sequence[Rejection]]:
    """Return what each filter rules out, in the order in which a node counts."""
    alone, early = static_filter_result(pod_class, nodes, where, profile).rejections, len(profile.filters)
    said: list[Sequence[Rejection]] = [*_names_first(alone[:early])]
    features = features_of(pod_class, nodes)
    for one in (profile.ports, profile.fit, *profile.volumes, *profile.inter_pod, profile.devices):
        state = one.pre_filter(pod_class, nodes, where) if one.concerns & features else None
        if state is not None:
            said.append(state.rejections())
    return [*said, *alone[early:]]


def _names_first(said: Sequence[Sequence[Rejection]]) -> list[Sequence[Rejection]]:
    """Let nodes that the pod's affinity does not name count as that, before any filter has looked at them."""
    named = [rejection for rejections in said for rejection in rejections if rejection.reason == NAMED_ELSE]
    return [named, *said]
