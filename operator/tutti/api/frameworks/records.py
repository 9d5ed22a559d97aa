"""What is kept of an object that makes pods, and what follows from it for the gang of a pod.

All of it is bounded, whatever the object holds, so that it can be observed, written into the journal and compared.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tutti.api.conventions.membership import PodTopologyRequest
from tutti.api.conventions.order_annotations import NO_HINTS, OrderHints
from tutti.api.core import OwnerReference

After = tuple[str, Literal["Ready", "Complete"]]
"""A role, and what it must be before the pods of another are made."""


class OwnerRole(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pods that an object makes of one template.

    Attributes:
        replicas: How many replicas there are now, of those that have not succeeded.
        least: How many of them must be there at once.
        most: To how many it may grow; None: no more than there are.
        total: How many there are with those that have succeeded; None: as many as `replicas`.
        size: How many pods a replica has.
        scheduler: The scheduler that its template names; "" is the default one.
        apart: Why its pods are not in the gang of the object, by what its template says; "": they are.
        after: What must be before its pods are made.
        later: Whether its pods are made when those of the other roles are placed or run.
        keeps_room: Whether the gang starts only when there is room for them as well.
        leads: Whether of each replica one pod is made first, and the others when that one has a node.
        domain: The node label within one value of which each replica has its nodes; "": anywhere.
        template: What its pods are placed by (`tutti.api.templates`), where room is kept for some before they are made.
    """

    name: str
    replicas: int = 1
    least: int = 1
    most: int | None = None
    total: int | None = None
    size: int = 1
    scheduler: str = ""
    apart: str = ""
    after: tuple[After, ...] = ()
    later: bool = False
    keeps_room: bool = True
    leads: bool = False
    domain: str = ""
    template: dict[str, Any] = {}


class StartStage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Roles whose pods are made at the same moment.

    Attributes:
        roles: Their names, in the order of the object; at least one.
        waits_for: Which other stages, by index, have begun before these pods are made.
        finished: Which of them have succeeded by then.
    """

    roles: tuple[str, ...]
    waits_for: tuple[int, ...] = ()
    finished: tuple[int, ...] = ()


class StartState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of an object decides whether it is started or suspended here (`tutti.api.frameworks.starting`).

    Attributes:
        version: In which its kind is served.
        plural: Of its kind, as in paths.
        generation: Of what it asks for.
        created: When it was made, as the server wrote it.
        started: Whether it says that it was started here, and has not been restored since.
        started_at: When, Unix seconds; 0 where it does not say.
        finished: Whether it makes no pods any more: it has ended, or is being deleted.
        attempt: How often all of its pods were made anew; "" where they never were.
        unfit: What would have to hold for it to be started here, in words; "": it can be.
        single: Whether its pods are one gang for the sake of their start alone: later each does its part by itself.
        patched: Whether its templates stand in what it makes of others, and are changed by patches in it.
        active: Whether its status counts pods of it that run; known of one that is `patched`.
    """

    version: str = ""
    plural: str = ""
    generation: int = 0
    created: str = ""
    started: bool = False
    started_at: int = 0
    finished: bool = False
    attempt: str = ""
    unfit: str = ""
    single: bool = False
    patched: bool = False
    active: bool = False


