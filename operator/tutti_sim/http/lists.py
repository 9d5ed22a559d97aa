"""Lists: which objects, of which moment, and how many at a time."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from tutti_sim.http.rendering import Rendering, listing
from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json, gojson, numbers, selectors
from tutti_sim.meta.errors import (
    FieldError,
    bad_options,
    bad_request,
    expired,
    forbidden_field,
    internal,
    unsupported,
    version_too_large,
)
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.metadata import integer
from tutti_sim.store.collection import FIRST, Compacted, Version

Predicate = Callable[[Json], bool]

MATCHES = ("Exact", "NotOlderThan")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a resource are meant: a namespace (or all) and a predicate (or all)."""

    namespace: str
    predicate: Predicate | None


def scope(resource: Resource, namespace: str, name: str, query: Mapping[str, str], *, watch: bool = False) -> Scope:
    """The objects that selectors choose; ApiError 400 when a selector is malformed or asks for an unknown field.

    The options are read in the order in which a real server reads them, and so it is the same fault that is told.
    """
    for name_of_number in ("timeoutSeconds", "limit"):
        integer(query, name_of_number)
    by_label = selectors.parse_selector(query.get("labelSelector", ""))
    terms = selectors.terms(query.get("fieldSelector", ""))
    check_options(query, watch=watch)
    if name:
        terms.append(("metadata.name", "=", name))
    by_field = selectors.compile_terms(terms, resource.selectable, plain=resource.plain) if terms else None
    if by_label is None:
        return Scope(namespace, by_field)
    chosen = by_label

    def matches(obj: Json) -> bool:
        return chosen(obj["metadata"].get("labels") or {}) and (by_field is None or by_field(obj))

    return Scope(namespace, matches)


def check_options(query: Mapping[str, str], *, watch: bool) -> None:
    """ApiError 422 when options of a list or watch do not go together."""
    match, initial = query.get("resourceVersionMatch", ""), "sendInitialEvents" in query
    errors = _watch_faults(match, initial, query) if watch else _match_faults(match, query)
    if initial and not watch:
        errors.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if errors:
        raise bad_options("ListOptions", errors)


CONTINUED = forbidden_field("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")


def _match_faults(match: str, query: Mapping[str, str]) -> list[FieldError]:
    """What is wrong with the match of a list."""
    if not match:
        return []
    errors: list[FieldError] = []
    version = query.get("resourceVersion", "")
    if not version:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        errors.append(forbidden_field("resourceVersionMatch", text))
    if query.get("continue"):
        errors.append(CONTINUED)
    if match not in MATCHES:
        errors.append(unsupported("resourceVersionMatch", match, [*MATCHES, ""]))
    if match == "Exact" and version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        errors.append(forbidden_field("resourceVersionMatch", text))
    return errors


def _watch_faults(match: str, initial: bool, query: Mapping[str, str]) -> list[FieldError]:
    """What is wrong with the match of a watch, which may begin with what exists."""
    errors: list[FieldError] = []
    if initial and match != MATCHES[1]:
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        errors.append(forbidden_field("resourceVersionMatch", text))
    if initial and query.get("continue"):
        errors.append(CONTINUED)
    if match and not initial:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errors.append(forbidden_field("resourceVersionMatch", text))
    if match and match != MATCHES[1]:
        errors.append(unsupported("resourceVersionMatch", match, MATCHES[1:]))
    begins = not query.get("resourceVersion")  # such a watch is taken for one that asks for what exists
    if query.get("continue") and (match or (begins and not initial)):
        errors.append(CONTINUED)
    return errors


def number(version: str) -> int:
    """A resource version as a number, none as 0; ValueError says of the field what is wrong with it."""
    if not version:
        return 0
    try:
        return numbers.unsigned(version)
    except ValueError as error:
        raise ValueError(f'resourceVersion: Invalid value: "{version}": {error}') from None


def check_version(backend: Backend, query: Mapping[str, str]) -> None:
    """ApiError 500 or 504 where one object is asked for as of a version that is none, or has not come yet."""
    version = query.get("resourceVersion", "")
    try:
        asked = number(version)
    except ValueError as error:
        raise internal(str(error), reason="") from None
    if asked > backend.store.revision:
        raise version_too_large(asked, backend.store.revision)


def token(rv: int, start: tuple[str, str]) -> str:
    """A continue token: the snapshot's version and the last key sent."""
    raw = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": rv, "start": list(start)})
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def read_token(text: str) -> tuple[int, tuple[str, str]]:
    """The version and key of a continue token; ApiError 400 when it is none of ours."""
    try:
        raw = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        namespace, name = raw["start"]
        return int(raw["rv"]), (str(namespace), str(name))
    except msgspec.DecodeError:
        fault = gojson.fault(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        raise bad_request(f"invalid continue token: continue key is not valid: {fault}") from None
    except (binascii.Error, KeyError, TypeError, ValueError, OverflowError):
        text = "invalid continue token: continue key is not valid: unrecognized or malformed token"
        raise bad_request(text) from None


def page(backend: Backend, resource: Resource, where: Scope, query: Mapping[str, str]) -> tuple[list[Version], Json]:
    """The objects of one page, and the metadata of their list."""
    version, cont = query.get("resourceVersion", ""), query.get("continue", "")
    limit = integer(query, "limit") or 0
    if cont:
        asked, after = read_token(cont)
        if version and version != "0":
            raise bad_request("specifying resource version is not allowed when using continue")
    else:
        after = FIRST
        try:
            asked = number(version)
        except ValueError as error:
            raise bad_request(f"invalid resource version: {error}") from None
    if asked > backend.store.revision:
        raise version_too_large(asked, backend.store.revision)
    exact = bool(cont) or query.get("resourceVersionMatch") == "Exact"
    rv = asked if exact else backend.store.revision
    try:
        found = backend.collection(resource).snapshot(rv, where.namespace, after=after)
    except Compacted as error:
        raise expired(_too_old(error, cont=bool(cont))) from None
    if where.predicate is not None:
        found = [one for one in found if where.predicate(one.obj)]
    meta: Json = {"resourceVersion": str(rv)}
    if 0 < limit < len(found) and not (version == "0" and not cont):
        meta["continue"] = token(rv, found[limit - 1].key)
        if where.predicate is None:
            meta["remainingItemCount"] = len(found) - limit
        found = found[:limit]
    elif resource.custom:
        meta["continue"] = ""
    return found, meta


def _too_old(error: Compacted, *, cont: bool) -> str:
    if not cont:
        return str(error)
    return (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
        "the results"
    )


def answer_list(
    backend: Backend, resource: Resource, where: Scope, query: Mapping[str, str], rendering: Rendering
) -> bytes:
    """The body of a list."""
    found, meta = page(backend, resource, where, query)
    return listing(resource, found, meta, rendering, include=query.get("includeObject", "Metadata"))
