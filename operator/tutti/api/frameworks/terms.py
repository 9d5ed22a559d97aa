"""What pods inherit from their owners besides their gang: queue, priority class, run time, topology.

Nearest wins: the pod, then each owner upwards. KAI lets the top owner win, and Kueue's webhooks write the owner's queue
into the pods; users of workflow engines say another queue in a template. Nearest first satisfies both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from tutti.api.conventions.after_annotation import AFTER, read_after
from tutti.api.conventions.flavor_seconds import FLAVOR_SECONDS, FlavorSeconds, read_flavor_seconds
from tutti.api.conventions.membership import (
    MOST_SECONDS,
    ConventionError,
    PodTopologyRequest,
    annotation_path,
    existing_name,
    label_path,
    whole_number,
)
from tutti.api.conventions.order_annotations import NO_HINTS, OrderHints
from tutti.api.frameworks.chain import OwnerChain
from tutti.api.frameworks.marks import OWNER_QUEUE_LABELS, PRIORITY_LABELS
from tutti.api.frameworks.projection import RUN_TIME_LABELS
from tutti.api.frameworks.records import ProjectedOwner

NO_QUEUE: Final = "default"
"""The queue that projects with Volcano's fields name where they name none; a label with this name is meant."""


class InheritedTerms(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the owners of a pod say for it; empty where none does.

    Attributes:
        queue_by: Kind and name of the owner that names the queue.
        maximum_seconds: For how long it may run.
        schedule_timeout_seconds: How long a complete reservation is held.
        after: Whose end it waits for, and until when: as GangMembership has it.
        hints: What the order of its queue may go by; whose it is the top owner says, whatever others do.
        flavor_seconds: How long it is expected to take in which flavor.
        problems: What cannot be read, in sentences; that then counts as not said, and the pod has to wait.
    """

    queue: str = ""
    queue_by: str = ""
    priority_class: str = ""
    maximum_seconds: int | None = None
    schedule_timeout_seconds: int | None = None
    topology: PodTopologyRequest | None = None
    after: tuple[tuple[str, str], ...] = ()
    hints: OrderHints = NO_HINTS
    flavor_seconds: tuple[tuple[str, int], ...] = ()
    problems: tuple[str, ...] = ()


def inherited_terms(chain: OwnerChain, ignored: Collection[str] = ()) -> InheritedTerms:
    """Return what the owners of a pod say for it, each thing as the nearest one says it.

    Args:
        chain: The owners, nearest first.
        ignored: Labels that say nothing, because the convention they belong to is off.
    """
    problems: list[str] = []

    def nearest(read: Callable[[ProjectedOwner], str | int | None]) -> tuple[str | int | None, str]:
        for owner in chain.owners:
            try:
                found = read(owner)
            except ConventionError as error:
                problems.append(f"{owner.title}: {error}")
                return None, owner.title
            if found:
                return found, owner.title
        return None, ""

    queue, queue_by = nearest(lambda owner: _name(owner, OWNER_QUEUE_LABELS, owner.queue, ignored))
    priority, _ = nearest(lambda owner: _name(owner, PRIORITY_LABELS, owner.priority_class, ignored))
    seconds, _ = nearest(lambda owner: _seconds(owner, ignored))
    timeout = next((one for owner in chain.owners if (one := owner.schedule_timeout_seconds)), None)
    topology = next((owner for owner in chain.owners if owner.topology or owner.topology_problem), None)
    after, _ = nearest(lambda owner: owner.after if read_after(owner.after, annotation_path(AFTER)) else "")
    taken, _ = nearest(lambda owner: owner.flavor_seconds if _flavor_seconds(owner.flavor_seconds) else "")
    if topology is not None and topology.topology_problem:
        problems.append(f"{topology.title}: {topology.topology_problem}")
    return InheritedTerms(
        queue=str(queue or ""),
        queue_by=queue_by if queue else "",
        priority_class=str(priority or ""),
        maximum_seconds=seconds if isinstance(seconds, int) else None,
        schedule_timeout_seconds=timeout,
        topology=topology.topology if topology is not None else None,
        after=read_after(str(after or ""), annotation_path(AFTER)),
        hints=_hints(chain),
        flavor_seconds=_flavor_seconds(str(taken or "")),
        problems=tuple(problems),
    )


def _hints(chain: OwnerChain) -> OrderHints:
    said = [owner.hints for owner in chain.owners]
    if not any(said):
        return NO_HINTS
    seconds = next((one.seconds for one in said if one.seconds), 0)
    progress = next((one.progress for one in said if one.progress >= 0), -1)
    speed = next((one.speed for one in said if one.speed), "")
    return OrderHints(seconds, progress, said[-1].user, speed)


def _flavor_seconds(text: str) -> FlavorSeconds:
    return read_flavor_seconds(text, annotation_path(FLAVOR_SECONDS))


def _name(owner: ProjectedOwner, keys: tuple[str, ...], by_field: str, ignored: Collection[str]) -> str:
    """Return what an owner names by labels, ours first, or by a field of its kind.

    Raises:
        ConventionError: No object can have this name.
    """
    for key in keys:
        if key not in ignored and (named := existing_name(owner.labels.get(key, ""), label_path(key))):
            return named
    return "" if by_field == NO_QUEUE else existing_name(by_field, f"a field of {owner.title}")


def _seconds(owner: ProjectedOwner, ignored: Collection[str]) -> int | None:
    for key in RUN_TIME_LABELS:
        if key not in ignored and key in owner.labels:
            return whole_number(owner.labels, key, label_path(key), least=1, most=MOST_SECONDS)
    return None
