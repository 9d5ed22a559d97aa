"""Every kind of object that the operator watches: where it is, what may stand in it, and honest ones to begin from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from tests.api.manifests import RIGHT, manifest
from tests.hostile.honest import BASES, PODS
from tests.hostile.other_projects import (
    device_kinds,
    gang_objects_of_others,
    network_kinds,
    owners,
    provisioning_request,
    throttle,
    zones_of_nodes,
)
from tests.hostile.shapes import Shape, shape_in_table, shape_of, together
from tests.hostile.target import NAMESPACE, Target, frame
from tutti.api.core import ObjectMeta, Pod
from tutti.api.kinds import KINDS
from tutti.controller.watch_list import WATCH_LIST

_SELECTING = ("ReplicationController", "ReplicaSet", "StatefulSet")
"""Of their templates, which are as large as pods, nothing is read."""


@cache
def targets() -> tuple[Target, ...]:
    """Every kind that is watched."""
    return (
        *_built_in(),
        *_ours(),
        *gang_objects_of_others(),
        *owners(),
        zones_of_nodes(),
        *device_kinds(),
        throttle(),
        provisioning_request(),
        *network_kinds(),
    )


def _built_in() -> Iterator[Target]:
    for stream in WATCH_LIST:
        if stream.kind in KINDS:
            continue
        theirs = frame() if stream.kind in _SELECTING else shape_in_table(stream.kind)
        bases = PODS if stream.kind == "Pod" else {"plain": BASES[stream.kind]}
        yield Target(stream.kind, stream.kind, stream.resource, together(shape_of(stream.view), theirs), bases)


def _ours() -> Iterator[Target]:
    """Ours, with a template read as what pods are made of."""
    template = together(
        Shape("record", fields=lambda: {"metadata": (shape_of(ObjectMeta), False), "spec": (_spec_of_pods(), False)}),
        shape_in_table("PodTemplateSpec"),
    )
    for stream in WATCH_LIST:
        if stream.kind not in KINDS:
            continue
        honest = {name: manifest(kind, spec) for name, (kind, spec) in RIGHT.items() if kind == stream.kind}
        for base in honest.values():
            if "namespace" in base["metadata"]:
                base["metadata"]["namespace"] = NAMESPACE
        shape = together(frame(), shape_of(KINDS[stream.kind]))
        yield Target(stream.kind, stream.kind, stream.resource, _with_template(shape, template), honest)


def _spec_of_pods() -> Shape:
    return shape_of(Pod).members["spec"]


def _with_template(shape: Shape, template: Shape) -> Shape:
    """A shape in which every template that may be anything is one of pods."""
    if shape.kind == "record":
        return Shape(
            "record",
            fields=lambda: {
                name: (template if name == "template" else _with_template(inner, template), name in shape.required)
                for name, inner in shape.members.items()
            },
        )
    return Shape(shape.kind, of=_with_template(shape.of, template), words=shape.words) if shape.of else shape
