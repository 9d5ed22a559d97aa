"""The cluster as observed plus what is reserved in memory: the one place that knows how much room a node has.

Observations may come in any order: a pod bound to a node that has not been seen yet waits among the homeless and is
charged when the node appears. Only non-terminated pods take room, whichever scheduler placed them.

Invariant: for every row, `requested` is the sum of what the pods whose `place` is that node hold, plus open holds;
`scored` and the pods on nodes follow in the same steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.api.core import Node, Pod
from tutti.api.node_health import Problems, with_problem_taints
from tutti.api.numa import NodeTopology
from tutti.api.resources import Amounts
from tutti.cluster.capacity import is_working, machine_capacity
from tutti.cluster.class_book import ClassBook
from tutti.cluster.classes import PodClass
from tutti.cluster.classification import Classifier, PodsByClaim
from tutti.cluster.device_users import PodsByDevice
from tutti.cluster.held_room import HeldRoom
from tutti.cluster.label_index import PodSelecting
from tutti.cluster.new_room import NewRoom
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.placed_pods import Nobody, PodColumns, PodFollower, PodsByNode
from tutti.cluster.pods import (
    PodKey,
    PodRecord,
    assumed_alike,
    readable_amounts,
    readable_granted,
    readable_occupied,
    reserve_all,
)
from tutti.cluster.signatures import SignatureBook, selector_keys
from tutti.cluster.storage import StorageKind, StorageObject
from tutti.cluster.transaction import Transaction
from tutti.cluster.volumes import uses_of


class Cluster:
    """Nodes, and the pods that take or may take room on them.

    Attributes:
        nodes: The columns that placement reads.
        pod_columns: The pods on nodes that are known, as columns.
        pods: Every pod that holds room, and every pod that was put with `keep=True`.
        freed: Where room may have appeared; what failed to fit is worth trying again only then.
        held: Room that is kept for pods that do not exist yet.
        device_users: Who claims devices, and what they are promised.
        reclassed: The pods that have become of another class while they waited, since these were last taken.
        follower: Who is told of pods.
        problems: Conditions of nodes that keep new pods off them, with their status.
        unreadable: Nodes of which something cannot be read, with what; they offer nothing of it, or take no new pods.
    """

    def __init__(self) -> None:
        self.nodes = NodeColumns()
        self.pod_columns = PodColumns()
        self.classes = ClassBook()
        self.pods: dict[PodKey, PodRecord] = {}
        self.problems: Problems = frozenset()
        self.unreadable: dict[str, str] = {}
        self.follower: PodFollower = Nobody()
        self.freed = NewRoom(self.nodes, self.classes)
        self._untold: dict[PodKey, tuple[str, str]] = {}  # the node of each, and why its room cannot be told
        self._occupants = PodsByNode()
        self._broken: dict[str, None] = {}
        self._signatures = SignatureBook()
        self._classing = Classifier(self.classes, self.nodes.volumes, self.nodes.devices, self.pods)
        self.reclassed: Collection[PodKey] = self._classing.changed
        self._cards = self.nodes.card_holders
        self.nodes.numa.follow(self._occupants.pods_on, self._occupants.held_on)
        self._claimants = PodsByClaim(
            self.nodes.volumes,
            self._classing,
            self.classes,
            helped=self.freed.for_claimants,
            storage_changed=self.freed.for_volumes,
        )
        devices = self.nodes.devices
        self.device_users = PodsByDevice(
            devices,
            self._classing,
            self.classes,
            self.pods,
            helped=self.freed.for_claimants,
            freed=self.freed.devices_on,
        )
        self.held = HeldRoom(self.nodes, self._occupants, self.device_users, self)

    def put_node(self, node: Node) -> list[PodRecord]:
        """Add or change a node, and charge it with the pods already known to be there.

        Returns:
            The pods there that are lost now, or were and are not any more, because the node works or does not.
        """
        name = node.metadata.name
        node = with_problem_taints(node, self.problems)
        untold = [why for where, why in self._untold.values() if where == name]
        if untold:
            node = msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True))
        known, version = name in self.nodes.rows, self.nodes.version
        before = self.nodes.allocatable[self.nodes.rows[name]].copy() if known else None
        offers = self._offered(node)
        new = [resource for resource in offers if resource not in self.nodes.resource_index]
        row = self.nodes.put(node, offers)
        if self.nodes.load:
            self.nodes.load.put_node(name, row, machine_capacity(node))
        if new:
            self._name(new)
        if self.classes.shares_cards and self.nodes.cards.read(name, node.metadata.annotations):
            self._cards.node_told(name)
            self.freed.anywhere()
        if before is None:
            for record in self._occupants.pods_on(name):
                self._charge(row, record, 1)
                self.pod_columns.put(record, row)
            self.freed.anywhere()
        elif version != self.nodes.version or self._grew(row, before) or self._leaves_to_devices(row, before):
            self.freed.anywhere()
        if untold:
            self.unreadable[name] = untold[0]
        if is_working(node):
            self._broken.pop(name, None)
        else:
            self._broken[name] = None
        return self._tell_lost(name)

    def close_node(self, name: str, why: str, pod: PodKey | None = None) -> None:
        """Have a node take no new pods: it cannot be told how it is now, or how much room a pod takes there.

        It is as it is seen again once it is put, and that pod is put or removed.
        """
        if pod is not None:
            self._untold[pod] = name, why
        self.unreadable[name] = why
        self.nodes.close(name)

    def remove_node(self, name: str) -> list[PodRecord]:
        """Take a node out; returns the pods that were only assumed there, now without a place, and those lost now."""
        if name not in self.nodes.rows:
            return []
        row = self.nodes.rows[name]
        for record in self._occupants.pods_on(name):
            self.nodes.label_index.add(record.pod_signature, row, leaving=record.deleting, count=-1)
            self.pod_columns.drop(record)
            if record.uses:
                self._claimants.lose_node(record)
        self.device_users.lose_node(name)
        self._cards.lose_node(name)
        for number, pod_class in self._occupants.end_all(name):
            self.nodes.label_index.add(pod_class.pod_signature, row, count=-1)
            self.follower.gone((name, number))
        self.nodes.remove(name)
        self.nodes.load.forget(name)
        self.freed.anywhere()  # those who were there are near nobody any more, and hold no claim
        self.unreadable.pop(name, None)
        stranded = [record for record in self._occupants.pods_on(name) if not record.node]
        for record in stranded:
            self.forget(record)
        self._broken.pop(name, None)
        return [*stranded, *self._tell_lost(name)]

    def is_working(self, node: str) -> bool:
        """Whether a node is known and runs pods: it is ready, reachable and not out of service."""
        return node in self.nodes.rows and node not in self._broken

    def put_pod(self, pod: Pod, *, keep: bool) -> PodRecord | None:
        """Add or change a pod; returns its record.

        Returns None, and keeps nothing, for a pod that takes no room where `keep` is False.
        A pod with another uid under a known name replaces its predecessor.
        """
        meta, spec = pod.metadata, pod.spec
        key = (meta.namespace, meta.name)
        if self._untold:
            self._untold.pop(key, None)
        record = self.pods.get(key)
        if record is not None and record.uid != meta.uid:
            self.remove_pod(key)
            record = None
        if not keep and (not spec.node_name or pod.terminated):
            if record is not None:
                self.remove_pod(key)
            return None
        uses = record.uses if record is not None else uses_of(spec, *key)
        if uses and not pod.terminated:
            self._claimants.add(key, uses)
        device_uses = self.device_users.uses(pod, record)
        pod_class = self._classing.of(pod, record, uses, device_uses, waits=keep and not spec.node_name)
        if record is None:
            pod_signature = self._signatures.hold(meta.namespace, meta.labels, pod_class.inter_pod)
            record = self.pods[key] = PodRecord.of(meta, pod_class, pod_signature, uses)
        record.device_uses = device_uses
        self._rename(record, pod, pod_class)
        self._take_over(record, pod, pod_class)
        if self.classes.shares_cards:
            self._cards.seen(pod, record)
        record.lost = self._is_lost(record)
        self._seat(record)
        record.recount()
        if uses and record.terminated:
            self._claimants.leave(key, uses)
        if self.nodes.load and record.place:
            self.nodes.load.come(record, record.place)
        if self.nodes.network and record.place:
            self.nodes.network.come(record, record.place)
        if self.nodes.numa and record.place:
            self.nodes.numa.touch(record.place)  # that it is bound, or has begun, tells whether a report knows it
        self._classing.relabelled(record)
        self._class_by_labels()
        self.follower.seen(record)
        return record

    def remove_pod(self, key: PodKey, uid: str = "") -> PodRecord | None:
        """Forget a pod that does not exist any more; a `uid` that is not the known pod's removes nothing."""
        if self._untold:
            self._untold.pop(key, None)
        record = self.pods.get(key)
        if record is None or (uid and record.uid != uid):
            return None
        self._move(record, node="", assumed="")
        self._signatures.drop(record.pod_signature)
        del self.pods[key]
        self.follower.gone(key)
        if record.uses:
            self._claimants.leave(key, record.uses)
        self.device_users.leave(record)
        return record

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Add a namespace or change its labels."""
        if self.nodes.namespaces.put_namespace(name, labels):
            self.freed.anywhere()  # whoever was kept off by the pods that a term means there may not be any more

    def put_selecting(self, found: PodSelecting) -> None:
        """Add or change a Service or an owner of pods, by which pods are spread unless they say how."""
        if self.nodes.namespaces.put_selecting(found):
            self.watch_labels(selector_keys(found.selector), lasting=False)
            self.freed.neighbours_on(())

    def watch_labels(self, keys: Iterable[str], *, lasting: bool = True) -> None:
        """Note that a selector reads these label keys, and class those who wait by them from now on.

        Those that do not last are read for as long as a Service or an owner of pods, or the `follower`, says so.
        """
        self.classes.watch(keys, lasting=lasting)
        self._class_by_labels()

    def drop_selecting(self, kind: str, namespace: str, name: str) -> None:
        """Forget a Service or an owner of pods."""
        if self.nodes.namespaces.drop_selecting(kind, namespace, name):
            self.freed.neighbours_on(())

    def put_storage(self, seen: StorageObject) -> list[PodKey]:
        """Add or change a storage object; returns the pods whose volumes it concerns."""
        return self._claimants.put(seen)

    def drop_storage(self, kind: StorageKind, namespace: str, name: str) -> list[PodKey]:
        """Forget a storage object; returns the pods whose volumes it concerned."""
        return self._claimants.drop(kind, namespace, name)

    def put_topology(self, report: NodeTopology) -> None:
        """Take in what the agent of a node reports of its NUMA zones, whether the node is known yet or not."""
        if self.nodes.numa.put(report):
            self.freed.anywhere()

    def drop_topology(self, node: str) -> None:
        """Forget what the agent of a node has reported: nobody is kept off it for its zones any more."""
        if self.nodes.numa.drop(node):
            self.freed.anywhere()

    def take_reclassed(self) -> Sequence[PodKey]:
        """Return the pods that are `reclassed`, in this order, for whoever takes note of all of them now."""
        return self._classing.take_changed()

    def transaction(self) -> Transaction:
        """Open a transaction on the columns; one at a time."""
        return Transaction(self.nodes)

    def assume(self, record: PodRecord, row: int) -> None:
        """Note that room taken in a committed transaction on this row is this pod's."""
        self.assume_all([record], [row])

    def assume_all(self, records: Sequence[PodRecord], rows: Sequence[int]) -> None:
        """Note that room taken in a committed transaction is these pods': `records[i]` on `rows[i]`."""
        names = self.nodes.names
        nodes = [names[row] for row in rows]
        reserve_all(records, nodes)
        self._occupants.add_all(records, nodes)
        alike = assumed_alike(records, rows, nodes)
        for pods in alike:
            self.nodes.label_index.add_all(pods.pod_signature, pods.rows, leaving=pods.deleting)
        self.pod_columns.reserve(records, rows)
        if self.nodes.numa:
            for node in nodes:
                self.nodes.numa.touch(node)
        if self.nodes.load:
            self.nodes.load.come_all(alike)
        if self.nodes.network:
            self.nodes.network.come_all(alike)
        for pods in alike:
            for record in pods.records:
                if record.uses:
                    self._claimants.reserve(record)
            self.device_users.pledge(pods)
            self._cards.pledge(pods)
        self.follower.seen_all(alike)
        self.freed.neighbours_on(rows)

    def forget(self, record: PodRecord) -> None:
        """Give back the room that was assumed for a pod; nothing happens where it has been seen bound."""
        if not record.node and record.assumed:
            self._move(record, node="", assumed="")
            # Meanwhile its claims may have come to ask something else, and its labels to be read.
            self._classing.again((record.key,))

    def class_elsewhere(self, record: PodRecord) -> PodClass:
        """Return the class that an equal pod would be of in its place: what its claims ask of a node stands in it."""
        return self._classing.elsewhere(record)

    def on_node(self, name: str) -> Sequence[PodRecord]:
        """Return the pods that take room on a node."""
        return tuple(self._occupants.pods_on(name))

    def _take_over(self, record: PodRecord, pod: Pod, pod_class: PodClass) -> None:
        node, reserved, ended = pod.spec.node_name, bool(record.assumed), pod.terminated
        held, weight = pod_class.requests, pod_class.weight
        if node and not ended and not pod_class.problem:
            held, weight = readable_occupied(pod, pod_class)
        told = node and not pod_class.problem
        record.granted = readable_granted(pod, held, pod_class.requests) if told else None
        if node and node == record.assumed and held is record.held and not ended:
            record.node, record.assumed = node, ""  # our own bind, confirmed: the room is charged already
        elif held is not record.held or ended != record.terminated or node != record.node:
            self._uncharge(record)
            record.phase, record.held, record.weight, record.node = record.phase_after(pod), held, weight, node
            if node or ended:
                record.assumed = ""
            self._recharge(record)
        if reserved and not record.assumed and record.uses:
            self._claimants.release(record)
        if reserved and record.node and not record.terminated:
            self.device_users.bound(record)
        elif reserved and not record.assumed:
            self.device_users.release(record)
        self._classing.assign(record, pod_class)
        record.follow(pod)

    def _rename(self, record: PodRecord, pod: Pod, pod_class: PodClass) -> None:
        """Take over what others see of a pod; where it is counted, it is counted as that from now on."""
        labels, deleting = pod.metadata.labels, pod.metadata.deletion_timestamp is not None
        pod_signature = record.pod_signature
        alike = pod_class.inter_pod is pod_signature.inter_pod or pod_class.inter_pod == pod_signature.inter_pod
        same, stays = alike and labels == pod_signature.labels, deleting == record.deleting
        if same and stays:
            return
        row = self.nodes.rows.get(record.place)
        if row is not None:
            self.freed.neighbours_on((row,))
            if not same:
                self.freed.on((record.place,))  # it may have kept others off there
        if alike and stays and self._signatures.rename(pod_signature, labels):
            self.nodes.label_index.relabel(pod_signature, labels)
            return
        if not same:
            pod_signature = self._signatures.hold(record.namespace, labels, pod_class.inter_pod)
        if row is not None:
            self.nodes.label_index.add(record.pod_signature, row, leaving=record.deleting, count=-1)
            self.nodes.label_index.add(pod_signature, row, leaving=deleting)
        if not same:
            self._signatures.drop(record.pod_signature)
        record.pod_signature, record.deleting = pod_signature, deleting

    def _is_lost(self, record: PodRecord) -> bool:
        """Whether a pod is being deleted where nobody tells when it has ended."""
        return bool(record.node) and record.deleting and not self.is_working(record.node)

    def _tell_lost(self, node: str) -> list[PodRecord]:
        """Have the pods on a node be lost or not, as the node is now; returns those of which that has changed."""
        changed = [record for record in self._occupants.pods_on(node) if record.lost is not self._is_lost(record)]
        for record in changed:
            record.lost = not record.lost
            record.recount()
        return changed

    def _class_by_labels(self) -> None:
        """Class those who wait by the label keys that have come to matter; forget those that nobody reads any more."""
        self._classing.by_labels()
        if self.classes.watches_many:
            self.classes.forget((*self.nodes.namespaces.keys_read(), *self.follower.labels_read()))

    def _move(self, record: PodRecord, *, node: str, assumed: str) -> None:
        self._uncharge(record)
        record.node, record.assumed = node, assumed
        record.recount()
        self._recharge(record)
        self._seat(record)
        if record.uses:
            self._claimants.release(record)
        self.device_users.release(record)
        self.follower.seen(record)

    def _seat(self, record: PodRecord) -> None:
        """Bring the columns of the pods up to date with one."""
        row = self.nodes.rows.get(record.place)
        if row is not None:
            self.pod_columns.put(record, row)
        else:
            self.pod_columns.drop(record)

    def _uncharge(self, record: PodRecord) -> None:
        place = record.place
        if not place:
            return
        self._occupants.remove(place, record)
        if self.classes.shares_cards:
            self._cards.release(record.key, place)
        if self.nodes.load:
            self.nodes.load.leave(record.key, place)
        if self.nodes.network:
            self.nodes.network.leave(record.key)
        row = self.nodes.rows.get(place)
        if row is not None:
            self._charge(row, record, -1)
            # It kept others off there.
            self.freed.left(row, [term.topology_key for term in record.pod_signature.inter_pod.anti_affinity])

    def _recharge(self, record: PodRecord) -> None:
        place = record.place
        if not place:
            return
        self._occupants.add(place, record)
        row = self.nodes.rows.get(place)
        if row is not None:
            self._charge(row, record, 1)
            self.freed.neighbours_on((row,))

    def _charge(self, row: int, record: PodRecord, sign: int) -> None:
        self.nodes.charge(row, record.held, record.weight, sign)
        self.nodes.label_index.add(record.pod_signature, row, leaving=record.deleting, count=sign)
        self.nodes.numa.touch(self.nodes.names[row])
        if record.uses:
            self._claimants.move(record, self.nodes.names[row], sign)

    def _name(self, resources: Sequence[str]) -> None:
        """Count what is taken of resources that a node is the first to offer: they were counted as unknown before."""
        for place, row in self.nodes.rows.items():
            for record in self._occupants.pods_on(place):
                if record.slot >= 0:  # else it is charged with the node that is being put
                    self.nodes.name(row, record.held, resources)
            for pod_class in self._occupants.held_on(place):
                self.nodes.name(row, pod_class.requests, resources)

    def _offered(self, node: Node) -> Amounts:
        offered, problems = readable_amounts(node.status.allocatable)
        self.unreadable.pop(node.metadata.name, None)
        if problems:
            self.unreadable[node.metadata.name] = "; ".join(problems)
        return offered

    def _leaves_to_devices(self, row: int, before: NDArray[np.int64]) -> bool:
        """Whether a node offers something no more that devices might stand in for."""
        gone = (before > 0) & (self.nodes.allocatable[row, : len(before)] == 0)
        return self.classes.wanting_devices and bool(gone.any())

    def _grew(self, row: int, before: NDArray[np.int64]) -> bool:
        now = self.nodes.allocatable[row]
        return len(now) > len(before) or bool((now > before).any())
