"""Operations on objects other than pods; those on nodes and namespaces make what pods are placed on and in."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from tutti_bench.operations.frame import Counted, Operation, Templated, Whole
from tutti_bench.params import Params, Part


class CreateAny(Templated):
    """Creates objects of any kind."""

    opcode: Literal["createAny"]
    namespace: str = ""
    template_path: str

    def needs_count(self) -> bool:
        """One object where nothing is said."""
        return False


class UpdateAny(Templated):
    """Replaces objects of any kind, and their status where the template has one, at once or so many per second."""

    opcode: Literal["updateAny"]
    namespace: str = ""
    template_path: str
    update_per_second: Whole = 0
    subresources: list[str] = []

    def needs_count(self) -> bool:
        """One object where nothing is said."""
        return False


class CreateResourceClaims(Templated):
    """Creates ResourceClaims."""

    opcode: Literal["createResourceClaims"]
    namespace: str
    template_path: str


class CreateResourceDriver(Operation):
    """Publishes devices of a driver on nodes, as many as there can be claims on each."""

    opcode: Literal["createResourceDriver"]
    driver_name: str
    max_claims_per_node: Whole | None = None
    max_claims_per_node_param: str = ""
    nodes: str = "*"

    def values(self, params: Params) -> dict[str, Any]:
        """Return the fields that parameters say."""
        given = self.max_claims_per_node_param
        return {"max_claims_per_node": params.integer(given)} if given else {}


class AllocResourceClaims(Operation):
    """Gives each ResourceClaim of a namespace the devices it asks for."""

    opcode: Literal["allocResourceClaims"]
    namespace: str


class CreatePodGroups(Templated):
    """Creates PodGroups and waits until the API server shows them all (1.37)."""

    opcode: Literal["createPodGroups"]
    namespace: str
    template_path: str


class WaitForPodGroups(Counted):
    """Waits until the API server shows so many PodGroups in a namespace (1.37)."""

    opcode: Literal["waitForPodGroups"]
    namespace: str


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


_DECLARED_FEATURES: Final = "numNodeDeclaredFeatures"


class CreateNodes(Templated):
    """Creates nodes: of a template, or with 4 cores, 32 Gi and room for 110 pods."""

    opcode: Literal["createNodes"]
    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatable | None = None
    label_node_prepare_strategy: LabelNodes | None = None
    unique_node_label_strategy: UniqueLabel | None = None
    declared_features: Annotated[Whole, Field(exclude=True)] = 0

    def values(self, params: Params) -> dict[str, Any]:
        """Return the fields that parameters say; how many features a node declares, no operation of upstream's does."""
        return super().values(params) | {"declared_features": params.whole_or_none(_DECLARED_FEATURES)}

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
