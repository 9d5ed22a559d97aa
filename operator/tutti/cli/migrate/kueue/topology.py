"""What Kueue is told about nearness, in annotations or fields, as the topology of a pod group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tutti.api.conventions import ConventionError, kueue
from tutti.api.problems import path_of
from tutti.cli.migrate.kueue import words
from tutti.cli.migrate.notes import Level, Notes


def request(
    modes: Mapping[str, Any], *, unconstrained: bool, slices: Sequence[tuple[Any, Any]], group: Any
) -> dict[str, Any] | None:
    """The topology of a pod group.

    Args:
        modes: The node label that each mode speaks of, if any.
        unconstrained: Whether any nodes will do.
        slices: Node label and size of the slices, the widest first; pairs of nothing are passed over.
        group: Pod groups with the same one go to one domain.

    Returns:
        The topology; None where nothing is asked.
    """
    level = next(({"mode": mode, "level": level} for mode, level in modes.items() if level), None)
    layers = [(level, size) for level, size in slices if level or size]
    if level is None and not unconstrained and not layers:
        return None
    wanted: dict[str, Any] = level or {"mode": "Unconstrained"}
    if layers:
        wanted |= {"sliceLevel": layers[0][0], "sliceSize": layers[0][1]}
    if layers[1:]:
        wanted["innerSlices"] = [{"level": level, "size": size} for level, size in layers[1:]]
    if group:
        wanted["groupName"] = group
    return wanted


def asks(template: Any) -> bool:
    """Whether the annotations of a pod template ask for topology."""
    return any(key in words.texts(template, of="annotations") for key in words.TOPOLOGY)


def of_template(template: Any, path: str, notes: Notes) -> dict[str, Any] | None:
    """What the annotations of a pod template ask for; what cannot be read is told, and left out."""
    annotations = {str(key): str(value) for key, value in words.texts(template, of="annotations").items()}
    try:
        said = kueue.read_topology_request(annotations)
    except ConventionError as error:
        notes.add(Level.INVALID, f"{path}.{error.where}" if path else error.where, error.message, "correct it by hand")
        return None
    if said is None:
        return None
    modes = {said.mode: said.level}
    return request(modes, unconstrained=said.mode == "Unconstrained", slices=said.slices, group=said.group)


def place(template: Any, path: str) -> str:
    """Where a pod template asks for topology: the first annotation that does."""
    said = words.texts(template, of="annotations")
    step = path_of([next((key for key in words.TOPOLOGY if key in said), words.TOPOLOGY[0])])
    return f"{path}.metadata.annotations{step}" if path else f"metadata.annotations{step}"
