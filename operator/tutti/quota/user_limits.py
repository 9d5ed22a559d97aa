"""How much users and groups may have of a queue at once, and by which limit somebody has to wait.

Of the limits that a queue lists, the first that names a user is his; where none does, the first with `*`. Each group
that he is in has one likewise, and what all its users have together is compared with that. Whoever would be above any
of these waits. So does YuniKorn (queue configuration, `limits`; pkg/scheduler/ugm), but for two things: there a user is
counted in one of his groups only, and `*` stands for all groups together that are not named, while here each of these
has so much by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tutti.quota.holder_use import HeldShare, HolderUse

USER, GROUP, LOCAL_QUEUE = "user", "group", "queue"
"""What holders are, in front of their name."""
EVERYBODY_ELSE = "*"
"""Whoever no other limit of the queue names."""

SERVICE_ACCOUNT, SERVICE_ACCOUNTS = "system:serviceaccount:", "system:serviceaccounts:"
"""How the API server's names of service accounts begin, and of the group of all of one namespace."""

WORKLOADS = "workloads"
"""What a limit on the number of workloads is said to be short of."""


def holder_named(kind: str, name: str) -> str:
    """Return how a user, group or LocalQueue is known among holders."""
    return f"{kind}/{name}"


def service_account_namespace(user: str) -> str:
    """Return the namespace of a service account; "" of any other user."""
    return user.removeprefix(SERVICE_ACCOUNT).partition(":")[0] if user.startswith(SERVICE_ACCOUNT) else ""


def holder_title(holder: str) -> tuple[str, str]:
    """Return what a holder is, and its name."""
    kind, _, name = holder.partition("/")
    return kind, name


@dataclass(frozen=True, slots=True)
class Allowed:
    """How much may be had at once.

    Attributes:
        resources: In scheduling units; what is not named is not limited.
        workloads: How many; None: any number.
    """

    resources: Mapping[str, int] = field(default_factory=dict)
    workloads: int | None = None


@dataclass(frozen=True, slots=True)
class UserLimits:
    """The limits of a queue, by the name of each holder; `user/*` and `group/*` for whom no other names."""

    of: Mapping[str, Allowed] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.of)

    def allowed(self, holder: str) -> Allowed | None:
        """Return what somebody may have; None where nothing limits him."""
        found = self.of.get(holder)
        return self.of.get(holder_named(holder_title(holder)[0], EVERYBODY_ELSE)) if found is None else found


NO_USER_LIMITS = UserLimits()
"""Those of a queue that has none."""


def user_limits_of(said: Sequence[tuple[Sequence[str], Sequence[str], Allowed]]) -> UserLimits:
    """Return limits by holder: users, groups and what each of them may have; the first that names one is his."""
    found: dict[str, Allowed] = {}
    for users, groups, allowed in said:
        for kind, names in ((USER, users), (GROUP, groups)):
            for name in names:
                found.setdefault(holder_named(kind, name), allowed)
    return UserLimits(found)


class Beyond(NamedTuple):
    """A limit that somebody would be above.

    Attributes:
        holder: Whose it is.
        what: The resource, or WORKLOADS.
        allowed: How much of it.
        used: How much of that is in use.
        wanted: How much more is asked for.
    """

    holder: str
    what: str
    allowed: int
    used: int
    wanted: int

    @property
    def never(self) -> bool:
        """Whether it would be above with nothing in use."""
        return self.wanted > self.allowed


def beyond(
    limits: UserLimits, use: HolderUse, queue: str, workload: str, wanted: Mapping[str, int]
) -> Iterator[Beyond]:
    """Yield the limits that a workload would be above with so much more, those of its user first.

    Args:
        limits: Of the queue.
        use: What everybody has.
        queue: Its name.
        workload: By name; it counts as one more where it holds nothing of the queue yet.
        wanted: What it asks for in addition, by resource.
    """
    for holder in use.holders(workload):
        allowed = limits.allowed(holder)
        if allowed is None:
            continue
        has = use.of(queue, holder)
        more = int(workload not in has.workloads)
        if allowed.workloads is not None and more and len(has.workloads) + more > allowed.workloads:
            yield Beyond(holder, WORKLOADS, allowed.workloads, len(has.workloads), more)
        for resource, limit in allowed.resources.items():
            asked, used = wanted.get(resource, 0), has.resources.get(resource, 0)
            if asked > 0 and used + asked > limit:
                yield Beyond(holder, resource, limit, used, asked)


def room_within(allowed: Allowed, has: HeldShare, taken: Mapping[str, int], each: Mapping[str, int], most: int) -> int:
    """Return for how many pods more there is room within a limit.

    Args:
        allowed: The limit.
        has: What is in use of it.
        taken: What is about to be.
        each: What one pod asks for.
        most: More are not asked for.
    """
    for resource, limit in allowed.resources.items():
        if each.get(resource, 0) > 0:
            left = limit - has.resources.get(resource, 0) - taken.get(resource, 0)
            most = min(most, max(0, left) // each[resource])
    return most
