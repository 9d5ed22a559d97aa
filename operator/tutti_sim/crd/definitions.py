"""The strategy of CustomResourceDefinitions: names filled in, versions and schemas checked.

What a definition then serves is made by `tutti_sim.crd.serving`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tutti_sim.crd.definitionrules import check_definition
from tutti_sim.kinds.resource import Strategy
from tutti_sim.meta import Json
from tutti_sim.meta.errors import FieldError, invalid

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class DefinitionStrategy(Strategy):
    """CustomResourceDefinitions."""

    generation = True
    needs_version = True
    has_status = True
    standard_finalizers = False

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
        obj["status"] = {"storedVersions": stored, "conditions": None, "acceptedNames": {"kind": "", "plural": ""}}

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
        """Check names, scope, versions and what they have."""
        return check_definition(obj)

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


STEP = re.compile(
    r"""\.(?P<name>(?:[^.\[\]\\]|\\.)+)
      | \[['"](?P<quoted>[^'"]+)['"]\]
      | \[(?P<index>-?\d+)\]
      | (?P<all>\[\*\])
      | \[\?\(@\.(?P<key>[\w.-]+)\s*==\s*['"]?(?P<value>[^'")]*)['"]?\)\]""",
    re.VERBOSE,
)

Reader = Callable[[Any], list[Any]]


def reader(text: str) -> Reader:
    """A function from a document to the values at a path; ValueError when the path is malformed."""
    source = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[re.Match[str]] = []
    position = 0
    while position < len(source):
        match = STEP.match(source, position)
        if not match:
            raise ValueError(f"JSON path {text!r} is malformed at {source[position:]!r}")
        steps.append(match)
        position = match.end()

    def read(document: Any) -> list[Any]:
        nodes = [document]
        for step in steps:
            nodes = [found for node in nodes for found in _follow(node, step)]
        return [node for node in nodes if node is not None]

    return read


def _follow(node: Any, step: re.Match[str]) -> list[Any]:
    name = step["name"].replace("\\", "") if step["name"] else step["quoted"]
    if name is not None:
        return [node[name]] if isinstance(node, dict) and name in node else []
    if not isinstance(node, list):
        return list(node.values()) if step["all"] and isinstance(node, dict) else []
    if step["all"]:
        return node
    if step["index"] is not None:
        index = int(step["index"])
        return [node[index]] if -len(node) <= index < len(node) else []
    return [item for item in node if isinstance(item, dict) and str(item.get(step["key"])) == step["value"]]
