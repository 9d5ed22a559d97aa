"""What a queue has a cluster autoscaler asked for, in which flavors, and how often."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProvisioningCheck:
    """An admission check by which nodes are provisioned for those who have quota and find none.

    Attributes:
        name: Of the AdmissionCheck.
        on_flavors: The flavors that it is for; none: all.
        class_name: The provisioning class.
        parameters: What that is given, sorted by name.
        managed: Pods that ask for none of these resources need no nodes made; none: all pods do.
        retries: How many requests follow one that has failed.
        base_seconds: How long after the first failure the next follows; it doubles with each.
        most_seconds: How long at most.
        selectors: Labels of nodes, and the detail of the request that has the value of each.
    """

    name: str
    on_flavors: tuple[str, ...]
    class_name: str
    parameters: tuple[tuple[str, str], ...] = ()
    managed: tuple[str, ...] = ()
    retries: int = 3
    base_seconds: int = 60
    most_seconds: int = 1800
    selectors: tuple[tuple[str, str], ...] = ()

    def concerns(self, flavors: Collection[str], requests: Mapping[str, int]) -> bool:
        """Whether nodes are made for pods that are counted in some flavors and ask for these resources."""
        return self.is_for(flavors) and self.manages(requests)

    def is_for(self, flavors: Collection[str]) -> bool:
        """Whether nodes are made for some of these flavors."""
        return not self.on_flavors or any(one in flavors for one in self.on_flavors)

    def manages(self, requests: Mapping[str, int]) -> bool:
        """Whether nodes are made for pods that ask for these resources."""
        return not self.managed or any(requests.get(one) for one in self.managed)

    def pause_after(self, failures: int) -> int:
        """Return how many seconds after so many failures, at least one, nodes are asked for again."""
        return min(self.most_seconds, self.base_seconds << min(max(0, failures - 1), 30))

    @property
    def terms(self) -> str:
        """A fingerprint of what is asked for: what failed under other terms says nothing of these."""
        said = repr((self.class_name, self.parameters, self.managed, self.selectors))
        return hashlib.sha256(said.encode()).hexdigest()[:16]
