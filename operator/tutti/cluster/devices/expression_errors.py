"""What goes wrong in an expression, in the words of kube-scheduler, by which people look for help.

The words are those of cel-go (common/types, common/decls, interpreter) as Kubernetes 1.36 calls it. What its runtime
tells and ours does not, such as which types two values of our own have, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tutti.cluster.devices.expression_costs import MOST_COST, MOST_ROUNDS
from tutti.cluster.devices.expression_functions import LAST_PLACE_OF, PLACE_OF, SUBSTRING
from tutti.cluster.devices.expression_values import TYPE_NAMES, VERSION

_CONVERSIONS: Final[Mapping[str, str]] = {
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    **{name: f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'" for name in TYPE_NAMES.values()},
}
"""What kube-scheduler says of results of these kinds (cel-go, common/types; apiserver, pkg/cel)."""


def not_bool(kind: str, value: object) -> str:
    """Return what kube-scheduler says of a result that is neither true nor false."""
    name = kind.lower()
    if isinstance(value, dict):
        name = next((said for key, said in TYPE_NAMES.items() if key in value), name)
    why = _CONVERSIONS.get(name, f"unsupported native conversion from {name} to 'bool'")
    return f"CEL result of type {name} could not be converted to bool: {why}"


def too_complex(cost: int) -> str:
    """Return what is said of an expression that costs too much."""
    return f"too complex, exceeds cost limit: it may take {cost} steps, and {MOST_COST} is the most"


_NO_KEY: Final = re.compile(r'NOT_FOUND: Key not found in map : "?(?P<key>.*?)"?\.?', re.DOTALL)
_NO_PLACE: Final = re.compile(r"UNKNOWN: Index error: index=(?P<index>-?\d+) size=\d+")
_NO_OVERLOAD: Final = re.compile(
    r"UNKNOWN: No matching overloads? found : (?P<call>[^ ].*)|UNKNOWN: No matching overloads? found.*"
    r"|.*\bno such overload\b.*",
    re.DOTALL,
)
_NO_CONVERSION: Final = re.compile(
    r"INVALID_ARGUMENT: (?:cannot convert string to (?P<number>u?int|double)"
    r"|Type conversion error from 'string' to '(?P<bool>bool)'"
    r"|String to (?P<time>Duration|Timestamp) conversion failed)"
)
_TOO_MANY_ROUNDS: Final = "Iteration budget exceeded"
_BY_ZERO: Final = ("divide by zero", "modulus by zero")
_STATUS: Final = re.compile(r"^[A-Z_]+: ")


def worded(text: str) -> str:
    """Return the runtime's complaint in the words of CEL's other implementations, which users know."""
    if found := _NO_KEY.fullmatch(text):
        return f"no such key: {found['key']}"
    if found := _NO_PLACE.fullmatch(text):
        return f"index out of bounds: {found['index']}"
    if text.endswith(_BY_ZERO):
        return _BY_ZERO[text.endswith(_BY_ZERO[1])].replace("divide", "division")
    if _TOO_MANY_ROUNDS in text:
        return f"too complex, exceeds cost limit: its loops go round more than {MOST_ROUNDS} times together"
    if found := _NO_CONVERSION.fullmatch(text):
        wanted = found["number"] or found["bool"] or f"google.protobuf.{found['time']}"
        return f"type conversion error from 'string' to '{wanted}'"
    if found := _NO_OVERLOAD.fullmatch(text):
        return _no_overload(found["call"] or "")
    return _STATUS.sub("", text)


_CALL: Final = re.compile(r"(?:\((?P<of>\w+)\)\.)?(?P<name>[\w.-]*[a-zA-Z]|_[^\w]_|-_)\((?P<takes>[\w, ]*)\)")
_WRITTEN: Final[Mapping[str, str]] = {SUBSTRING: "substring", PLACE_OF: "indexOf", LAST_PLACE_OF: "lastIndexOf"}
"""What people have written, for what stands in its place while an expression is evaluated."""
_CEL_NAMES: Final[Mapping[str, str]] = {"int64": "int", "uint64": "uint", "float64": "double"}
_OWN: Final = "map"  # as which our own types are evaluated; of those whose type is not known only versions are any
_SILENT: Final = frozenset(("startsWith", "endsWith", "contains", "matches", "find", "findAll"))
_BY_TRAIT: Final = frozenset(("size",))
_ASKED: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("_+_", "_-_", "_*_", "_/_", "_%_"), frozenset((_OWN, "bool"))),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_", "-_"), frozenset((_OWN,))),
}
"""For each operator the types of a left side that has none such; others have one, and refuse what stands right."""


def _no_overload(call: str) -> str:
    """Return what is said of a call of which nothing is known for the types of its arguments (cel-go, common/decls)."""
    plain = "no such overload"
    found = _CALL.fullmatch(call)
    if found is None:
        return plain
    name, takes = found["name"], [one for one in found["takes"].split(", ") if one]
    if found["of"]:
        takes.insert(0, found["of"])
    if name in _ASKED:
        return f"{plain}: {name}" if takes and takes[0] in _ASKED[name] else plain
    if name in _BY_TRAIT:
        return f"{plain}: {name}"
    if name in _SILENT or not takes or _OWN in takes[1:]:
        return plain
    types = [TYPE_NAMES[VERSION] if one == _OWN else _CEL_NAMES.get(one, one) for one in takes]
    return f"{plain}: {_WRITTEN.get(name, name)}({', '.join(types)})"
