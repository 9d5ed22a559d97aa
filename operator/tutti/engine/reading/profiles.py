"""What the configuration means: the plugins of each profile with their weights and arguments, and fairness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from tutti.api.configuration import TuttiConfiguration
from tutti.api.hami import UNOFFERED
from tutti.api.interference import InterferenceArgs
from tutti.api.load import LoadArgs, Measurements
from tutti.api.network import NetworkSettings
from tutti.api.profiles import ALL_PLUGINS, NodeResourceTopologyMatchArgs, ScorePlugins, ScoringStrategy
from tutti.api.profiles import SchedulerProfile as Settings
from tutti.cluster.expected_use import Estimates
from tutti.placement.plugins.accelerator_packing import AcceleratorPacking
from tutti.placement.plugins.data_locality import DataLocality, DataRules, NearData
from tutti.placement.plugins.devices import DevicePacking
from tutti.placement.plugins.interference import InterferenceFilter, InterferenceRules, LeastInterference
from tutti.placement.plugins.load_thresholds import LoadThresholds
from tutti.placement.plugins.measured_load import LoadRules, MeasuredLoad, PowerModel
from tutti.placement.plugins.network_overhead import NetworkFilter, NetworkOverhead, NetworkRules
from tutti.placement.plugins.node_affinity import NodeAffinity, PreferredNodeAffinity
from tutti.placement.plugins.node_resources import AllocationScore, BalancedAllocation, NodeResourcesFit
from tutti.placement.plugins.numa import NumaAlignment
from tutti.placement.plugins.numa_scores import NumaScore
from tutti.placement.plugins.preferred_pod_affinity import PreferredPodAffinity
from tutti.placement.plugins.shared_cards import CardPacking, SharedCards, TightestCard
from tutti.placement.plugins.soft_spread import PreferredSpread
from tutti.placement.plugins.spread_constraints import SYSTEM_DEFAULTS, SpreadDefaults
from tutti.placement.plugins.topology_spread import PodTopologySpread
from tutti.placement.profile import DEFAULT_PROFILE, Profile
from tutti.quota.fair_reclaim import FairSharingStrategy
from tutti.quota.fair_sharing import QueueOrdering
from tutti.quota.preemption import PreemptionRules

S = TypeVar("S")


def profiles_of(configuration: TuttiConfiguration) -> dict[str, Profile]:
    """Return the profile of each schedulerName, in the order in which they are written."""
    found = {one.scheduler_name: profile_of(one) for one in configuration.profiles}
    if configuration.hami is not None:
        weight = configuration.hami.weight
        found = {name: _sharing_cards(one, weight) for name, one in found.items()}
    if configuration.network is not None:
        settings = configuration.network
        found = {name: going_by_network(one, settings) for name, one in found.items()}
    return found


def going_by_network(profile: Profile, settings: NetworkSettings) -> Profile:
    """Return a profile whose pods go by what the network costs."""
    rules = NetworkRules(strict=settings.strict, bandwidth=settings.bandwidth)
    return replace(
        profile,
        inter_pod=(*profile.inter_pod, NetworkFilter(rules)),
        neighbours=(*profile.neighbours, NetworkOverhead(weight=settings.weight)),
        network=rules,
    )


def _sharing_cards(profile: Profile, weight: int) -> Profile:
    """Return a profile whose pods share cards."""
    return replace(
        profile,
        fit=replace(profile.fit, ignored=profile.fit.ignored | UNOFFERED),
        inter_pod=(*profile.inter_pod, SharedCards()),
        changing=(*profile.changing, TightestCard(weight=weight)),
        packing=CardPacking(profile.packing, weight=weight),
    )


def packing_devices(configuration: TuttiConfiguration) -> frozenset[str]:
    """Return the names of the profiles whose pods get the devices that fit tightest."""
    return frozenset(one.scheduler_name for one in configuration.profiles if one.device_packing is not None)


def choosing_near_cores(configuration: TuttiConfiguration) -> frozenset[str]:
    """Return the names of those of them whose pods get devices in the NUMA zone that the kubelet pins them to."""
    zoned = frozenset(
        one.scheduler_name for one in configuration.profiles if one.node_resource_topology_match is not None
    )
    return packing_devices(configuration) & zoned


def profile_of(settings: Settings) -> Profile:
    """Return what one profile means for placement; the defaults give kube-scheduler's default profile."""
    mine = {type(one): one for one in _with_arguments(settings)}
    score = settings.plugins.score
    default = DEFAULT_PROFILE
    packing, zones = settings.accelerator_packing, settings.node_resource_topology_match
    tightest = settings.device_packing
    load, said, near = settings.load, settings.interference, settings.data_locality
    data = None if near is None else DataRules(tuple(near.node_labels), tuple(near.levels), near.wait_seconds)
    return replace(
        default,
        filters=(
            *(mine.get(type(one), one) for one in default.filters),
            *((NearData(data),) if data is not None else ()),
        ),
        fit=NodeResourcesFit(
            ignored=frozenset(settings.ignored_resources),
            ignored_groups=frozenset(settings.ignored_resource_groups),
        ),
        inter_pod=(
            *(mine.get(type(one), one) for one in default.inter_pod),
            *((NumaAlignment(),) if zones is not None else ()),
            *((_thresholds(load),) if load is not None and load.thresholds else ()),
            *((InterferenceFilter(interference_rules(said)),) if said is not None else ()),
        ),
        fill=(
            *_scoring(default.fill, mine, score),
            *((_load_score(load),) if load is not None and load.policy is not None else ()),
            *((LeastInterference(interference_rules(said), weight=said.weight),) if said is not None else ()),
        ),
        preferences=(
            *_scoring(default.preferences, mine, score),
            *((DataLocality(data, weight=near.weight),) if data is not None and near is not None else ()),
        ),
        data=data,
        changing=(
            *_scoring(default.changing, mine, score),
            *((_zone_score(zones),) if zones is not None else ()),
            *((DevicePacking(tightest.weight),) if tightest is not None else ()),
        ),
        neighbours=_scoring(default.neighbours, mine, score),
        links=frozenset() if tightest is None else frozenset(tightest.link_attributes),
        packing=AcceleratorPacking(tuple(packing.resources), weight=packing.weight) if packing else None,
    )


