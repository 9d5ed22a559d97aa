"""A stream of YAML documents, rewritten one by one, its text kept wherever nothing changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import yaml

from tutti.cli.migrate.conforming import line_of
from tutti.cli.migrate.editing import compose, construct, dump, restated, same
from tutti.cli.migrate.kueue.rewriting import Rewritten
from tutti.cli.migrate.report import Note, NoteLevel, ReportEntry

_MARKER = re.compile(r"^---(?=\s|$)", re.MULTILINE)
Rewriter = Callable[[dict[str, Any]], Rewritten]


class Migrated(NamedTuple):
    """A whole stream rewritten.

    Attributes:
        text: The new stream.
        entries: What there is to know.
        passed: The kinds of the documents that were passed on as they are, one for each.
    """

    text: str
    entries: list[ReportEntry]
    passed: list[str]


class _Chunk(NamedTuple):
    """A document as it stands in the stream: its text behind the marker, the marker, its first line from 0."""

    text: str
    marked: bool
    line: int


_Found = tuple[dict[str, Any], str, Note]
"""What a note is about, where that stands in its document, and the note."""

_Done = tuple[list[dict[str, Any]], dict[str, Any] | None, list[_Found]]
"""What is written before a document, what becomes of it, and what there is to know."""


def migrate(text: str, file: str, rewrite: Rewriter) -> Migrated:
    """Rewrite each document of a stream; one that cannot be read is passed on and told of."""
    pieces: list[str] = []
    entries: list[ReportEntry] = []
    passed: list[str] = []
    for number, chunk in enumerate(_chunks(text), start=1):
        try:
            node = compose(chunk.text)
            value = None if node is None else construct(node)
        except yaml.YAMLError as error:
            happens = "passed on as it is: it cannot be read: " + " ".join(str(error).split())
            note = Note(NoteLevel.INVALID, "", happens, "write it as plain YAML (a template must be rendered first)")
            entries.append(ReportEntry(file, chunk.line + 1, number, "", "", note))
            node = value = None
        if node is None or not isinstance(value, dict):
            _append(pieces, chunk.text, marked=chunk.marked)
            continue
        found: list[_Found] = []
        for piece in _pieces(chunk, node, value, partial(_rewritten, rewrite=rewrite, passed=passed), found):
            _append(pieces, piece, marked=chunk.marked or bool(pieces))
        entries += [
            ReportEntry(file, chunk.line + line_of(node, place + note.path) + 1, number, *_whose(of), note)
            for of, place, note in found
        ]
    return Migrated("".join(pieces), entries, passed)


def documents(text: str) -> Iterator[dict[str, Any]]:
    """The documents of a stream that can be read, and the items of its Lists, in their order."""
    for chunk in _chunks(text):
        try:
            node = compose(chunk.text)
            value = None if node is None else construct(node)
        except yaml.YAMLError:
            continue  # `migrate` tells of it
        at = [value]
        for one in at:
            items = one.get("items") if isinstance(one, dict) and one.get("kind") == "List" else None
            if isinstance(items, list):
                at += items
            elif isinstance(one, dict):
                yield one


def _pieces(
    chunk: _Chunk, node: yaml.Node, value: dict[str, Any], rewrite: Callable[[Any], _Done], found: list[_Found]
) -> Iterator[str]:
    """The documents that one becomes, those written anew first; what there is to know is added to `found`."""
    before, wanted, notes = rewrite(value)
    found += notes
    for one in before:
        yield "\n" + dump(one)
    if wanted is None:
        return
    said, kept = (chunk.text, True) if same(value, wanted) else restated(chunk.text, node, wanted)
    if not kept:
        note = Note(NoteLevel.NOTE, "", "some of its comments could not be kept", "copy them by hand")
        found.append((value, "", note))
    yield said


def _chunks(text: str) -> Iterator[_Chunk]:
    """The documents of a stream: `---` at the start of a line can be nothing but a marker."""
    at, marked = 0, False
    for found in _MARKER.finditer(text):
        if found.start() > at or marked:
            yield _Chunk(text[at : found.start()], marked, text.count("\n", 0, at))
        at, marked = found.end(), True
    if at < len(text) or marked:
        yield _Chunk(text[at:], marked, text.count("\n", 0, at))


def _append(pieces: list[str], text: str, *, marked: bool) -> None:
    if pieces and not pieces[-1].endswith("\n"):
        pieces.append("\n")
    if not marked:
        text = text.removeprefix("\n")
    elif not text[:1].isspace():
        text = "\n" + text
    pieces.append("---" + text if marked else text)


def _rewritten(value: dict[str, Any], rewrite: Rewriter, passed: list[str]) -> _Done:
    """Rewrite a document, or each item of a List."""
    items = value.get("items")
    if value.get("kind") == "List" and isinstance(items, list):
        found: list[_Found] = []
        out: list[Any] = []
        for index, item in enumerate(items):
            before, wanted, notes = _rewritten(item, rewrite, passed) if isinstance(item, dict) else ([], item, [])
            out += [*before, wanted] if wanted is not None else before
            found += [(of, f"items[{index}].{place}", note) for of, place, note in notes]
        return [], {**value, "items": out}, found
    done = rewrite(value)
    if not done.known:
        passed.append(str(value.get("kind", "")))
    return done.before, done.document, [(value, "", note) for note in done.notes.found]


def _whose(value: dict[str, Any]) -> tuple[str, str]:
    metadata = value.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    namespace, name = str(named.get("namespace", "")), str(named.get("name") or named.get("generateName") or "")
    return str(value.get("kind", "")), f"{namespace}/{name}" if namespace else name
