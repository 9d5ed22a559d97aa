"""OpenAPI documents: for built-in kinds from the table of types, for custom resources from their schemas.

They carry what clients read: types, list keys, patch strategies and the `x-kubernetes-group-version-kind` marks.
"""

from __future__ import annotations

import hashlib

import msgspec

from tutti_sim.crd.serving import CustomCodec
from tutti_sim.kinds import markers
from tutti_sim.kinds.decode import TABLE
from tutti_sim.kinds.resource import BuiltinCodec, Registry, Resource
from tutti_sim.meta import Json

encode = msgspec.json.Encoder(order="sorted").encode

ASKED_AS_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""What kubectl accepts of `/openapi/v2`; no media type may have an `@` in it, so it is answered as the next."""
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

SCALARS: dict[str, Json] = {
    "str": {"type": "string"},
    "int": {"type": "integer", "format": "int32"},
    "bool": {"type": "boolean"},
    "float": {"type": "number", "format": "double"},
    "time": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}
META_TYPES = frozenset(
    [
        "ObjectMeta",
        "ManagedFieldsEntry",
        "OwnerReference",
        "LabelSelector",
        "LabelSelectorRequirement",
        "Condition",
        "Status",
        "StatusDetails",
        "StatusCause",
        "ListMeta",
        "DeleteOptions",
        "Preconditions",
    ]
)
PACKAGES = {
    "": "core",
    "apps": "apps",
    "batch": "batch",
    "policy": "policy",
    "coordination.k8s.io": "coordination",
    "events.k8s.io": "events",
    "scheduling.k8s.io": "scheduling",
    "storage.k8s.io": "storage",
    "rbac.authorization.k8s.io": "rbac",
    "admissionregistration.k8s.io": "admissionregistration",
    "discovery.k8s.io": "discovery",
    "node.k8s.io": "node",
    "networking.k8s.io": "networking",
    "resource.k8s.io": "resource",
    "authentication.k8s.io": "authentication",
    "authorization.k8s.io": "authorization",
}


def digest(body: bytes) -> str:
    """A short fingerprint of a document."""
    return hashlib.sha256(body).hexdigest().upper()


def _roots(registry: Registry) -> dict[str, str]:
    """Type -> the group whose package its schema is named after."""
    found: dict[str, str] = {}
    for resource in registry:
        if isinstance(resource.codec, BuiltinCodec):
            found.setdefault(resource.codec.type_name, resource.group)
    return found


class Names:
    """The names of schemas, which follow the Go packages of the types."""

    def __init__(self, registry: Registry) -> None:
        self._roots = _roots(registry)

    def of(self, type_name: str, group: str) -> str:
        """The schema name of a type that is met in a group."""
        if type_name in META_TYPES:
            return f"io.k8s.apimachinery.pkg.apis.meta.v1.{type_name}"
        owner = self._roots.get(type_name, group)
        if owner == "apiextensions.k8s.io":
            return f"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{type_name}"
        short = type_name.removeprefix("CoreV1").removeprefix("ResourceV1").removeprefix("EventsV1")
        return f"io.k8s.api.{PACKAGES.get(owner, 'core')}.v1.{short}"


class Builder:
    """Collects the schemas that a document needs. `prefix` is where references point to."""

    def __init__(self, names: Names, prefix: str) -> None:
        self._names = names
        self._prefix = prefix
        self.schemas: Json = {}

    def add(self, type_name: str, group: str) -> str:
        """Add a type and what it refers to; the result is its schema's name."""
        name = self._names.of(type_name, group)
        if name in self.schemas:
            return name
        schema: Json = {"type": "object", "description": type_name, "properties": {}}
        self.schemas[name] = schema
        for field in TABLE[type_name].values():
            schema["properties"][field.name] = self._field(type_name, field.name, field.kind, group)
        required = [field.name for field in TABLE[type_name].values() if field.required]
        if required:
            schema["required"] = required
        return name

    def _field(self, owner: str, field: str, kind: str, group: str) -> Json:
        place = f"{owner}.{field}"
        if kind[0] == "[":
            schema: Json = {"type": "array", "items": self._field(owner, field, kind[1:-1], group)}
            keys = markers.item_keys(owner, field)
            if keys and keys[0]:
                schema["x-kubernetes-patch-merge-key"] = keys[0]
                schema["x-kubernetes-patch-strategy"] = "merge"
            if keys and keys[1]:
                schema["x-kubernetes-list-type"] = "map"
                schema["x-kubernetes-list-map-keys"] = list(keys[1])
            elif place in markers.SETS:
                schema["x-kubernetes-list-type"] = "set"
                schema["x-kubernetes-patch-strategy"] = "merge"
            return schema
        if kind[0] == "{":
            return {"type": "object", "additionalProperties": self._field(owner, "", kind[1:-1], group)}
        if place in markers.INT_OR_STRING:
            return {"type": "string", "format": "int-or-string"}
        if kind == "int" and markers.is_long(owner, field):
            return {"type": "integer", "format": "int64"}
        if kind in SCALARS:
            return dict(SCALARS[kind])
        reference = {"$ref": self._prefix + self.add(kind, group)}
        return reference if self._prefix.startswith("#/definitions") else {"allOf": [reference], "default": {}}

    def add_resource(self, resource: Resource) -> str:
        """Add the schema of a resource, marked with its kind."""
        if isinstance(resource.codec, BuiltinCodec):
            name = self.add(resource.codec.type_name, resource.group)
            schema = self.schemas[name]
        else:
            parts = [*reversed(resource.group.split(".")), resource.version, resource.kind]
            name = ".".join(parts)
            schema = self._custom(resource)
            self.schemas[name] = schema
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        schema["x-kubernetes-group-version-kind"] = [kind]
        return name

    def _custom(self, resource: Resource) -> Json:
        assert isinstance(resource.codec, CustomCodec)
        source = resource.codec.schema
        meta = {"$ref": self._prefix + self.add("ObjectMeta", "")}
        properties = {
            **source["properties"],
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": meta if self._prefix.startswith("#/definitions") else {"allOf": [meta]},
        }
        schema = {key: value for key, value in source.items() if not key.startswith("x-kubernetes-validations")}
        return {**schema, "type": "object", "properties": properties}


