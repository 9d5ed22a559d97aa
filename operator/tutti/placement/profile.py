"""Which plugins decide, with their weights and arguments; the default is kube-scheduler's default profile.

Filters stand in kube-scheduler's order, because a node is counted under the first filter that rules it out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tutti.cluster.classes import PodClass
from tutti.placement.framework import CompanyFilter, CompanyScorer, FillScorer, Filter, Preference
from tutti.placement.plugins.accelerator_packing import AcceleratorPacking
from tutti.placement.plugins.balanced_allocation import BalancedAllocation
from tutti.placement.plugins.dynamic_resources import DynamicResources
from tutti.placement.plugins.flavor_labels import FlavorLabels
from tutti.placement.plugins.image_locality import ImageLocality
from tutti.placement.plugins.inter_pod_affinity import InterPodAffinity
from tutti.placement.plugins.node_affinity import NodeAffinity, PreferredNodeAffinity
from tutti.placement.plugins.node_declared_features import NodeDeclaredFeatures
from tutti.placement.plugins.node_ports import NodePorts
from tutti.placement.plugins.node_resources_fit import NodeResourcesFit
from tutti.placement.plugins.node_unschedulable import NodeUnschedulable
from tutti.placement.plugins.node_volume_limits import NodeVolumeLimits
from tutti.placement.plugins.pod_topology_spread import PodTopologySpread
from tutti.placement.plugins.preferred_pod_affinity import PreferredPodAffinity
from tutti.placement.plugins.preferred_spread import PreferredSpread
from tutti.placement.plugins.taint_toleration import PreferUntainted, TaintToleration
from tutti.placement.plugins.volume_binding import VolumeBinding
from tutti.placement.plugins.volume_restrictions import VolumeRestrictions
from tutti.placement.plugins.volume_zone import VolumeZone
from tutti.placement.scores import Packing


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """A set of plugins.

    Attributes:
        filters: Filters that look at nodes alone.
        ports, fit, volumes, company: Filters that look at the pods on them, and at what those use.
        late: Filters that look at nodes alone and count after all others.
        fill: Scores by how full a node is.
        preferences: Scores by nodes alone.
        changing: The same, of which the answer can change while the columns do not: by the time, or by what was
            heard from outside.
        neighbours: Scores by who is where.
        packing: What stands in for `fill` where pods ask for accelerators; None: nothing.
    """

    filters: tuple[Filter, ...] = (NodeUnschedulable(), TaintToleration(), NodeAffinity(), FlavorLabels())
    ports: CompanyFilter = field(default_factory=NodePorts)
    fit: NodeResourcesFit = field(default_factory=NodeResourcesFit)
    volumes: tuple[CompanyFilter, ...] = (VolumeRestrictions(), NodeVolumeLimits(), VolumeBinding(), VolumeZone())
    company: tuple[CompanyFilter, ...] = (PodTopologySpread(), InterPodAffinity())
    late: tuple[Filter, ...] = (NodeDeclaredFeatures(),)
    fill: tuple[FillScorer, ...] = (Packing(), BalancedAllocation())
    preferences: tuple[Preference, ...] = (
        PreferUntainted(),
        PreferredNodeAffinity(),
        ImageLocality(),
        DynamicResources(),
    )
    changing: tuple[Preference, ...] = ()
    neighbours: tuple[CompanyScorer, ...] = (PreferredSpread(), PreferredPodAffinity())
    packing: AcceleratorPacking | None = None

    def packing_of(self, klass: PodClass) -> AcceleratorPacking | None:
        """Return how pods of a class are packed; None where they are scored by how full a node is as all others."""
        return self.packing if self.packing is not None and self.packing.concerns(klass) else None

    def fill_of(self, klass: PodClass) -> tuple[FillScorer, ...]:
        """Return what scores pods of a class by how full a node is."""
        packing = self.packing_of(klass)
        return self.fill if packing is None else (packing,)

    @property
    def spreads_by_default(self) -> bool:
        """Whether pods that do not say how they are spread may be kept off nodes by a default constraint."""
        return any(one.defaults.are_strict for one in self.company if isinstance(one, PodTopologySpread))


DEFAULT_PROFILE = Profile()
