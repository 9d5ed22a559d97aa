"""What is tried: a kind of object with what may stand in it, and small honest values that are put into it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.hostile.shapes import ENTRY, Path, Shape, shape_in_table
from tutti.kube.resources import APIResource

Json = dict[str, Any]
NAMESPACE = "hostile"
"""Where hostile objects are, as far as they are in a namespace."""
OWNER = "uid-of-an-owner"
CONTROLLER = {"apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": OWNER, "controller": True}
QUEUE = "hostile"
"""The LocalQueue and the ClusterQueue that they may use."""


@dataclass(frozen=True, eq=False)
class Target:
    """A kind of object.

    Attributes:
        name: As in messages: kinds of other projects with their group.
        resource: Where it is served.
        shape: What may stand in it.
        bases: Honest objects of it, by name.
    """

    name: str
    kind: str
    resource: APIResource
    shape: Shape
    bases: Mapping[str, Json]


# What a field says in an honest object that is made for the sake of another field in it.
_WORDS: Mapping[str, Any] = {
    "operator": "In",
    "key": "example.com/key",
    "values": ["x"],
    "effect": "NoSchedule",
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "maxSkew": 1,
    "weight": 1,
    "name": "x",
    "kind": "Pod",
    "claimName": "claim",
    "podGroupName": "native",
    "type": "Ready",
    "status": "True",
    "containerPort": 1,
    "driver": "csi.example.com",
    "nodeID": "n1",
}


def sample(shape: Shape, *, name: str = "") -> Any:
    """A small honest value of a shape: what must be there, and what makes it mean something."""
    if shape.kind == "record":
        wanted = [one for one in shape.members if one in shape.required or one in _WORDS]
        found = {one: sample(shape.members[one], name=one) for one in wanted}
        return {**found, "operator": "Exists"} if "tolerationSeconds" in shape.members else found
    if shape.kind == "list":
        return copy.deepcopy(_WORDS[name]) if isinstance(_WORDS.get(name), list) else [sample(shape.of or Shape("any"))]
    if shape.kind == "map":
        return {ENTRY: sample(shape.of or Shape("any"))}
    if isinstance(_WORDS.get(name), str | int) and (shape.kind == "text") == isinstance(_WORDS[name], str):
        return _WORDS[name]
    plain = {"text": "x", "number": 1, "quantity": "1", "truth": False, "time": "2026-01-01T00:00:00Z", "any": {}}
    return shape.words[0] if shape.words else plain[shape.kind]


def grafted(document: Json, path: Path, value: Any, shape: Shape) -> Json:
    """A copy of an object with a value at a place; what leads there is made where it is missing."""
    return _graft(document, path, value, shape)


def _graft(found: Any, path: Path, value: Any, shape: Shape) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(found) if isinstance(found, list) and found else sample(Shape("list", of=shape.of))
        return [_graft(items[0], rest, value, shape.of or Shape("any")), *items[1:]]
    inner = shape.members.get(step, Shape("any")) if shape.kind == "record" else shape.of or Shape("any")
    known = dict(found) if isinstance(found, dict) else {}
    if not isinstance(found, dict) and shape.kind == "record":
        known = sample(shape)
    return {**known, step: _graft(known.get(step), rest, value, inner)}


def metadata(name: str, *, namespaced: bool = True, **more: Any) -> Json:
    """Of an honest object; a namespaced one is where the hostile ones are."""
    return {"name": name, **({"namespace": NAMESPACE} if namespaced else {}), **more}


def frame() -> Shape:
    """An object of which nothing but the metadata is known."""
    return Shape("record", fields=lambda: {"metadata": (shape_in_table("ObjectMeta"), True)})
