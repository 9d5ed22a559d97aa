"""Creating and updating objects: decode, default, admit, validate, account for fields, store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tutti_sim.kinds.decode import TABLE, Notes
from tutti_sim.kinds.mismatch import DecodeError
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json
from tutti_sim.meta.errors import (
    ApiError,
    FieldError,
    already_exists,
    bad_request,
    conflict,
    internal,
    invalid,
    modified,
    not_an_object,
    not_found,
    shown_value,
    unprocessable,
    wrong_head,
)
from tutti_sim.patch import managed
from tutti_sim.rest import metadata
from tutti_sim.rest.backend import Backend, Write
from tutti_sim.rest.metadata import Call
from tutti_sim.store.collection import Version
from tutti_sim.store.store import Exists

Transform = Callable[[Json], Json]
encode = msgspec.json.Encoder().encode


def decode(resource: Resource, body: Any, call: Call, *, patched: bool = False) -> tuple[Json, bytes]:
    """An object of the resource from a document, and the pattern that its specification was read by (`Notes`).

    Unknown fields are refused or warned of, as the call asks. A document that a patch made is invalid where one that a
    client sent is malformed.
    """
    if not isinstance(body, dict):
        raise bad_request(not_an_object(body))
    try:
        _check_kind(resource, body)
    except ApiError as error:
        raise _unmade(body, error.message) if patched else error from None
    notes = Notes()
    source = body if resource.inward is None else resource.inward(body)
    try:
        obj = resource.read(source, notes)
    except DecodeError as error:
        if patched:
            raise _unmade(body, str(error)) from None
        version = f'{resource.kind} in version "{resource.version}"'
        raise bad_request(f"{version} cannot be handled as a {resource.kind}: {error}") from None
    noted = [*call.noted, *notes.unknown]
    if noted and call.field_validation == "Strict":
        version = f'{resource.kind} in version "{resource.version}"'
        raise bad_request(f"{version} cannot be handled as a {resource.kind}: strict decoding error: {_listed(noted)}")
    if call.field_validation == "Warn":
        call.warnings.extend(noted)
    resource.strategy.default(obj)
    return obj, notes.pattern


def _listed(noted: list[str]) -> str:
    """What strict decoding refuses, those who read YAML first."""
    text = ", ".join(noted)
    return f"yaml: unmarshal errors:\n  {text}" if text.startswith("line ") else text


def _unmade(body: Json, fault: str) -> ApiError:
    """422: what a patch has made of an object cannot be one."""
    made = encode({key: body[key] for key in sorted(body)}).decode()
    cause = FieldError("FieldValueInvalid", "patch", f"Invalid value: {shown_value(made)}: {fault}")
    return unprocessable("", "", "", [cause])


def _check_kind(resource: Resource, body: Json) -> None:
    kind, version = body.get("kind"), body.get("apiVersion")
    for field, value in (("kind", kind), ("apiVersion", version)):
        if value is not None and not isinstance(value, str):
            raise bad_request(wrong_head(field, value))
    if resource.custom and not kind:
        raise bad_request("Object 'Kind' is missing in '" + resource.kind + "'")
    if resource.custom and not version:
        raise bad_request("Object 'apiVersion' is missing in '" + resource.kind + "'")
    if (kind and kind != resource.kind) or (version and version != resource.api_version):
        short = (version or resource.api_version).rpartition("/")[2]
        why = (
            "" if resource.custom else f": {_strange(resource, kind or resource.kind, version or resource.api_version)}"
        )
        raise bad_request(f'{kind or resource.kind} in version "{short}" cannot be handled as a {resource.kind}{why}')


def _strange(resource: Resource, kind: str, api_version: str) -> str:
    """Why an object of a kind is none of a resource: there is no such kind, or no way from it to this one."""
    if kind in TABLE and kind != resource.kind:
        return f"converting (v1.{kind}) to ({resource.go_name}): unknown conversion"
    return f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'


def check_place(obj: Json, namespace: str, name: str) -> None:
    """Have an object say where it is; ApiError 400 where it says that it is elsewhere, or has no name for a path."""
    meta = obj["metadata"]
    if not namespace:
        meta.pop("namespace", None)  # of what has none it is forgotten
    elif meta.get("namespace") and meta["namespace"] != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if name:
        _require_name(meta, name)
        check_name(meta, name)
        meta["name"] = name
    if namespace:
        meta["namespace"] = namespace


def check_name(meta: Json, name: str) -> None:
    """ApiError 400 where an object has another name than the path that it was sent to."""
    if meta.get("name") and meta["name"] != name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")


def _require_name(meta: Json, name: str) -> None:
    """ApiError 400 where the object that is to be in an object's place has no name."""
    if not meta.get("name"):
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")


