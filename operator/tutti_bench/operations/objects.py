"""Operations on objects other than nodes and pods."""

from __future__ import annotations

from typing import Any, Literal

from tutti_bench.operations.frame import Counted, Operation, Templated, Whole
from tutti_bench.params import Params


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