class Documents:
    """The documents, rebuilt when the registry has changed."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._seen = -1
        self._cache: dict[str, bytes] = {}

    def _fresh(self) -> dict[str, bytes]:
        if self._seen != self._registry.changes:
            self._seen = self._registry.changes
            self._cache = {}
        return self._cache

    def index(self) -> bytes:
        """The answer of `/openapi/v3`."""
        paths: Json = {}
        for group, versions in self._registry.groups().items():
            for version in versions:
                place = f"apis/{group}/{version}" if group else f"api/{version}"
                body = self.v3(place) or b""
                paths[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={digest(body)}"}
        return encode({"paths": paths})

    def v3(self, place: str) -> bytes | None:
        """The document of one group version; None where there is none."""
        cache = self._fresh()
        if place in cache:
            return cache[place]
        parts = place.split("/")
        group, version = ("", parts[1]) if parts[0] == "api" and len(parts) == 2 else ("", "")  # noqa: PLR2004 - api/v1
        if parts[0] == "apis" and len(parts) == 3:  # noqa: PLR2004 - apis/group/version
            group, version = parts[1], parts[2]
        resources = self._registry.within(group, version) if version else []
        if not resources:
            return None
        builder = Builder(Names(self._registry), "#/components/schemas/")
        paths: Json = {}
        for resource in resources:
            name = builder.add_resource(resource)
            paths.update(_paths(resource, {"$ref": f"#/components/schemas/{name}"}))
        info = {"title": "Kubernetes", "version": "v1.36.2"}
        body = {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": builder.schemas}}
        cache[place] = encode(body)
        return cache[place]

    def v2(self) -> bytes:
        """The answer of `/openapi/v2`, as JSON."""
        cache = self._fresh()
        if "v2" not in cache:
            builder = Builder(Names(self._registry), "#/definitions/")
            for resource in self._registry:
                builder.add_resource(resource)
            info = {"title": "Kubernetes", "version": "v1.36.2"}
            cache["v2"] = encode({"swagger": "2.0", "info": info, "paths": {}, "definitions": builder.schemas})
        return cache["v2"]


def _paths(resource: Resource, reference: Json) -> Json:
    """The paths of a resource, with the options that clients look for before they use them."""
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    root = f"{base}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{base}/{resource.plural}"
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    options = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]

    def operation(action: str) -> Json:
        return {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
            "parameters": options,
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
        }

    paths: Json = {root: {"post": operation("post")}}
    if "get" in resource.verbs:
        paths[root]["get"] = operation("list")
        paths[root + "/{name}"] = {
            "get": operation("get"),
            "put": operation("put"),
            "patch": operation("patch"),
            "delete": operation("delete"),
        }
    return paths
