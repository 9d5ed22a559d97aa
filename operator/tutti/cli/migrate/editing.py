"""Changes the text of a YAML document so that it says something else, and leaves the rest of the text as it was.

YAML is read as Kubernetes reads it: times stay text. PyYAML forgets comments and layout when it loads, but it tells
where each node stands. So the text is not written anew: what differs between the node and what is wanted is cut out,
put in or replaced where it stands. What that cannot do right (aliases, text of many values on one line) is found by
reading the result again; the document is then written anew, without its comments. Why no library does it:
docs/adr/0014-yaml-edited-in-place.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class Loader(yaml.SafeLoader):
    """Reads as the API server does, which knows no type for times."""


class Dumper(yaml.SafeDumper):
    """Writes what `Loader` reads, without anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Say that nothing is written by reference: a manifest is read by people."""
        return True


for _one in (Loader, Dumper):
    _one.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag != _TIMESTAMP]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def dump(value: Any) -> str:
    """A value as block YAML, keys in their order, ended by a line break."""
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text.removesuffix("...\n")


def dump_inline(value: Any) -> str:
    """A value as YAML on one line."""
    text: str = yaml.dump(
        value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**30, default_flow_style=True
    )
    return text.removesuffix("...\n").rstrip("\n")


def compose(text: str) -> yaml.Node | None:
    """The node of the one document in a text, None where it says nothing.

    Raises:
        yaml.YAMLError: It is not YAML, or more than one document.
    """
    node: yaml.Node | None = yaml.compose(text, Loader=Loader)
    return node


def construct(node: yaml.Node) -> Any:
    """The value of a node, aliases followed and merge keys applied."""
    constructor = Loader("")
    try:
        return constructor.construct_document(node)
    finally:
        constructor.dispose()


_COMMENT = re.compile(r"(?:^|(?<=\s))#", re.MULTILINE)


class Edit(NamedTuple):
    """The text between two offsets, and what takes its place."""

    start: int
    end: int
    text: str


@dataclass(slots=True)
class Editor:
    """Collects the edits of one text.

    Attributes:
        text: The text, whose offsets the nodes bear.
        edits: What has been found to differ.
        comments_lost: Whether text was replaced in which there were comments.
    """

    text: str
    edits: list[Edit] = field(default_factory=list)
    comments_lost: bool = False

    def restate(self, node: yaml.Node, wanted: Any, *, column: int = 0, flow: bool = False) -> None:
        """Edit the text of a node, whose parent's key is at a column, so that it says what is wanted."""
        found = construct(node)
        if same(found, wanted):
            return
        flow = flow or bool(getattr(node, "flow_style", False))
        if flow or not wanted or type(found) is not type(wanted):
            self._replace(node, wanted, column=column, flow=flow)
        elif isinstance(node, yaml.MappingNode):
            self._restate_mapping(node, found, wanted)
        elif isinstance(node, yaml.SequenceNode) and len(found) == len(wanted):
            for item, value in zip(node.value, wanted, strict=True):
                self.restate(item, value, column=node.start_mark.column)
        else:
            self._replace(node, wanted, column=column, flow=flow)

    def _replace(self, node: yaml.Node, wanted: Any, *, column: int, flow: bool) -> None:
        start, end = node.start_mark.index, content_end(node)
        if isinstance(node, yaml.CollectionNode) and _COMMENT.search(self.text, start, end):
            self.comments_lost = True
        if flow or not wanted or not isinstance(wanted, dict | list):
            lead = "" if start < end or self.text[start - 1 : start].isspace() else " "
            said = lead + dump_inline(wanted)
        elif isinstance(node, yaml.CollectionNode):
            said = indented(dump(wanted), node.start_mark.column).rstrip("\n")
        else:
            said = "\n" + " " * (column + 2) + indented(dump(wanted), column + 2).rstrip("\n")
        tail = "\n" if self.text[start:end].endswith("\n") else ""
        self.edits.append(Edit(start, end, said + tail))

    def _restate_mapping(self, node: yaml.MappingNode, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        column = node.start_mark.column
        entries = {construct(key): (key, value) for key, value in node.value}
        renamed = renames(found, wanted)
        kept = {old for old in found if old in wanted or old in renamed}
        for position, (old, (key, value)) in enumerate(entries.items()):
            if old not in kept:
                following = [*entries.values()][position + 1 :]
                self._cut(key, value, following[0][0] if following else None)
                continue
            new = renamed.get(old, old)
            if new != old:
                self.edits.append(Edit(key.start_mark.index, key.end_mark.index, dump_inline(new)))
            self.restate(value, wanted[new], column=column)
        self._insert(entries, {renamed.get(old, old): old for old in kept}, wanted, column)

    def _cut(self, key: yaml.Node, value: yaml.Node, following: yaml.Node | None) -> None:
        """Take an entry out: its lines, or, where it shares its first line with a dash, up to the next entry."""
        start = key.start_mark.index
        line = self.text.rfind("\n", 0, start) + 1
        if not self.text[line:start].strip():
            self.edits.append(Edit(line, self._line_end(max(content_end(value), key.end_mark.index)), ""))
        elif following is not None:
            self.edits.append(Edit(start, following.start_mark.index, ""))
        else:
            self.edits.append(Edit(start, max(content_end(value), key.end_mark.index), "{}"))

    def _insert(
        self,
        entries: dict[str, tuple[yaml.Node, yaml.Node]],
        kept: dict[str, str],
        wanted: dict[str, Any],
        column: int,
    ) -> None:
        """Put new entries behind the entry that they follow; at the head, where they follow none."""
        before = ""
        for new, value in wanted.items():
            if new in kept:
                before = kept[new]
                continue
            said = indented(dump({new: value}), column)
            if before:
                key, node = entries[before]
                at = self._line_end(max(content_end(node), key.end_mark.index))
                lead = "" if self.text[at - 1 : at] == "\n" else "\n"
                self.edits.append(Edit(at, at, lead + " " * column + said))
            else:
                at = next(iter(entries.values()))[0].start_mark.index
                line = self.text.rfind("\n", 0, at) + 1
                alone = not self.text[line:at].strip()
                self.edits.append(Edit(line, line, " " * column + said) if alone else Edit(at, at, said + " " * column))

    def _line_end(self, offset: int) -> int:
        """The start of the next line, for something that ends at an offset; a block scalar ends there already."""
        if offset and self.text[offset - 1] == "\n":
            return offset
        found = self.text.find("\n", offset)
        return len(self.text) if found < 0 else found + 1


def same(one: Any, other: Any) -> bool:
    """Whether two values are written alike: 1, true and 1.0 are not."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def renames(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, str]:
    """The keys that have another name now: old to new, told by their place between the keys that stayed."""
    new_at: dict[str | None, list[str]] = {}
    place: str | None = None
    for key in wanted:
        if key in found:
            place = key
        else:
            new_at.setdefault(place, []).append(key)
    out: dict[str, str] = {}
    place = None
    for key, value in found.items():
        if key in wanted:
            place = key
            continue
        for new in new_at.get(place, []):
            if new not in out.values() and _alike(value, wanted[new]):
                out[key] = new
                break
    return out


def _alike(one: Any, other: Any) -> bool:
    return same(one, other) or (isinstance(one, dict | list) and type(one) is type(other))


def content_end(node: yaml.Node) -> int:
    """Where the text of a node ends, without the comments and blank lines that PyYAML counts to a collection."""
    if isinstance(node, yaml.ScalarNode) or getattr(node, "flow_style", False) or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    if isinstance(last, tuple):
        key, value = last
        return max(content_end(value), int(key.end_mark.index))
    return content_end(last)


def indented(text: str, column: int) -> str:
    """Lines, all but the first moved to the right; blank lines stay blank."""
    first, *rest = text.splitlines(keepends=True)
    return first + "".join(" " * column + line if line.strip() else line for line in rest)


def applied(text: str, edits: list[Edit]) -> str | None:
    """The text with its edits, None where they overlap; those at one offset stand in the order they were made in."""
    pieces, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < at:
            return None
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*pieces, text[at:]])


def restated(text: str, node: yaml.Node, wanted: Any) -> tuple[str, bool]:
    """The text of one document, whose node is given, saying what is wanted; and whether comments could be kept.

    A document in JSON's style is written anew, as one that nobody has laid out by hand.
    """
    if not getattr(node, "flow_style", False):
        editor = Editor(text)
        editor.restate(node, wanted)
        edited = applied(text, editor.edits)
        if edited is not None and _says(edited, wanted):
            return edited, not editor.comments_lost
    return dump(wanted), _COMMENT.search(text) is None


def _says(text: str, wanted: Any) -> bool:
    """Whether a text is one document of this value."""
    try:
        node = compose(text)
        return node is not None and same(construct(node), wanted)
    except yaml.YAMLError:
        return False
