"""How the pods of one `schedulerName` are placed, as an administrator writes it.

Names, defaults and limits are kube-scheduler 1.36's (apis/config/types_pluginargs.go, validation_pluginargs.go), so
that a profile moves here setting by setting. Stricter in one thing: what would have no effect is an error.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from tutti.api import core
from tutti.api.data_locality import DataLocalityArgs
from tutti.api.extensions import PluginUse
from tutti.api.interference import InterferenceArgs
from tutti.api.kinds.matching import NodeAffinityText
from tutti.api.load import LoadArgs
from tutti.api.model import LabelKey, Model, Name, Record, ResourceName, ValidationRule
from tutti.api.problems import nearest

SCORE_PLUGINS = (
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "TaintToleration",
    "NodeAffinity",
    "ImageLocality",
    "DynamicResources",
    "PodTopologySpread",
    "InterPodAffinity",
)
"""What scores nodes, by kube-scheduler's names."""

ALL_PLUGINS = "*"

ResourcePattern = Annotated[
    str,
    Field(
        max_length=317,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$"
        r"|^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/([A-Za-z0-9][-A-Za-z0-9_.]*)?\*$",
    ),
]
"""The name of a resource, or of all extended resources that begin alike: `nvidia.com/*`, `nvidia.com/mig-*`."""

Weight = Annotated[int, Field(ge=1, le=100)]


def _is_rising(numbers: Sequence[int]) -> bool:
    return all(left < right for left, right in pairwise(numbers))


def _are_different(values: Sequence[Hashable]) -> bool:
    return len(set(values)) == len(values)


class ResourceWeight(Model):
    """How much a resource counts in the score of a node."""

    name: ResourcePattern
    """A wildcard stands for each extended resource that matches and has no entry of its own."""
    weight: Weight = 1
    """How much it counts, relative to the others."""


class ShapePoint(Model):
    """What a utilization is worth; straight lines lie between the points."""

    utilization: Annotated[int, Field(ge=0, le=100)]
    """Percent."""
    score: Annotated[int, Field(ge=0, le=10)]
    """10 is best."""


class RequestedToCapacityRatio(Model):
    """What each utilization of a resource is worth."""

    shape: Annotated[list[ShapePoint], Field(min_length=1)]
    """The points, by rising utilization."""
    RULES: ClassVar = (
        ValidationRule(
            message="the utilization of each point of the shape must be above that of the point before",
            holds=lambda it: _is_rising([point.utilization for point in it.shape]),
        ),
    )


class ScoringStrategy(Model):
    """Whether the emptiest, the fullest or a node of a certain utilization is best, and by which resources."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    """LeastAllocated: the emptiest. MostAllocated: the fullest. RequestedToCapacityRatio: as the shape says."""
    resources: Annotated[list[ResourceWeight], Field(min_length=1)] = [
        ResourceWeight(name="cpu"),
        ResourceWeight(name="memory"),
    ]
    """The resources that count."""
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
    RULES: ClassVar = (
        ValidationRule(
            message="requestedToCapacityRatio.shape goes with type RequestedToCapacityRatio, and only with it",
            holds=lambda it: (it.requested_to_capacity_ratio is not None) == (it.type == "RequestedToCapacityRatio"),
        ),
        ValidationRule(
            message="a resource stands in resources twice; give it one weight",
            holds=lambda it: _are_different([one.name for one in it.resources]),
        ),
    )


class BalancedResource(Model):
    """A resource whose use should be even with that of the others."""

    name: ResourcePattern
    """The resource, or a wildcard."""
    weight: Literal[1] = 1
    """kube-scheduler has this field and allows 1 only."""


class BalancedAllocationArgs(Model):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: Annotated[list[BalancedResource], Field(min_length=1)] = [
        BalancedResource(name="cpu"),
        BalancedResource(name="memory"),
    ]
    """The resources that count."""
    RULES: ClassVar = (
        ValidationRule(
            message="a resource stands in resources twice",
            holds=lambda it: _are_different([one.name for one in it.resources]),
        ),
    )


class NodeAffinityArgs(Model):
    """Arguments of NodeAffinity."""

    added_affinity: Annotated[core.NodeAffinity, Record(core.NodeAffinity, NodeAffinityText)] | None = None
    """Added to every pod's own affinity; both must match."""


class SpreadConstraintText(Model):
    """A default spread constraint as users write it; its selector is that of the pod's Services and owner."""

    topology_key: LabelKey
    """The node label whose values are the domains."""
    max_skew: Annotated[int, Field(ge=1, le=2**31 - 1)]
    """How many more pods a domain may have than the emptiest."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """Whether a pod waits where that cannot be, or it only counts in the score."""
    min_domains: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """With fewer domains than these, the emptiest counts as having no pods."""
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    """Whether only nodes count that the pod's node selector and affinity allow."""
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    """Whether only nodes count whose taints the pod tolerates."""
    RULES: ClassVar = (
        ValidationRule(
            message="minDomains goes with whenUnsatisfiable DoNotSchedule only",
            holds=lambda it: it.min_domains is None or it.when_unsatisfiable == "DoNotSchedule",
        ),
    )


