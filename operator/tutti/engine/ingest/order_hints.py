"""What is said of a workload that the order of its queue goes by, and whose it is.

Whoever wrote the Workload or PodGroup says it, or else the owners of its pods, or else the pods. Of pods that have
owners the top one alone says whose they are: what stands in a template somebody else has copied, or made up.
"""

from __future__ import annotations

from collections.abc import Iterator

from tutti.api.conventions.order_annotations import NO_HINTS, OrderHints, order_hints, progress_of
from tutti.api.model import Object
from tutti.engine.admission.queue_orders import name_holders, seconds_by_flavor, speed_of_kind
from tutti.engine.ingest import IngestState, implicit_gangs
from tutti.engine.records.members import Member
from tutti.engine.records.workloads import Workload
from tutti.quota.speed_curves import amdahl


def read_hints(state: IngestState, workload: Workload) -> None:
    """Take over what is said of a workload, and have what it holds counted for its user."""
    found = state.catalog.find(workload.key) if workload.key[0] != "Pod" else None
    by_object = _written(found)
    by_members = [hints for member in workload.members() for hints in _of_member(member)]
    workload.said_seconds = by_object.seconds or max((one.seconds for one in by_members), default=0)
    most = max((one.progress for one in by_members), default=-1)
    workload.progress = progress_of(by_object if by_object.progress >= 0 else OrderHints(progress=most))
    workload.user = _user(state, workload, by_object)
    name_holders(state, workload)
    workload.flavor_seconds = seconds_by_flavor(state, workload, workload.flavor_seconds)
    if not workload.speed_said and (learned := speed_of_kind(state, workload)) is not None:
        workload.speed_learned, workload.speed = learned, amdahl(learned.parallel)


def _written(found: Object | None) -> OrderHints:
    """Return what people wrote on an object; one that was made here for their pods says nothing of itself."""
    if found is None or implicit_gangs.IMPLICIT_LABEL in found.metadata.labels:
        return NO_HINTS
    return order_hints(found.metadata.annotations)


def _of_member(member: Member) -> Iterator[OrderHints]:
    if member.hints:
        yield member.hints
    if member.owned.terms.hints:
        yield member.owned.terms.hints


def _user(state: IngestState, workload: Workload, by_object: OrderHints) -> str:
    settings = state.configuration.users
    if settings is None:
        return ""
    namespace = workload.key[1]
    if settings.by == "Namespace":
        return state.catalog.namespace_labels(namespace).get(settings.namespace_label) or namespace
    if by_object.user:
        return by_object.user
    named = (_owner_or_self(member) for member in workload.members())
    return min((user for user in named if user), default="")  # whoever was seen first decides nothing


def _owner_or_self(member: Member) -> str:
    return member.hints.user if member.marks.owner is None else member.owned.terms.hints.user
