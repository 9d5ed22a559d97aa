"""Whether an expression about devices is one: compiled as the API server compiles it, and not too costly.

CEL's own runtime compiles it, for which `device.driver` is written `device_driver`: a variable with a type, of the same
length, so that places stay what they are. What it complains of is worded as the API server's implementation words it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from tutti_sim.devices import costs, syntax
from tutti_sim.devices.syntax import Checked, Node, Type
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid

LONGEST: Final = 10 * 1024
_FIELDS: Final = ("driver", "attributes", "capacity", "allowMultipleAllocations")

_T: Final = cel.Type
_QUANTITY: Final = _T.AbstractType("kubernetes.Quantity", [])
_VERSION: Final = _T.AbstractType("kubernetes.Semver", [])
_TEXT, _BOOL, _INT, _ANY, _DOUBLE = _T.STRING, _T.BOOL, _T.INT, _T.DYN, _T.DOUBLE
_LIST: Final = _T.List(_ANY)
_TEXTS: Final = _T.List(_TEXT)


def _unused(*_: Any) -> None:
    raise NotImplementedError("expressions are only compiled here")


def _function(name: str, *kinds: tuple[list[Any], Any], member: bool = True) -> Any:
    stem = name.replace(".", "_")
    return cel.FunctionDecl(
        name,
        [
            cel.Overload(f"k8s_{stem}_{at}", return_type=gives, parameters=takes, is_member=member, impl=_unused)
            for at, (takes, gives) in enumerate(kinds)
        ],
    )


def _pairs(gives: Any) -> tuple[tuple[list[Any], Any], ...]:
    return ([_QUANTITY, _QUANTITY], gives), ([_VERSION, _VERSION], gives)


_FUNCTIONS: Final = [
    _function("quantity", ([_TEXT], _QUANTITY), member=False),
    _function("isQuantity", ([_TEXT], _BOOL), member=False),
    _function("semver", ([_TEXT], _VERSION), ([_TEXT, _BOOL], _VERSION), member=False),
    _function("isSemver", ([_TEXT], _BOOL), ([_TEXT, _BOOL], _BOOL), member=False),
    _function("compareTo", *_pairs(_INT)),
    _function("isGreaterThan", *_pairs(_BOOL)),
    _function("isLessThan", *_pairs(_BOOL)),
    *(_function(name, ([_VERSION], _INT)) for name in ("major", "minor", "patch")),
    *(_function(name, ([_QUANTITY], _INT)) for name in ("sign", "asInteger")),
    _function("isInteger", ([_QUANTITY], _BOOL)),
    _function("asApproximateFloat", ([_QUANTITY], _DOUBLE)),
    *(_function(name, ([_QUANTITY, _QUANTITY], _QUANTITY), ([_QUANTITY, _INT], _QUANTITY)) for name in ("add", "sub")),
    _function("sum", ([_LIST], _ANY)),
    _function("min", ([_LIST], _ANY)),
    _function("max", ([_LIST], _ANY)),
    _function("isSorted", ([_LIST], _BOOL)),
    _function("find", ([_TEXT, _TEXT], _TEXT)),
    _function("findAll", ([_TEXT, _TEXT], _TEXTS), ([_TEXT, _TEXT, _INT], _TEXTS)),
    *(
        _function(f"sets.{name}", ([_LIST, _LIST], _BOOL), member=False)
        for name in ("contains", "intersects", "equivalent")
    ),
]

_ENVIRONMENT: Final = cel.NewEnv(
    variables={
        "device": _T.Map(_TEXT, _ANY),
        "device_driver": _TEXT,
        "device_attributes": _T.Map(_TEXT, _T.Map(_TEXT, _ANY)),
        "device_capacity": _T.Map(_TEXT, _T.Map(_TEXT, _QUANTITY)),
        "device_allowMultipleAllocations": _BOOL,
    },
    extensions=[ext_optional.ExtOptional(), ext_bindings.ExtBindings(), ext_strings.ExtStrings()],
    functions=_FUNCTIONS,
)

_TOKEN: Final = re.compile(
    r"""(?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<comment>//[^\n]*)|(?P<has>\bhas\(device\.\w+\))|(?P<field>(?<![\w.])device\.(?P<name>[A-Za-z_]\w*)(?!\s*\())
    |(?P<other>[A-Za-z_]\w*|.)""",
    re.VERBOSE | re.DOTALL,
)


def faults(expression: str, at: str) -> list[FieldError]:
    """What is wrong with an expression (ValidateCELSelector, pkg/apis/resource/validation, 1.36)."""
    if len(expression.encode()) > LONGEST:
        return [FieldError("FieldValueTooLong", at, f"Too long: may not be more than {LONGEST} bytes")]
    text, cost = judged(expression)
    if text:
        return [invalid(at, expression, text)]
    return [forbidden_field(at, "too complex, exceeds cost limit")] if cost > costs.LIMIT else []


@lru_cache(maxsize=2048)
def judged(expression: str) -> tuple[str, int]:
    """What is wrong with an expression, if anything, and what it may cost at most."""
    unknown = next((one for one in _TOKEN.finditer(expression) if one["name"] and one["name"] not in _FIELDS), None)
    if unknown is not None:
        dot = unknown.start() + len("device")
        named = f"undefined field '{unknown['name']}'"
        return f"compilation failed: {_located(expression, dot, named)}", 0
    typed = "".join(_typed(one) for one in _TOKEN.finditer(expression))
    try:
        compiled = _ENVIRONMENT.compile(typed)
    except (RuntimeError, ValueError) as error:
        return f"compilation failed: {_worded(str(error))}", 0
    checked = syntax.read(compiled.serialize())
    faulty = [node for node in _loops(checked.root) if _ranges_over_any(checked, node)]
    if faulty:
        text = "expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)"
        places = [checked.places.get(node.number, 0) for node in faulty]
        return "compilation failed: " + "\n".join(_located(expression, place, text) for place in sorted(places)), 0
    returned = checked.type_of(checked.root)
    if expression.strip() == "device":
        returned = Type("kubernetes.DRADevice")
    if returned.name not in ("bool", "dyn", "any"):
        kind = str(returned).replace("dyn", "google.protobuf.Any")
        return f"must evaluate to bool or the unknown type, not {kind}", 0
    return "", costs.most(checked)


def _typed(token: re.Match[str]) -> str:
    return f"device_{token['name']}" if token["name"] else token[0]


def _loops(node: Node) -> list[Node]:
    """What the loops of an expression go over."""
    found = [node.parts[0]] if node.kind == "loop" else []
    return found + [one for part in node.parts for one in _loops(part)]


def _ranges_over_any(checked: Checked, node: Node) -> bool:
    """Whether a loop would go over an attribute, of which nobody knows that it is a list."""
    if checked.type_of(node).name not in ("dyn", "any") or node.kind not in ("select", "call"):
        return False
    operand = node.parts[0]
    return checked.type_of(operand).name == "map" or node.name == "orValue"


_UNDECLARED: Final = re.compile(r"<input>:(\d+):(\d+): undeclared reference to '([\w.]+)\.(\w+)'")


_CALLED: Final = re.compile(
    r"<input>:\d+:(\d+): found no matching overload for '(\w+)' applied to '\(([^,()]+(?:\([^)]*\))?)"
)


def _is_member(shown: str, column: int, name: str) -> bool:
    """Whether a function is called as a member of something, in a line as complaints show it, before a column."""
    before = shown.removeprefix(" | ")[: column - 1].rstrip()
    return before.endswith(name) and before[: -len(name)].rstrip().endswith(".")


def _worded(text: str) -> str:
    """A complaint of the runtime in the words, and with the places, of the API server's."""
    text = text.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    text = text.replace("has() argument must be a field selection", "invalid argument to has() macro")
    text = re.sub(r"\bdevice_(driver|attributes|capacity|allowMultipleAllocations)\b", r"device.\1", text)
    text = re.sub(r"(?<=applied to ')[^\n]*(?=')", lambda one: one[0].replace("dyn", "any"), text)
    lines = text.split("\n")
    for at, line in enumerate(lines):
        called = _CALLED.search(line)
        if called is not None and at + 1 < len(lines) and _is_member(lines[at + 1], int(called[1]), called[2]):
            line = lines[at] = line.replace(f"'({called[3]}", f"'{called[3]}.(").replace(".(, ", ".(")  # noqa: PLW2901
        found = _UNDECLARED.search(line)
        if found is not None:
            column = int(found[2]) - len(found[3])
            root = found[3].partition(".")[0]
            lines[at] = line.replace(found[0], f"<input>:{found[1]}:{column}: undeclared reference to '{root}'")
            if at + 2 < len(lines):
                lines[at + 2] = " | " + "." * (column - 1) + "^"
        elif line.startswith("ERROR: <input>:1:1: Syntax error: mismatched input '<EOF>'"):
            lines[at] = line.replace("<input>:1:1:", "<input>:1:0:")
    return "\n".join(lines)


def _located(expression: str, place: int, text: str) -> str:
    line = expression.count("\n", 0, place)
    column = place - (expression.rfind("\n", 0, place) + 1)
    shown = expression.split("\n")[line]
    return f"ERROR: <input>:{line + 1}:{column + 1}: {text}\n | {shown}\n | {'.' * column}^"
