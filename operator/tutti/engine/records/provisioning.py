"""What cluster autoscalers have been asked for: how far that has come per workload, and the requests as they are."""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tutti.api.conditions import timestamp
from tutti.api.provisioning import ProvisioningRequest
from tutti.engine.records.observation import Observation

_LONGEST_NAME = 40
"""Characters of a workload's name in that of its request, which with the rest is short enough for a label."""


class ProvisioningStage(enum.StrEnum):
    """How far it has come with nodes for a workload in some flavors; the values are those of its status.

    PENDING: A request is out, or about to be written. PROVISIONED: nodes were made; it stays so while the workload
    looks for them and runs. FAILED: asked again at a time. GIVEN_UP: not asked again. WITHDRAWN: it was not needed any
    more; asked again when it is.
    """

    PENDING = "Pending"
    PROVISIONED = "Provisioned"
    FAILED = "Failed"
    GIVEN_UP = "GivenUp"
    WITHDRAWN = "Withdrawn"


UNDER_WAY = (ProvisioningStage.PENDING, ProvisioningStage.PROVISIONED)


@dataclass(slots=True)
class Provisioning:
    """Nodes that have been asked for, for one workload in some flavors.

    Attributes:
        check: The AdmissionCheck by which they are.
        flavors: All flavors that the workload was to have, sorted.
        terms: A fingerprint of what the check said then.
        attempt: The number of the last request; it never falls, so that no name is used twice.
        failures: How many requests have failed, of those that count.
        request: The name of the last one.
        message: What was last said of it.
        since: Since when it is in its phase, Unix seconds.
        retry_at: When it is asked for again, Unix seconds; 0 where that is not to come.
        was_seen: Whether the request has been seen by this process.
        asked: Whether an answer to its being written is out.
        not_before: Before when it is not written again, Unix seconds; 0 before the first write was answered.
        trouble: Why it could not be written, or "".
        node_labels: Labels that the nodes have which were made for it.
        may_leave: Whether templates may be there of it though the request is not: it was not made to its end, or is
            gone. That is so of whatever an earlier process has told of.
    """

    check: str
    flavors: tuple[str, ...]
    terms: str
    attempt: int = 0
    failures: int = 0
    stage: ProvisioningStage = ProvisioningStage.WITHDRAWN
    request: str = ""
    message: str = ""
    since: float = 0.0
    retry_at: float = 0.0
    was_seen: bool = False
    asked: bool = False
    not_before: float = 0.0
    trouble: str = ""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    may_leave: bool = True

    @property
    def is_under_way(self) -> bool:
        """Whether its request is needed."""
        return self.stage in UNDER_WAY

    def described(self) -> dict[str, Any]:
        """Return it as a status tells it."""
        said: dict[str, Any] = {
            "check": self.check,
            "flavors": list(self.flavors),
            "terms": self.terms,
            "attempt": self.attempt,
            "failures": self.failures,
            "state": self.stage.value,
            "request": self.request,
            "message": self.message,
            "lastTransitionTime": timestamp(self.since),
        }
        return said | ({"retryAt": timestamp(self.retry_at)} if self.retry_at else {})

    @property
    def shape(self) -> tuple[object, ...]:
        """What decides whether nodes may be asked for in these flavors."""
        return self.check, self.flavors, self.terms, self.stage is ProvisioningStage.GIVEN_UP


def provisioning_request_name(workload: str, uid: str, flavors: tuple[str, ...], attempt: int) -> str:
    """Return the name of a request: the same whenever it is worked out, and of no other attempt or workload."""
    said = hashlib.sha256("\0".join((uid, *flavors)).encode()).hexdigest()[:10]
    plain = re.sub(r"[^a-z0-9]+", "-", workload[:_LONGEST_NAME].lower()).strip("-") or "workload"
    return f"{plain}-{said}-{attempt}"


class ProvisioningRequests:
    """The requests that were made here, as they are seen.

    Attributes:
        followed: Whether they are seen: their kind is served, and may be read.
        leaving: The uids of those that are being removed, each with when that is tried again, Unix seconds: infinity
            while it is under way.
        making: Namespace and name of those whose making is under way, whoever needs them by now.
        sweeping: The same of those whose templates are being removed, with the workload that had asked.
    """

    def __init__(self) -> None:
        self.followed = False
        self.leaving: dict[str, float] = {}
        self.making: dict[tuple[str, str], None] = {}
        self.sweeping: dict[tuple[str, str], tuple[str, str, str]] = {}
        self._by_owner: dict[tuple[str, str], dict[str, ProvisioningRequest]] = {}  # by namespace and uid
        self._owners: dict[tuple[str, str], tuple[str, str, str]] = {}

    def put(self, found: ProvisioningRequest) -> tuple[str, str, str] | None:
        """Take in a request; returns kind, namespace and name of whose it is, or was, None where that is nobody."""
        before = self.drop(found.namespace, found.name, keeps_leaving=found.uid)
        if found.owner is None:
            return before
        kind, name, uid = found.owner
        self._by_owner.setdefault((found.namespace, uid), {})[found.name] = found
        self._owners[found.namespace, found.name] = (kind, name, uid)
        return kind, found.namespace, name

    def drop(self, namespace: str, name: str, *, keeps_leaving: str = "") -> tuple[str, str, str] | None:
        """Forget a request; returns kind, namespace and name of whose it was, None where nobody's was known."""
        whose, owner = self.owner(namespace, name), self._owners.pop((namespace, name), None)
        if owner is None:
            return None
        known = self._by_owner[namespace, owner[2]]
        gone = known.pop(name)
        if gone.uid != keeps_leaving:
            self.leaving.pop(gone.uid, None)
        if not known:
            del self._by_owner[namespace, owner[2]]
        return whose

    def owner(self, namespace: str, name: str) -> tuple[str, str, str] | None:
        """Return kind, namespace and name of whose a request is; None where it is nobody's that is known."""
        found = self._owners.get((namespace, name))
        return None if found is None else (found[0], namespace, found[1])

    def of(self, namespace: str, uid: str) -> Mapping[str, ProvisioningRequest]:
        """Return the requests of a workload's object, by name."""
        return self._by_owner.get((namespace, uid), {})


class ProvisioningSeen(Observation, frozen=True, tag="provisioning"):
    """A ProvisioningRequest was added or changed."""

    found: ProvisioningRequest


class ProvisioningGone(Observation, frozen=True, tag="provisioning-gone"):
    """A ProvisioningRequest does not exist any more."""

    namespace: str
    name: str


class ProvisioningFollowed(Observation, frozen=True, tag="provisioning-kind"):
    """Whether ProvisioningRequests are seen from now on: their kind is served, and may be read."""

    followed: bool


class ProvisioningWritten(Observation, frozen=True, tag="provisioning-written"):
    """What became of a CreateProvisioning or DeleteProvisioning.

    Attributes:
        owner: Kind and name of whom it was for; empty of one that was removed.
        uid: Of the request that was to be removed.
        problem: Why it was not done; "" that it stands so now.
        final: Whether to write it again would be in vain, as where somebody else has the name.
    """

    namespace: str
    name: str
    owner: tuple[str, str] | None = None
    uid: str = ""
    problem: str = ""
    final: bool = False
