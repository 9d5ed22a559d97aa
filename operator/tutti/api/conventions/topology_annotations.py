"""Annotations that say how near one another pods must be: Kueue's, and ours, which differ from them by the prefix only.

They stand on pods, whose templates have them, and on what owns pods. Keys: Kueue 0.20,
apis/kueue/v1beta2/topology_types.go; rules: pkg/controller/jobframework/tas_validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

import msgspec

from tutti.api.conventions.membership import (
    MOST_MEMBERS,
    ConventionError,
    PodTopologyRequest,
    annotation_path,
    decode_json,
    quoted,
    whole_number,
)
from tutti.api.model import GROUP, LABEL_PATTERN

MOST_LAYERS = 3
_LABEL = re.compile(LABEL_PATTERN)
_RIGHT = f'write a list of 1 to {MOST_LAYERS} layers such as {{"topology": a node label, "size": 1 or more}}'


class TopologyKeys(NamedTuple):
    """The keys of the annotations on topology of one project.

    Attributes:
        required: A node label: all pods that are alike are in one domain of it.
        preferred: A node label: they are if that can be.
        unconstrained: Any nodes will do.
        group: Pods with the same one go to one domain, whatever they are like.
        slice_level: A node label: each slice is in one domain of it.
        slice_size: How many pods are a slice.
        slices: Several layers of slices, as JSON.
    """

    required: str
    preferred: str
    unconstrained: str
    group: str
    slice_level: str
    slice_size: str
    slices: str

    @classmethod
    def under(cls, prefix: str) -> TopologyKeys:
        """Return the keys with a prefix, such as `kueue.x-k8s.io`."""
        names = (
            "required-topology",
            "preferred-topology",
            "unconstrained-topology",
            "group-name",
            "slice-required-topology",
            "slice-size",
            "slice-required-topology-constraints",
        )
        return cls(*(f"{prefix}/podset-{name}" for name in names))

    @property
    def modes(self) -> dict[str, str]:
        """The keys that name a mode, and which."""
        return {self.required: "Required", self.preferred: "Preferred", self.unconstrained: "Unconstrained"}


KUEUE_TOPOLOGY: Final = TopologyKeys.under("kueue.x-k8s.io")
OUR_TOPOLOGY: Final = TopologyKeys.under(GROUP)


class _Layer(msgspec.Struct, frozen=True):
    """Slices of so many pods, each within one value of a node label."""

    topology: str
    size: Annotated[int, msgspec.Meta(ge=1, le=MOST_MEMBERS)]


_LAYERS: msgspec.json.Decoder[list[_Layer]] = msgspec.json.Decoder(list[_Layer])


def read_topology_request(annotations: Mapping[str, str], keys: TopologyKeys) -> PodTopologyRequest | None:
    """What the annotations say; None where they say nothing.

    Args:
        annotations: Those of a pod, a pod template or an owner.
        keys: Whose annotations are read.

    Raises:
        ConventionError: They cannot be read, or contradict each other.
    """
    known = keys.modes
    modes = [key for key in known if key in annotations]
    if len(modes) > 1:
        raise ConventionError(
            f"cannot be given together with {modes[0]}; keep one of the two", annotation_path(modes[1])
        )
    mode, level = "Unconstrained", ""
    if modes:
        mode = known[modes[0]]
        level = "" if mode == "Unconstrained" else _level(annotations[modes[0]], modes[0])
        if mode == "Unconstrained" and annotations[modes[0]] not in ("true", "false"):
            raise ConventionError(
                f"{quoted(annotations[modes[0]])} is neither true nor false", annotation_path(modes[0])
            )
    slices = _slices(annotations, keys)
    group = annotations.get(keys.group, "")
    if group and not level:
        raise ConventionError("needs a required or a preferred topology beside it", annotation_path(keys.group))
    asked = bool(slices) or (bool(modes) and annotations[modes[0]] != "false")
    return PodTopologyRequest(mode, level, slices, group) if asked else None


def _slices(annotations: Mapping[str, str], keys: TopologyKeys) -> tuple[tuple[str, int], ...]:
    if keys.slices in annotations:
        for key in (keys.slice_level, keys.slice_size):
            if key in annotations:
                raise ConventionError(
                    f"cannot be given together with {keys.slices}; keep one of the two", annotation_path(key)
                )
        return _layers(annotations[keys.slices], keys.slices)
    for key, other in ((keys.slice_level, keys.slice_size), (keys.slice_size, keys.slice_level)):
        if key in annotations and other not in annotations:
            raise ConventionError(f"must be given, because {key} is", annotation_path(other))
    size = whole_number(annotations, keys.slice_size, annotation_path(keys.slice_size), least=1)
    return () if size is None else ((_level(annotations[keys.slice_level], keys.slice_level), size),)


def _layers(text: str, key: str) -> tuple[tuple[str, int], ...]:
    layers = decode_json(text, _LAYERS, annotation_path(key), _RIGHT)
    if not 1 <= len(layers) <= MOST_LAYERS:
        raise ConventionError(_RIGHT, annotation_path(key))
    return tuple((_level(layer.topology, key), layer.size) for layer in layers)


def _level(text: str, key: str) -> str:
    if not _LABEL.fullmatch(text):
        raise ConventionError(f"{quoted(text)} cannot be the key of a node label", annotation_path(key))
    return text