async def create(backend: Backend, resource: Resource, namespace: str, body: Any, call: Call) -> Version:
    """Create an object from a document."""
    obj, pattern = decode(resource, body, call)
    check_place(obj, namespace, "")
    return await insert(backend, resource, obj, call, pattern=pattern)


async def insert(backend: Backend, resource: Resource, obj: Json, call: Call, *, pattern: bytes) -> Version:
    """Create an object that is decoded and defaulted already; `pattern` is what its specification was read by."""
    strategy = resource.strategy
    namespace = obj["metadata"].get("namespace", "")
    versioned = bool(obj["metadata"].get("resourceVersion"))
    write = Write(resource, namespace, obj["metadata"].get("name", ""), "CREATE", None, call)
    stored = backend.collection(resource)
    meta = obj["metadata"] = metadata.before_create(
        resource, obj["metadata"], backend.draw, lambda name: stored.get(namespace, name) is not None
    )
    if not strategy.managed:
        meta.pop("managedFields", None)
    elif not meta.get("managedFields"):  # what admission adds is nobody's
        managed.on_create(
            obj,
            resource.codec.shape,
            manager=call.manager,
            api_version=resource.api_version,
            keeps_status=not strategy.has_status,
            pattern=pattern,
        )
    for plugin in backend.admission:
        plugin(backend, write, obj)
    hooked = backend.hooks is not None and not call.trusted and backend.hooks.concern(write)
    if hooked and backend.hooks is not None:
        obj = await backend.hooks.mutate(write, obj)
        meta = obj["metadata"]
    strategy.prepare_create(obj)
    pattern = strategy.pattern(obj)  # of what admission has made of it
    own = strategy.validate_new(obj, pattern)
    errors = [] if own and not strategy.checks_metadata else metadata.validate_metadata(resource, meta)
    errors.extend(own)
    errors.extend(resource.codec.validate(obj, None))
    if errors:
        raise unprocessable(resource.kind, resource.group, meta.get("name", ""), errors)
    for check in backend.checks:
        check(backend, write, obj)
    if hooked and backend.hooks is not None:
        await backend.hooks.validate(write, obj)
    call.warnings.extend(strategy.warnings(obj, pattern))
    if versioned and not call.dry_run:
        raise internal("resourceVersion should not be set on objects to be created", reason="")
    return _store_new(backend, resource, obj, call)


def _store_new(backend: Backend, resource: Resource, obj: Json, call: Call) -> Version:
    meta = obj["metadata"]
    collection = backend.collection(resource)
    taken = collection.get(meta.get("namespace", ""), meta["name"])
    if taken is not None:
        deleting = "object is being deleted: " if taken.obj["metadata"].get("deletionTimestamp") else ""
        raise already_exists(resource.plural, resource.group, meta["name"], prefix=deleting)
    if call.dry_run:
        del meta["resourceVersion"]
        return Version((meta.get("namespace", ""), meta["name"]), obj, 0)
    try:
        version = backend.store.create(collection, obj)
    except Exists:
        raise already_exists(resource.plural, resource.group, meta["name"]) from None
    backend.tell(resource, None, version)
    return version


async def replace(
    backend: Backend, resource: Resource, namespace: str, name: str, body: Any, call: Call
) -> tuple[Version, bool]:
    """Put a document in place of an object; the result says whether it was created."""
    current = backend.collection(resource).get(namespace, name)
    obj, pattern = decode(resource, body, call)
    check_place(obj, namespace, name)
    if current is None:
        if resource.strategy.create_on_update and not call.subresource:
            return await insert(backend, resource, obj, call, pattern=pattern), True
        raise not_found(resource.plural, resource.group, name)
    given = obj["metadata"]
    if resource.strategy.needs_version and not given.get("resourceVersion"):
        fault = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise unprocessable(resource.plural, resource.group, name, [fault])
    uid = current.obj["metadata"]["uid"]
    if given.get("uid") and given["uid"] != uid:
        text = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {uid}"
        raise not_meant(resource, namespace, name, text, call)
    return await update(backend, resource, current, obj, call), False


_STORED_AS = {
    "nodes": "minions",
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "podtemplates": "podtemplates",
}


def not_meant(resource: Resource, namespace: str, name: str, text: str, call: Call) -> ApiError:
    """409: the object is not the one that is meant, in the words of the storage, which tell its key."""
    place = _STORED_AS.get(resource.plural, resource.plural)
    if resource.custom or resource.group == "apiextensions.k8s.io":
        place = f"{resource.group}/{resource.plural}"
    key = "/".join(["" if call.dry_run else "/registry", place, *([namespace] if namespace else []), name])
    fault = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {text}"
    return conflict(resource.plural, resource.group, name, fault)