class ProjectedOwner(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of an object that makes pods, or makes what does.

    Attributes:
        group: API group of its kind; "" of a pod that owns pods.
        owner: What controls it in its turn; None: nothing.
        owners: How many own it, where none of several is the controller; else 0.
        labels: Those of its labels that say queue, priority class or run time.
        wish: Together or Apart, as our annotation says; "": nothing.
        together: Whether its pods are one gang, by the rule of its kind and what its fields say.
        one_by_one: Why its pods are not made all at once, which a gang of them would need; "": they are.
        minimum: How many of its pods are stated to be placed at once; None: all.
        minimum_by: The annotation or field that says so.
        stages: Its roles but those that are `later`, by when they are made.
        current: The name of the object below it that is in use.
        replica_size: How many pods each replica has, where each is a gang.
        queue: The queue that a field of it names.
        priority_class: The priority class that a field of it names.
        schedule_timeout_seconds: How long a complete reservation is held; None: as configured.
        topology: How near its pods want to be, by its annotations.
        after: What our annotation says of whose end its pods wait for.
        hints: What its annotations say that the order of a queue may go by, and whose it is.
        flavor_seconds: What our annotation says of how long its pods take in which flavor.
        ended: Succeeded or Failed, where its status says so; "" while it does not.
        problems: What is wrong with its roles and numbers, in sentences.
        topology_problem: What is wrong with its annotations on topology, or "".
        start: What decides whether it is started here; None of kinds that nobody starts here.
    """

    group: str
    kind: str
    namespace: str
    name: str
    uid: str
    owner: OwnerReference | None = None
    owners: int = 0
    labels: dict[str, str] = {}
    wish: str = ""
    together: bool = False
    one_by_one: str = ""
    suspended: bool = False
    roles: tuple[OwnerRole, ...] = ()
    minimum: int | None = None
    minimum_by: str = ""
    stages: tuple[StartStage, ...] = ()
    current: str = ""
    replica_size: int | None = None
    queue: str = ""
    priority_class: str = ""
    schedule_timeout_seconds: int | None = None
    topology: PodTopologyRequest | None = None
    after: str = ""
    hints: OrderHints = NO_HINTS
    flavor_seconds: str = ""
    ended: str = ""
    problems: tuple[str, ...] = ()
    topology_problem: str = ""
    start: StartState | None = None

    @property
    def is_held(self) -> bool:
        """Whether it makes no pods before it is started, or was started here: its templates are kept for that."""
        start = self.start
        return start is not None and not start.finished and self.wish != "Apart" and (self.suspended or start.started)

    @property
    def title(self) -> str:
        """Kind and name, as messages have them."""
        return f"{self.kind} {self.name}"


class PodMarks(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a pod to tell its gang from its owners, whenever these change.

    Attributes:
        owner: Its controller, or its only owner; None: it has none.
        owners: How many own it, where none of several is the controller; else 0.
        scheduler: The scheduler that it names.
        labels: Those of its labels and annotations that tell role, replica and attempt.
        says_group: Whether it says itself which gang it is in, or that it is in none.
    """

    namespace: str
    name: str
    uid: str
    owner: OwnerReference | None = None
    owners: int = 0
    scheduler: str = ""
    labels: dict[str, str] = {}
    says_group: bool = False


class RolePart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The members of one role in a gang: how many there are, and how many of them must be placed at once.

    Attributes:
        minimum: 0 is any number: the gang has a minimum that counts members of all roles.
        count: Of those that have not succeeded.
        total: How many there are with those.
        template: What those are placed by that are made when others have a node.
    """

    role: str
    minimum: int
    count: int
    total: int
    template: dict[str, Any] = {}


class LaterRole(msgspec.Struct, frozen=True, omit_defaults=True):
    """Members that are made when the gang is placed or runs.

    Attributes:
        group: The name of the gang that they are, where they are one of their own; "": they join this one.
        beside: Whether they run beside the gang; else when it has finished.
        keeps_room: Whether the gang starts only when there is room for them as well.
        template: What they are placed by, where room is kept for them.
    """

    role: str
    count: int
    group: str = ""
    beside: bool = True
    keeps_room: bool = True
    template: dict[str, Any] = {}


class OwnedGang(msgspec.Struct, frozen=True, omit_defaults=True, tag="gang"):
    """The gang that a pod is a member of, by what owns it.

    Attributes:
        workload: Key of all that is queued and charged together: the object by uid, and which attempt of it.
        workload_name: A name for it that can be that of an object.
        group: Key of the gang: the workload, and which of its stages and replicas.
        group_name: A name for it that can be that of an object.
        starts_with: That of the gang that starts first of those that run beside one another, with room for all of them.
        owner: Kind and name of the object that decides, for messages.
        minimum: How many members must be placed at once; at least 1.
        count: How many members there are, those that join later included; at least `minimum`.
        most: To how many members it may grow; None: not beyond `count`.
        role: Which role the pod is of; "": no known one.
        sub_group: Pods that are near one another have the same; "": nobody has said.
        domain: The node label within one value of which all pods with the same `domain_key` have their nodes; "":
            anywhere. Room for those who join later must be there too.
        joins_later: Whether the pod joins a gang that starts without it.
        parts: The roles whose members start together, in the order of the object.
        later: Who is made later.
        room: For how many pods there must be room when it starts: the minimum, and all that `keeps_room`.
        suspended: Whether the object makes no pods for now.
        notes: What is to be told of it, in sentences.
    """

    workload: str
    workload_name: str
    group: str
    group_name: str
    starts_with: str
    owner: str
    minimum: int
    count: int
    most: int | None = None
    role: str = ""
    sub_group: str = ""
    domain: str = ""
    domain_key: str = ""
    joins_later: bool = False
    parts: tuple[RolePart, ...] = ()
    later: tuple[LaterRole, ...] = ()
    room: int = 1
    suspended: bool = False
    notes: tuple[str, ...] = ()


class PlacedAlone(msgspec.Struct, frozen=True, omit_defaults=True, tag="alone"):
    """A pod that starts by itself; `note` says why where that may surprise."""

    note: str = ""


class SaidByPod(msgspec.Struct, frozen=True, tag="pod"):
    """A pod that says itself which gang it is in: its owners are not asked."""


class OwnerAwaited(msgspec.Struct, frozen=True, tag="awaited"):
    """A pod of which it is not known yet, because something above it has not been seen; `text` says what."""

    text: str


class UnusableOwner(msgspec.Struct, frozen=True, tag="unusable"):
    """A pod whose owner is wrong, so that nobody knows its gang; `problems` say what is to be corrected."""

    owner: str
    problems: tuple[str, ...]


GangAnswer = OwnedGang | PlacedAlone | SaidByPod | OwnerAwaited | UnusableOwner
"""What can be said of the gang of a pod."""
