"""Takes CustomResourceDefinitions into service and out of it.

Names are accepted, the definition is established, and its resources are in the registry; before it goes, they are
emptied.
"""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import Any

from tutti_sim.crd import cel
from tutti_sim.crd.declared import declared_root
from tutti_sim.crd.definitions import CLEANUP, reader
from tutti_sim.crd.structural import shape_of, shaped
from tutti_sim.crd.validate import validate
from tutti_sim.kinds.columns import AGE, NAME
from tutti_sim.kinds.decode import Notes, decoder
from tutti_sim.kinds.decode import shape as builtin_shape
from tutti_sim.kinds.mismatch import DecodeError
from tutti_sim.kinds.resource import STATUS_VERBS, Column, Registry, Resource, ScalePaths, Strategy, Subresource
from tutti_sim.meta import Json, clock
from tutti_sim.meta.errors import FieldError
from tutti_sim.meta.selectors import METADATA, path
from tutti_sim.patch.strategic import LEAF, DocumentShape, Form
from tutti_sim.patch.typed import Declared
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.local import Local
from tutti_sim.store.collection import Version

BLOCKING = (
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
)
UNCHECKED = FieldError(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


class CustomStrategy(Strategy):
    """Custom resources: everything counts, the schema validates."""

    generation = True
    needs_version = True
    shows_status = False

    def __init__(self, *, status: bool) -> None:
        self.has_status = status

    def prepare_status(self, new: Json, old: Json) -> None:
        """Status only: not even labels change, only what manages fields."""
        managed = new["metadata"].get("managedFields")
        super().prepare_status(new, old)
        new["metadata"] = dict(old["metadata"])
        if managed is not None:
            new["metadata"]["managedFields"] = managed


class CustomCodec:
    """A codec from the schema of one version of a definition."""

    def __init__(self, schema: Json) -> None:
        properties = {key: value for key, value in (schema.get("properties") or {}).items() if key != "metadata"}
        self.schema: Json = {**schema, "properties": {**properties, "apiVersion": {}, "kind": {}}}
        self._rules = cel.has_rules(schema)
        self._meta = decoder("ObjectMeta")
        body = shape_of(self.schema)

        def child(name: str) -> DocumentShape | None:
            if name == "metadata":
                return builtin_shape("ObjectMeta")
            return LEAF if name in ("apiVersion", "kind") else body.field(name)

        self._shape = DocumentShape(Form.STRUCT, child=child)

    @property
    def shape(self) -> DocumentShape:
        """The document's shape."""
        return self._shape

    @cached_property
    def declared(self) -> Declared:
        """What a configuration that is applied may hold."""
        return declared_root(self.schema)

    def decode(self, body: Json, notes: Notes) -> Json:
        """A fresh object: pruned, without stray nulls, defaulted."""
        meta = body.get("metadata")
        if meta is not None and not isinstance(meta, dict):
            raise DecodeError("json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta")
        unknown: list[str] = []
        rest = {key: value for key, value in body.items() if key != "metadata"}
        obj: Json = shaped(rest, self.schema, "", unknown)
        found = Notes()
        metadata = self._meta(meta or {}, "metadata", found)
        notes.unknown.extend(sorted([*found.unknown, *unknown]))
        return {"metadata": metadata, **obj}

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        """What schema and rules say is wrong."""
        body = {key: value for key, value in obj.items() if key != "metadata"}
        errors = validate(body, self.schema, "", cel.ABSENT if old is None else old)
        if not self._rules:
            return errors
        if any(error.reason in BLOCKING for error in errors):
            return [*errors, UNCHECKED]
        return [*errors, *cel.check(obj, cel.ABSENT if old is None else old, self.schema, "")]


def served_resources(definition: Json) -> list[Resource]:
    """The resources of a definition, one for each version that is served."""
    spec = definition["spec"]
    stored = next(one["name"] for one in spec["versions"] if one.get("storage"))
    return [
        _resource(definition, version, f"{spec['group']}/{stored}")
        for version in spec["versions"]
        if version.get("served")
    ]


def _resource(definition: Json, version: Json, stored_as: str) -> Resource:
    spec, names = definition["spec"], definition["spec"]["names"]
    subresources = version.get("subresources") or {}
    resource = Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        namespaced=spec["scope"] == "Namespaced",
        codec=CustomCodec(version["schema"]["openAPIV3Schema"]),
        strategy=CustomStrategy(status="status" in subresources),
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        subresources=_subresources(names["kind"], subresources),
        columns=_columns(version.get("additionalPrinterColumns")),
        selectable={**METADATA, **{_dotted(one): path(_dotted(one)) for one in version.get("selectableFields", ())}},
        plain=False,
        custom=True,
        stored_as=stored_as,
        deprecated=_deprecation(spec, version),
        scale=_scale(subresources.get("scale")),
    )
    if resource.api_version != stored_as:
        resource.inward = lambda body: body
        resource.outward = lambda obj: {**obj, "apiVersion": resource.api_version}
    return resource


