"""Node selectors and affinity terms as expressions over label columns.

Each requirement is answered by the codes of its label's values, for all nodes at once.
Semantics: kube-scheduler 1.36, plugins/nodeaffinity and component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tutti.api.selectors import (
    NAME_FIELD,
    LabelSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    parse_integer,
)
from tutti.cluster.nodes import ABSENT, LabelColumn, NodeColumns
from tutti.placement.framework import Mask


def equals(nodes: NodeColumns, wanted: Iterable[tuple[str, str]]) -> Mask:
    """Return bool[rows]: True where a node carries every one of these labels."""
    out = nodes.present.copy()
    for key, value in wanted:
        column = nodes.label(key)
        code = column.code_of.get(value)
        if code is None:
            return np.zeros_like(out)
        out &= column.codes[: len(out)] == code
    return out


def node_selector(nodes: NodeColumns, selector: Mapping[str, str]) -> Mask:
    """Return bool[rows]: True where `spec.nodeSelector` matches."""
    return equals(nodes, selector.items())


def has_one_of(nodes: NodeColumns, key: str, values: Iterable[str]) -> Mask:
    """Return bool[rows]: True where a label has one of some values."""
    column = nodes.label(key)
    known = np.zeros(len(column.values) + 1, dtype=np.bool_)
    known[[column.code_of[value] for value in values if value in column.code_of]] = True
    return known[column.codes[: len(nodes)]]


def labelled(nodes: NodeColumns, selector: LabelSelector) -> Mask:
    """Return bool[rows]: True where a label selector matches the labels of a node; an empty one matches all."""
    out = equals(nodes, selector.match_labels.items())
    for one in selector.match_expressions:
        out &= _label_requirement(nodes, NodeSelectorRequirement(one.key, one.operator, one.values))
    return out


def any_term(nodes: NodeColumns, selector: NodeSelector) -> Mask:
    """Return bool[rows]: True where at least one term matches; no term matches nothing."""
    out = np.zeros(len(nodes), dtype=np.bool_)
    for one in selector.node_selector_terms:
        out |= term(nodes, one)
    return out


def term(nodes: NodeColumns, one: NodeSelectorTerm) -> Mask:
    """Return bool[rows]: True where every expression and field of the term matches; an empty term matches nothing."""
    out = nodes.present.copy()
    if not one.match_expressions and not one.match_fields:
        return np.zeros_like(out)
    for requirement in one.match_expressions:
        out &= _label_requirement(nodes, requirement)
    for requirement in one.match_fields:
        out &= _name_requirement(nodes, requirement)
    return out


def _label_requirement(nodes: NodeColumns, requirement: NodeSelectorRequirement) -> Mask:
    column = nodes.label(requirement.key)
    codes = column.codes[: len(nodes)]
    there: Mask = codes != ABSENT
    match requirement.operator:
        case "Exists":
            return there
        case "DoesNotExist":
            return ~there
        case "In":
            return has_one_of(nodes, requirement.key, requirement.values)
        case "NotIn":
            return ~has_one_of(nodes, requirement.key, requirement.values)
        case "Gt" | "Lt":
            return _compared(column, requirement)[codes]
        case _:
            return np.zeros(len(nodes), dtype=np.bool_)


def _compared(column: LabelColumn, requirement: NodeSelectorRequirement) -> Mask:
    """Return bool[values + 1]: which values are above or below the one that is named; the last stands for no label."""
    out = np.zeros(len(column.values) + 1, dtype=np.bool_)
    bound = parse_integer(requirement.values[0]) if len(requirement.values) == 1 else None
    if bound is None:
        return out
    integers = column.integers
    if requirement.operator == "Gt":
        out[:-1] = [one is not None and one > bound for one in integers]
    else:
        out[:-1] = [one is not None and one < bound for one in integers]
    return out


def _name_requirement(nodes: NodeColumns, requirement: NodeSelectorRequirement) -> Mask:
    named = np.zeros(len(nodes), dtype=np.bool_)
    if requirement.key != NAME_FIELD or requirement.operator not in ("In", "NotIn"):
        return named
    for name in requirement.values:
        row = nodes.rows.get(name)
        if row is not None:
            named[row] = True
    return ~named if requirement.operator == "NotIn" else named
