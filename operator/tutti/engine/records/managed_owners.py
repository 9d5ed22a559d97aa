"""Objects that make pods and are started and suspended here, and what is known of each while it waits or runs.

Nothing of this outlives the process: whether an object waits, was started, or was left between the two is told by the
object itself (`tutti.api.frameworks.starting`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from tutti.api.core import OwnerReference
from tutti.api.frameworks import ProjectedOwner
from tutti.engine.records.members import Owned

Asked = Literal["", "start", "suspend"]
"""What has been asked to be done with an object, and has not been seen to be done."""


@dataclass(slots=True, eq=False)
class ManagedOwner:
    """An object of a queue that keeps suspended what waits in it.

    Attributes:
        found: It, as it was last seen.
        owned: What its pods have from it and from what is above it.
        ref: How others refer to it.
        created: When it was made, Unix seconds.
        templates: What its pods are placed by, by role.
        groups: The role of the pods in each pod group of its workload, by the name of the group.
        asked: What has been asked to be done with it.
        leaves: Why it is to be suspended, as reason and message; None: it is not.
        leaves_since: Since when, Unix seconds.
        settled: Whether that has been written.
        awaited_since: Since when it runs and none of its pods has a node, Unix seconds; None: it is not so.
        refused: Why it could not be written last; "" where it was.
        refusals: How often on end.
        not_before: When it may be tried again, Unix seconds.
    """

    found: ProjectedOwner
    owned: Owned
    ref: OwnerReference
    created: float = 0.0
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    asked: Asked = ""
    leaves: tuple[str, str] | None = None
    leaves_since: float = 0.0
    settled: bool = False
    awaited_since: float | None = None
    refused: str = ""
    refusals: int = 0
    not_before: float = 0.0

    @property
    def title(self) -> str:
        """Kind and name, as messages have them."""
        return self.found.title

    @property
    def started(self) -> bool:
        """Whether it says that it was started here."""
        return self.found.start is not None and self.found.start.started

    @property
    def waits(self) -> bool:
        """Whether it is suspended, and all that was changed in it has been taken back."""
        return self.found.suspended and not self.started

    @property
    def runs(self) -> bool:
        """Whether it was started here, and makes its pods."""
        return self.started and not self.found.suspended