def interference_rules(said: InterferenceArgs) -> InterferenceRules:
    """Return who slows down whom; of pairs that are kept apart each is named once."""
    apart = sorted({(min(pair), max(pair)) for pair in said.apart})
    slowdowns = tuple((one.of, one.beside, one.percent) for one in said.slowdowns)
    return InterferenceRules(slowdowns, said.max_slowdown_percent, tuple(apart))


def _zone_score(zones: NodeResourceTopologyMatchArgs) -> NumaScore:
    strategy = zones.scoring_strategy
    weights = tuple((one.name, one.weight) for one in strategy.resources)
    return NumaScore(strategy.type, weights, weight=zones.weight)


def _load_score(load: LoadArgs) -> MeasuredLoad:
    assert load.policy is not None
    power = load.power.models if load.power is not None else []
    rules = LoadRules(
        max_age=load.max_age_seconds,
        target=load.target_utilization,
        margin=load.safe_variance_margin,
        sensitivity=load.safe_variance_sensitivity,
        window=load.smoothing_window_size,
        limit_weights=(load.risk_limit_weights.cpu, load.risk_limit_weights.memory),
        weights=(load.resource_weights.cpu, load.resource_weights.memory),
        dominant_weight=load.dominant_resource_weight,
        power=tuple((one.value, PowerModel(one.k0, one.k1, one.k2)) for one in power),
        power_label=load.power.node_label or "" if load.power is not None else "",
    )
    return MeasuredLoad(load.policy, rules, weight=load.weight)


def _thresholds(load: LoadArgs) -> LoadThresholds:
    upper = [(one, one.above) for one in load.thresholds if one.above is not None]
    above = tuple((one.metric, bound) for one, bound in upper if not one.count_expected)
    expected = tuple((one.metric, bound) for one, bound in upper if one.count_expected)
    below = tuple((one.metric, one.below) for one in load.thresholds if one.below is not None)
    return LoadThresholds(above, below, load.max_age_seconds, expected)


def estimates_of(measurements: Measurements) -> Estimates:
    """Return by what the use of pods is estimated that have not been measured."""
    said = measurements.estimates
    factors = said.estimated_scaling_factors
    return Estimates(
        request_multiplier=said.default_requests_multiplier,
        default_cpu=said.default_requests_milli_cpu,
        scaling=(factors.cpu, factors.memory),
        request_ratio=said.request_ratio,
        burst_ratio=said.burst_ratio,
        risk_factor=said.risk_factor,
        risk_load=said.risk_load,
    )


def _with_arguments(settings: Settings) -> Iterator[Any]:
    """Yield the plugins that have arguments."""
    added, company, spread = settings.node_affinity.added_affinity, settings.inter_pod_affinity, _spread(settings)
    yield NodeAffinity(added)
    yield PreferredNodeAffinity(added)
    yield PodTopologySpread(spread)
    yield PreferredSpread(spread)
    yield _packing(settings.scoring_strategy)
    yield BalancedAllocation(resources=tuple(one.name for one in settings.balanced_allocation.resources))
    yield PreferredPodAffinity(
        hard_weight=company.hard_pod_affinity_weight,
        ignore_existing=company.ignore_preferred_terms_of_existing_pods,
    )


def _scoring(usual: tuple[S, ...], mine: Mapping[type, Any], plugins: ScorePlugins) -> tuple[S, ...]:
    """Return the scores that count, with their arguments and the weights that are asked for."""
    weights = {one.name: one.weight for one in plugins.enabled}
    off = {one.name for one in plugins.disabled}
    out = []
    for one in (mine.get(type(one), one) for one in usual):
        if one.name in weights:
            out.append(replace(one, weight=weights[one.name]))
        elif not off & {one.name, ALL_PLUGINS}:
            out.append(one)
    return tuple(out)


def _packing(strategy: ScoringStrategy) -> AllocationScore:
    ratio = strategy.requested_to_capacity_ratio
    return AllocationScore(
        resources=tuple((one.name, one.weight) for one in strategy.resources),
        most=strategy.type == "MostAllocated",
        shape=tuple((point.utilization, point.score) for point in ratio.shape) if ratio else (),
    )


def _spread(settings: Settings) -> SpreadDefaults:
    spread = settings.pod_topology_spread
    if spread.defaulting_type == "System":
        return SYSTEM_DEFAULTS
    return SpreadDefaults(tuple(spread.default_constraints), system=False)


def rules_of(configuration: TuttiConfiguration) -> PreemptionRules:
    """Return how fairness and preemption go."""
    said = configuration.fair_sharing
    return PreemptionRules(
        fair=said.enable,
        strategies=tuple(FairSharingStrategy(name) for name in said.preemption_strategies),
        ordering=QueueOrdering(said.ordering),
    )
