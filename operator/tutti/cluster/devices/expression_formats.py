"""Functions of expressions about how texts are to be written: `format.named("uuid").value().validate(x)`.

Source: Kubernetes 1.36, staging/src/k8s.io/apiserver/pkg/cel/library/format.go, and what that calls:
apimachinery/pkg/util/validation and kube-openapi's strfmt.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final

from cel_expr_python import cel

from tutti.cluster.devices.expression_networks import parsed_url
from tutti.cluster.devices.expression_values import (
    FORMAT,
    FORMAT_TYPE,
    TEXT,
    Function,
    ObjectMap,
    Overload,
    SelectorError,
    content_of,
)

VALIDATE, COMPLAINTS = "validate", "complaintsOf"
"""What is called in place of `validate` while an expression is evaluated: it returns a list of one list, or of none."""
NAMED: Final = "format.named"

_Rule = Callable[[str], list[str]]
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_MOST_OF_LABEL, _MOST_OF_SUBDOMAIN = 63, 253


def _matching(pattern: str, most: int, says: str) -> _Rule:
    compiled = re.compile(pattern, re.ASCII)

    def rule(text: str) -> list[str]:
        long = [f"must be no more than {most} bytes"] if len(text.encode()) > most else []
        return long + ([] if compiled.fullmatch(text) else [f"{says} (regex used for validation is '{pattern}')"])

    return rule


_is_label: Final = _matching(
    _LABEL,
    _MOST_OF_LABEL,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
)
_is_subdomain: Final = _matching(
    _SUBDOMAIN,
    _MOST_OF_SUBDOMAIN,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
)
_is_old_label: Final = _matching(
    r"[a-z]([-a-z0-9]*[a-z0-9])?",
    _MOST_OF_LABEL,
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
)
_is_name: Final = _matching(
    _QUALIFIED,
    _MOST_OF_LABEL,
    "name part must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
)


def _qualified(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return ["a qualified name must consist of a name with an optional DNS subdomain prefix and '/'"]
    if not slash:
        return _is_name(text)
    of_prefix = [f"prefix part {one}" for one in _is_subdomain(prefix)] if prefix else ["prefix part must be non-empty"]
    return of_prefix + (_is_name(name) if name else ["name part must be non-empty"])


def _beginning(rule: _Rule) -> _Rule:
    """Return the rule of what may go on: a dash at the end is as good as a letter (apimachinery, maskTrailingDash)."""
    return lambda text: rule(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    try:
        parsed_url(text)
    except SelectorError as error:
        return [str(error).partition(": ")[2]]
    return []


def _is_date(text: str) -> bool:
    try:
        return re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) is not None and date.fromisoformat(text) is not None
    except ValueError:
        return text.startswith("0000-") and _is_date("2000" + text[4:])  # a leap year that only Go knows


_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})", re.ASCII)


def _is_moment(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    found = _TIME.fullmatch(rest.partition("t")[0])
    if found is None or not _is_date(day):
        return False
    return found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _rule_of(pattern: str, says: str) -> _Rule:
    compiled = re.compile(pattern, re.ASCII | re.IGNORECASE)
    return lambda text: [] if compiled.fullmatch(text) else [says]


_FORMATS: Final[dict[str, _Rule]] = {
    "dns1123Label": _is_label,
    "dns1123Subdomain": _is_subdomain,
    "dns1035Label": _is_old_label,
    "qualifiedName": _qualified,
    "dns1123LabelPrefix": _beginning(_is_label),
    "dns1123SubdomainPrefix": _beginning(_is_subdomain),
    "dns1035LabelPrefix": _beginning(_is_old_label),
    "labelValue": _matching(
        rf"({_QUALIFIED})?",
        _MOST_OF_LABEL,
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character",
    ),
    "uri": _uri,
    "uuid": _rule_of(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", "does not match the UUID format"),
    "byte": _rule_of(r"([a-z0-9+/]{4})*([a-z0-9+/]{2}==|[a-z0-9+/]{3}=|[a-z0-9+/]{4})", "invalid base64"),
    "date": lambda text: [] if _is_date(text) else ["invalid date"],
    "datetime": lambda text: [] if _is_moment(text) else ["invalid datetime"],
}


def _complaints(form: ObjectMap, text: str) -> list[list[str]]:
    found = _FORMATS[content_of(form, FORMAT)](text)
    return [found] if found else []


_OF_TEXTS: Final = cel.Type.List(TEXT)


def _named(name: str) -> list[ObjectMap]:
    return [{FORMAT: name}] if name in _FORMATS else []


def _constant(name: str) -> Function:
    return Function(f"format.{name}", [Overload([], FORMAT_TYPE, lambda: {FORMAT: name})], member=False)


NAMED_FORMATS: Final = [_constant(name) for name in _FORMATS]
DECLARED_FORMATS: Final = f"""
functions:
- name: {NAMED}
  overloads:
  - id: format-named
    args: [{{type_name: string}}]
    return: {{type_name: optional_type, params: [{{type_name: kubernetes.NamedFormat}}]}}
- name: {VALIDATE}
  overloads:
  - id: format-validate
    target: {{type_name: kubernetes.NamedFormat}}
    args: [{{type_name: string}}]
    return: {{type_name: optional_type, params: [{{type_name: list, params: [{{type_name: string}}]}}]}}
"""
"""What of these returns optional values, as it is checked: only the text of a configuration can tell such types."""

EVALUATED_FORMATS: Final = [
    Function(NAMED, [Overload([TEXT], cel.Type.List(cel.Type.DYN), _named)], member=False),
    Function(COMPLAINTS, [Overload([FORMAT_TYPE, TEXT], cel.Type.List(_OF_TEXTS), _complaints)]),
]
