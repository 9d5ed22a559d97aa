"""Everything the engine knows, in one place: what each room declares for its rules, together."""

from __future__ import annotations

from dataclasses import dataclass

from tutti.api.data_locality import DATASET_LABEL
from tutti.api.frameworks import KindTable
from tutti.api.frameworks.table import ignored_keys
from tutti.api.interference import BEHAVIOUR_LABEL
from tutti.api.kinds import ClusterQueue, Cohort
from tutti.api.model import API_VERSION
from tutti.api.network import GROUP_LABEL, WORKLOAD_LABEL
from tutti.cluster.capacity import allocatable_of_nodes
from tutti.engine.ingest.managed_owners import follow_all_held
from tutti.engine.queue import QueueState
from tutti.engine.reading.profiles import choosing_near_cores, estimates_of, packing_devices, profiles_of, rules_of
from tutti.engine.reading.resolution import may_go_by_classes
from tutti.engine.records.counters import NOT_COUNTED
from tutti.engine.records.decisions import EmitEvent, error_text, fault_of
from tutti.engine.records.gang_membership import ParsedMemberships
from tutti.engine.records.plugins import PluginHost
from tutti.engine.records.throttled_pods import ThrottleBook
from tutti.engine.records.workloads import Workload
from tutti.engine.status import StatusState
from tutti.placement.plugins.numa_ahead import zones_ahead
from tutti.placement.profile import Profile
from tutti.quota.flavors import Flavor


