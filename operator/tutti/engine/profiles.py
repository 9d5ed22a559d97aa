"""What each profile of the configuration means for placement: its plugins, with their weights and arguments."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, TypeVar

from tutti.api.configuration import TuttiConfiguration
from tutti.api.profiles import ALL_PLUGINS, ScorePlugins, ScoringStrategy
from tutti.api.profiles import Profile as Settings
from tutti.placement.plugins.balanced_allocation import BalancedAllocation
from tutti.placement.plugins.dynamic_resources import DynamicResources
from tutti.placement.plugins.flavor_labels import FlavorLabels
from tutti.placement.plugins.image_locality import ImageLocality
from tutti.placement.plugins.inter_pod_affinity import InterPodAffinity
from tutti.placement.plugins.node_affinity import NodeAffinity, PreferredNodeAffinity
from tutti.placement.plugins.node_resources_fit import NodeResourcesFit
from tutti.placement.plugins.node_unschedulable import NodeUnschedulable
from tutti.placement.plugins.pod_topology_spread import PodTopologySpread
from tutti.placement.plugins.preferred_pod_affinity import PreferredPodAffinity
from tutti.placement.plugins.preferred_spread import PreferredSpread
from tutti.placement.plugins.taint_toleration import PreferUntainted, TaintToleration
from tutti.placement.profile import Profile
from tutti.placement.scores import Packing
from tutti.placement.spreading import SYSTEM_DEFAULTS, SpreadDefaults


class _Scorer(Protocol):
    """What every score has, whatever it depends on."""

    @property
    def name(self) -> str: ...

    @property
    def weight(self) -> int: ...


S = TypeVar("S", bound=_Scorer)


def profiles_of(configuration: TuttiConfiguration) -> dict[str, Profile]:
    """Return the profile of each schedulerName, in the order in which they are written."""
    return {one.scheduler_name: profile_of(one) for one in configuration.profiles}


def profile_of(settings: Settings) -> Profile:
    """Return what one profile means for placement; the defaults give kube-scheduler's default profile."""
    added = settings.node_affinity.added_affinity
    company = settings.inter_pod_affinity
    spread = _spread_defaults(settings)
    score = settings.plugins.score
    balanced = BalancedAllocation(resources=tuple(one.name for one in settings.balanced_allocation.resources))
    prefers_pods = PreferredPodAffinity(
        hard_weight=company.hard_pod_affinity_weight,
        ignore_existing=company.ignore_preferred_terms_of_existing_pods,
    )
    return Profile(
        filters=(NodeUnschedulable(), TaintToleration(), NodeAffinity(added), FlavorLabels()),
        fit=NodeResourcesFit(
            ignored=frozenset(settings.ignored_resources),
            ignored_groups=frozenset(settings.ignored_resource_groups),
        ),
        company=(PodTopologySpread(spread), InterPodAffinity()),
        fill=_weighted((_packing(settings.scoring_strategy), balanced), score),
        preferences=_weighted(
            (PreferUntainted(), PreferredNodeAffinity(added), ImageLocality(), DynamicResources()), score
        ),
        neighbours=_weighted((PreferredSpread(spread), prefers_pods), score),
    )


def _weighted(scorers: tuple[S, ...], plugins: ScorePlugins) -> tuple[S, ...]:
    """Return the scores that count, with the weights that are asked for."""
    weights = {one.name: one.weight for one in plugins.enabled}
    off = {one.name for one in plugins.disabled}
    return tuple(
        replace(one, weight=weights[one.name]) if one.name in weights else one  # type: ignore[type-var]  # all are dataclasses
        for one in scorers
        if one.name in weights or not off & {one.name, ALL_PLUGINS}
    )


def _packing(strategy: ScoringStrategy) -> Packing:
    ratio = strategy.requested_to_capacity_ratio
    return Packing(
        resources=tuple((one.name, one.weight) for one in strategy.resources),
        most=strategy.type == "MostAllocated",
        shape=tuple((point.utilization, point.score) for point in ratio.shape) if ratio else (),
    )


def _spread_defaults(settings: Settings) -> SpreadDefaults:
    spread = settings.pod_topology_spread
    if spread.defaulting_type == "System":
        return SYSTEM_DEFAULTS
    return SpreadDefaults(tuple(spread.default_constraints), system=False)
