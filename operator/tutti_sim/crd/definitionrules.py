"""What is wrong with a definition of custom resources (apiextensions pkg/apis/apiextensions/validation).

What all versions have in common is told of the definition as a whole, as the server holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tutti_sim.crd.schemarules import check_schema, leads
from tutti_sim.crd.structural import malformed
from tutti_sim.meta import Json, names
from tutti_sim.meta.checks import check_text
from tutti_sim.meta.errors import FieldError, duplicate, forbidden_field, invalid, required, unsupported

COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
SIMPLE_PATH = "must be a simple json path starting with ."
ONE_STORED = "must have exactly one version marked as storage version"
SELECTABLE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)
NOWHERE = "is an invalid path: does not refer to a valid field"
COMMON = (
    ("schema", "spec.validation"),
    ("subresources", "spec.subresources"),
    ("additionalPrinterColumns", "spec.additionalPrinterColumns"),
    ("selectableFields", "spec.selectableFields"),
)


def check_definition(obj: Json) -> list[FieldError]:
    """What is wrong with a definition."""
    spec, errors = obj["spec"], list[FieldError]()
    name, group = obj["metadata"].get("name"), spec.get("group", "")
    if name and name != f"{spec['names'].get('plural', '')}.{group}":
        errors.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    errors.extend(_group(group))
    errors.extend(_scope(spec.get("scope", "")))
    errors.extend(_versions(spec))
    errors.extend(_names(spec["names"], "spec.names"))
    for field, place in COMMON:
        for at, version in _places(spec.get("versions") or (), field, place):
            errors.extend(CHECKS[field](version, at))
    errors.extend(_conversion(spec.get("conversion") or {}, "spec.conversion"))
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        errors.append(invalid("spec.preserveUnknownFields", True, text))
    return errors


def _places(versions: Any, field: str, place: str) -> Iterator[tuple[str, Json]]:
    """Where something that versions have is told of: once where all have the same."""
    if versions and all(one.get(field) == versions[0].get(field) for one in versions):
        if versions[0].get(field) is not None or field == "schema":
            yield (place if versions[0].get(field) else f"spec.versions[0].{field}"), versions[0]
        return
    for index, one in enumerate(versions):
        yield f"spec.versions[{index}].{field}", one


def _group(group: str) -> list[FieldError]:
    if not group:
        return [required("spec.group")]
    faults = check_text(group, "spec.group", names.subdomain_faults)
    return faults or (
        [] if "." in group else [invalid("spec.group", group, "should be a domain with at least one dot")]
    )


def _scope(scope: str) -> list[FieldError]:
    if not scope:
        return [required("spec.scope")]
    known = ("Cluster", "Namespaced")
    return [] if scope in known else [unsupported("spec.scope", scope, known)]


def _versions(spec: Json) -> list[FieldError]:
    versions, errors = spec.get("versions") or [], list[FieldError]()
    for index, one in enumerate(versions):
        errors.extend(check_text(one.get("name", ""), f"spec.versions[{index}].name", names.label_1035_faults))
    if len({one.get("name") for one in versions}) < len(versions):
        errors.append(invalid("spec.versions", _shown(versions), "must contain unique version names"))
    if sum(1 for one in versions if one.get("storage")) != 1:
        errors.append(invalid("spec.versions", _shown(versions), ONE_STORED))
    if versions:
        errors.extend(check_text(versions[0].get("name", ""), "spec.version", names.label_1035_faults))
    else:
        errors.append(invalid("status.storedVersions", None, "must have at least one stored version"))
    return errors


def _shown(versions: Any) -> list[Json]:
    parts = ("Schema", "Subresources", "AdditionalPrinterColumns", "SelectableFields")
    return [
        {
            "Name": one.get("name", ""),
            "Served": bool(one.get("served")),
            "Storage": bool(one.get("storage")),
            "Deprecated": bool(one.get("deprecated")),
            "DeprecationWarning": one.get("deprecationWarning"),
            **dict.fromkeys(parts),
        }
        for one in versions
    ]


def _names(given: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    plural, kind, listed = given.get("plural", ""), given.get("kind", ""), given.get("listKind", "")
    errors.extend(check_text(plural, f"{at}.plural", names.label_1035_faults) if plural else [required(f"{at}.plural")])
    if given.get("singular"):
        errors.extend(check_text(given["singular"], f"{at}.singular", names.label_1035_faults))
    errors.extend(_mixed(kind, f"{at}.kind"))
    if kind or listed:
        errors.extend(_mixed(listed, f"{at}.listKind"))
    for field in ("shortNames", "categories"):
        for index, one in enumerate(given.get(field) or ()):
            errors.extend(check_text(one, f"{at}.{field}[{index}]", names.label_1035_faults))
    if kind and kind == listed:
        errors.append(invalid(f"{at}.listKind", listed, "kind and listKind may not be the same"))
    return errors


def _mixed(kind: str, at: str) -> list[FieldError]:
    if not kind:
        return [required(at)]
    faults = names.label_1035_faults(kind.lower())
    told = "may have mixed case, but should otherwise match: "
    return [invalid(at, kind, told + ",".join(faults))] if faults else []


def _schema(version: Json, at: str) -> list[FieldError]:
    at = f"{at}.openAPIV3Schema"
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        return [required(at)] if not version.get("schema") else []
    status = (version.get("subresources") or {}).get("status") is not None
    return malformed(schema, at) or check_schema(schema, at, status=status)


def _subresources(version: Json, at: str) -> list[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for field, below in (("specReplicasPath", (".spec",)), ("statusReplicasPath", (".status",))):
        place = f"{at}.scale.{field}"
        errors.extend(_path(scale[field], place, below) if scale.get(field) else [required(place)])
    if scale.get("labelSelectorPath"):
        errors.extend(_path(scale["labelSelectorPath"], f"{at}.scale.labelSelectorPath", (".spec", ".status")))
    return errors


def _path(path: str, at: str, below: tuple[str, ...]) -> list[FieldError]:
    if not path.startswith("."):
        return [invalid(at, path, SIMPLE_PATH)]
    if not any(path.startswith(f"{one}.") for one in below):
        where = below[0] if len(below) == 1 else f"either {' or '.join(below)}"
        return [invalid(at, path, f"should be a json path under {where}")]
    return []


def _columns(version: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, one in enumerate(version.get("additionalPrinterColumns") or ()):
        where = f"{at}[{index}]"
        kind, form, path = one.get("type", ""), one.get("format", ""), one.get("jsonPath", "")
        if not one.get("name"):
            errors.append(required(f"{where}.name"))
        if not kind:
            errors.append(required(f"{where}.type", f"must be one of {','.join(COLUMN_TYPES)}"))
        elif kind not in COLUMN_TYPES:
            errors.append(invalid(f"{where}.type", kind, f"must be one of {','.join(COLUMN_TYPES)}"))
        if form and form not in COLUMN_FORMATS:
            errors.append(invalid(f"{where}.format", form, f"must be one of {','.join(COLUMN_FORMATS)}"))
        if not path:
            errors.append(required(f"{where}.JSONPath"))
        elif not path.startswith("."):
            errors.append(invalid(f"{where}.JSONPath", path, SIMPLE_PATH))
    return errors


def _selectable(version: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        return [invalid(at, "", "may only be set when validations.schema is included")]
    seen: set[str] = set()
    for index, one in enumerate(version.get("selectableFields") or ()):
        place, path = f"{at}[{index}].jsonPath", one.get("jsonPath", "")
        if not path:
            errors.append(required(place))
            continue
        if path[0] not in ".[":
            errors.append(invalid(place, path, f"is an invalid path: expected [ or . but got: {path}"))
            continue
        found = None if path.startswith(".metadata") else leads(schema, path)
        if found is None:
            errors.append(invalid(place, path, NOWHERE))
        elif found.get("type") not in ("string", "boolean", "integer"):
            errors.append(invalid(place, path, SELECTABLE))
        elif path in seen:
            errors.append(duplicate(place, path))
        seen.add(path)
    return errors


CHECKS = {
    "schema": _schema,
    "subresources": _subresources,
    "additionalPrinterColumns": _columns,
    "selectableFields": _selectable,
}


def _conversion(conversion: Json, at: str) -> list[FieldError]:
    strategy, webhook = conversion.get("strategy", "None"), conversion.get("webhook") or {}
    errors: list[FieldError] = []
    if strategy not in ("None", "Webhook"):
        return [unsupported(f"{at}.strategy", strategy, ("None", "Webhook"))]
    if strategy == "None":
        for field, title in (("clientConfig", "webhookClientConfig"), ("conversionReviewVersions",) * 2):
            if webhook.get(field):
                text = "should not be set when strategy is not set to Webhook"
                errors.append(forbidden_field(f"{at}.{title}", text))
        return errors
    if not webhook.get("clientConfig"):
        errors.append(required(f"{at}.webhookClientConfig", "required when strategy is set to Webhook"))
    if not webhook.get("conversionReviewVersions"):
        errors.append(required(f"{at}.conversionReviewVersions"))
    return errors
