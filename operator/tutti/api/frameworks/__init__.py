"""What job frameworks make of pods: which of them are one gang, by the objects that own them.

`projected` keeps of an owner what matters, `owner_chain` follows owners upwards, `gang_of` says which gang a pod is in,
and `inherited_terms` what queue, priority and topology it has from its owners. All of it reads one table, `KindTable`,
whose rows users can add to.
"""

from tutti.api.framework_kind import FrameworkKind
from tutti.api.frameworks.chain import LookUp, MissingOwner, OwnerChain, owner_chain
from tutti.api.frameworks.gangs import gang_of
from tutti.api.frameworks.kinds import KNOWN_KINDS
from tutti.api.frameworks.marks import marked, projected_pod
from tutti.api.frameworks.projection import projected
from tutti.api.frameworks.records import (
    GangAnswer,
    OwnedGang,
    OwnerAwaited,
    PlacedAlone,
    PodMarks,
    ProjectedOwner,
    SaidByPod,
    StartState,
    UnusableOwner,
)
from tutti.api.frameworks.table import KindTable
from tutti.api.frameworks.terms import InheritedTerms, inherited_terms

__all__ = [
    "KNOWN_KINDS",
    "FrameworkKind",
    "GangAnswer",
    "InheritedTerms",
    "KindTable",
    "LookUp",
    "MissingOwner",
    "OwnedGang",
    "OwnerAwaited",
    "OwnerChain",
    "PlacedAlone",
    "PodMarks",
    "ProjectedOwner",
    "SaidByPod",
    "StartState",
    "UnusableOwner",
    "gang_of",
    "inherited_terms",
    "marked",
    "owner_chain",
    "projected",
    "projected_pod",
]
