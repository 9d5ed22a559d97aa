"""What an expression about a device may cost at most, in the units and by the rules of the API server.

Rules: cel-go, checker/cost.go; the sizes of what can be reached from `device` are those of compile.go in
k8s.io/dynamic-resource-allocation/cel (1.36), the functions those of apiserver/pkg/cel/library/cost.go. Only the upper
end of each estimate is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from tutti_sim.devices.syntax import SCALARS, Checked, Node, Type

LIMIT: Final = 1_000_000
_ENDLESS: Final = (1 << 64) - 1
_TRAVERSAL: Final = 0.1
_REGEX: Final = 0.25
_LIST, _MAP = 10, 30

_ENTRIES, _DOMAIN, _ID, _DRIVER, _VALUE = 32, 63, 32, 63, 64
_ROOTS: Final = {
    "device_driver": ("driver",),
    "device_attributes": ("attributes",),
    "device_capacity": ("capacity",),
    "device_allowMultipleAllocations": ("multiple",),
}
_CHEAP: Final = frozenset(
    (
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
    )
)
_PARSED: Final = frozenset(
    ("quantity", "isQuantity", "semver", "isSemver", "url", "ip", "cidr", "isIP", "isCIDR", "isURL")
)
_SCANNED: Final = frozenset(("lowerAscii", "upperAscii", "substring", "trim"))
_GATHERED: Final = frozenset(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"))
_COMPARED: Final = frozenset(("_==_", "_!=_"))
_ORDERED: Final = frozenset(("_<_", "_>_", "_<=_", "_>=_"))

Path = tuple[str, ...]
Entry = tuple[int, int]


@dataclass(slots=True)
class _Variable:
    path: Path
    size: int | None
    entry: Entry | None


@dataclass(slots=True)
class _Coster:
    checked: Checked
    paths: dict[int, Path] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    entries: dict[int, Entry] = field(default_factory=dict)
    variables: dict[str, list[_Variable]] = field(default_factory=dict)

    def cost(self, node: Node) -> int:
        match node.kind:
            case "const":
                return 0
            case "ident":
                return self._ident(node)
            case "select":
                return self._select(node)
            case "call":
                return self._call(node)
            case "list":
                costs = sum(map(self.cost, node.parts))
                self.entries[node.number] = (1, max(map(self.size_or_endless, node.parts), default=0))
                return _bounded(costs + _LIST)
            case "map":
                costs = sum(map(self.cost, node.parts))
                keys, values = node.parts[::2], node.parts[1::2]
                largest = [max(map(self.size_or_endless, part), default=0) for part in (keys, values)]
                self.entries[node.number] = (largest[0], largest[1])
                return _bounded(costs + _MAP)
            case _:
                return self._bind(node) if _binds(node) else self._loop(node)

    def _ident(self, node: Node) -> int:
        found = self._variable(node.name)
        if found is not None:
            self.paths[node.number] = found.path
        elif node.name in _ROOTS:
            self.paths[node.number] = _ROOTS[node.name]
            return 2  # device, and what it has
        return 1

    def _select(self, node: Node) -> int:
        cost = self.cost(node.parts[0])
        if node.tested:
            return _bounded(cost + 1)
        if self.checked.type_of(node.parts[0]).name in ("map", "kubernetes.DRADevice"):
            cost += 1
        path = self.path(node.parts[0])
        if path:
            self.paths[node.number] = (*path, "@values")
        return _bounded(cost)

    def _loop(self, node: Node) -> int:
        over, first, condition, step, result = node.parts
        cost = self.cost(over) + self.cost(first)
        self._push(node.sum, first)
        keys, values = self._entry(over)
        path = self.path(over)
        is_list = self.checked.type_of(over).name == "list"
        if node.other:
            self._name(node.name, (*path, "@keys") if path else (), keys)
            self._name(node.other, (*path, "@values") if path else (), values)
        elif is_list:
            self._name(node.name, (*path, "@values") if path else (), values)
        else:
            self._name(node.name, (*path, "@keys") if path else (), keys)
        turn = self.cost(condition) + self.cost(step)
        for name in filter(None, (node.name, node.other)):
            self.variables[name].pop()
        cost += self.cost(result)
        self.variables[node.sum].pop()
        turns = self.size_or_endless(over)
        if first.kind == "const":
            self.sizes[node.number] = first.size
        elif first.kind in ("list", "map"):
            self.sizes[node.number] = turns
            found = self._known_entry(step)
            if found is not None:
                self.entries[node.number] = found
        return _bounded(cost + turns * turn)

    def _bind(self, node: Node) -> int:
        over, first, _, _, result = node.parts
        cost = self.cost(over) + self.cost(first)
        self._push(node.sum, first)
        cost += self.cost(result)
        size, entry = self.size(result), self._known_entry(result)
        self.variables[node.sum].pop()
        if size is not None:
            self.sizes[node.number] = size
        if entry is not None:
            self.entries[node.number] = entry
        return _bounded(cost)

    def _call(self, node: Node) -> int:
        target = node.parts[0] if node.member else None
        given = node.parts[1:] if node.member else node.parts
        costs = [self.cost(one) for one in given]
        cost = self.cost(target) if target is not None else 0
        if node.name == "dyn":
            return _bounded(1 + costs[0])
        if node.name == "_?_:_":
            self._sized(node, max(self.size_or_endless(one) for one in given[1:]))
            self._mixed(node, given[1:])
            return _bounded(cost + costs[0] + max(costs[1:]))
        own, size = self._function(node, target, given)
        if node.name in ("_[_]", "_[?_]"):
            path = self.path(given[0])
            if path:
                self.paths[node.number] = (*path, "@values")
            entry = self._known_entry(given[0])
            size = entry[1] if entry is not None else None
        if node.name == "_?._":
            path = self.path(given[0])
            if path:
                self.paths[node.number] = (*path, "@values")
        if node.name in ("orValue", "value", "optional.of") and node.parts:
            path = self.path(node.parts[0])
            if path:
                self.paths[node.number] = path
        self._sized(node, size if size is not None else self.size(node))
        return _bounded(cost + sum(costs) + own)

    def _sized(self, node: Node, size: int | None) -> None:
        if size is not None:
            self.sizes[node.number] = size

    def _function(self, node: Node, target: Node | None, given: list[Node]) -> tuple[int, int | None]:  # noqa: PLR0911 - a table
        """What a function costs beside its arguments, and the size of what it answers with."""
        overloads = self.checked.overloads.get(node.number, ())
        name = node.name
        if name in _CHEAP:
            return 1, None
        if name in _PARSED and given:
            return _share(self.size_or_endless(given[0]), _TRAVERSAL), None
        if target is not None:
            found = self._on_text(name, target, given)
            if found is not None:
                return found
        if name in ("_&&_", "_||_"):
            return 0, None
        if name in ("string", "bytes") and {"bytes_to_string", "string_to_bytes"} & set(overloads):
            size = self.size_or_endless(given[0])
            return max(_share(size, _TRAVERSAL), 1), _bounded(4 * size) if name == "bytes" else size
        if name in _COMPARED or (name in _ORDERED and any(one.endswith(("_string", "_bytes")) for one in overloads)):
            if name in _COMPARED and _is_fixed(*map(self.checked.type_of, given)):
                return 1, None
            return _share(min(map(self.size_or_endless, given)), _TRAVERSAL), None
        if name == "@in" and any("list" in one for one in overloads):
            return self.size_or_endless(given[1]), None
        if name == "_+_" and any(one.endswith(("_string", "_bytes", "_list")) for one in overloads):
            return self._added(node, given, overloads)
        return 1, None

    def _added(self, node: Node, given: list[Node], overloads: list[str] | tuple[str, ...]) -> tuple[int, int]:
        size = _bounded(sum(map(self.size_or_endless, given)))
        self._mixed(node, given)
        if all(one.endswith("_list") for one in overloads):
            return 1, size
        return max(_share(size, _TRAVERSAL), 1), size

    def _mixed(self, node: Node, given: list[Node]) -> None:
        """Note the sizes of what a list or map holds that is made of two."""
        one, other = map(self._known_entry, given)
        if one is not None and other is not None:
            self.entries[node.number] = (max(one[0], other[0]), max(one[1], other[1]))

    def _on_text(self, name: str, target: Node, given: list[Node]) -> tuple[int, int | None] | None:  # noqa: PLR0911
        """What a function of a text or list costs, and the size of its answer; None where it is another function."""
        size = self.size_or_endless(target)
        if name in _SCANNED:
            return _share(size, _TRAVERSAL), size
        if name in _GATHERED:
            return self._gathered(target, size), None
        if name in ("startsWith", "endsWith") and given:
            return _share(self.size_or_endless(given[0]), _TRAVERSAL), None
        if name == "contains" and given:
            return _bounded(_share(size, _TRAVERSAL) * _share(self.size_or_endless(given[0]), _TRAVERSAL)), None
        if name in ("matches", "find", "findAll") and given:
            cost = _share(_bounded(size + 1), _TRAVERSAL) * _share(self.size_or_endless(given[0]), _REGEX)
            return _bounded(cost), None if name == "matches" else size
        if name == "split":
            limited = given[1].value if len(given) > 1 else None
            return _share(size, 2 * _TRAVERSAL), size if limited is None else limited % (1 << 64)
        if name == "replace" and len(given) > 1:
            return _share(size, 2 * _TRAVERSAL), self._replaced(size, given)
        if name == "join":
            whole = _bounded(size * self._entry(target)[1])
            if given:
                whole = _bounded(whole + self.size_or_endless(given[0]) * max(size - 1, 0))
            return _share(whole, _TRAVERSAL), whole
        return None

    def _gathered(self, target: Node, size: int) -> int:
        kind = self.checked.type_of(target)
        if kind.name != "list":
            return _share(size, _TRAVERSAL)
        texts = kind.parts[0].name in ("string", "bytes") if kind.parts else False
        each = 1 + _share(self._entry(target)[1], _TRAVERSAL) if texts else 1
        return _bounded(size * each)

    def _replaced(self, size: int, given: list[Node]) -> int:
        old, new = given[0], self.size_or_endless(given[1])
        shortest = old.size if old.kind == "const" else 0
        if not shortest:
            return _bounded((size + 1) * new + size)
        return size if new <= shortest else _bounded(math.ceil(size / shortest) * new)

    def path(self, node: Node) -> Path:
        """From where in a device a value comes; nothing if from elsewhere."""
        found = self._variable(node.name) if node.kind == "ident" else None
        return found.path if found is not None else self.paths.get(node.number, ())

    def size_or_endless(self, node: Node) -> int:
        """The largest size of a value."""
        found = self.size(node)
        return _ENDLESS if found is None else found

    def size(self, node: Node) -> int | None:
        """The largest size of a value; None where it is not known."""
        if node.number in self.sizes:
            return self.sizes[node.number]
        if node.kind == "const":
            return node.size
        if node.kind == "list":
            return len(node.parts)
        if node.kind == "map":
            return len(node.parts) // 2
        known = _size_at(self.path(node))
        if known is not None:
            return known
        if _is_scalar(self.checked.type_of(node)):
            return 1
        found = self._variable(node.name) if node.kind == "ident" else None
        return found.size if found is not None else None

    def _entry(self, node: Node) -> Entry:
        """The largest sizes of keys and values of a container."""
        known = self._known_entry(node)
        if known is not None:
            return known
        path = self.path(node)
        sizes = [_size_at((*path, part)) if path else None for part in ("@keys", "@values")]
        keys, values = (_ENDLESS if one is None else one for one in sizes)
        return keys, values

    def _known_entry(self, node: Node) -> Entry | None:
        if node.number in self.entries:
            return self.entries[node.number]
        found = self._variable(node.name) if node.kind == "ident" else None
        return found.entry if found is not None else None

    def _variable(self, name: str) -> _Variable | None:
        stack = self.variables.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, value: Node) -> None:
        known = _Variable(self.path(value), self.size(value), self._known_entry(value))
        self.variables.setdefault(name, []).append(known)

    def _name(self, name: str, path: Path, size: int) -> None:
        self.variables.setdefault(name, []).append(_Variable(path, None if size == _ENDLESS else size, None))


def _size_at(path: Path) -> int | None:
    """The largest size of what stands at a place of a device."""
    match path:
        case ("driver",):
            return _DRIVER
        case ("multiple",):
            return 1
        case ("attributes" | "capacity",) | ("attributes" | "capacity", "@values"):
            return _ENTRIES
        case (_, "@keys"):
            return _DOMAIN
        case (_, "@values", "@keys"):
            return _ID
        case ("attributes", "@values", "@values"):
            return _VALUE
        case _:
            return None


def _binds(node: Node) -> bool:
    over, _, condition, _, _ = node.parts
    return (
        over.kind == "list"
        and not over.parts
        and condition.is_false
        and not node.sum.startswith(("__result__", "@result"))
    )


def _is_scalar(kind: Type) -> bool:
    return kind.name in SCALARS or (kind.name == "optional_type" and bool(kind.parts) and _is_scalar(kind.parts[0]))


def _is_fixed(one: Type, other: Type) -> bool:
    return one == other and one.name.startswith("kubernetes.")


def _bounded(value: int) -> int:
    return min(value, _ENDLESS)


def _share(size: int, factor: float) -> int:
    return _bounded(math.ceil(size * factor)) if size < _ENDLESS else _ENDLESS


def most(checked: Checked) -> int:
    """The most that an expression may cost, as the API server estimates it."""
    return _Coster(checked).cost(checked.root)
