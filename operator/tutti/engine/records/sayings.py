"""What pods say of their gang and queue, read once for all that say the same: the members of a gang mostly do.

Reading it asks eight conventions, which costs more than all else that is done with a pod that was seen. Labels and
annotations that nobody reads are passed over: users give each pod its own, and the API server adds to them with a bind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias
from weakref import WeakValueDictionary

from tutti.api.configuration import Conventions
from tutti.api.conventions import ConventionError, GangMembership, membership_keys, membership_of
from tutti.api.core import Pod

ADMISSION_ANNOTATION = "scheduling.tutti.dev/admission"
GATE_ANNOTATION = "scheduling.tutti.dev/admission-gate"
"""While it is on a workload's object or on one of its pods, a complete reservation is not bound."""

Saying: TypeAlias = tuple[Hashable, ...]
"""All that a pod says which anybody reads, in one value."""


class Sayings:
    """Remembers how what pods say was read, for as long as anybody has that claim.

    Args:
        settings: Which conventions are read.
        noted: The annotations that plugins read.
    """

    def __init__(self, settings: Conventions, noted: Iterable[str] = ()) -> None:
        self._settings = settings
        self._heard = membership_keys(settings) | {ADMISSION_ANNOTATION, GATE_ANNOTATION, *noted}
        self._read: WeakValueDictionary[Saying, GangMembership] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._read)

    def of(self, pod: Pod) -> Saying:
        """Return all that somebody reads of a pod and that can change."""
        meta, spec = pod.metadata, pod.spec
        owners = tuple([owner.uid for owner in meta.owner_references if owner.controller])
        said = self._heard_in(meta.labels), self._heard_in(meta.annotations)
        return (meta.namespace, owners, spec.scheduling_group, spec.workload_ref, *said)

    def _heard_in(self, texts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        heard = self._heard
        return () if heard.isdisjoint(texts) else tuple([pair for pair in texts.items() if pair[0] in heard])

    def read(self, said: Saying, pod: Pod) -> tuple[GangMembership, str]:
        """Return the claim of a pod that says this, and why it cannot be read, or ""."""
        known = self._read.get(said)
        if known is not None:
            return known, ""
        try:
            claim = membership_of(pod, self._settings)
        except ConventionError as error:
            return GangMembership(convention="", namespace=pod.metadata.namespace), str(error)
        if not (pod.metadata.uid and pod.metadata.uid in claim.group):  # else it is named after this one pod
            self._read[said] = claim
        return claim, ""
