"""Of which class members will be that do not exist yet: by the pod template that an object or their owner has of them.

For these room and quota are kept as for members that are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tutti.api.core import ObjectMeta, PodSpec
from tutti.api.frameworks.controller_labels import controller_labels
from tutti.api.templates import MOST_BYTES, TOO_LARGE
from tutti.cluster.classes import PodClass
from tutti.cluster.created_specs import as_created, selecting_by
from tutti.cluster.devices.asks import NO_DEVICES, DeviceNeeds
from tutti.cluster.volumes import has_claims
from tutti.engine.ingest import IngestState
from tutti.engine.reading import resolution
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.members import MemberGroup
from tutti.engine.records.workloads import Workload


def read_promise(state: IngestState, workload: Workload, group: MemberGroup, template: Mapping[str, Any]) -> None:
    """Take over of which class members of a template will be; a template that cannot be read is a problem."""
    found = promised_class(state, workload, group, template)
    if isinstance(found, Explanation):
        workload.problem = found
    group.promised = None if isinstance(found, Explanation) else found


def promised_class(
    state: IngestState, workload: Workload, group: MemberGroup, template: Mapping[str, Any]
) -> PodClass | Explanation | None:
    """Return the class that members of a template will be of, or why that cannot be read.

    None where it cannot be told before they exist.

    Without a template, for the owner is not read, they are taken to be like those that are there. What claims ask of a
    node is known only once they are there.
    """
    if not template and workload.managed is None:
        return _as_those_there(state, workload, group)
    if TOO_LARGE in template:
        text = (
            f"a template of members comes to {template[TOO_LARGE]} bytes of what pods are placed by, "
            f"and {MOST_BYTES} is the most that is kept"
        )
        return Explanation(Gate.GATHER, "InvalidTemplate", text)
    try:
        spec = as_created(msgspec.convert(template.get("spec") or {}, PodSpec))
        meta = msgspec.convert((template.get("metadata") or {}), ObjectMeta)
    except msgspec.ValidationError as error:
        return Explanation(Gate.GATHER, "InvalidTemplate", f"a template of members cannot be read: {error}")
    resolution.promise_priority(state.catalog, group, spec)
    devices = state.cluster.nodes.devices.promised_needs(workload.key[1], spec)
    if (has_claims(spec) or devices is None) and workload.managed is None:
        return None
    labels = {**meta.labels, **_labels_of_controller(workload, group)}
    spec = selecting_by(spec, labels)
    # What was not there at its start is looked at when the pods come.
    return _class_of(state, spec, workload.key[1], msgspec.structs.replace(meta, labels=labels), devices or NO_DEVICES)


def _labels_of_controller(workload: Workload, group: MemberGroup) -> Mapping[str, str]:
    """Return what else the pods of a group will be labelled with that is started here."""
    managed = workload.managed
    if managed is None:
        return {}
    found = managed.found
    called = managed.groups.get(group.name, "")
    role = next((one for one in found.roles if one.name == called), None)
    jobs = 1 if role is None else role.replicas if role.total is None else role.total
    return controller_labels(found.group, found.kind, found.name, found.uid, called, jobs)


def _as_those_there(state: IngestState, workload: Workload, group: MemberGroup) -> PodClass | None:
    """Return the class of a member that is there; None where there is none, or it has claims of its own."""
    found = next((member.pod.pod_class for member in workload.members()), None)
    if found is None or has_claims(found.spec) or found.devices is not NO_DEVICES:
        return None
    resolution.promise_priority(state.catalog, group, found.spec)
    return found


def _class_of(state: IngestState, spec: PodSpec, namespace: str, meta: ObjectMeta, devices: DeviceNeeds) -> PodClass:
    """Return the class of pods that are yet to be made; devices may stand in for extended resources of theirs."""
    cluster = state.cluster
    cards = cluster.classes.card_needs(spec, meta.annotations)
    return cluster.classes.of(spec, namespace, meta.labels, devices=devices, cards=cards)
