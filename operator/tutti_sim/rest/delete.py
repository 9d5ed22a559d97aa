"""Deleting objects: grace periods, finalizers, preconditions and propagation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from tutti_sim.kinds.decode import Notes, decoder
from tutti_sim.kinds.mismatch import DecodeError
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json, clock
from tutti_sim.meta.errors import (
    ApiError,
    bad_options,
    bad_request,
    conflict,
    invalid,
    not_an_object,
    unsupported,
    wrong_head,
)
from tutti_sim.rest.backend import Backend, Write
from tutti_sim.rest.metadata import Call, User, dry_run_faults, integer, truth
from tutti_sim.store.collection import Version

POLICIES = ("Foreground", "Background", "Orphan")
WAITS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


@dataclass(slots=True)
class DeleteOptions:
    """How an object is to be deleted."""

    call: Call
    grace: int | None = None
    policy: str = ""
    uid: str = ""
    version: str = ""


def delete_options(body: Any, query: Mapping[str, str], *, user: User) -> DeleteOptions:
    """The options of a DELETE from its body and query; ApiError 400 or 422 says what is wrong."""
    given = _given(body) if body is not None else _asked(query)
    dry_run, policy, orphan = given.get("dryRun", []), given.get("propagationPolicy"), given.get("orphanDependents")
    errors = []
    if orphan is not None and policy is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", policy, text))
    if policy is not None and policy not in POLICIES:
        errors.append(unsupported("propagationPolicy", policy, [*POLICIES, "nil"]))
    errors.extend(dry_run_faults(dry_run))
    if errors:
        raise bad_options("DeleteOptions", errors)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    grace = given.get("gracePeriodSeconds")
    preconditions = given.get("preconditions") or {}
    return DeleteOptions(
        call=Call(user=user, dry_run=bool(dry_run)),
        grace=1 if grace is not None and grace < 0 else grace,
        policy=policy or "",
        uid=preconditions.get("uid", ""),
        version=preconditions.get("resourceVersion", ""),
    )


def _given(body: Any) -> Json:
    """The options of a body; those of the query are not looked at then."""
    if not isinstance(body, dict):
        raise bad_request(not_an_object(body))
    kind = body.get("kind")
    if kind is not None and not isinstance(kind, str):
        raise bad_request(wrong_head("kind", kind))
    if kind and kind != "DeleteOptions":
        scheme = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
        raise bad_request(
            f'no kind "{kind}" is registered for version "{body.get("apiVersion", "v1")}" in scheme "{scheme}"'
        )
    try:
        given: Json = decoder("DeleteOptions")(body, "", Notes())
    except DecodeError as error:
        raise bad_request(str(error)) from None
    if body.get("propagationPolicy") == "":  # a pointer in Go, whose empty text is no choice
        given["propagationPolicy"] = ""
    return given


def _asked(query: Mapping[str, str]) -> Json:
    """The options of a query, where there is no body."""
    asked: Json = {"dryRun": [query["dryRun"]]} if "dryRun" in query else {}
    if "propagationPolicy" in query:
        asked["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query:
        asked["orphanDependents"] = truth(query["orphanDependents"])
    if query.get("gracePeriodSeconds"):
        asked["gracePeriodSeconds"] = integer(query, "gracePeriodSeconds")
    return asked


async def delete(
    backend: Backend, resource: Resource, namespace: str, name: str, options: DeleteOptions
) -> tuple[Version, bool]:
    """Delete an object; the result is its last state, and whether it is gone."""
    while True:
        current = backend.get(resource, namespace, name)
        check_preconditions(resource, current, options)
        write = Write(resource, namespace, name, "DELETE", current.obj, options.call)
        hooks = backend.hooks
        if hooks is not None and not options.call.trusted and hooks.concern(write):
            await hooks.validate(write, None)
        if backend.get(resource, namespace, name) is current:
            return remove(backend, resource, current, options)


def check_preconditions(resource: Resource, current: Version, options: DeleteOptions) -> None:
    """ApiError 409 unless the object is the one that the client means."""
    meta = current.obj["metadata"]
    if options.uid and options.uid != meta["uid"]:
        raise _mismatch(resource, meta, "UID", (options.uid, meta["uid"]), "deleted and then recreated")
    if options.version and options.version != meta["resourceVersion"]:
        versions = (options.version, meta["resourceVersion"])
        raise _mismatch(resource, meta, "ResourceVersion", versions, "modified")


def _mismatch(resource: Resource, meta: Json, what: str, values: tuple[str, str], fate: str) -> ApiError:
    text = (
        f"the {what} in the precondition ({values[0]}) does not match the {what} in record ({values[1]}). "
        f"The object might have been {fate}"
    )
    return conflict(resource.kind, resource.group, meta["name"], text)


def remove(backend: Backend, resource: Resource, current: Version, options: DeleteOptions) -> tuple[Version, bool]:
    """Delete a version that passed all checks."""
    strategy = resource.strategy
    policy = options.policy
    if not policy and strategy.orphans:
        policy = "Orphan"
    if resource.storage == "namespaces":
        return _terminate(backend, resource, current, options)
    finalizers = _finalizers(current.obj["metadata"].get("finalizers", []), policy)
    grace = strategy.grace(current.obj, options.grace)
    meta = current.obj["metadata"]
    if grace is None or options.call.dry_run:
        if not finalizers:
            return _gone(backend, resource, current, options)
        if meta.get("deletionTimestamp") and finalizers == meta.get("finalizers", []):
            return current, False
        return _mark(backend, resource, current, finalizers=finalizers, grace=0, options=options), False
    already = meta.get("deletionGracePeriodSeconds") if meta.get("deletionTimestamp") else None
    if already is not None and (grace >= already > 0 or (already == 0 and finalizers)):
        return current, False
    marked = _mark(backend, resource, current, finalizers=finalizers, grace=grace, options=options)
    if grace > 0 or finalizers:
        return marked, False
    _gone(backend, resource, marked, options)
    return marked, True


def _finalizers(have: list[str], policy: str) -> list[str]:
    if not policy:
        return list(have)
    kept = [one for one in have if one not in WAITS.values()]
    return [*kept, WAITS[policy]] if policy in WAITS else kept


def _mark(
    backend: Backend, resource: Resource, current: Version, *, finalizers: list[str], grace: int, options: DeleteOptions
) -> Version:
    """Store that an object is being deleted."""
    meta = {**current.obj["metadata"]}
    base = clock.parse_time(meta["deletionTimestamp"]) if meta.get("deletionTimestamp") else None
    if base is None:
        meta["deletionTimestamp"] = clock.later(grace)
    else:
        ends = base + timedelta(seconds=grace - meta.get("deletionGracePeriodSeconds", 0))
        meta["deletionTimestamp"] = ends.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    meta["deletionGracePeriodSeconds"] = grace
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    if resource.strategy.generation and base is None and "generation" in meta:
        meta["generation"] += 1
    obj = {**current.obj, "metadata": meta}
    if options.call.dry_run:
        return Version(current.key, obj, current.rv)
    version = backend.store.replace(backend.collection(resource), current, obj)
    backend.tell(resource, current, version)
    return version


def _gone(backend: Backend, resource: Resource, current: Version, options: DeleteOptions) -> tuple[Version, bool]:
    if options.call.dry_run:
        return current, True
    last = backend.store.remove(backend.collection(resource), current)
    backend.tell(resource, current, None)
    return last, True


def _terminate(backend: Backend, resource: Resource, current: Version, options: DeleteOptions) -> tuple[Version, bool]:
    """A namespace is deleted in two steps: it is marked, emptied by a controller, and goes with its last finalizer."""
    obj = current.obj
    if current.key[1] in ("default", "kube-system", "kube-public"):
        raise ApiError(
            403,
            "Forbidden",
            f'namespaces "{current.key[1]}" is forbidden: this namespace may not be deleted',
            details={"name": current.key[1], "kind": "namespaces"},
        )
    if obj["metadata"].get("deletionTimestamp"):
        if not (obj.get("spec") or {}).get("finalizers") and not obj["metadata"].get("finalizers"):
            return _gone(backend, resource, current, options)
        return current, False
    meta = {**obj["metadata"], "deletionTimestamp": clock.now()}
    marked = {**obj, "metadata": meta, "status": {**obj.get("status", {}), "phase": "Terminating"}}
    if options.call.dry_run:
        return Version(current.key, marked, current.rv), False
    version = backend.store.replace(backend.collection(resource), current, marked)
    backend.tell(resource, current, version)
    return version, False
