"""What pods say of their gang and queue, read once for all that say the same: the members of a gang mostly do.

Reading it asks eight conventions, which costs more than all else that is done with a pod that was seen. It is read
again when labels or annotations change, as the API server changes them with every bind.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias
from weakref import WeakValueDictionary

from tutti.api.configuration import Conventions
from tutti.api.conventions import Claim, ConventionError, claim_of
from tutti.api.core import Pod

Saying: TypeAlias = tuple[Hashable, ...]
"""All that a pod says, in one value."""


class Sayings:
    """Remembers how what pods say was read, for as long as anybody has that claim."""

    def __init__(self, settings: Conventions) -> None:
        self._settings = settings
        self._read: WeakValueDictionary[Saying, Claim] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._read)

    def read(self, said: Saying, pod: Pod) -> tuple[Claim, str]:
        """Return the claim of a pod that says this, and why it cannot be read, or ""."""
        known = self._read.get(said)
        if known is not None:
            return known, ""
        try:
            claim = claim_of(pod, self._settings)
        except ConventionError as error:
            return Claim(convention="", namespace=pod.metadata.namespace), str(error)
        if not (pod.metadata.uid and pod.metadata.uid in claim.group):  # else it is named after this one pod
            self._read[said] = claim
        return claim, ""


def saying_of(pod: Pod) -> Saying:
    """Return all that a claim is read from and that can change."""
    meta, spec = pod.metadata, pod.spec
    owners = tuple(owner.uid for owner in meta.owner_references if owner.controller)
    labels, annotations = meta.labels, meta.annotations
    return (
        meta.namespace,
        owners,
        spec.scheduling_group,
        spec.workload_ref,
        len(labels),
        *labels.items(),
        *annotations.items(),
    )
