"""The environment of expressions about devices: once as their types are checked, once as they are evaluated.

Source: Kubernetes 1.36, staging/src/k8s.io/apiserver/pkg/cel/environment/base.go and
staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go: CEL with its extensions for optional values, bindings,
text, lists, sets and loops of two variables; with numbers of different types compared by size; and with Kubernetes' own
functions. The runtime declares each function once, so `string` and what compares are declared here in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from tutti.cluster.devices.expression_formats import DECLARED_FORMATS, EVALUATED_FORMATS, NAMED_FORMATS
from tutti.cluster.devices.expression_functions import FUNCTIONS, OWN_FUNCTIONS, SUBSTRING
from tutti.cluster.devices.expression_networks import NETWORK_FUNCTIONS, TEXT_OF
from tutti.cluster.devices.expression_patterns import MADE_FUNCTIONS, PATTERN_FUNCTIONS
from tutti.cluster.devices.expression_shapes import VARIABLES
from tutti.cluster.devices.expression_values import ANY, BOOL, INT, OBJECT, QUANTITY_TYPE, TEXT, Function

_UINT, _DOUBLE, _BYTES = cel.Type.UINT, cel.Type.DOUBLE, cel.Type.BYTES
_DURATION, _TIMESTAMP = cel.Type.DURATION, cel.Type.TIMESTAMP

_COMPARISONS: Final = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
_OF_TYPE: Final = {
    "bool": BOOL,
    "int64": INT,
    "uint64": _UINT,
    "double": _DOUBLE,
    "string": TEXT,
    "bytes": _BYTES,
    "timestamp": _TIMESTAMP,
    "duration": _DURATION,
}
_NUMBERS: Final = ("int64", "uint64", "double")
_TEXTS_OF: Final = {
    "string_to_string": TEXT,
    "bool_to_string": BOOL,
    "int64_to_string": INT,
    "uint64_to_string": _UINT,
    "double_to_string": _DOUBLE,
    "bytes_to_string": _BYTES,
    "timestamp_to_string": _TIMESTAMP,
    "duration_to_string": _DURATION,
}

_CONFIGURATION: Final = "\n".join(
    [
        "name: devices",
        "stdlib:",
        "  exclude_functions:",
        *(f"  - name: {name}" for name in ("string", *_COMPARISONS)),
        "extensions:",
        *(f"- name: {name}" for name in ("two-var-comprehensions", "sets", "lists")),
        "",
    ]
)


def _overload(name: str, returns: Any, takes: Sequence[Any]) -> Any:
    return cel.Overload(name, return_type=returns, parameters=takes, is_member=False)


def _comparison(name: str, stem: str) -> Any:
    alike = [_overload(f"{stem}_{kind}", BOOL, [one, one]) for kind, one in _OF_TYPE.items()]
    mixed = [
        _overload(f"{stem}_{one}_{other}", BOOL, [_OF_TYPE[one], _OF_TYPE[other]])
        for one in _NUMBERS
        for other in _NUMBERS
        if one != other
    ]
    return cel.FunctionDecl(name, alike + mixed)


def _string(own: Sequence[Any]) -> Any:
    return cel.FunctionDecl("string", [*(_overload(name, TEXT, [one]) for name, one in _TEXTS_OF.items()), *own])


def _environment(variables: dict[str, Any], functions: list[Any], declared: str = "") -> Any:
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_CONFIGURATION + declared),
        variables=variables,
        extensions=[ext_optional.ExtOptional(), ext_bindings.ExtBindings(), ext_strings.ExtStrings()],
        functions=[*functions, *(_comparison(*one) for one in _COMPARISONS.items())],
    )


_COMMON: Final[list[Function]] = [*FUNCTIONS, *PATTERN_FUNCTIONS, *NETWORK_FUNCTIONS, *NAMED_FORMATS]

CHECKED: Final = _environment(
    {
        "device": OBJECT,
        "device.driver": TEXT,
        "device.attributes": cel.Type.Map(TEXT, cel.Type.Map(TEXT, ANY)),
        "device.capacity": cel.Type.Map(TEXT, cel.Type.Map(TEXT, QUANTITY_TYPE)),
        "device.allowMultipleAllocations": BOOL,
    },
    [
        *(one.checked() for one in _COMMON if one.name != SUBSTRING),
        _string([_overload(f"k8s_string_{at}", TEXT, one.takes) for at, one in enumerate(TEXT_OF)]),
    ],
    DECLARED_FORMATS,
)
"""Types are checked here. Names of several parts are found before those of their parts, so `device` has fields."""

EVALUATED: Final = _environment(
    {"device": OBJECT, **dict.fromkeys(VARIABLES, TEXT)},
    [
        *(one.evaluated() for one in (*_COMMON, *EVALUATED_FORMATS, *OWN_FUNCTIONS, *MADE_FUNCTIONS)),
        _string(
            [cel.Overload("k8s_string", return_type=TEXT, parameters=[OBJECT], is_member=False, impl=TEXT_OF[0].does)]
        ),
    ],
)
"""Expressions are evaluated here."""
