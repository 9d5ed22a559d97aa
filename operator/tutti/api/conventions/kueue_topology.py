"""Kueue's annotations on how near one another pods must be (0.20, apis/kueue/v1beta2/topology_types.go).

A pod template carries the same ones. Rules: pkg/controller/jobframework/tas_validation.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tutti.api.conventions.claim import ConventionError, TopologyClaim, annotation, integer
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
            raise ConventionError(f"{annotations[modes[0]]!r} is neither true nor false", annotation(modes[0]))
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
    where = annotation(SLICES)
    try:
        layers: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConventionError(f"this is no JSON ({error})", where) from None
    if not isinstance(layers, list) or not 1 <= len(layers) <= MOST_LAYERS:
        raise ConventionError(f"write a list of 1 to {MOST_LAYERS} layers", where)
    return tuple(_layer(layer, where) for layer in layers)


def _layer(layer: Any, where: str) -> tuple[str, int]:
    if isinstance(layer, dict):
        level, size = layer.get("topology"), layer.get("size")
        if isinstance(level, str) and isinstance(size, int) and not isinstance(size, bool) and size >= 1:
            return _level(level, SLICES), size
    raise ConventionError(
        f'{json.dumps(layer)} is no layer: write {{"topology": a node label, "size": 1 or more}}', where
    )


def _level(text: str, key: str) -> str:
    if not _LABEL.fullmatch(text):
        raise ConventionError(f"{text!r} cannot be the key of a node label", annotation(key))
    return text
