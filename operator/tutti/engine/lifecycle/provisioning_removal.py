"""Requests for nodes that nobody needs any more are removed, and the templates of pods that were made for them.

One that no status names is nobody's, unless its workload may yet come to ask for it: an earlier process may have been
killed before it could say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from tutti.api.provisioning import BOOKING_EXPIRED, CAPACITY_REVOKED, FAILED, ProvisioningRequest
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.decisions import DeleteProvisioning
from tutti.engine.records.provisioning import Provisioning, ProvisioningStage, ProvisioningWritten
from tutti.engine.records.workloads import Phase, Workload

WRITE_AGAIN_SECONDS: Final = 10.0
"""How long after a request was written and is not seen yet, or could not be written or removed, that is tried again."""
_ADOPT_SECONDS: Final = 10.0
"""For how long a request of an earlier process is left alone that its workload may yet come to ask for."""


def remove_needless(state: LifecycleState, workload: Workload) -> None:
    """Have the requests of a workload removed that it does not need, and what is left of such."""
    requests = state.requests.of(workload.key[1], workload.uid)
    for found in list(requests.values()):
        again_at = state.requests.leaving.get(found.uid, 0.0)
        if found.deleting or again_at == math.inf or not _is_needless(state, workload, found):
            continue
        if again_at <= state.now:
            state.requests.leaving[found.uid] = math.inf
            _leave_none(workload, found.name)
            state.out.append(DeleteProvisioning(found.namespace, found.name, found.uid))
        else:
            state.set_alarm(workload, again_at)
    if state.requests.followed:
        _sweep_all(state, workload, requests)


def request_removed(state: LifecycleState, told: ProvisioningWritten) -> None:
    """Take in what became of removing a request, or the templates of one that never came to be."""
    if not told.uid:
        _swept(state, told)
    elif told.problem and told.uid in state.requests.leaving:
        state.requests.leaving[told.uid] = state.now + WRITE_AGAIN_SECONDS
        owner = state.requests.owner(told.namespace, told.name)
        if owner is not None and owner in state.workloads:
            state.touch(owner)


def _is_needless(state: LifecycleState, workload: Workload, found: ProvisioningRequest) -> bool:
    """Whether a request of a workload is to be removed."""
    if workload.phase is Phase.FINISHED or not workload.active:
        return True
    one = next((known for known in workload.provisioning if known.request == found.name), None)
    if one is not None and one.is_under_way:
        return False
    if one is not None and one.stage is not ProvisioningStage.WITHDRAWN:
        ended = any(found.says(kind) is not None for kind in (FAILED, CAPACITY_REVOKED, BOOKING_EXPIRED))
        return not ended or workload.phase is not Phase.WAITING  # what has failed says why while it waits
    if one is None and workload.phase is Phase.WAITING and workload.explanation is None:
        state.set_alarm(workload, state.now + _ADOPT_SECONDS)
        return False  # perhaps an earlier process was killed before it could say that it had asked
    return True


def _leave_none(workload: Workload, request: str) -> None:
    """Note that the templates of a request are removed with it."""
    for known in workload.provisioning:
        known.may_leave = known.may_leave and known.request != request


def _sweep_all(state: LifecycleState, workload: Workload, requests: Mapping[str, ProvisioningRequest]) -> None:
    """Have the templates removed of requests that are not needed, and not there."""
    for known in workload.provisioning:
        if known.may_leave and known.request and not known.is_under_way and known.request not in requests:
            _sweep(state, workload, known)


def _sweep(state: LifecycleState, workload: Workload, one: Provisioning) -> None:
    """Have the templates of one request removed, unless it is being made, or that could not be done just now."""
    where = (workload.key[1], one.request)
    if where in state.requests.making or where in state.requests.sweeping:
        return
    if state.now < one.not_before:
        state.set_alarm(workload, one.not_before)
        return
    state.requests.sweeping[where] = workload.key
    state.out.append(DeleteProvisioning(*where, "", workload.uid))


def _swept(state: LifecycleState, told: ProvisioningWritten) -> None:
    """Take in what became of removing the templates of a request that never came to be."""
    workload = state.workloads.get(state.requests.sweeping.pop((told.namespace, told.name), ("", "", "")))
    one = None if workload is None else next((one for one in workload.provisioning if one.request == told.name), None)
    if workload is not None and one is not None:
        one.may_leave, one.not_before = bool(told.problem), state.now + WRITE_AGAIN_SECONDS
        state.touch(workload.key)
