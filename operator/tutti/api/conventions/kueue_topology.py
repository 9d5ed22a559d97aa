"""Kueue's annotations on how near one another pods must be (0.20, apis/kueue/v1beta2/topology_types.go).

A pod template carries the same ones. Rules: pkg/controller/jobframework/tas_validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from tutti.api.conventions.claim import ConventionError, TopologyClaim, annotation, shown
from tutti.api.conventions.texts import MOST_MEMBERS, decoded, integer
from tutti.api.model import LABEL_PATTERN

_PREFIX = "kueue.x-k8s.io/podset-"
MODES = {
    f"{_PREFIX}required-topology": "Required",
    f"{_PREFIX}preferred-topology": "Preferred",
    f"{_PREFIX}unconstrained-topology": "Unconstrained",
}
GROUP = f"{_PREFIX}group-name"
SLICE_LEVEL = f"{_PREFIX}slice-required-topology"
SLICE_SIZE = f"{_PREFIX}slice-size"
SLICES = f"{_PREFIX}slice-required-topology-constraints"
KEYS = (*MODES, GROUP, SLICE_LEVEL, SLICE_SIZE, SLICES)
"""All that is read."""
MOST_LAYERS = 3
_LABEL = re.compile(LABEL_PATTERN)
_RIGHT = f'write a list of 1 to {MOST_LAYERS} layers such as {{"topology": a node label, "size": 1 or more}}'


class _Layer(msgspec.Struct, frozen=True):
    """Slices of so many pods, each within one value of a node label."""

    topology: str
    size: Annotated[int, msgspec.Meta(ge=1, le=MOST_MEMBERS)]


_LAYERS: msgspec.json.Decoder[list[_Layer]] = msgspec.json.Decoder(list[_Layer])


def read(annotations: Mapping[str, str]) -> TopologyClaim | None:
    """What the annotations say; None where they say nothing.

    Raises:
        ConventionError: They cannot be read, or contradict each other.
    """
    modes = [key for key in MODES if key in annotations]
    if len(modes) > 1:
        raise ConventionError(f"cannot be given together with {modes[0]}; keep one of the two", annotation(modes[1]))
    mode, level = "Unconstrained", ""
    if modes:
        mode = MODES[modes[0]]
        level = "" if mode == "Unconstrained" else _level(annotations[modes[0]], modes[0])
        if mode == "Unconstrained" and annotations[modes[0]] not in ("true", "false"):
            raise ConventionError(f"{shown(annotations[modes[0]])} is neither true nor false", annotation(modes[0]))
    slices = _slices(annotations)
    group = annotations.get(GROUP, "")
    if group and not level:
        raise ConventionError("needs a required or a preferred topology beside it", annotation(GROUP))
    asked = bool(slices) or (bool(modes) and annotations[modes[0]] != "false")
    return TopologyClaim(mode, level, slices, group) if asked else None


def _slices(annotations: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    if SLICES in annotations:
        for key in (SLICE_LEVEL, SLICE_SIZE):
            if key in annotations:
                raise ConventionError(f"cannot be given together with {SLICES}; keep one of the two", annotation(key))
        return _layers(annotations[SLICES])
    for key, other in ((SLICE_LEVEL, SLICE_SIZE), (SLICE_SIZE, SLICE_LEVEL)):
        if key in annotations and other not in annotations:
            raise ConventionError(f"must be given, because {key} is", annotation(other))
    size = integer(annotations, SLICE_SIZE, annotation(SLICE_SIZE), least=1)
    return () if size is None else ((_level(annotations[SLICE_LEVEL], SLICE_LEVEL), size),)


def _layers(text: str) -> tuple[tuple[str, int], ...]:
    layers = decoded(text, _LAYERS, annotation(SLICES), _RIGHT)
    if not 1 <= len(layers) <= MOST_LAYERS:
        raise ConventionError(_RIGHT, annotation(SLICES))
    return tuple((_level(layer.topology, SLICES), layer.size) for layer in layers)


def _level(text: str, key: str) -> str:
    if not _LABEL.fullmatch(text):
        raise ConventionError(f"{shown(text)} cannot be the key of a node label", annotation(key))
    return text