async def change(
    backend: Backend, resource: Resource, namespace: str, name: str, transform: Transform, call: Call
) -> Version:
    """Change an object by a function of its current state; tried again when somebody else was faster."""
    while True:
        current = backend.get(resource, namespace, name)
        source = current.obj if resource.outward is None else resource.outward(current.obj)
        changed: Any = transform(source)
        if not isinstance(changed, dict) or not isinstance(changed.get("metadata") or {}, dict):
            raise bad_request("json: cannot unmarshal what the patch makes into an object with metadata")
        obj, _ = decode(resource, changed, call, patched=True)
        check_place(obj, namespace, name)
        explicit = (changed.get("metadata") or {}).get("resourceVersion") != current.obj["metadata"]["resourceVersion"]
        try:
            return await update(backend, resource, current, obj, call)
        except ApiError as error:
            moved = backend.collection(resource).get(namespace, name)
            if error.code != 409 or explicit or moved is current:  # noqa: PLR2004 - Conflict
                raise
            call.warnings.clear()


async def update(backend: Backend, resource: Resource, current: Version, obj: Json, call: Call) -> Version:
    """Store a changed object in place of the version it was made from."""
    old, strategy = current.obj, resource.strategy
    asked = obj["metadata"].get("resourceVersion")
    if asked and asked != old["metadata"]["resourceVersion"]:
        raise modified(resource.plural, resource.group, current.key[1])
    obj["metadata"] = metadata.before_update(obj["metadata"], old["metadata"])
    if call.subresource == "status":
        strategy.prepare_status(obj, old)
    elif call.subresource:
        strategy.prepare_part(call.subresource, obj, old)
    else:
        strategy.prepare_update(obj, old)
    write = Write(resource, *current.key, "UPDATE", old, call)
    for plugin in backend.admission:
        plugin(backend, write, obj)
    if same(obj, old):
        return current
    hooked = backend.hooks is not None and not call.trusted and backend.hooks.concern(write)
    if hooked and backend.hooks is not None:
        obj = await backend.hooks.mutate(write, obj)
    _count_generation(resource, obj, old, call)
    if strategy.managed and not call.applied:
        managed.on_update(
            obj,
            old,
            resource.codec.shape,
            manager=call.manager,
            api_version=resource.api_version,
            subresource=call.subresource,
            owned=call.subresource != "scale",  # a Scale's fields are nobody's
        )
    _validate_update(resource, obj, old, call)
    for check in backend.checks:
        check(backend, write, obj)
    if hooked and backend.hooks is not None:
        await backend.hooks.validate(write, obj)
    return commit(backend, resource, current, obj, call)


def same(new: Json, old: Json) -> bool:
    """Whether an update changes nothing, times of field management aside."""
    if new["metadata"].get("managedFields") == [{}]:
        return False
    return new == old


def _count_generation(resource: Resource, obj: Json, old: Json, call: Call) -> None:
    if not resource.strategy.generation or call.subresource == "status":
        return
    ignored = ("metadata", "status") if resource.strategy.has_status else ("metadata",)
    if any(obj.get(key) != old.get(key) for key in set(obj) | set(old) if key not in ignored):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _validate_update(resource: Resource, obj: Json, old: Json, call: Call) -> None:
    errors = metadata.validate_update(resource, obj["metadata"], old["metadata"])
    if call.subresource == "status":
        errors.extend(resource.strategy.validate_status(obj, old))
    elif call.subresource:
        errors.extend(resource.strategy.validate_part(call.subresource, obj, old))
    else:
        errors.extend(resource.strategy.validate_update(obj, old))
    errors.extend(resource.codec.validate(obj, old))
    if errors:
        raise unprocessable(resource.kind, resource.group, old["metadata"]["name"], errors)


def commit(backend: Backend, resource: Resource, current: Version, obj: Json, call: Call) -> Version:
    """Store an update that has passed everything; an object that only waited for finalizers goes away."""
    collection = backend.collection(resource)
    if collection.get(*current.key) is not current:
        raise modified(resource.plural, resource.group, current.key[1])
    if call.dry_run:
        return Version(current.key, obj, current.rv)
    meta = obj["metadata"]
    if meta.get("deletionTimestamp") and _may_go(obj):
        backend.store.remove(collection, current)
        backend.tell(resource, current, None)
        return Version(current.key, obj, current.rv)
    version = backend.store.replace(collection, current, obj)
    backend.tell(resource, current, version)
    return version


def _may_go(obj: Json) -> bool:
    meta = obj["metadata"]
    if meta.get("finalizers") or meta.get("deletionGracePeriodSeconds", 0):
        return False
    return not (obj["kind"] == "Namespace" and (obj.get("spec") or {}).get("finalizers"))
