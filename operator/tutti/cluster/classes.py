"""Classes of equal pods: pods that no filter and no score could tell apart.

Masks, capacities and scores are computed once per class, and a gang of a thousand equal pods is one problem. Which
class a pod is of, `ClassBook` finds (`class_book.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tutti.api.cards import NO_CARDS, CardNeeds
from tutti.api.core import PodSpec
from tutti.api.data_locality import DATASET_LABEL
from tutti.api.interference import BEHAVIOUR_LABEL
from tutti.api.network import GROUP_LABEL
from tutti.api.owners import Owner
from tutti.api.resources import Amounts
from tutti.cluster.devices.asks import NO_DEVICES, DeviceNeeds, term_count
from tutti.cluster.pod_terms import count_terms
from tutti.cluster.requests import Scored
from tutti.cluster.signatures import UNCONSTRAINED, InterPodConstraints, PodSignature
from tutti.cluster.volumes import NO_VOLUMES, VolumeNeeds

T = TypeVar("T")


class Feature:
    """What some plugins look at, as bits of an int: what a pod asks for, and what there is in the cluster.

    A plugin says which of these concern it and is asked about no pod that has none of them, in no cluster that has.
    """

    ANY = 1 << 0
    """Every pod has it."""
    HOST_PORTS = 1 << 1
    DISKS = 1 << 2
    """Disks that a pod names itself, without a claim."""
    CLAIMS = 1 << 3
    """Volumes made from claims."""
    POD_AFFINITY = 1 << 4
    """Required affinity or anti-affinity to pods."""
    PREFERRED_POD_AFFINITY = 1 << 5
    SPREAD = 1 << 6
    """Spread constraints of its own."""
    OWNER = 1 << 7
    """An owner by whose selector it is spread where it does not say how."""
    NODE_SELECTION = 1 << 8
    """A node selector or required node affinity."""
    PREFERRED_NODE_AFFINITY = 1 << 9
    NODE_FEATURES = 1 << 10
    """Something in its spec that nodes may have to declare."""
    PLACED_TERMS = 1 << 11
    """Pods on nodes have affinity or anti-affinity terms of their own."""
    SERVICES = 1 << 12
    """Services in the namespace of the pod."""
    CORDONS = 1 << 13
    TAINTS = 1 << 14
    IMAGES = 1 << 15
    """Nodes say which images they hold."""
    FLAVOR_LABELS = 1 << 16
    """The pod was admitted into a flavor that names labels of nodes."""
    NUMA_ZONES = 1 << 17
    """Something that zones of nodes may have too little of; it counts where any node tells of its zones."""
    DEVICES = 1 << 18
    """Claims on devices, or extended resources that devices can stand in for."""
    CARDS = 1 << 19
    """Parts of cards that pods share."""
    NETWORK = 1 << 20
    """An application whose pods talk to one another, where that is looked at."""
    BEHAVIOUR = 1 << 21
    """A class of behaviour, where it is looked at who slows down whom."""
    DATASETS = 1 << 22
    """Names of datasets, where it is looked at where these are."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class PodClass:
    """One class of equal pods.

    Attributes:
        spec: The spec they share, without what does not matter to placement.
        requests: What one of them takes, in scheduling units; empty where `problem` is set.
        signature: What makes them equal; stable across restarts.
        problem: Why such pods can never be placed (a request that cannot be read), or "".
        namespace: Theirs.
        labels: Those of their labels that any selector reads.
        inter_pod: What they demand of the pods around them.
        scored: What one asks for as the score of a node counts it.
        weight: What one adds to its node as the score counts it.
        owner: Their owner, where they are spread by its selector because they do not say how.
        volumes: What their volumes ask of a node.
        devices: What they ask of the devices of a node.
        cards: What they ask of the cards of a node that pods share.
        cache: What has been worked out for them and holds for as long as the class, or until its stamp is another.
        pod_signature: What others see of them, as far as any selector reads it.
        features: Which plugins they may concern: bits of `Feature`, those of pods.
        terms: How many terms they have (`count_terms`, `asks.term_count`): what it costs to try one grows with that.
        refusal: Why such pods can have no node now, whatever room there is, or "".
        charged: What quota counts of one: what it asks for, and devices.
        needs_other_pods: Whether others being placed may let such a pod be placed: required affinity, strict spreading,
            dependencies of its application.
    """

    spec: PodSpec
    requests: Amounts
    signature: bytes
    problem: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    inter_pod: InterPodConstraints = UNCONSTRAINED
    scored: Scored = (0, 0)
    weight: Scored = (0, 0)
    volumes: VolumeNeeds = NO_VOLUMES
    devices: DeviceNeeds = NO_DEVICES
    cards: CardNeeds = NO_CARDS
    cache: dict[Hashable, object] = field(default_factory=dict)
    owner: Owner | None = None
    pod_signature: PodSignature = field(init=False)
    features: int = field(init=False)
    terms: int = field(init=False)
    refusal: str = field(init=False)
    charged: Amounts = field(init=False)
    needs_other_pods: bool = field(init=False)

    def __post_init__(self) -> None:
        self.pod_signature = PodSignature(self.namespace, self.labels, self.inter_pod)
        self.features = _features(self)
        self.terms = count_terms(self.spec) + (term_count(self.devices) if self.devices.claims else 0)
        self.refusal = self.problem or self.volumes.problem or self.devices.problem or self.cards.problem
        counted = self.devices.counted
        self.charged = self.requests if counted is None else counted.of(self.requests)
        spreads = self.spec.topology_spread_constraints
        strictly = any(one.when_unsatisfiable == "DoNotSchedule" for one in spreads)
        self.needs_other_pods = strictly or bool(self.inter_pod.affinity) or GROUP_LABEL in self.labels

    def keep(self, key: Hashable, stamp: Hashable, work_out: Callable[[], T]) -> T:
        """Return what is worked out for the class once for each stamp: the versions of all that it is worked out of."""
        kept = self.cache.get(key)
        if isinstance(kept, tuple) and kept[0] == stamp:
            known: T = kept[1]
            return known
        found = work_out()
        self.cache[key] = (stamp, found)
        return found


