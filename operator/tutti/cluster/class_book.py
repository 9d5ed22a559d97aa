"""Finds the one class of equal pods that a pod is of, by all of it that placement reads.

Labels make a difference only where some selector reads them: of each pod's labels the class holds those whose key a
constraint of any pod, a Service, an owner of pods or a throttle names (`ClassBook.watched`). When a key becomes
watched, pods that wait and have it are classed anew (`Cluster`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from tutti.api import kai
from tutti.api.cards import NO_CARDS, CardNeeds
from tutti.api.core import Container, PodSpec
from tutti.api.hami import counted_requests, read_needs
from tutti.api.owners import Owner
from tutti.api.resources import AmountError, Amounts
from tutti.cluster.classes import PodClass
from tutti.cluster.devices.asks import NO_DEVICES, DeviceNeeds
from tutti.cluster.requests import POD_LEVEL, is_guaranteed, pod_requests, scored_requests, scored_weight
from tutti.cluster.signatures import NO_LABELS, has_disk, inter_pod_constraints, selector_keys
from tutti.cluster.volumes import NO_VOLUMES, VolumeNeeds

_ENCODER = msgspec.json.Encoder(order="deterministic")
_MOST_SPECS = 1024
"""Of so many specs at most it is remembered what matters of them."""
_MOST_SPEC_BYTES = 1 << 25
"""As they are written, together: the largest of all that an API server takes has a megabyte and a half."""
_MANY_KEYS = 4096
"""With more label keys than these it is looked now and then which of them nobody reads any more."""


def _nothing() -> None:
    return None


@dataclass(slots=True, eq=False)
class _Copies:
    """Pods of one spec.

    Attributes:
        essence: What matters of the spec to placement.
        written: The same as it stands in signatures.
        latest: Finds the class of the last of them that was seen, as long as somebody holds that.
    """

    essence: PodSpec
    written: msgspec.Raw
    latest: Callable[[], PodClass | None] = _nothing


class _Traits(NamedTuple):
    """What tells pods of one spec apart: the labels are those that any selector reads."""

    namespace: str
    labels: Mapping[str, str]
    owner: Owner | None
    volumes: VolumeNeeds
    devices: DeviceNeeds
    cards: CardNeeds

    def told(self) -> tuple[object, ...]:
        """Return them as they stand in signatures: without the last that most pods have nothing of."""
        if self.cards is not NO_CARDS:
            return self
        if self.devices is not NO_DEVICES:
            return self[:5]
        return self[:4] if self.owner or self.volumes is not NO_VOLUMES else self[:2]


class ClassBook:
    """Finds the one PodClass of a pod; forgets a class with the last pod that holds it.

    Attributes:
        watched: The label keys that some selector reads, and some that one has read.
        version: Grows whenever more of them are watched.
        strict_defaults: Whether pods that do not say how they are spread may have to be spread strictly.
        shares_cards: Whether cards are shared as HAMi does, so that pods may ask for parts of them.
        reads_limits: Whether somebody estimates by their limits what pods will use, so that these tell classes apart.
    """

    def __init__(self) -> None:
        self.reads_limits = False
        self.watched: set[str] = set()
        self.version = 0
        self._fresh: list[str] = []
        self._lasting: set[str] = set()
        self._many = _MANY_KEYS
        self.shares_cards = False
        self.strict_defaults = False
        self._minding: weakref.WeakSet[PodClass] = weakref.WeakSet()
        self._claiming: weakref.WeakSet[PodClass] = weakref.WeakSet()
        self._wanting: weakref.WeakSet[PodClass] = weakref.WeakSet()
        self._known: weakref.WeakValueDictionary[bytes, PodClass] = weakref.WeakValueDictionary()
        self._copies: dict[bytes, _Copies] = {}
        self._copied_bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def minding(self) -> bool:
        """Whether there is a class of waiting pods that others being placed may help."""
        return bool(self._minding)

    @property
    def claiming(self) -> bool:
        """Whether there is a class of waiting pods that have claims on volumes."""
        return bool(self._claiming)

    @property
    def wanting_devices(self) -> bool:
        """Whether there is a class of waiting pods that ask for devices."""
        return bool(self._wanting)

    def of(
        self,
        spec: PodSpec,
        namespace: str = "",
        labels: Mapping[str, str] = NO_LABELS,
        *,
        owner: Owner | None = None,
        volumes: VolumeNeeds = NO_VOLUMES,
        devices: DeviceNeeds = NO_DEVICES,
        cards: CardNeeds | None = None,
        waits: bool = True,
    ) -> PodClass:
        """Return the class of pods with this spec, namespace, labels, owner and needs of their volumes and devices.

        With `waits` they may be waiting for a node. What they need of cards is read from the spec where it is None.
        """
        if cards is None:
            cards = self.card_needs(spec, {})
        copies = self._copies_of(spec)
        heard = not self.watched.isdisjoint(labels)
        seen = {key: value for key, value in labels.items() if key in self.watched} if heard else NO_LABELS
        owner = None if spec.topology_spread_constraints else owner
        known = copies.latest()
        if (
            known is None
            or (known.namespace, known.labels, known.owner) != (namespace, seen, owner)
            or known.volumes is not volumes
            or known.devices is not devices
            or (known.cards is not cards and known.cards != cards)
        ):
            known = self._find(copies, _Traits(namespace, seen, owner, volumes, devices, cards))
            copies.latest = weakref.ref(known)
        if waits and (known.needs_other_pods or self.strict_defaults):
            self._minding.add(known)
        if waits and volumes is not NO_VOLUMES:
            self._claiming.add(known)
        if waits and devices is not NO_DEVICES:
            self._wanting.add(known)
        return known

    def card_needs(self, spec: PodSpec, annotations: Mapping[str, str]) -> CardNeeds:
        """Return what a pod asks of cards that pods share."""
        why = kai.refusal(annotations) if annotations else ""
        if why:
            return CardNeeds(problem=why, reason=kai.REASON)
        found = read_needs(spec, annotations) if self.shares_cards else NO_CARDS
        return found if found.asked or found.problem else NO_CARDS

    def watch(self, keys: Iterable[str], *, lasting: bool = True) -> None:
        """Note that a selector reads these label keys; where it does not last, whoever knows that tells `forget`."""
        read = dict.fromkeys(keys)
        fresh = [key for key in read if key not in self.watched]
        self.watched.update(fresh)
        self.version += bool(fresh)
        self._fresh += fresh
        if lasting:
            self._lasting.update(read)

    @property
    def watches_many(self) -> bool:
        """Whether so many label keys are watched that it is time to `forget` some."""
        return len(self.watched) > self._many

    def forget(self, read: Iterable[str]) -> None:
        """Watch only these keys, those that are read for good, and those that pods of a known class read or differ by.

        Whoever makes pods with keys that he makes up, and deletes them, would have all of them kept for ever. Who comes
        later and is equal to a pod that is there is of its class all the same.
        """
        by_pods = ((*keys_read(known.spec), *known.labels) for known in list(self._known.values()))
        self.watched = self._lasting.union(read, *by_pods)
        self._many = max(_MANY_KEYS, 2 * len(self.watched))
        self._forget_copies()  # what is watched because of a spec is noted when that is seen first

    def take_fresh(self) -> list[str]:
        """Return the label keys that are watched since this was last asked."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def _copies_of(self, spec: PodSpec) -> _Copies:
        """Return what is known of pods of a spec, wherever they are bound."""
        said = _ENCODER.encode(msgspec.structs.replace(spec, node_name="") if spec.node_name else spec)
        known = self._copies.get(said)
        if known is None:
            if len(self._copies) == _MOST_SPECS or self._copied_bytes > _MOST_SPEC_BYTES:
                self._forget_copies()
            self._copied_bytes += len(said)
            essence = _placement_spec(spec, keep_limits=self.reads_limits)
            self.watch(keys_read(essence), lasting=False)
            known = self._copies[said] = _Copies(essence, msgspec.Raw(_ENCODER.encode(essence)))
        return known

    def _forget_copies(self) -> None:
        self._copies.clear()
        self._copied_bytes = 0

    def _find(self, copies: _Copies, traits: _Traits) -> PodClass:
        """Return the class of pods of a spec with these traits, begun where there is none."""
        signature = _ENCODER.encode((copies.written, *traits.told()))
        known = self._known.get(signature)
        if known is None:
            known = self._known[signature] = _new_class(copies.essence, signature, traits)
        return known