SpreadConstraint = Annotated[core.TopologySpreadConstraint, Record(core.TopologySpreadConstraint, SpreadConstraintText)]


class PodTopologySpreadArgs(Model):
    """Arguments of PodTopologySpread: how pods are spread that have no constraints of their own."""

    defaulting_type: Literal["System", "List"] = "System"
    """System: over hosts and zones, as far as it goes. List: as defaultConstraints says."""
    default_constraints: list[SpreadConstraint] = []
    """The constraints, with defaultingType List."""
    RULES: ClassVar = (
        ValidationRule(
            message="defaultConstraints needs defaultingType List; with System it must be empty",
            holds=lambda it: it.defaulting_type == "List" or not it.default_constraints,
        ),
        ValidationRule(
            message="two defaultConstraints have the same topologyKey and whenUnsatisfiable; keep one",
            holds=lambda it: _are_different(
                [(one.topology_key, one.when_unsatisfiable) for one in it.default_constraints]
            ),
        ),
    )


class InterPodAffinityArgs(Model):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: Annotated[int, Field(ge=0, le=100)] = 1
    """What a required affinity term of a pod on a node counts in the score."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Whether preferences of pods on nodes count only for pods that have preferences themselves."""


class EnabledPlugin(Model):
    """A score that counts, with how much."""

    name: str
    """One of kube-scheduler's names, such as NodeResourcesFit."""
    weight: Weight = 1
    """What its score, of at most 100, is multiplied with."""


class DisabledPlugin(Model):
    """A score that does not count."""

    name: str
    """`*` stands for all that are not enabled by name."""


class ScorePlugins(Model):
    """Which scores count: all, each with its usual weight, unless said otherwise."""

    enabled: list[EnabledPlugin] = []
    """These count with these weights."""
    disabled: list[DisabledPlugin] = []
    """These do not count."""

    @model_validator(mode="after")
    def check_names(self) -> ScorePlugins:
        """Each name must be known, and stand once."""
        names = [*(one.name for one in self.enabled), *(one.name for one in self.disabled)]
        for name in names:
            if name not in SCORE_PLUGINS and name != ALL_PLUGINS:
                raise ValueError(f"there is no score plugin {name!r}; {nearest(name, SCORE_PLUGINS)}")
        if any(one.name == ALL_PLUGINS for one in self.enabled):
            raise ValueError("all score plugins are enabled unless disabled: '*' goes under disabled only")
        if not _are_different(names):
            raise ValueError("a score plugin stands here twice; enable it with a weight, or disable it")
        return self


class Plugins(Model):
    """Which plugins take part, by extension point."""

    score: ScorePlugins = ScorePlugins()
    """Which scores count, with how much."""


IgnoredResource = Annotated[
    ResourceName,
    Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"),
]
"""An extended resource; only such can be ignored."""


AttributeName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,31}$")]
"""The name of an attribute of devices, without its domain: a C identifier (resource.k8s.io/v1, QualifiedName)."""


class DevicePackingArgs(Model):
    """Chooses the devices for ResourceClaims that leave most for others.

    The smallest that will do; partitions and shares of a GPU that is in use already; devices of one PCIe root and NUMA
    node (resource.kubernetes.io/pcieRoot, resource.kubernetes.io/numaNode); and nodes on which these fit tightest. With
    nodeResourceTopologyMatch, devices in the NUMA zone that the kubelet will pin the pod to, where that is known.
    """

    weight: Weight = 5
    """Of how tight devices fit, against the other scores, of which each has up to 100 points by its own weight."""
    link_attributes: Annotated[list[AttributeName], Field(max_length=16)] = ["nvlinkDomain", "cliqueID"]
    """Attributes of devices, without their domains, that are the same on all nodes whose devices are linked.

    Members of a gang with claims go to nodes of one value, among nodes that the scores take for equally good; the
    value that holds all of them and fewest others comes first. Where devices say none, nodes that share pools of a
    network are taken for linked. Empty: it does not matter.
    """


class AcceleratorPackingArgs(Model):
    """Keeps whole nodes of accelerators free: single pods fill holes, a gang takes the fewest nodes.

    For pods that ask for one of the resources it stands in for NodeResourcesFit's and BalancedAllocation's scores.
    """

    resources: Annotated[list[ResourcePattern], Field(min_length=1)] = [
        "nvidia.com/*",
        "amd.com/*",
        "gpu.intel.com/*",
        "habana.ai/*",
        "google.com/tpu",
        "aws.amazon.com/neuron*",
        "huawei.com/*",
    ]
    """What is packed: the names of resources, or wildcards."""
    weight: Weight = 10
    """Against the other scores, of which each has up to 100 points by its own weight."""
    RULES: ClassVar = (
        ValidationRule(
            message="packs accelerators: a resource here has a domain, such as example.com/gpu or example.com/*",
            holds=lambda it: all("/" in one for one in it.resources),
        ),
    )


