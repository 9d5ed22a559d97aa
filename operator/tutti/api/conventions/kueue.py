"""Kueue: a queue label, pod groups of a fixed size, and how near one another pods must be; its gates are not needed.

Topology annotations: 0.20, apis/kueue/v1beta2/topology_types.go; rules: pkg/controller/jobframework/tas_validation.go.
A pod template carries the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec

from tutti.api.conventions.membership import (
    MOST_MEMBERS,
    ConventionError,
    GangMembership,
    PodTopologyRequest,
    annotation_path,
    decode_json,
    existing_name,
    label_path,
    object_name,
    quoted,
    whole_number,
)
from tutti.api.model import LABEL_PATTERN

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod


_PREFIX = "kueue.x-k8s.io/"
QUEUE_NAME = f"{_PREFIX}queue-name"
PRIORITY_CLASS = f"{_PREFIX}priority-class"
GROUP_NAME = f"{_PREFIX}pod-group-name"
TOTAL_COUNT = f"{_PREFIX}pod-group-total-count"
_PODSET_PREFIX = "kueue.x-k8s.io/podset-"
TOPOLOGY_MODES = {
    f"{_PODSET_PREFIX}required-topology": "Required",
    f"{_PODSET_PREFIX}preferred-topology": "Preferred",
    f"{_PODSET_PREFIX}unconstrained-topology": "Unconstrained",
}
PODSET_GROUP = f"{_PODSET_PREFIX}group-name"
SLICE_LEVEL = f"{_PODSET_PREFIX}slice-required-topology"
SLICE_SIZE = f"{_PODSET_PREFIX}slice-size"
SLICES = f"{_PODSET_PREFIX}slice-required-topology-constraints"
TOPOLOGY_KEYS = (*TOPOLOGY_MODES, PODSET_GROUP, SLICE_LEVEL, SLICE_SIZE, SLICES)
KEYS = (QUEUE_NAME, PRIORITY_CLASS, GROUP_NAME, TOTAL_COUNT, *TOPOLOGY_KEYS)
"""All that is read."""
MOST_LAYERS = 3
_LABEL = re.compile(LABEL_PATTERN)
_RIGHT = f'write a list of 1 to {MOST_LAYERS} layers such as {{"topology": a node label, "size": 1 or more}}'


def read_kueue(pod: Pod, settings: Conventions) -> GangMembership | None:  # noqa: ARG001  all conventions are read the same way
    """What the labels and annotations say; None for a pod without a queue or group of Kueue's."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    queue = existing_name(labels.get(QUEUE_NAME, ""), label_path(QUEUE_NAME))
    group = labels.get(GROUP_NAME) or annotations.get(GROUP_NAME, "")
    if not queue and not group:
        return None
    total = whole_number(annotations, TOTAL_COUNT, annotation_path(TOTAL_COUNT), least=1)
    if group and total is None:
        raise ConventionError(
            f"must be given, because {GROUP_NAME} makes the pod a member", annotation_path(TOTAL_COUNT)
        )
    if not group and total is not None:
        raise ConventionError(f"must be given, because {TOTAL_COUNT} makes the pod a member", label_path(GROUP_NAME))
    return GangMembership(
        convention="kueue",
        namespace=pod.metadata.namespace,
        group=object_name(group) if group else "",
        queue=queue,
        priority_class=existing_name(labels.get(PRIORITY_CLASS, ""), label_path(PRIORITY_CLASS)),
        min_count=total,
        count=total,
        most=total,
        implicit=bool(group),
        topology=read_topology_request(annotations),
    )


class _Layer(msgspec.Struct, frozen=True):
    """Slices of so many pods, each within one value of a node label."""

    topology: str
    size: Annotated[int, msgspec.Meta(ge=1, le=MOST_MEMBERS)]


_LAYERS: msgspec.json.Decoder[list[_Layer]] = msgspec.json.Decoder(list[_Layer])


def read_topology_request(annotations: Mapping[str, str]) -> PodTopologyRequest | None:
    """What the annotations say; None where they say nothing.

    Raises:
        ConventionError: They cannot be read, or contradict each other.
    """
    modes = [key for key in TOPOLOGY_MODES if key in annotations]
    if len(modes) > 1:
        raise ConventionError(
            f"cannot be given together with {modes[0]}; keep one of the two", annotation_path(modes[1])
        )
    mode, level = "Unconstrained", ""
    if modes:
        mode = TOPOLOGY_MODES[modes[0]]
        level = "" if mode == "Unconstrained" else _level(annotations[modes[0]], modes[0])
        if mode == "Unconstrained" and annotations[modes[0]] not in ("true", "false"):
            raise ConventionError(
                f"{quoted(annotations[modes[0]])} is neither true nor false", annotation_path(modes[0])
            )
    slices = _slices(annotations)
    group = annotations.get(PODSET_GROUP, "")
    if group and not level:
        raise ConventionError("needs a required or a preferred topology beside it", annotation_path(PODSET_GROUP))
    asked = bool(slices) or (bool(modes) and annotations[modes[0]] != "false")
    return PodTopologyRequest(mode, level, slices, group) if asked else None


def _slices(annotations: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    if SLICES in annotations:
        for key in (SLICE_LEVEL, SLICE_SIZE):
            if key in annotations:
                raise ConventionError(
                    f"cannot be given together with {SLICES}; keep one of the two", annotation_path(key)
                )
        return _layers(annotations[SLICES])
    for key, other in ((SLICE_LEVEL, SLICE_SIZE), (SLICE_SIZE, SLICE_LEVEL)):
        if key in annotations and other not in annotations:
            raise ConventionError(f"must be given, because {key} is", annotation_path(other))
    size = whole_number(annotations, SLICE_SIZE, annotation_path(SLICE_SIZE), least=1)
    return () if size is None else ((_level(annotations[SLICE_LEVEL], SLICE_LEVEL), size),)


def _layers(text: str) -> tuple[tuple[str, int], ...]:
    layers = decode_json(text, _LAYERS, annotation_path(SLICES), _RIGHT)
    if not 1 <= len(layers) <= MOST_LAYERS:
        raise ConventionError(_RIGHT, annotation_path(SLICES))
    return tuple((_level(layer.topology, SLICES), layer.size) for layer in layers)


def _level(text: str, key: str) -> str:
    if not _LABEL.fullmatch(text):
        raise ConventionError(f"{quoted(text)} cannot be the key of a node label", annotation_path(key))
    return text
