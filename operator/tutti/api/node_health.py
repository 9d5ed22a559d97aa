"""Which conditions of nodes keep new work off them, as an administrator writes it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

import msgspec
from pydantic import Field

from tutti.api.core import Node
from tutti.api.model import GROUP, Model, ValidationRule
from tutti.api.selectors import Taint

CONDITION_TAINT: Final = f"{GROUP}/condition"
"""The key of the taint that a node is treated as having for each such condition; its value is the condition's type."""

ConditionType = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$", max_length=316)]


class ProblemCondition(Model):
    """A condition in a node's status that says that something is wrong with it."""

    type: ConditionType
    """Its type, such as `KernelDeadlock` of node-problem-detector, or one that monitors GPUs."""
    status: Literal["True", "False", "Unknown"] = "True"
    """The status in which it is a problem."""


class NodeHealth(Model):
    """Conditions of nodes that keep new work off; what runs there goes on."""

    conditions: Annotated[list[ProblemCondition], Field(min_length=1, max_length=32)]
    """Any of these is enough."""
    RULES: ClassVar = (
        ValidationRule(
            message="a condition stands in conditions twice with the same status",
            holds=lambda it: len({(one.type, one.status) for one in it.conditions}) == len(it.conditions),
        ),
    )


Problems = frozenset[tuple[str, str]]
"""Types of conditions, each with the status in which it is a problem."""


def with_problem_taints(node: Node, problems: Problems) -> Node:
    """Return a node with the taints that it is treated as having by its conditions; the same where it has none."""
    if not problems:
        return node
    found = sorted({one.type for one in node.status.conditions if (one.type, one.status) in problems})
    if not found:
        return node
    taints = [Taint(key=CONDITION_TAINT, value=kind, effect="NoSchedule") for kind in found]
    spec = msgspec.structs.replace(node.spec, taints=[*node.spec.taints, *taints])
    return msgspec.structs.replace(node, spec=spec)
