"""Manifests as people have them: YAML or JSON, of several documents, and lists as `kubectl get -o yaml` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

LARGEST_CHARACTERS = 16 * 1024 * 1024
MOST_DOCUMENTS = 50_000
"""Objects that a manifest may have; more are nobody's question."""


class ManifestError(ValueError):
    """A text that is no manifest; the message says where, and what would be right."""


@dataclass(frozen=True, slots=True)
class ManifestDocument:
    """One object of a manifest.

    Attributes:
        place: Where it stands: `document 2`, or `document 1, item 3` of a list.
    """

    place: str
    raw: dict[str, Any]


def documents_of(text: str) -> list[ManifestDocument]:
    """Return the objects of a manifest in order; empty documents are none.

    Raises:
        ManifestError: It cannot be read, or something in it is no object.
    """
    if len(text) > LARGEST_CHARACTERS:
        raise ManifestError(f"the manifest has more than {LARGEST_CHARACTERS} characters")
    try:
        read: list[Any] = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ManifestError(f"the manifest cannot be read: {' '.join(str(error).split())}") from None
    found: list[ManifestDocument] = []
    for number, one in enumerate(read, start=1):
        for document in () if one is None else objects_in(one, f"document {number}"):
            if len(found) == MOST_DOCUMENTS:
                raise ManifestError(f"the manifest has more than {MOST_DOCUMENTS} objects")
            found.append(document)
    if not found:
        raise ManifestError("there is nothing in the manifest")
    return found


def objects_in(one: Any, place: str, around: Sequence[Any] = ()) -> Iterator[ManifestDocument]:
    """Yield an object, or those of a list.

    Args:
        one: What was read.
        place: Where it stands, for people.
        around: The lists that it stands in.

    Raises:
        ManifestError: It is no object, or has no kind.
    """
    if not isinstance(one, dict):
        raise ManifestError(f"{place}: must be an object with apiVersion, kind and metadata, not {_named(one)}")
    kind = one.get("kind")
    if not isinstance(kind, str) or not kind:
        raise ManifestError(f"{place}: has no kind; an object says apiVersion, kind and metadata")
    if not (kind.endswith("List") and isinstance(one.get("items"), list)):
        yield ManifestDocument(place, one)
        return
    if len(around) > 1 or any(one is outer for outer in around):
        raise ManifestError(f"{place}: lists stand in lists")
    for number, item in enumerate(one["items"], start=1):
        # In a list of one kind the server leaves out what all items have in common.
        if kind != "List" and isinstance(item, dict) and "kind" not in item:
            item = {"apiVersion": one.get("apiVersion", ""), "kind": kind.removesuffix("List"), **item}  # noqa: PLW2901
        yield from objects_in(item, f"{place}, item {number}", (*around, one))


def _named(value: Any) -> str:
    match value:
        case list():
            return "a list"
        case str():
            return "text" if len(value) > 40 else f"the text {value!r}"  # noqa: PLR2004 - what fits in a line
        case None:
            return "nothing"
        case _:
            return f"{value!r}"[:40]
