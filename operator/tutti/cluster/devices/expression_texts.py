"""Expressions as text: what is written into them before they are compiled, and what they look at by name.

An expression is written twice. As it is checked it is nearly what its author wrote; as it is evaluated, a domain that a
device says nothing of is an empty map, and what the runtime has no function for is made of what it has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from tutti.cluster.devices.expression_formats import COMPLAINTS, NAMED, VALIDATE
from tutti.cluster.devices.expression_functions import AS_MAP, LAST_PLACE_OF, MERGED, PLACE_OF, SAME, SUBSTRING
from tutti.cluster.devices.expression_patterns import MADE

# Strings (raw or not, of one or three quotes), comments, names, and single characters.
_TOKEN: Final = re.compile(
    r"""(?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<comment>//[^\n]*)|(?P<name>[A-Za-z_]\w*)|(?P<space>\s+)|(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
BY_DOMAIN: Final = frozenset(("attributes", "capacity"))
_FIELDS: Final = BY_DOMAIN | {"driver", "allowMultipleAllocations"}
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_INTERNAL: Final = frozenset((SUBSTRING, PLACE_OF, LAST_PLACE_OF, AS_MAP, MERGED, SAME, COMPLAINTS, *MADE.values()))
_EMPTY: Final = ".orValue(dyn({}))"
_ONE_OR_NONE: Final = "[?0]"
_OF_THREE: Final = 3
_MOST_LEVELS: Final = 64
_LONGEST_WRITTEN: Final = 16 * 1024
_BEFORE_NAME, _PLAIN = frozenset("(,"), frozenset(".[]()?")


class Tokens(NamedTuple):
    """An expression in tokens.

    Attributes:
        every: The kind of each token and what stands there; comments are left out.
        solid: Where those are that are no space; by their places among these go the others.
        kinds: The kind of each.
        words: What stands there.
        closing: Where each bracket is closed.
    """

    every: Sequence[tuple[str, str]]
    solid: Sequence[int]
    kinds: Sequence[str]
    words: Sequence[str]
    closing: Mapping[int, int]


@lru_cache(maxsize=64)  # of one expression they are asked for again and again while it is compiled
def tokens_of(expression: str) -> Tokens:
    """Return the tokens of an expression."""
    found = [(one.lastgroup or "", one[0]) for one in _TOKEN.finditer(expression)]
    every = [one for one in found if one[0] != "comment"]
    solid = [at for at, (kind, _) in enumerate(every) if kind != "space"]
    kinds, words = [every[at][0] for at in solid], [every[at][1] for at in solid]
    return Tokens(every, solid, kinds, words, _closed(kinds, words))


def _closed(kinds: Sequence[str], words: Sequence[str]) -> dict[int, int]:
    """Return where each bracket is closed: looked for one by one, many would take long together."""
    out, opened = dict[int, int](), list[int]()
    for at, (kind, word) in enumerate(zip(kinds, words, strict=True)):
        if kind == "mark" and word in _OPEN:
            opened.append(at)
        elif kind == "mark" and word in _CLOSE and opened:
            out[opened.pop()] = at
    return out


class _Text:
    """An expression in tokens, with what is to be written before and after some of them, or in their place."""

    def __init__(self, expression: str) -> None:
        self.tokens, self.solid, self._kinds, self._words, self._closing = tokens_of(expression)
        self._before: dict[int, str] = {}
        self._after: dict[int, str] = {}
        self._instead: dict[int, str] = {}

    def kind(self, place: int) -> str:
        """Return the kind of the token at a place, counted without spaces; "" beyond the ends."""
        return self._kinds[place] if 0 <= place < len(self._kinds) else ""

    def word(self, place: int) -> str:
        """Return the token at a place; "" beyond the ends."""
        return self._words[place] if 0 <= place < len(self._words) else ""

    def calls(self) -> list[tuple[int, str]]:
        """Return the place and the name of each function that is called."""
        each = enumerate(zip(self._kinds, self._words, self._words[1:], strict=False))
        return [(at, word) for at, (kind, word, after) in each if kind == "name" and after == "("]

    def put_before(self, place: int, text: str) -> None:
        """Write something before a token, and after what else is written there."""
        self._before[self.solid[place]] = self._before.get(self.solid[place], "") + text

    def put_after(self, place: int, text: str) -> None:
        """Write something after a token, and after what else is written there."""
        self._after[self.solid[place]] = self._after.get(self.solid[place], "") + text

    def put_instead(self, place: int, text: str) -> None:
        """Write something in place of a token."""
        self._instead[self.solid[place]] = text

    def closing(self, place: int) -> int | None:
        """Return where the bracket is closed that is opened at a place; None if it is not."""
        return self._closing.get(place)

    def arguments(self, place: int) -> list[int]:
        """Return where each argument ends of a function whose name stands at a place, the last at what closes it."""
        ends, depth = [], 0
        for at in range(place + 1, len(self.solid)):
            mark = self.kind(at) == "mark"
            depth += mark and self.word(at) in _OPEN
            depth -= mark and self.word(at) in _CLOSE
            if depth == 0 or (depth == 1 and self.word(at) == "," and mark):
                ends.append(at)
            if depth == 0:
                return ends
        return []

    def between(self, begin: int, end: int) -> str:
        """Return what stands from one place to before another, with all that is to be written into it."""
        if begin >= end:
            return ""
        return self._written(self.solid[begin], self.solid[end - 1] + 1)

    def written(self) -> str:
        """Return the expression with all that is to be written into it."""
        return self._written(0, len(self.tokens))

    def _written(self, begin: int, end: int) -> str:
        before, after, instead = self._before, self._after, self._instead
        return "".join(
            f"{before.get(at, '')}{instead.get(at, text)}{after.get(at, '')}"
            for at, (_, text) in enumerate(self.tokens[begin:end], begin)
        )


def unknown_name(expression: str) -> str:
    """Return what is wrong with the first name that no expression may use, or "".

    Such are the functions that only we write, what is no field of a device, and what the runtime gets wrong: it takes
    what a loop that ended early was about for what `optMap` is about after it.
    """
    text = _Text(expression)
    calls = [name for _, name in text.calls()]
    loops = [name for name in calls if name in ("all", "exists")]
    for name in calls:
        if name in _INTERNAL:
            return f"undeclared reference to '{name}'"
        if name in ("optMap", "optFlatMap") and loops:
            return f"{name} cannot be told beside {loops[0]}: write hasValue() and value()"
    fields = (at for at in range(len(text.solid)) if text.kind(at) == "name" and _is_field_of_device(text, at))
    return next((f"undefined field '{text.word(at)}'" for at in fields if text.word(at) not in _FIELDS), "")


def _is_field_of_device(text: _Text, place: int) -> bool:
    if text.word(place - 1) != "." or text.word(place - 2) != "device" or text.word(place + 1) == "(":
        return False
    return text.word(place - 3) != "."


_RENAMED: Final[Mapping[str, str]] = {"indexOf": PLACE_OF, "lastIndexOf": LAST_PLACE_OF}


def as_checked(expression: str) -> str:
    """Return an expression as its types are checked."""
    text = _Text(expression)
    _rename(text, _RENAMED)
    _name_quantifiers(text)
    _open_defaults(text)
    return text.written()


def as_evaluated(expression: str) -> str:
    """Return an expression as it is evaluated."""
    text = _Text(without_bindings(expression))
    _name_quantifiers(text)
    _open_defaults(text)
    _make_maps(text)
    _make_optional(text)
    _rename(text, {**_RENAMED, "substring": SUBSTRING, VALIDATE: COMPLAINTS})
    _name_made_patterns(text)
    _fill_domains(text)
    return text.written()


def without_bindings(expression: str) -> str:
    """Return an expression in which each use of a name that `cel.bind` gives is replaced by what it stands for.

    The runtime takes what a loop that ended early was about for the value of a name that is bound after it. Values are
    worked out where they are used, as there. A name that is not all its own, or that stands for too much, is that of a
    list of one entry instead.
    """
    room = _LONGEST_WRITTEN - len(expression)
    for _ in range(_MOST_LEVELS):
        text = _Text(expression)
        found = _innermost_bindings(text)
        if not found:
            return expression
        parts, place = list[str](), 0
        for begin, ends in found:
            written, grown = _without_binding(text, ends, room=room)
            room -= grown
            parts += [text.between(place, begin), written]
            place = ends[2] + 1
        expression = "".join([*parts, text.between(place, len(text.solid))])
    return expression


def _innermost_bindings(text: _Text) -> list[tuple[int, list[int]]]:
    """Return where each binding begins that has no other inside, and where its arguments end."""
    every = [at for at, name in text.calls() if name == "bind" and text.word(at - 2) == "cel"]
    inner = [at for at, then in pairwise([*every, len(text.solid)]) if (text.closing(at + 1) or then) < then]
    return [
        (at - 2, ends) for at, ends in zip(inner, map(text.arguments, inner), strict=True) if len(ends) == _OF_THREE
    ]


def _without_binding(text: _Text, ends: Sequence[int], *, room: int) -> tuple[str, int]:
    """Return a binding, with no other inside, without itself, and by how much longer it may be so.

    Args:
        text: The expression.
        ends: Where its arguments end.
        room: By so much it may get longer.
    """
    name, value = text.word(ends[0] - 1), text.between(ends[0] + 1, ends[1])
    used, own = range(ends[1] + 1, ends[2]), range(ends[0] + 1, ends[1])
    declared = {text.word(at) for at in used if text.word(at - 1) in _BEFORE_NAME and text.word(at + 1) == ","}
    needed = {text.word(at) for at in own if text.kind(at) == "name"} | {name}
    uses = [at for at in used if text.word(at) == name and text.word(at - 1) != "." and text.word(at + 1) != "("]
    plain = all(text.kind(at) != "mark" or text.word(at) in _PLAIN for at in own)
    grown = len(value) * len(uses)
    if declared & needed or grown > room:
        return f"[{value}].map({name}, {text.between(ends[1] + 1, ends[2])})[0]", 0
    for at in uses:
        text.put_instead(at, value if plain else f"({value})")
    return f"({text.between(ends[1] + 1, ends[2])})", grown


def _rename(text: _Text, names: Mapping[str, str]) -> None:
    for at, name in text.calls():
        if name in names:
            text.put_instead(at, names[name])


def _name_made_patterns(text: _Text) -> None:
    """Call functions by other names whose pattern is not written out: it is looked at while they run."""
    for at, name in text.calls():
        ends = text.arguments(at)
        if name not in MADE or not ends:
            continue
        begin, end = (at + 2, ends[0]) if text.word(at - 1) == "." or len(ends) == 1 else (ends[0] + 1, ends[1])
        if end - begin != 1 or text.kind(begin) != "string":
            text.put_instead(at, MADE[name])


def _name_quantifiers(text: _Text) -> None:
    """Call `exists_one` of two variables by its other name, the only one that the runtime knows."""
    for at, name in text.calls():
        if name == "exists_one" and len(text.arguments(at)) == _OF_THREE:
            text.put_instead(at, "existsOne")


def _open_defaults(text: _Text) -> None:
    """Have `x[?"y"].orValue(z)` be of unknown type where that of the entry is, whatever the type of z."""
    for place in range(len(text.solid)):
        end = text.closing(place) if text.word(place) == "[" and text.word(place + 1) == "?" else None
        if end is not None and text.word(end + 2) == "orValue" and text.word(end + 3) == "(":
            closing = text.closing(end + 3)
            if closing is not None:
                text.put_after(end + 3, "dyn(")
                text.put_before(closing, ")")


def _make_maps(text: _Text) -> None:
    """Make maps of lists: `x.transformMap(k, v, t)` of `x.transformList(k, v, [dyn(k), dyn(t)])`."""
    for at, name in reversed(text.calls()):  # what is inside another is closed before it
        ends = text.arguments(at)
        if name not in ("transformMap", "transformMapEntry") or len(ends) < _OF_THREE:
            continue
        text.put_instead(at, "transformList")
        if name == "transformMap":
            text.put_before(ends[-2] + 1, f"[dyn({text.word(ends[0] - 1)}), dyn(")
            text.put_after(ends[-1] - 1, ")]")
        text.put_after(ends[-1], f".{AS_MAP}()" if name == "transformMap" else f".{MERGED}()")


def _make_optional(text: _Text) -> None:
    """Have what is a list of one value or none while an expression is evaluated be an optional value."""
    qualifier, _, named = NAMED.partition(".")
    for at, name in text.calls():
        if (name == VALIDATE and text.word(at - 1) == ".") or (
            name == named and text.word(at - 1) == "." and text.word(at - 2) == qualifier
        ):
            end = text.closing(at + 1)
            if end is not None:
                text.put_after(end, _ONE_OR_NONE)


def _fill_domains(text: _Text) -> None:
    """Have a domain that a device says nothing of be an empty map.

    `x.attributes[d]` becomes `x.attributes[?d].orValue(dyn({}))`, and `x.attributes.d` accordingly; the same of
    `capacity`. What asks whether there is a domain, `d in x.attributes` or `has(x.attributes.d)`, stays as it is.
    """
    for place in range(1, len(text.solid) - 1):
        if text.word(place - 1) != "." or text.kind(place) != "name" or text.word(place) not in BY_DOMAIN:
            continue
        if text.word(place + 1) == "[":
            end = text.closing(place + 1)
            if end is not None and text.word(place + 2) != "?":
                text.put_after(place + 1, "?")
                text.put_after(end, _EMPTY)
        elif text.word(place + 1) == "." and text.kind(place + 2) == "name" and text.word(place + 3) != "(":
            if text.word(place + 3) == ")" and _asks_whether(text, place):
                continue
            text.put_before(place + 2, "?")
            text.put_after(place + 2, _EMPTY)


def _asks_whether(text: _Text, place: int) -> bool:
    """Whether what stands at a place is the last but one name of what `has` asks for."""
    at = place
    while text.kind(at) == "name" and text.word(at - 1) == ".":
        at -= 2
    return text.word(at - 1) == "(" and text.word(at - 2) == "has"