def _features(pod_class: PodClass) -> int:
    spec, constraints = pod_class.spec, pod_class.inter_pod
    nodes = spec.affinity.node_affinity if spec.affinity is not None else None
    containers = (*spec.containers, *spec.init_containers)
    has = {
        Feature.HOST_PORTS: constraints.ports,
        Feature.DISKS: constraints.disks,
        Feature.CLAIMS: pod_class.volumes is not NO_VOLUMES,
        Feature.DEVICES: pod_class.devices is not NO_DEVICES,
        Feature.CARDS: pod_class.cards is not NO_CARDS,
        Feature.POD_AFFINITY: constraints.affinity or constraints.anti_affinity,
        Feature.PREFERRED_POD_AFFINITY: constraints.preferred,
        Feature.SPREAD: spec.topology_spread_constraints,
        Feature.OWNER: pod_class.owner is not None,
        Feature.NODE_SELECTION: spec.node_selector or (nodes is not None and nodes.required is not None),
        Feature.PREFERRED_NODE_AFFINITY: nodes is not None and nodes.preferred,
        Feature.NODE_FEATURES: spec.host_network or any(one.restart_policy_rules for one in containers),
        Feature.NETWORK: GROUP_LABEL in pod_class.labels,
        Feature.BEHAVIOUR: BEHAVIOUR_LABEL in pod_class.labels,
        Feature.DATASETS: DATASET_LABEL in pod_class.labels,
        Feature.NUMA_ZONES: any(amount and name != "pods" for name, amount in pod_class.requests.items()),
    }
    return Feature.ANY | sum(feature for feature, there in has.items() if there)
