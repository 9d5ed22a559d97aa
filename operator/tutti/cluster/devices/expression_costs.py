"""What evaluating an expression can cost at most, told before it is evaluated from what it was compiled to.

The runtime bounds how often loops go round and how deep an expression is, not how large its values get: a list that is
added to itself thirty times has a billion entries, and lists of twice the same list take as long to compare. So the
size of each value, and with it the work of each call, is worked out here as the API server estimates costs (cel-go,
checker/cost.go): in steps of 100 ns or less, an upper bound for all devices that say no more than a given one. What was
compiled is read from its wire format (google/api/expr/v1alpha1/checked.proto and syntax.proto).

The limit of kube-scheduler is a million of its own steps, as they are counted while an expression runs; this runtime
counts none. So the bound here is as wide as an engine can wait, and is told for each size of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tutti.cluster.devices.expression_formats import COMPLAINTS, VALIDATE
from tutti.cluster.devices.expression_functions import AS_MAP, LAST_PLACE_OF, MERGED, PLACE_OF, SUBSTRING
from tutti.cluster.devices.expression_networks import NETWORK_FUNCTIONS
from tutti.cluster.devices.expression_patterns import MADE, MOST_OF_PATTERN, cost_of_pattern
from tutti.cluster.devices.expression_wire import Message, fields, part_of, text_of

MOST_COST: Final = 2_000_000
"""So much an expression may cost about one device: 0.2 s at most, and values of so many characters and entries."""

MOST_ROUNDS: Final = 10_000
"""So often loops go round, which the runtime sees to."""
_FIELDS: Final = 4
"""A device has so many."""
_BIG: Final = 1 << 60
_MOST_PLACES, _FEW_PLACES = 1400, 330
"""So long a number is at most that `format` writes: with as many places as are asked for, and with none asked for."""

_PAIRWISE: Final = frozenset(("sets.contains", "sets.intersects", "sets.equivalent"))
_COMPARING: Final = frozenset(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"))
_FINDING_ALL: Final = frozenset(("findAll", MADE["findAll"]))
_MATCHING: Final = frozenset((*MADE, *MADE.values()))
_LOGICAL: Final = frozenset(("_&&_", "_||_", "!_", "@not_strictly_false"))
_ENTRIES: Final = frozenset(("_[_]", "_[?_]", "_?._"))
_THE_SAME: Final = frozenset(("dyn", "optional.none", "optional.of", "value"))
_ALTERNATIVES: Final = frozenset(("orValue", "or"))
_SMALL: Final = _PAIRWISE | {
    *("@in", "startsWith", "endsWith", "contains", "isQuantity", "isSemver", "isGreaterThan", "isLessThan"),
    *("isInteger", "isSorted", "hasValue", "size", "compareTo", "major", "minor", "patch", "sign", "asInteger"),
    *(
        "matches",
        MADE["matches"],
        "asApproximateFloat",
        "int",
        "uint",
        "double",
        "bool",
        "_-_",
        "-_",
        "_*_",
        "_/_",
        "_%_",
    ),
}
"""Calls whose values are of size one."""
_PARSED: Final = {
    **{one.name: 100 for one in NETWORK_FUNCTIONS},
    **dict.fromkeys(("quantity", "isQuantity"), 60),
    **dict.fromkeys(("semver", "isSemver", VALIDATE, COMPLAINTS, "substring", SUBSTRING), 40),
}
"""What it takes to call one of ours that works on a text, beside how long that is (measured)."""
_HANDED_OVER: Final = frozenset(("sum", "min", "max", "isSorted", PLACE_OF, LAST_PLACE_OF, AS_MAP, MERGED))
_EACH_HANDED_OVER: Final = 6
"""What it takes to hand an entry of a list over to one of ours (measured)."""
_EACH_FOUND: Final = 50
"""What each match that `findAll` returns takes (measured)."""
_COPIED: Final = 4
"""So many entries are copied in a step (measured)."""


class DeviceSizes(NamedTuple):
    """How large what a device says may be.

    Attributes:
        domains: How many domains it has attributes or capacities of.
        names: How many of them are of one domain at most.
        text: How many bytes the longest of its names and values has.
    """

    domains: int
    names: int
    text: int

    def rounded(self) -> DeviceSizes:
        """Return sizes that many devices have in common, and that are no smaller: powers of two."""
        return DeviceSizes(*(1 << max(0, one - 1).bit_length() for one in self))


LARGEST: Final = DeviceSizes(32, 32, 128)
"""No device says more (Kubernetes 1.36, resource/v1: ResourceSliceMaxAttributesAndCapacitiesPerDevice, and twice
DeviceAttributeMaxValueLength)."""
SMALLEST: Final = DeviceSizes(1, 1, 1)


class _Found(NamedTuple):
    """What a part of an expression comes to.

    Attributes:
        size: Of its value: characters, or entries with all that is in them.
        cost: The work for it.
        entries: How many entries it has.
        entry: The size of the largest of them.
        text: What is written out, where it is.
        levels: How many levels of a device's maps are below it: what is in the lowest one is a value.
        number: What number is written out, where one is.
        sizes: Of the device that it is of, where it has levels.
    """

    size: int = 1
    cost: int = 0
    entries: int = 0
    entry: int = 1
    text: bytes | None = None
    levels: int = 0
    number: int | None = None
    sizes: DeviceSizes | None = None


_Scope = Mapping[str, _Found]


def _of_device(levels: int, cost: int, sizes: DeviceSizes) -> _Found:
    """Return a device, what it says by domain, what it says in one, or a value."""
    if not levels:
        return _Found(sizes.text, cost, sizes.text)
    entries = (sizes.names, sizes.domains, _FIELDS)[levels - 1]
    whole = min(LARGEST.names, sizes.domains * sizes.names) * sizes.text
    return _Found(whole, cost, entries, sizes.text, levels=levels, sizes=sizes)


def cost_of(compiled: bytes, sizes: DeviceSizes = LARGEST) -> int:
    """Return what an expression can cost at most, in steps.

    Args:
        compiled: The expression as the runtime serializes it; it has compiled, and so has few levels.
        sizes: The device says no more than that.
    """
    checked = fields(part_of(fields(compiled), 2))
    device = {
        "device": _of_device(3, 0, sizes),
        "device.attributes": _of_device(2, 0, sizes),
        "device.capacity": _of_device(2, 0, sizes),
        "device.driver": _of_device(0, 0, sizes),
    }
    return _found(part_of(checked, 4), device).cost


def _found(raw: bytes, scope: _Scope) -> _Found:
    node = fields(raw)
    for field, read in _READERS.items():
        if field in node:
            found = read(fields(node[field][0]), scope)
            size, cost, entry = min(_BIG, found.size), min(_BIG, found.cost + 1), min(_BIG, found.entry)
            return found._replace(size=size, cost=cost, entries=min(_BIG, found.entries), entry=entry)
    return _Found(cost=1)


def _constant(node: Message, _: _Scope) -> _Found:
    text = (node.get(6) or node.get(7) or [None])[0]
    if 3 in node:  # noqa: PLR2004 - an int, in 64 bits
        return _Found(number=node[3][0] if node[3][0] < 1 << 63 else 0)
    return _Found() if text is None else _Found(max(1, len(text)), entries=len(text), text=text)


def _identifier(node: Message, scope: _Scope) -> _Found:
    return scope.get(text_of(node, 1), _Found())._replace(cost=0)


def _selection(node: Message, scope: _Scope) -> _Found:
    return _entry_of(_found(part_of(node, 1), scope))


def _entry_of(whole: _Found, more: int = 0) -> _Found:
    """Return an entry of something, which may itself have as many entries as it is large."""
    cost = whole.cost + more
    if whole.sizes is not None:
        return _of_device(whole.levels - 1, cost, whole.sizes)
    return _Found(whole.entry, cost, whole.entry, whole.entry)


def _call(node: Message, scope: _Scope) -> _Found:
    name = text_of(node, 2)
    parts = [_found(one, scope) for one in (*node.get(1, ()), *node.get(3, ()))] or [_Found()]
    first, others = parts[0], parts[1:]
    work = sum(one.cost for one in parts)
    sizes = [one.size for one in parts]
    if name in _LOGICAL:
        return _Found(cost=work)
    if name in _COMPARING:
        return _Found(cost=work + min(sizes))
    if name in _ENTRIES:
        return _entry_of(first, work - first.cost)
    if name in _ALTERNATIVES or name == "_?_:_":
        return _largest(parts if name in _ALTERNATIVES else others, work)
    if name in _THE_SAME:
        return first._replace(cost=work)
    return _worked_out(name, parts, work)


def _worked_out(name: str, parts: Sequence[_Found], work: int) -> _Found:
    """Return what a call comes to that makes something new of what it is given, and looks at all of it."""
    first, others = parts[0], parts[1:]
    sizes = [one.size for one in parts]
    if name in ("replace", "join"):
        grown = first.size * (1 + max([one.size for one in others], default=0))
        return _Found(grown, work + grown, grown)
    if name in ("lists.range", "format"):
        return _as_told(name, parts, work)
    if name == "distinct":
        work += first.entries * first.size
    elif name in _PAIRWISE:
        work += sizes[0] * max(sizes[1:], default=1)
    elif name in _MATCHING:
        work += _pattern_cost(others[0] if others else first) + (name in _FINDING_ALL) * _EACH_FOUND * first.size
    elif name in _PARSED:
        work += _PARSED[name]
    elif name in _HANDED_OVER:
        work += _EACH_HANDED_OVER * first.entries
    work += sum(sizes)
    if name in _SMALL:
        return _Found(cost=work)
    return _Found(sum(sizes), work, max(1, sum(one.entries for one in parts)), max(one.entry for one in parts))


def _as_told(name: str, parts: Sequence[_Found], work: int) -> _Found:
    """Return what comes to as much as a number says: that of a list, or of the places of a number in a text."""
    if name == "lists.range":
        size = _BIG if parts[0].number is None else max(1, parts[0].number)
        return _Found(size, work + size, size)
    form = parts[0].text
    clauses = parts[0].size // 2 if form is None else form.count(b"%")
    places = _MOST_PLACES if form is None or b"." in form else _FEW_PLACES
    size = sum(one.size for one in parts) + places * (1 + clauses)
    return _Found(size, work + size, size)


def _largest(parts: Iterable[_Found], work: int) -> _Found:
    """Return what is as large as any of some values, and costs all this work."""
    found = list(parts)
    levels = max(one.levels for one in found)
    size, entries = max(one.size for one in found), max(one.entries for one in found)
    entry = max(one.entry for one in found)
    of_device = next((one.sizes for one in found if one.levels == levels), None)
    return _Found(size, work, entries, entry, levels=levels, sizes=of_device)


def _pattern_cost(pattern: _Found) -> int:
    """Return what it costs to make a pattern ready: each time anew, whether it is written out or not.

    One that is put together while the expression is evaluated is looked at before it is made ready.
    """
    return MOST_OF_PATTERN if pattern.text is None else cost_of_pattern(pattern.text.decode(errors="replace"))


def _list(node: Message, scope: _Scope) -> _Found:
    return _together([_found(one, scope) for one in node.get(1, ())])


def _struct(node: Message, scope: _Scope) -> _Found:
    entries = [fields(one) for one in node.get(2, ())]
    return _together([_found(one, scope) for entry in entries for at in (3, 4) for one in entry.get(at, ())])


def _together(parts: Sequence[_Found]) -> _Found:
    size = 1 + sum(one.size for one in parts)
    entry = max([one.size for one in parts], default=1)
    return _Found(size, size + sum(one.cost for one in parts), len(parts), entry)


_SECOND: Final = 8
"""The field that names the second variable of a loop."""


def _comprehension(node: Message, scope: _Scope) -> _Found:
    """Return what a loop comes to: what it adds to its accumulator in one round, in each of its rounds.

    The runtime copies a list or map to which something is added, so that the rounds count as often as it has entries.
    """
    over, begin = (_found(part_of(node, at), scope) for at in (2, 4))
    rounds = min(over.entries, MOST_ROUNDS)  # none where a name is bound: that loops over an empty list
    name = text_of(node, 3)
    inside: dict[str, _Found] = {**scope, name: begin}
    inside[text_of(node, 1)] = _key_of(over)
    if _SECOND in node:
        inside[text_of(node, _SECOND)] = _entry_of(over)._replace(cost=0)
    inside[name] = begin
    step = _found(part_of(node, 6), inside) if rounds else begin
    if rounds:
        grown = begin.size + rounds * max(0, step.size - begin.size)
        inside[name] = _Found(grown, 0, begin.entries + rounds * max(0, step.entries - begin.entries), step.entry)
    each = _found(part_of(node, 5), inside).cost + (step.cost if rounds else 0)
    each += (inside[name].entries - begin.entries) // _COPIED
    result = _found(part_of(node, 7), inside)
    work = over.cost + begin.cost + max(1, rounds) * each + inside[name].size + result.cost
    return result._replace(cost=work, text=None)


def _key_of(over: _Found) -> _Found:
    """Return what the first variable of a loop stands for: a name that a device has, or an entry of a list."""
    return (_of_device(0, 0, over.sizes) if over.sizes is not None else _entry_of(over))._replace(cost=0)


_READERS: Final[Mapping[int, Callable[[Message, _Scope], _Found]]] = {
    3: _constant,
    4: _identifier,
    5: _selection,
    6: _call,
    7: _list,
    8: _struct,
    9: _comprehension,
}
