"""The strategy of CustomResourceDefinitions: names filled in, versions and schemas checked.

What a definition then serves is made by `tutti_sim.crd.serving`.
"""

from __future__ import annotations

from typing import Any

from tutti_sim.crd.structural import check_schema
from tutti_sim.crd.wellformed import malformed
from tutti_sim.kinds.strategy import Strategy
from tutti_sim.meta.errors import FieldError, invalid, required, unsupported

Json = dict[str, Any]

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class DefinitionStrategy(Strategy):
    """CustomResourceDefinitions."""

    generation = True
    has_status = True

    def default(self, obj: Json) -> None:
        """Fill in the names that follow from the kind."""
        spec = obj.setdefault("spec", {})
        names = spec.setdefault("names", {})
        if names.get("kind"):
            names.setdefault("singular", names["kind"].lower())
            names.setdefault("listKind", names["kind"] + "List")
        spec.setdefault("conversion", {}).setdefault("strategy", "None")

    def prepare_create(self, obj: Json) -> None:
        """Nothing is served yet; the storage version is noted."""
        stored = [one["name"] for one in obj["spec"].get("versions", ()) if one.get("storage")]
        obj["status"] = {"storedVersions": stored, "conditions": [], "acceptedNames": {"kind": "", "plural": ""}}

    def prepare_update(self, new: Json, old: Json) -> None:
        """A version once stored stays in the list."""
        super().prepare_update(new, old)
        status = dict(new.get("status", {}))
        stored = list(status.get("storedVersions", ()))
        for one in new["spec"].get("versions", ()):
            if one.get("storage") and one["name"] not in stored:
                stored.append(one["name"])
        new["status"] = {**status, "storedVersions": stored}

    def validate(self, obj: Json) -> list[FieldError]:
        """Check names, scope, versions and their schemas."""
        spec, errors = obj["spec"], list[FieldError]()
        wanted = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
        if obj["metadata"].get("name") != wanted:
            errors.append(
                invalid("metadata.name", obj["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group')
            )
        if spec.get("scope") not in ("Cluster", "Namespaced"):
            errors.append(unsupported("spec.scope", spec.get("scope"), ("Cluster", "Namespaced")))
        for field in ("plural", "kind"):
            if not spec["names"].get(field):
                errors.append(required(f"spec.names.{field}"))
        if sum(1 for one in spec.get("versions", ()) if one.get("storage")) != 1:
            errors.append(
                invalid(
                    "spec.versions", spec.get("versions"), "must have exactly one version marked as storage version"
                )
            )
        for index, version in enumerate(spec.get("versions", ())):
            at = f"spec.versions[{index}].schema.openAPIV3Schema"
            schema = version.get("schema", {}).get("openAPIV3Schema")
            if not schema:
                errors.append(required(at, "schemas are required"))
            else:
                errors.extend(malformed(schema, at) or check_schema(schema, at))
        return errors

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """Group, scope, plural and kind stay."""
        errors = self.validate(new) if new["spec"] != old["spec"] else []
        for field, before, after in (
            ("spec.group", old["spec"].get("group"), new["spec"].get("group")),
            ("spec.scope", old["spec"].get("scope"), new["spec"].get("scope")),
            ("spec.names.plural", old["spec"]["names"].get("plural"), new["spec"]["names"].get("plural")),
            ("spec.names.kind", old["spec"]["names"].get("kind"), new["spec"]["names"].get("kind")),
        ):
            if before != after:
                errors.append(invalid(field, after, "field is immutable"))
        return errors
