"""Pods of other schedulers that leave a node with ours: by the same filters, once ours have their nodes.

Which of two schedulers would be faster nobody knows. What ours have got by then is told to an engine of its own, which
knows of no gang or queue of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tutti.api.configuration import Conventions
from tutti.api.core import Pod, PodResourceClaim
from tutti.api.frameworks.kinds import GANG_ANNOTATION
from tutti.api.model import GROUP
from tutti.cli.views.drain.carrying import decide_and_carry_out
from tutti.cli.views.pod_copies import with_claims
from tutti.cli.views.what_if import (
    ObservedCluster,
    Seen,
    changed,
    cordoned,
    key_of,
    successors,
    with_nodes,
    without_pods,
)
from tutti.cluster.devices.claims import device_uses_of
from tutti.cluster.pods import PodKey
from tutti.engine.cycle.engine import Engine
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.decisions import AnyDecision, Bind
from tutti.engine.records.device_observations import DeviceClaimSeen
from tutti.engine.records.observations import AnyObservation, PodSeen

_ALONE = {
    "conventions": Conventions(
        **{name: False for name, field in Conventions.model_fields.items() if field.annotation is bool}
    ),
    "require_queue": False,
    "default_local_queue": "",
    "users": None,
    "throttles": None,
}
"""By which a pod is in no gang and no queue, whatever it says."""


def left_by(asked: ObservedCluster, node: str, leaving: Iterable[Pod]) -> Seen:
    """Return what there is once a node is cordoned and these pods are gone."""
    return without_pods(with_nodes(asked.listed.seen, (node,), cordoned), {key_of(pod) for pod in leaving})


def with_placed(
    asked: ObservedCluster, left: Seen, coming: Sequence[Pod], engine: Engine, decisions: Iterable[AnyDecision]
) -> Seen:
    """Return what there is once what an engine has decided for ours is done; who of ours waits on, takes nothing.

    Args:
        asked: Who can be asked.
        left: What there was before.
        coming: The pods of ours in whose place others are made.
        engine: The one that has decided.
        decisions: What it has.
    """
    state = engine.state
    binds = {(one.namespace, one.name): one for one in decisions if isinstance(one, Bind)}
    made = [one for pod in coming for one in with_claims(asked.listed.seen, pod, successors(pod, 1))]
    claims = [DeviceClaimSeen(one) for one in state.cluster.nodes.devices.book.claims.values()]
    rest = (one for one in (*left, *made) if not isinstance(one, DeviceClaimSeen))
    return [*claims, *(one for before in rest if (one := _as_placed(state, binds, before)) is not None)]


def _as_placed(state: LifecycleState, binds: Mapping[PodKey, Bind], one: AnyObservation) -> AnyObservation | None:
    if not isinstance(one, PodSeen) or one.pod.spec.node_name or key_of(one.pod) not in state.members:
        return one
    place, bind = state.members[key_of(one.pod)].pod.place, binds.get(key_of(one.pod))
    if not place:
        return None
    said = {**one.pod.metadata.annotations, **(bind.annotations if bind is not None else {})}
    meta = changed(one.pod.metadata, annotations=said)
    return PodSeen(changed(one.pod, metadata=meta, spec=changed(one.pod.spec, node_name=place)))


def place_others(asked: ObservedCluster, seen: Seen, others: Sequence[Pod], ours: LifecycleState) -> LifecycleState:
    """Return what would be known once it is decided where they go who are made in place of pods of others.

    Args:
        asked: Who can be asked.
        seen: What there is without them.
        others: The pods in whose place they are made.
        ours: What is known of claims, and of the schedulers that are ours.
    """
    scheduler = next(iter(ours.profiles))
    foreign = [_as_ours(pod, scheduler, ours) for pod in others]
    new = [one for pod in foreign for one in with_claims(asked.listed.seen, pod, successors(pod, 1))]
    plain = replace(asked, configuration=asked.configuration.model_copy(update=_ALONE))
    engine = plain.stock([*seen, *new])
    decide_and_carry_out(engine, asked.at)
    return engine.state


def settled(asked: ObservedCluster, others: Sequence[Pod], state: LifecycleState) -> Iterator[AnyObservation]:
    """Yield what is seen of all claims, and of those with a node who are made in place of pods of others."""
    yield from (DeviceClaimSeen(one) for one in state.cluster.nodes.devices.book.claims.values())
    for pod in others:
        for one in with_claims(asked.listed.seen, pod, successors(pod, 1)):
            if isinstance(one, PodSeen):
                place = state.members[key_of(one.pod)].pod.place
                if place:
                    yield PodSeen(changed(one.pod, spec=changed(one.pod.spec, node_name=place)))
            elif not isinstance(one, DeviceClaimSeen):
                yield one


def _as_ours(pod: Pod, scheduler: str, ours: LifecycleState) -> Pod:
    labels = {name: value for name, value in pod.metadata.labels.items() if GROUP not in name}
    spec = changed(
        pod.spec,
        scheduler_name=scheduler,
        scheduling_group=None,
        workload_ref=None,
        resource_claims=list(_claims_apart(pod, ours)),
    )
    annotations = {**pod.metadata.annotations, GANG_ANNOTATION: "Apart"}  # whoever places them knows of no gang
    return changed(pod, metadata=changed(pod.metadata, labels=labels, annotations=annotations), spec=spec)


def _claims_apart(pod: Pod, ours: LifecycleState) -> Iterator[PodResourceClaim]:
    """Yield the entries of a pod, of which those that are its PodGroup's name the claim: the group goes on using it."""
    groups = ours.cluster.nodes.devices.book.groups
    for entry, use in zip(pod.spec.resource_claims, device_uses_of(pod), strict=True):
        of_group = use.claim is not None and groups.group_of(pod.metadata.namespace, use) is not None
        yield PodResourceClaim(entry.name, use.claim[1]) if of_group and use.claim is not None else entry