def _deprecation(spec: Json, version: Json) -> str:
    if not version.get("deprecated"):
        return ""
    default = f"{spec['group']}/{version['name']} {spec['names']['kind']} is deprecated"
    return str(version.get("deprecationWarning") or default)


def _dotted(selectable: Json) -> str:
    return str(selectable["jsonPath"]).removeprefix(".")


def _subresources(kind: str, given: Json) -> dict[str, Subresource]:
    found: dict[str, Subresource] = {}
    if "status" in given:
        found["status"] = Subresource(kind, STATUS_VERBS)
    if "scale" in given:
        found["scale"] = Subresource("Scale", STATUS_VERBS, "autoscaling", "v1")
    return found


def _scale(given: Json | None) -> ScalePaths | None:
    if not given:
        return None
    texts = (
        given.get(name, "").removeprefix(".")
        for name in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    )
    return ScalePaths(*texts)


def _columns(given: list[Json] | None) -> tuple[Column, ...]:
    if not given:
        return (NAME, AGE)
    return (NAME, *(_column(one) for one in given))


def _column(given: Json) -> Column:
    read = reader(given["jsonPath"])
    kind = given.get("type", "string")

    def cell(obj: Json) -> Any:
        found = read(obj)
        if not found:
            return None
        if kind == "date":
            return clock.age(found[0]) if isinstance(found[0], str) else None
        if kind == "string":
            return ",".join(text if isinstance(text, str) else _shown(text) for text in found)
        return found[0]

    return Column(
        given["name"],
        cell,
        type=kind,
        format=given.get("format", ""),
        priority=given.get("priority", 0),
        description=given.get("description", ""),
    )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Definitions:
    """Keeps the registry in step with the definitions."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._served: dict[str, list[Resource]] = {}

    def serve(self, definition: Json) -> list[Resource]:
        """Serve what a definition says, in place of what it said before."""
        self.withdraw(definition["metadata"]["name"])
        made = served_resources(definition)
        for resource in made:
            self._registry.add(resource)
        self._served[definition["metadata"]["name"]] = made
        return made

    def withdraw(self, name: str) -> None:
        """Serve a definition's resources no longer."""
        for resource in self._served.pop(name, ()):
            self._registry.remove(resource)

    def served(self, name: str) -> list[Resource]:
        """What a definition serves at the moment."""
        return list(self._served.get(name, ()))


STORAGE = "customresourcedefinitions.apiextensions.k8s.io"


class Establisher:
    """Follows writes of definitions, and of their objects while a definition is on its way out."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._definitions = Definitions(backend.registry)
        self._local = Local(backend, "apiextensions-apiserver")
        self._leaving: dict[str, str] = {}

    def follow(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        """React to a write."""
        if resource.storage == STORAGE:
            self._definition(resource, old, new)
        elif new is None and resource.storage in self._leaving:
            asyncio.get_running_loop().call_soon(self._release, self._leaving[resource.storage])

    def _definition(self, resource: Resource, old: Version | None, new: Version | None) -> None:
        if new is None:
            if old is not None:
                self._withdraw(old)
            return
        if old is None or old.obj["spec"] != new.obj["spec"]:
            made = self._definitions.serve(new.obj)
            for one in made:
                self._backend.store.collection(one.storage)
        if new.obj["metadata"].get("deletionTimestamp"):
            asyncio.get_running_loop().call_soon(self._empty, new.key[1])
        elif old is None and CLEANUP not in new.obj["metadata"].get("finalizers", ()):
            self._establish(resource, new)

    def _establish(self, resource: Resource, version: Version) -> None:
        """Accept the names and say that the resource is served."""
        obj = version.obj
        meta = dict(obj["metadata"])
        meta["finalizers"] = [*meta.get("finalizers", ()), CLEANUP]
        status = {
            **obj.get("status", {}),
            "acceptedNames": obj["spec"]["names"],
            "conditions": [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                _condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ],
        }
        self._local.write(resource, version, {**obj, "metadata": meta, "status": status})

    def _empty(self, name: str) -> None:
        """Delete the objects of a definition that is going away."""
        served = self._definitions.served(name)
        if not served:
            self._release(name)
            return
        self._leaving[served[0].storage] = name
        for version in list(self._backend.collection(served[0]).scan()):
            self._local.remove(served[0], version)
        self._release(name)

    def _release(self, name: str) -> None:
        """Let a definition go once its last object is gone."""
        served = self._definitions.served(name)
        if served and len(self._backend.collection(served[0])):
            return
        resource = self._backend.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        current = self._backend.collection(resource).get("", name)
        if current is not None and CLEANUP in current.obj["metadata"].get("finalizers", ()):
            self._local.without_finalizer(resource, current, CLEANUP)

    def _withdraw(self, version: Version) -> None:
        for resource in self._definitions.served(version.key[1]):
            self._leaving.pop(resource.storage, None)
            self._backend.store.drop(resource.storage)
        self._definitions.withdraw(version.key[1])


def _condition(kind: str, reason: str, message: str) -> Json:
    return {"type": kind, "status": "True", "lastTransitionTime": clock.now(), "reason": reason, "message": message}
