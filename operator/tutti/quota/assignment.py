"""What came of a choice of flavors, per flavor looked at, per pod set and for the workload.

Rules: Kueue, flavorassigner.go (0.20). A pod set stands as its worst resource does, a workload as its worst pod set.
Of several flavors that do not fit, the least severe reason counts, as each alone would have done; of several resource
groups and pod sets, which are all needed, the most severe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from tutti.quota.policy import Mode, Rank
from tutti.quota.tree import FlavorResource, Usage, add_to


class NoFit(IntEnum):
    """Why a flavor does not fit, from what passes soonest to what never does."""

    NONE = 0
    WAITING_FOR_QUOTA = 1
    EXCEEDS_MAX_QUOTA = 2
    NO_MATCHING_FLAVOR = 3

    @property
    def reason(self) -> str:
        """The reason as conditions tell it."""
        return self.name.title().replace("_", "") if self else ""


class Verdict(IntEnum):
    """How a workload stands, from worst to best."""

    NO_FIT = 0
    PREEMPT = 1
    FIT = 2


def verdict_of(mode: Mode) -> Verdict:
    """Return how a workload stands that has a flavor in this mode."""
    if mode in (Mode.NO_FIT, Mode.FIT):
        return Verdict.FIT if mode is Mode.FIT else Verdict.NO_FIT
    return Verdict.PREEMPT


@dataclass(frozen=True, slots=True)
class Attempt:
    """A flavor that was looked at, the highest level that a resource needed, and why it does not fit."""

    flavor: str
    mode: Mode
    level: int
    group: int
    why: NoFit = NoFit.NONE
    message: str = ""


@dataclass(slots=True)
class Chosen:
    """The flavor of one resource, and how good that is."""

    flavor: str
    rank: Rank


@dataclass(slots=True)
class PodSetChoice:
    """The flavors of one pod set.

    Attributes:
        requests: What it asks for in all, per resource.
        flavors: By resource; nothing where it can have none.
        failed: Whether there is a resource group without any flavor for it.
        attempts: The flavors looked at.
        problem: What else is wrong.
        topology_of: The flavor by whose topology it is placed; "" where it is not.
    """

    name: str
    count: int
    requests: Mapping[str, int]
    flavors: dict[str, Chosen] = field(default_factory=dict)
    failed: bool = False
    attempts: tuple[Attempt, ...] = ()
    problem: str = ""
    topology_of: str = ""

    @property
    def verdict(self) -> Verdict:
        """How it stands."""
        if self.failed or self.problem:
            return Verdict.NO_FIT
        worst = Verdict.FIT
        for one in self.flavors.values():
            if one.rank.mode is not Mode.FIT:
                worst = min(worst, verdict_of(one.rank.mode))
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
            if one.mode is Mode.NO_FIT:
                least[one.group] = min(one.why, least.get(one.group, one.why))
        return max(least.values(), default=NoFit.NONE)


@dataclass(frozen=True, slots=True)
class PartyChoice:
    """The flavors of pod sets that share them: a leader and its workers, or one that shares them with nobody.

    Attributes:
        names: Those of its pod sets.
        requests: What these ask for together, per resource; it is this sum that has to fit.
        flavors: All that were chosen; nothing where it can have none.
        attempts: The flavors looked at.
    """

    names: tuple[str, ...]
    requests: Mapping[str, int]
    flavors: frozenset[str]
    attempts: tuple[Attempt, ...]


@dataclass(slots=True)
class Choice:
    """The flavors of a workload.

    Attributes:
        pod_sets: In the order in which they were given, without those that were not looked at.
        level: From how far away its quota comes.
        usage: What it uses of quota.
        parties: In the order in which they were looked at, each counting what those before it take.
    """

    pod_sets: list[PodSetChoice] = field(default_factory=list)
    level: int = 0
    usage: Usage = field(default_factory=dict)
    parties: list[PartyChoice] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """How it stands; nothing chosen does not fit."""
        worst = Verdict.FIT if self.pod_sets else Verdict.NO_FIT
        for one in self.pod_sets:
            worst = min(worst, one.verdict)
        return worst

    def add(self, party: PartyChoice, pod_sets: Sequence[PodSetChoice]) -> None:
        """Add what pod sets that share their flavors have got."""
        self.parties.append(party)
        self.pod_sets += pod_sets
        for pods in pod_sets:
            add_to(self.usage, pods.usage())
            self.level = max((self.level, *(one.rank.level for one in pods.flavors.values())))

    def of(self, party: PartyChoice) -> list[PodSetChoice]:
        """Return what each pod set of a party has got."""
        return [one for one in self.pod_sets if one.name in party.names]

    def party_of(self, name: str) -> PartyChoice:
        """Return what those have got with whom a pod set shares its flavors.

        Raises:
            KeyError: It was not looked at, because one before it can have nothing.
        """
        for one in self.parties:
            if name in one.names:
                return one
        raise KeyError(name)

    def contested(self) -> frozenset[FlavorResource]:
        """Return of what there is too little, so that others would have to go."""
        return frozenset(self._in(Verdict.PREEMPT))

    def why(self) -> NoFit:
        """Return why it does not fit."""
        return max((one.why() for one in self.pod_sets if one.verdict is Verdict.NO_FIT), default=NoFit.NONE)

    def _in(self, verdict: Verdict) -> Iterator[FlavorResource]:
        for pods in self.pod_sets:
            for name, one in pods.flavors.items():
                if verdict_of(one.rank.mode) is verdict:
                    yield one.flavor, name