@dataclass(kw_only=True)
class State(QueueState, StatusState):
    """The engine's memory: what each room keeps, and how what was written is taken over.

    Attributes:
        capacity_seen: What `cluster.nodes.capacity_version` was when quotas last followed it.
    """

    capacity_seen: int = 0

    def __post_init__(self) -> None:
        self.plugin_host = PluginHost(self.plugins, self.cluster.classes, self.stopwatch)
        self.cluster.nodes.devices.count(self.configuration.resources.device_class_mappings)
        conventions = self.configuration.conventions
        self.kinds = KindTable(self.configuration.frameworks, ignored_keys(conventions))
        self.memberships = ParsedMemberships(conventions, self.plugin_host.reads, self.kinds.pod_keys)
        self.profiles = {
            name: self._extended(name, profile) for name, profile in profiles_of(self.configuration).items()
        }
        self.cluster.classes.strict_defaults = any(one.spreads_by_default for one in self.profiles.values())
        self.cluster.classes.shares_cards = self.catalog.shares_cards = self.configuration.hami is not None
        self.cluster.nodes.devices.tight_schedulers = packing_devices(self.configuration)
        self.cluster.nodes.devices.near_schedulers = choosing_near_cores(self.configuration)
        self.cluster.nodes.zones_ahead = zones_ahead
        self.rules = rules_of(self.configuration)
        measurements, load = self.configuration.measured, self.cluster.nodes.load
        if measurements is not None:
            load.on = self.cluster.classes.reads_limits = True
            load.estimates, load.unmeasured_seconds = estimates_of(measurements), measurements.unmeasured_seconds
        self._look_at_network()
        users = self.configuration.users
        for group in () if users is None else users.groups:
            for name in dict.fromkeys(group.users):  # whoever stands there twice has no more than others
                self.groups_of_users[name] = (*self.groups_of_users.get(name, ()), group.name)
        if any(one.interference is not None for one in self.configuration.profiles):
            self.cluster.watch_labels((BEHAVIOUR_LABEL,))
        if any(one.data_locality is not None for one in self.configuration.profiles):
            self.cluster.watch_labels((DATASET_LABEL,))
        health = self.configuration.node_health
        if health is not None:
            self.cluster.problems = frozenset((one.type, one.status) for one in health.conditions)
        settings = self.configuration.throttles
        if settings is not None:
            schedulers, around = {*self.profiles, *settings.count_schedulers}, self.cluster.nodes.namespaces
            merge = settings.merge_overrides
            self.throttles = ThrottleBook(settings.name, schedulers, around.namespace_labels, merge=merge)
            self.cluster.follower = self.throttles

    def _look_at_network(self) -> None:
        """Follow who talks to whom over the network, where that is configured."""
        settings, network = self.configuration.network, self.cluster.nodes.network
        if settings is None:
            return
        network.on = True
        network.namespaces = tuple(dict.fromkeys(settings.namespaces))
        network.topology_name, network.weights_name = settings.network_topology_name, settings.weights_name
        self.cluster.watch_labels((GROUP_LABEL, WORKLOAD_LABEL))

    def _extended(self, name: str, profile: Profile) -> Profile:
        """Return a profile with what is not ours: users' plugins, then extenders, as kube-scheduler has them last."""
        profile = self.plugin_host.extended(name, profile)
        extenders = self.configuration.extenders
        return self.consultations.extended(profile, extenders) if extenders else profile

    def renew(self) -> None:
        """Take over what many workloads refer to, where any of it has changed, and look again at who may refer to it.

        Once for all that was observed since the last turn: a start lists a thousand queues one by one.
        """
        if not (self.stale or self.reranked or self.stale_namespaces):
            return
        everybody, reranked, self.stale, self.reranked = self.stale, self.reranked, False, False
        namespaces, self.stale_namespaces = self.stale_namespaces, {}
        if everybody:  # neither PriorityClasses nor LocalQueues are what queues, flavors and cohorts refer to
            self.respec()
        follow_all_held(self, None if everybody or reranked else namespaces)
        for key, workload in self.workloads.items():
            if everybody or key[1] in namespaces or (reranked and may_go_by_classes(workload)):
                self.dirty[key] = False

    def respec(self) -> None:
        """Take over queues, flavors and cohorts as they are written now; usage stays.

        One of them that raises counts as one that cannot be read, until it is written anew.
        """
        while True:
            try:
                self.catalog.compile(self._offered, self.now)
                break
            except Exception as error:
                key = self.catalog.looked_at
                if key is None or key in self.catalog.broken:
                    self.stale = True  # it is to be done again
                    raise
                self.out.append(fault_of(key, error, "compiling"))
                raw = {"metadata": {"name": key[2], "uid": self.catalog.uid_of(key)}}
                self.catalog.mark_invalid(key[0], raw, error_text(error))
        catalog = self.catalog
        weights, most = catalog.cohort_weights, catalog.most_of_cohorts
        self.ledger.rebuild(catalog.queues, catalog.cohorts, weights, catalog.worth, most)

    def _offered(self, flavor: Flavor, resource: str) -> int:
        """Return what the nodes of a flavor offer of a resource now."""
        nodes = self.cluster.nodes
        column = nodes.resource_index.column(resource)
        amounts = allocatable_of_nodes(nodes, flavor.node_labels)
        return int(amounts[column]) if column < len(amounts) else 0

    def follow_nodes(self) -> None:
        """Have quotas that are a part of what nodes offer follow them."""
        if self.capacity_seen == self.cluster.nodes.capacity_version:
            return
        self.capacity_seen = self.cluster.nodes.capacity_version
        parts = self.catalog.parts
        flavors = self.catalog.flavors
        if any(name in flavors and self._offered(flavors[name], of) != amount for (name, of), amount in parts.items()):
            self.respec()
            self.catalog.version += 1  # whoever waits is looked at again
            self.changed_queues.update(dict.fromkeys(self.catalog.queues))

    def follow_devices(self) -> None:
        """Look at what drivers have published of nodes, which nobody who asks has to wait for then."""
        self.cluster.nodes.follow_devices()

    def follow_windows(self) -> None:
        """Have other quotas hold where a window has begun or ended since the last turn, as if they had been written."""
        others = self.catalog.windows.turn(self.now)
        if others is None:
            return
        self.respec()
        self.catalog.version += 1  # whoever waits is looked at again
        self.changed_queues.update(dict.fromkeys(self.catalog.queues))
        for key, note in others.items():
            of, _, name = key.rpartition("/")
            kind = Cohort if of else ClusterQueue
            found = self.catalog.get(kind, "", name)
            if found is not None:
                about = (API_VERSION, kind.KIND, "", name, found.metadata.uid)
                self.out.append(EmitEvent(*about, "Normal", "QuotaChanged", "Admitting", note.message))

    def forget(self, workload: Workload) -> None:
        """Remember nothing of a workload by its key, of which nothing is left."""
        key = workload.key
        for index in (self.workloads, self.gangs, self.unlike_singles):
            index.pop(key, None)
        self.waiting_counts.drop(key)
        self.timers.drop(key)
        self.ending.pop(key, None)
        self.expected.pop(key, None)
        self.awaited_flavors.pop(key, None)
        self.plugin_holds.pop(key, None)
        self.keeping_room.pop(key, None)
        self.nominations.chose_again.pop(key, None)
        self.counts.move(workload, NOT_COUNTED, {}, self.changed_queues)
        self.queue_positions.put(workload)
        self.applications.drop(workload)
        if self.ledger.held_for.on:
            self.ledger.held_for.forget(workload.name)

    def follow_classes(self) -> None:
        """Look again at the workloads of pods that are of another class by now: where they can go is another matter."""
        if not self.cluster.reclassed:
            return
        for key in self.cluster.take_reclassed():
            address = self.pod_group_of.get(key)
            if address is not None:
                self.touch(address[0])
