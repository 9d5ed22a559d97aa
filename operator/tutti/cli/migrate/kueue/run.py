"""What holds for all documents that are migrated together: how pods are called ours, and the names that are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tutti.api.kinds.parsing import UNSUPPORTED, UnsupportedField

LONGEST_LABEL = 63


@dataclass(slots=True)
class Run:
    """One call, over all of its files.

    Attributes:
        scheduler: The schedulerName that pods are given.
        unsupported: The fields that are left out because this version does not do them yet.
        used: The Workloads written so far: namespace and name, and whose each is.
    """

    scheduler: str = "tutti"
    unsupported: Sequence[UnsupportedField] = UNSUPPORTED
    used: dict[tuple[str, str], str] = field(default_factory=dict)

    def claim(self, namespace: str, wanted: str, kind: str) -> tuple[str, bool]:
        """Take a name for the Workload of an object.

        Args:
            namespace: Where it lives.
            wanted: The name it gets, unless another kind of object has it; pods bear it as a label.
            kind: The kind of the object, or of group, that it is for.

        Returns:
            The name, and whether this is the first claim to it.
        """
        name = wanted[:LONGEST_LABEL].rstrip("-.")
        if self.used.get((namespace, name), kind) != kind:
            tail = f"-{kind.lower()}"
            name = name[: LONGEST_LABEL - len(tail)] + tail
        first = (namespace, name) not in self.used
        self.used[namespace, name] = kind
        return name, first
