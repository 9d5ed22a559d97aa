"""At whom pods look beyond the room that others take, and which of these are too far away to matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from tutti.api.network import GROUP_LABEL
from tutti.cluster.classes import Feature
from tutti.cluster.cluster import Cluster
from tutti.cluster.device_holders import DeviceHolders
from tutti.cluster.label_index import NamespaceIndex
from tutti.cluster.pods import PodRecord
from tutti.cluster.signatures import UNCONSTRAINED, PodQuery
from tutti.placement.domains import Domains
from tutti.placement.framework import Mask, Rows
from tutti.placement.gang import Ask
from tutti.placement.plugins.spread_constraints import HARD, spread_constraints
from tutti.placement.plugins.topology_spread import PodTopologySpread
from tutti.placement.profile import Profile


@dataclass(slots=True)
class Looks:
    """At whom some pods look, beyond the room they take.

    Attributes:
        queries: Whom their own terms and constraints mean.
        holders: Who has devices, where they ask for some.
        talks: Whether one is a part of an application, and so shares links with others of any.
        keys: The topology keys by whose domains they look.
    """

    queries: list[PodQuery]
    around: NamespaceIndex
    holders: DeviceHolders | None
    talks: bool = False
    keys: tuple[str, ...] = ()
    _known: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, cluster: Cluster, asks: Sequence[Ask], profile: Profile) -> Self:
        """Return at whom the pods of some asks look."""
        nodes, wanted, keys = cluster.nodes, dict[PodQuery, None](), dict[str, None]()
        features = 0
        for pod_class in (ask.pod_class for ask in asks):
            features |= pod_class.features
            for term in pod_class.inter_pod.terms:
                wanted[term.query] = keys[term.topology_key] = None
            for plugin in profile.inter_pod:
                if isinstance(plugin, PodTopologySpread):
                    for one in spread_constraints(pod_class, nodes, HARD, plugin.defaults)[0]:
                        wanted[one.query] = keys[one.key] = None
        holders = cluster.device_users.holders if features & Feature.DEVICES else None
        talks = bool(features & Feature.NETWORK) and bool(nodes.network)
        return cls(list(wanted), nodes.namespaces, holders, talks, keys=tuple(keys))

    def at(self, pod: PodRecord) -> bool:
        """Whether a pod is among them, or brings something along that others may mind."""
        pod_signature = pod.pod_signature
        known = self._known.get(id(pod_signature))
        if known is None:
            labels = self.around.namespace_labels(pod_signature.namespace)
            means = any(query.matches(pod_signature.namespace, labels, pod_signature.labels) for query in self.queries)
            in_application = self.talks and GROUP_LABEL in pod_signature.labels
            known = means or in_application or pod_signature.inter_pod != UNCONSTRAINED
            self._known[id(pod_signature)] = known
        return known or bool(pod.uses) or (self.holders is not None and self.holders.concerns(pod))

    def near(self, cluster: Cluster, rows: Rows) -> Mask:
        """Return bool[rows]: which nodes share a domain with some rows, by any key that they or others look by."""
        nodes = cluster.nodes
        found = np.zeros(len(nodes), dtype=np.bool_)
        found[rows] = True
        keys = dict.fromkeys(self.keys)
        for pod_signature in nodes.label_index.with_terms.values():
            keys |= dict.fromkeys(term.topology_key for term in pod_signature.inter_pod.terms)
        for key in keys:
            domains = Domains.of(nodes, key)
            found |= domains.known & np.isin(domains.codes, domains.codes[rows])
        return found
