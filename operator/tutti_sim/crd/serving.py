"""What a CustomResourceDefinition serves: resources in the registry that come, change and go with it."""

from __future__ import annotations

from typing import Any

from tutti_sim.crd import cel
from tutti_sim.crd.jsonpath import reader
from tutti_sim.crd.structural import shape_of, shaped
from tutti_sim.crd.validate import validate
from tutti_sim.kinds.columns import AGE, NAME
from tutti_sim.kinds.decode import DecodeError, Notes, decoder
from tutti_sim.kinds.registry import Registry
from tutti_sim.kinds.resource import STATUS_VERBS, Column, Resource, ScalePaths, Subresource
from tutti_sim.kinds.strategy import Strategy
from tutti_sim.kinds.table import shape as builtin_shape
from tutti_sim.meta import clock
from tutti_sim.meta.errors import FieldError
from tutti_sim.meta.fields import METADATA, path
from tutti_sim.patch.shape import LEAF, Form, Shape

Json = dict[str, Any]

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

        def child(name: str) -> Shape | None:
            if name == "metadata":
                return builtin_shape("ObjectMeta")
            return LEAF if name in ("apiVersion", "kind") else body.field(name)

        self._shape = Shape(Form.STRUCT, child=child)

    @property
    def shape(self) -> Shape:
        """The document's shape."""
        return self._shape

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


def resources(definition: Json) -> list[Resource]:
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
        made = resources(definition)
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