class ZoneResourceWeight(Model):
    """How much a resource counts in the score of NUMA zones."""

    name: ResourceName
    """The resource."""
    weight: Weight = 1
    """How much it counts, relative to the others; those not named count 1."""


class ZoneScoringStrategy(Model):
    """Which nodes are better for pods that are aligned to NUMA zones."""

    type: Literal["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"] = "LeastAllocated"
    """LeastAllocated, MostAllocated: whose zones would be emptiest, or fullest. BalancedAllocation: whose zones would
    be used most evenly. LeastNUMANodes: where fewest zones are needed, and those nearest to each other."""
    resources: Annotated[list[ZoneResourceWeight], Field(max_length=64)] = [
        ZoneResourceWeight(name="cpu"),
        ZoneResourceWeight(name="memory"),
    ]
    """The weights, with LeastAllocated and MostAllocated."""
    RULES: ClassVar = (
        ValidationRule(
            message="a resource stands in resources twice; give it one weight",
            holds=lambda it: _are_different([one.name for one in it.resources]),
        ),
    )


class NodeResourceTopologyMatchArgs(Model):
    """Arguments of NodeResourceTopologyMatch: pods go where the kubelet can align them to NUMA zones.

    As in scheduler-plugins, by the NodeResourceTopology objects of NFD's topology updater or the topology exporter.
    """

    scoring_strategy: ZoneScoringStrategy = ZoneScoringStrategy()
    weight: Weight = 1
    """Against the other scores, of which each has up to 100 points by its own weight."""


class LearnedScoreArgs(Model):
    """A score that was learned by `tutti simulate --learn`, which writes it only where it gained something."""

    file: Annotated[str, Field(min_length=1, max_length=4096)]
    """The policy's file, as the operator's process finds it, such as a mounted ConfigMap. One that cannot be used is
    told of (`tutti check`, the log, tutti_plugin_faults_total), and pods are placed as without it."""
    weight: Weight = 10
    """Against the other scores, of which each has up to 100 points by its own weight."""


class SchedulerProfile(Model):
    """How the pods of one `schedulerName` are placed."""

    scheduler_name: Name = "tutti"
    """The `schedulerName` in the pods."""
    scoring_strategy: ScoringStrategy = ScoringStrategy()
    ignored_resources: list[IgnoredResource] = []
    """Extended resources that nodes need not offer: another scheduler's part, or an extender's."""
    ignored_resource_groups: list[Name] = []
    """The same for all of a domain: `example.com` stands for example.com/a and example.com/b."""
    balanced_allocation: BalancedAllocationArgs = BalancedAllocationArgs()
    node_affinity: NodeAffinityArgs = NodeAffinityArgs()
    pod_topology_spread: PodTopologySpreadArgs = PodTopologySpreadArgs()
    inter_pod_affinity: InterPodAffinityArgs = InterPodAffinityArgs()
    accelerator_packing: AcceleratorPackingArgs | None = None
    """Left out, pods that ask for accelerators are scored as all others, as kube-scheduler does."""
    device_packing: DevicePackingArgs | None = None
    """Left out, claims get the first devices that drivers list, as with kube-scheduler."""
    node_resource_topology_match: NodeResourceTopologyMatchArgs | None = None
    """Left out, NUMA zones do not matter, as with kube-scheduler; `{}` turns it on as it is in scheduler-plugins.
    Beside devicePacking, claimed devices are then chosen near the cores that the kubelet will pin, where it is known
    which."""
    load: LoadArgs | None = None
    """Left out, it does not matter what nodes were measured to use, as with kube-scheduler."""
    learned_score: LearnedScoreArgs | None = None
    """Left out, nothing that was learned counts, as with kube-scheduler."""
    interference: InterferenceArgs | None = None
    """Left out, it does not matter who slows down whom on a node, as with kube-scheduler."""
    data_locality: DataLocalityArgs | None = None
    """Left out, it does not matter where data is; `{}`: pods go to nodes where Fluid holds the datasets they name."""
    plugins: Plugins = Plugins()
    user_plugins: list[PluginUse] = []
    """Plugins of users, in the order in which they are asked."""
    RULES: ClassVar = (
        ValidationRule(
            message="a plugin stands in userPlugins twice; enable it once",
            holds=lambda it: _are_different([one.name for one in it.user_plugins]),
        ),
        ValidationRule(
            message="acceleratorPacking decides in place of learnedScore about pods that it packs; leave out one",
            holds=lambda it: it.accelerator_packing is None or it.learned_score is None,
        ),
    )
