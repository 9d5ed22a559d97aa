"""Operations that make what pods are placed on and in: nodes and namespaces."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tutti_bench.operations.frame import Counted, Templated, Whole
from tutti_bench.part import Part


class CsiAllocatable(Part):
    """How many volumes of a driver fit on a node."""

    count: Whole | None = None


class CsiDriver(Part):
    """A CSI driver on every node; its count stands here or, as in a CSINode, in `allocatable`."""

    count: Whole | None = None
    allocatable: CsiAllocatable | None = None

    @property
    def volumes(self) -> int | None:
        """How many volumes fit on a node; None where there is no limit."""
        return self.count if self.allocatable is None else self.allocatable.count


class NodeAllocatable(Part):
    """What every node has to give away, beyond its template."""

    node_allocatable: dict[str, str | int] = {}
    csi_node_allocatable: dict[str, CsiDriver] = {}
    migrated_plugins: list[str] = []


class LabelNodes(Part):
    """A label whose values go round among the nodes."""

    label_key: str
    label_values: Annotated[list[str], Field(min_length=1)]


class UniqueLabel(Part):
    """A label whose value is different on each node."""

    label_key: str


class CreateNodes(Templated):
    """Creates nodes: of a template, or with 4 cores, 32 Gi and room for 110 pods."""

    opcode: Literal["createNodes"]
    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatable | None = None
    label_node_prepare_strategy: LabelNodes | None = None
    unique_node_label_strategy: UniqueLabel | None = None

    @model_validator(mode="after")
    def check_strategy(self) -> Self:
        """There is one strategy at most."""
        given = (self.node_allocatable_strategy, self.label_node_prepare_strategy, self.unique_node_label_strategy)
        if sum(one is not None for one in given) > 1:
            raise ValueError("at most one strategy can be given")
        return self


class CreateNamespaces(Counted):
    """Creates the namespaces `<prefix>-0`, `<prefix>-1`, ..."""

    opcode: Literal["createNamespaces"]
    prefix: str
    namespace_template_path: str = ""
