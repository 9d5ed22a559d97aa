"""What all operations have in common.

Each is read as written and then `resolved` with the parameters of a workload, before anything is created: so a wrong
file fails at once, and not after the nodes are there.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tutti_bench.params import Params
from tutti_bench.part import Part

Whole = Annotated[int, Field(ge=0)]
"""A number of things."""


class Operation(Part):
    """What all operations have in common."""

    opcode: str

    def resolved(self, params: Params) -> Self:
        """Return the operation with the workload's parameters in place.

        Raises:
            ParameterError: One is missing or of the wrong kind.
        """
        return self.model_copy(update=self.values(params))

    def values(self, params: Params) -> dict[str, Any]:  # noqa: ARG002 - others ask them
        """Return the fields that parameters say."""
        return {}


class Counted(Operation):
    """An operation on so many objects."""

    count: Whole | None = None
    count_param: str = ""

    @model_validator(mode="after")
    def check_count(self) -> Self:
        """A count is given in one way or the other."""
        if self.count is None and not self.count_param and self.needs_count():
            raise ValueError("count or countParam must be given")
        return self

    def needs_count(self) -> bool:
        """Whether there is no count to fall back to."""
        return True

    def values(self, params: Params) -> dict[str, Any]:
        """Return the fields that parameters say."""
        return {"count": params.integer(self.count_param)} if self.count_param else {}

    @property
    def number(self) -> int:
        """The count; one where nothing is said."""
        return 1 if self.count is None else self.count


class Templated(Counted):
    """An operation that creates objects from a template, which may use parameters of its own."""

    template_params: dict[str, Any] = {}

    def values(self, params: Params) -> dict[str, Any]:
        """Return the fields that parameters say."""
        return super().values(params) | {"template_params": params.filled(self.template_params)}
