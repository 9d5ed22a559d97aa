"""Whether an answer cannot be the operator's, because that decides by another configuration than the one assumed here.

A view decides again what the operator has decided. Where the operator's configuration is not known the default is
assumed, and mostly that is no matter: a note on every answer would be read by nobody. It is given where what was found
of somebody who waits differs from what the operator has written of him.
"""

from __future__ import annotations

from collections.abc import Iterable

from tutti.cli.terminal import echo
from tutti.cli.views.explain.lookup import KINDS, status_of_object, status_of_pod
from tutti.cli.views.explain.model import OperatorStatus
from tutti.cli.views.listing import Listed
from tutti.cli.views.what_if import ObservedCluster, key_of
from tutti.engine.admission.user_limits import NO_USER
from tutti.engine.records.observations import ObjectSeen, PodSeen
from tutti.engine.records.workloads import WorkloadKey


def is_by_other_settings(told: OperatorStatus, gate: str, reason: str) -> bool:
    """Whether what was found cannot be what the operator found, who may decide by another configuration.

    Args:
        told: What the operator says.
        gate: Where it was found to wait; "" where it would start.
        reason: Why.
    """
    if not gate or reason == NO_USER:
        return True
    return bool(told.gate) and told.gate != gate


def note_other_settings(asked: ObservedCluster, found: Iterable[tuple[WorkloadKey, str, str]]) -> None:
    """Say on stderr that the configuration is not known, where what was found cannot be what the operator found.

    Args:
        asked: What was asked about.
        found: Of each of those who wait, where and why, as with `is_by_other_settings`.
    """
    if not asked.assumed:
        return
    said = _statuses(asked.listed)
    if any((told := said.get(key)) is not None and is_by_other_settings(told, *where) for key, *where in found):
        echo(asked.assumed, err=True)


def _statuses(listed: Listed) -> dict[WorkloadKey, OperatorStatus]:
    """Return what the operator says of all who wait."""
    said: dict[WorkloadKey, OperatorStatus | None] = {}
    for one in listed.seen:
        if isinstance(one, ObjectSeen) and one.kind in KINDS[:2]:
            meta = one.raw.get("metadata") or {}
            said[one.kind, str(meta.get("namespace", "")), str(meta.get("name", ""))] = status_of_object(
                one.kind, one.raw
            )
        elif isinstance(one, PodSeen):
            said["Pod", *key_of(one.pod)] = status_of_pod(one.pod)
    return {key: told for key, told in said.items() if told is not None}