def _new_class(essence: PodSpec, signature: bytes, traits: _Traits) -> PodClass:
    requests: Amounts = {}
    scored = weight = (0, 0)
    problem = ""
    try:
        requests, scored, weight = pod_requests(essence), scored_requests(essence), scored_weight(essence)
        requests = counted_requests(requests, traits.cards) if traits.cards.asked else requests
    except AmountError as error:
        requests, problem = {}, str(error)
    return PodClass(
        spec=essence,
        requests=requests,
        signature=signature,
        problem=problem,
        namespace=traits.namespace,
        labels=traits.labels,
        inter_pod=inter_pod_constraints(essence, traits.namespace),
        scored=scored,
        weight=weight,
        owner=traits.owner,
        volumes=traits.volumes,
        devices=traits.devices,
        cards=traits.cards,
    )


def keys_read(spec: PodSpec) -> Iterable[str]:
    """Yield the label keys that the constraints of a pod read."""
    if spec.affinity is not None:
        for side in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
            if side is not None:
                for term in (*side.required, *(one.pod_affinity_term for one in side.preferred)):
                    yield from selector_keys(term.label_selector)
    for constraint in spec.topology_spread_constraints:
        yield from selector_keys(constraint.label_selector)
        yield from constraint.match_label_keys


def _placement_spec(spec: PodSpec, *, keep_limits: bool) -> PodSpec:
    """Strip what differs between equal pods: where they are bound, priority, membership, names of volumes and claims.

    What claims ask of a node stands apart from the spec (`VolumeNeeds`, `DeviceNeeds`). Limits matter only in that they
    make a pod Guaranteed, which is aligned to NUMA zones otherwise than others, and where load is estimated by them.
    """
    pinned = keep_limits or is_guaranteed(spec)
    return msgspec.structs.replace(
        spec,
        node_name="",
        scheduler_name="",
        priority=None,
        priority_class_name="",
        preemption_policy="",
        restart_policy="",
        scheduling_gates=[],
        scheduling_group=None,
        workload_ref=None,
        resource_claims=[],
        containers=[_plain(c, pinned=pinned) for c in spec.containers],
        init_containers=[_plain(c, pinned=pinned) for c in spec.init_containers],
        volumes=[msgspec.structs.replace(v, name="") for v in spec.volumes if has_disk(v)],
    )


def _plain(container: Container, *, pinned: bool) -> Container:
    if not container.resources.limits and not container.name:
        return container
    said = container.resources.limits
    limits = {name: said[name] for name in POD_LEVEL if name in said} if pinned else {}
    kept = msgspec.structs.replace(container.resources, limits=limits)
    return msgspec.structs.replace(container, name="", resources=kept)
