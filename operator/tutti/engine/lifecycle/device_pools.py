"""Tells what is the matter with what drivers publish: an event on a slice of the pool, or on the claims concerned.

Drivers change the slices of a pool one by one; what is put right within a minute is not told of.
"""

from __future__ import annotations

from typing import Final

from tutti.api.devices import DeviceClass
from tutti.cluster.devices.asks import expressions_of
from tutti.cluster.devices.taint_rules import PoolKey
from tutti.cluster.devices.troubles import pool_trouble
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.decisions import EmitEvent
from tutti.engine.records.device_writes import PoolTrouble

GRACE_SECONDS: Final = 60.0

_MOST_CLAIMS: Final = 16
_API_VERSION: Final = "resource.k8s.io/v1"


def watch_pools(state: LifecycleState) -> None:
    """Look at the pools of which slices have changed, and tell of those that have been in trouble for long enough."""
    devices, known = state.cluster.nodes.devices, state.device_pools
    for key in devices.catalog.take_touched():
        text = pool_trouble(devices.catalog.slices_of(key), devices.ledger.held_of(key))
        if not text:
            known.pop(key, None)
        elif key not in known or known[key].text != text:
            since = known[key].since if key in known else state.now
            known[key] = PoolTrouble(text, since)
    for key, trouble in known.items():
        if not trouble.told and trouble.since + GRACE_SECONDS <= state.now:
            trouble.told = True
            _tell(state, key, trouble.text)


def next_telling_due(state: LifecycleState) -> float | None:
    """Return when trouble is to be told of, Unix seconds; None where there is none."""
    return min((one.since + GRACE_SECONDS for one in state.device_pools.values() if not one.told), default=None)


def class_seen(state: LifecycleState, found: DeviceClass) -> None:
    """Tell of a class whose selectors cannot be read: no claim by it can be given devices."""
    known = state.cluster.nodes.devices.book.classes.get(found.metadata.name)
    if known is not None and known.spec == found.spec:
        return
    for at, expression in enumerate(expressions_of(found)):
        problem = state.cluster.nodes.devices.expression_problem(expression)
        if problem:
            about = (_API_VERSION, "DeviceClass", "", found.metadata.name, found.metadata.uid)
            note = f"spec.selectors[{at}]: {problem}. Until then no claim by this class is given devices"
            state.out.append(EmitEvent(*about, "Warning", "InvalidSelector", "Scheduling", note, lasting=True))
            return


def _tell(state: LifecycleState, key: PoolKey, text: str) -> None:
    devices, note = state.cluster.nodes.devices, f"resource pool {'/'.join(key)}: {text}"
    slices = devices.catalog.slices_of(key)
    if slices:
        one = max(slices, key=lambda each: (each.generation, each.name))
        about = (_API_VERSION, "ResourceSlice", "", one.name, one.uid)
        state.out.append(EmitEvent(*about, "Warning", "ResourcePoolInTrouble", "Scheduling", note, lasting=True))
        return
    concerned = [
        claim
        for claim in devices.book.claims.values()
        if claim.status.allocation is not None
        and any((one.driver, one.pool) == key for one in claim.status.allocation.devices.results)
    ]
    for claim in concerned[:_MOST_CLAIMS]:
        about = (_API_VERSION, "ResourceClaim", *claim.key, claim.metadata.uid)
        state.out.append(EmitEvent(*about, "Warning", "ResourcePoolInTrouble", "Scheduling", note, lasting=True))
