"""What came of a choice of flavors, per flavor looked at, per pod set and for the workload.

Rules: Kueue, flavorassigner.go (0.20). A pod set stands as its worst resource does, a workload as its worst pod set.
Of several flavors that do not fit, the least severe reason counts, as each alone would have done; of several resource
groups and pod sets, which are all needed, the most severe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum

import msgspec

from tutti.quota.policy import FlavorRank, PreemptionMode
from tutti.quota.tree import FlavorResource, Usage


class NoFit(IntEnum):
    """Why a flavor does not fit, from what passes soonest to what never does."""

    NONE = 0
    WAITING_FOR_QUOTA = 1
    EXCEEDS_MAX_QUOTA = 2
    NO_MATCHING_FLAVOR = 3

    @property
    def reason(self) -> str:
        """The reason as conditions tell it."""
        return _REASONS[self]


_REASONS = [one.name.title().replace("_", "") if one else "" for one in NoFit]


class AssignmentMode(IntEnum):
    """How a workload stands, from worst to best."""

    NO_FIT = 0
    PREEMPT = 1
    FIT = 2


def assignment_mode(mode: PreemptionMode) -> AssignmentMode:
    """Return how a workload stands that has a flavor in this mode."""
    if mode in (PreemptionMode.NO_FIT, PreemptionMode.FIT):
        return AssignmentMode.FIT if mode is PreemptionMode.FIT else AssignmentMode.NO_FIT
    return AssignmentMode.PREEMPT


class FlavorAttempt(msgspec.Struct, frozen=True):
    """A flavor that was looked at, the highest level that a resource needed, and why it does not fit."""

    flavor: str
    mode: PreemptionMode
    level: int
    group: int
    why: NoFit = NoFit.NONE
    message: str = ""


class AssignedFlavor(msgspec.Struct):
    """The flavor of one resource, and how good that is."""

    flavor: str
    rank: FlavorRank


class PodSetAssignment(msgspec.Struct):
    """The flavors of one pod set.

    Attributes:
        requests: What it asks for in all, per resource.
        flavors: By resource; nothing where it can have none.
        failed: Whether there is a resource group without any flavor for it.
        attempts: The flavors looked at.
        problem: What else is wrong.
    """

    name: str
    count: int
    requests: Mapping[str, int]
    flavors: dict[str, AssignedFlavor] = {}
    failed: bool = False
    attempts: tuple[FlavorAttempt, ...] = ()
    problem: str = ""

    @property
    def mode(self) -> AssignmentMode:
        """How it stands."""
        if self.failed or self.problem:
            return AssignmentMode.NO_FIT
        worst = AssignmentMode.FIT
        for one in self.flavors.values():
            if one.rank.mode is not PreemptionMode.FIT:
                worst = min(worst, assignment_mode(one.rank.mode))
        return worst

    def usage(self) -> Usage:
        """Return what it uses of quota."""
        return {(one.flavor, name): self.requests.get(name, 0) for name, one in self.flavors.items()}

    def why(self) -> NoFit:
        """Return why it does not fit."""
        if not self.attempts:
            return NoFit.NO_MATCHING_FLAVOR
        least: dict[int, NoFit] = {}
        for one in self.attempts:
            if one.mode is PreemptionMode.NO_FIT:
                least[one.group] = min(one.why, least.get(one.group, one.why))
        return max(least.values(), default=NoFit.NONE)


class PodSetGroupAssignment(msgspec.Struct, frozen=True):
    """The flavors of pod sets that share them: a leader and its workers, or one that shares them with nobody.

    Attributes:
        names: Those of its pod sets.
        requests: What these ask for together, per resource; it is this sum that has to fit.
        flavors: All that were chosen; nothing where it can have none.
        attempts: The flavors looked at.
        taken: What those before them take, which counts as well.
    """

    names: tuple[str, ...]
    requests: Mapping[str, int]
    flavors: frozenset[str]
    attempts: tuple[FlavorAttempt, ...]
    taken: Mapping[FlavorResource, int]


class WorkloadAssignment(msgspec.Struct):
    """The flavors of a workload.

    Attributes:
        mode: How it stands, as its worst pod set does; nothing assigned does not fit.
        pod_sets: In the order in which they were given, without those that were not looked at.
        level: From how far away its quota comes.
        usage: What it uses of quota.
        groups: In the order in which they were looked at, each counting what those before it take.
    """

    mode: AssignmentMode = AssignmentMode.NO_FIT
    pod_sets: list[PodSetAssignment] = []
    level: int = 0
    usage: Usage = {}
    groups: list[PodSetGroupAssignment] = []

    def add(self, pods: PodSetAssignment) -> None:
        """Add what a pod set has got."""
        self.pod_sets.append(pods)
        for name, one in pods.flavors.items():
            what = one.flavor, name
            self.usage[what] = self.usage.get(what, 0) + pods.requests.get(name, 0)
            self.level = max(self.level, one.rank.level)

    def of(self, group: PodSetGroupAssignment) -> list[PodSetAssignment]:
        """Return what each pod set of a group has got."""
        return [one for one in self.pod_sets if one.name in group.names]

    def group_of(self, name: str) -> PodSetGroupAssignment:
        """Return what those have got with whom a pod set shares its flavors.

        Raises:
            KeyError: It was not looked at, because one before it can have nothing.
        """
        for one in self.groups:
            if name in one.names:
                return one
        raise KeyError(name)

    def contested(self) -> frozenset[FlavorResource]:
        """Return of what there is too little, so that others would have to go."""
        return frozenset(self._in(AssignmentMode.PREEMPT))

    def why(self) -> NoFit:
        """Return why it does not fit."""
        return max((one.why() for one in self.pod_sets if one.mode is AssignmentMode.NO_FIT), default=NoFit.NONE)

    def _in(self, mode: AssignmentMode) -> Iterator[FlavorResource]:
        for pods in self.pod_sets:
            for name, one in pods.flavors.items():
                if assignment_mode(one.rank.mode) is mode:
                    yield one.flavor, name
