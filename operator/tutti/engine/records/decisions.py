"""What the engine wants done: one record per write, for the shell to carry out in the order given.

The shell adds nothing to a decision but credentials, retries and the check that it still leads.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from tutti.api.core import OwnerReference, Pod
from tutti.api.devices import Allocation
from tutti.api.frameworks.starting import Directives
from tutti.api.messages import shortened
from tutti.api.provisioning import ProvisionedPods
from tutti.api.selectors import Toleration

DeviceClaimChange = Literal["allocate", "reserve", "free"]
ExtendedClaimChange = Literal["make", "tell", "remove"]


class Decision(msgspec.Struct, frozen=True, tag_field="do", omit_defaults=True):
    """Base of everything the engine can decide."""


class CardLock(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a bind of a pod with parts of cards needs beside its annotations.

    Attributes:
        text: The lock of the node for the pod, as HAMi writes it.
        replaces: The lock that gives way.
        left: Of each card of the pod, by its id, what is left beside it and all that are counted: MiB, percent, slots.
        counted: The uids of the pods on the node that are counted: others had not been seen there.
    """

    text: str
    replaces: str = ""
    left: dict[str, tuple[int, int, int]] = {}
    counted: tuple[str, ...] = ()


class Bind(Decision, frozen=True, tag="bind"):
    """Bind a pod to a node; answered by `BindFinished`.

    `annotations` travel in the Binding and so reach the pod without a write of their own. Where there are `labels` or
    `tolerations`, the pod gets these first; one that has another value of a label is not bound. With `card_lock` the
    node is locked for it first, as HAMi does, and nothing is bound where others were given its parts of cards unseen.
    All binds of one decision belong out at the same time; those of one `workload` are one gang. One that is sent once
    more (`again`) may have taken effect before.
    """

    namespace: str
    name: str
    uid: str
    node: str
    workload: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    tolerations: list[Toleration] = []
    card_lock: CardLock | None = None
    again: bool = False


class SelectNode(Decision, frozen=True, tag="select-node"):
    """Have a volume made for a claim where its pod is going to be; answered by `ClaimWritten`.

    `version` is that of the claim which the choice was made by.
    """

    namespace: str
    name: str
    uid: str
    node: str
    version: str = ""


class ReserveVolume(Decision, frozen=True, tag="reserve-volume"):
    """Bind a free volume to a claim (namespace, name, uid); answered by `ClaimWritten`.

    `version` is that of the volume which the choice was made by.
    """

    namespace: str
    name: str
    uid: str
    volume: str
    version: str = ""


UserName = tuple[str, str]
"""Name and uid of a pod or PodGroup that uses a claim."""


class WriteDeviceClaim(Decision, frozen=True, gc=False, tag="write-device-claim"):
    """Write on a ResourceClaim what it has and who uses it; answered by `DeviceClaimWritten`.

    Attributes:
        change: `allocate`: give it its devices, and let pods use it; `reserve`: let more pods use the devices that it
            has; `free`: take its devices away, if nobody else uses it.
        version: That of the claim which this was decided by.
        protected: Whether that version has the finalizer which keeps a claim with devices from vanishing.
        allocation: What it gets; only to allocate.
        pods: Name and uid of those that use it from now on, or, to free it, used it.
        groups: The same of PodGroups of Kubernetes whose claim it is.
    """

    namespace: str
    name: str
    uid: str
    change: DeviceClaimChange
    version: str = ""
    allocation: Allocation | None = None
    pods: tuple[UserName, ...] = ()
    groups: tuple[UserName, ...] = ()
    protected: bool = False


class WriteExtendedClaim(Decision, frozen=True, tag="write-extended-claim"):
    """Write the claim of a pod for extended resources that devices stand in for; answered by `DeviceClaimWritten`.

    Attributes:
        uid: Of the claim; "" of one that is to be made.
        change: `make`: create it; `tell`: have the status of its pod say which it is; `remove`: take it away.
        pod: Name and uid of the pod.
        requests: To make it: its requests by name, each with its class and how many devices.
        mappings: To tell of it: the place of a container among init and other containers, resource and request.
        containers: To tell of it: what these are called; nothing where that has to be read.
    """

    namespace: str
    name: str
    uid: str
    change: ExtendedClaimChange
    pod: tuple[str, str]
    requests: list[tuple[str, str, int]] = []
    mappings: list[tuple[int, str, str]] = []
    containers: tuple[str, ...] = ()


class Evict(Decision, frozen=True, tag="evict"):
    """Take a pod out that is bound, or may be; answered by `EvictFinished`.

    It gets the condition DisruptionTarget with `reason` and `message`, and ends within its own grace period.
    With `within_budgets` the API server refuses what no PodDisruptionBudget has room for.
    """

    namespace: str
    name: str
    uid: str
    reason: str
    message: str
    within_budgets: bool = False


class Deactivate(Decision, frozen=True, tag="deactivate"):
    """Set `spec.active` of a Workload to false; answered by `Deactivated`."""

    namespace: str
    name: str
    uid: str


class StartOwner(Decision, frozen=True, tag="start-owner"):
    """Have an object that is suspended make its pods; answered by `OwnerWritten`.

    `generation` is that of what was decided on: where it asks for something else by now, it is not started.
    `added` is what the pods of each role get, by role; `at` is Unix seconds.
    """

    group: str
    kind: str
    version: str
    plural: str
    namespace: str
    name: str
    uid: str
    generation: int
    at: int
    added: dict[str, Directives] = {}


class SuspendOwner(Decision, frozen=True, tag="suspend-owner"):
    """Have an object make no pods any more, and say what it said before its start; answered by `OwnerWritten`."""

    group: str
    kind: str
    version: str
    plural: str
    namespace: str
    name: str
    uid: str


class SetPodCondition(Decision, frozen=True, tag="pod-condition"):
    """Write the pod's `PodScheduled=False` condition: why it is not placed.

    `nominated_node` is where it is to go when others have left; "" where nowhere any more, None leaves that alone.
    """

    namespace: str
    name: str
    uid: str
    reason: str
    message: str
    observed_generation: int = 0
    nominated_node: str | None = None


class AnnotatePod(Decision, frozen=True, tag="annotate-pod"):
    """Write annotations of a pod; one that is None is taken off. Answered by `PodAnnotated`."""

    namespace: str
    name: str
    uid: str
    annotations: dict[str, str | None]


class KeepAdmission(Decision, frozen=True, tag="admission"):
    """Write into the status of a bound pod what it was admitted to, as a condition (`engine/records/members.py`)."""

    namespace: str
    name: str
    uid: str
    admission: str


class PatchStatus(Decision, frozen=True, tag="status"):
    """Merge `status` into the status of an object; a field set to None is removed.

    `api_version` is that of an object which is not ours.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    status: dict[str, Any]
    api_version: str = ""


class ResetChecks(Decision, frozen=True, tag="reset-checks"):
    """Write what admission checks say of an object anew, and which round that is; answered by `ChecksReset`.

    Both are written at once: whoever sees the round sees no answer of an earlier one.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    round: int
    checks: list[dict[str, Any]]


class EmitEvent(Decision, frozen=True, tag="event"):
    """Record one event (events.k8s.io/v1) about an object.

    Attributes:
        lasting: Whether it tells of what stays so, and is not known after a restart to have been told of: to tell it
            again adds to the event that is there.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    action: str
    note: str
    lasting: bool = False


class CreatePodGroup(Decision, frozen=True, tag="create-pod-group"):
    """Make the PodGroup of a gang that others describe, so that its status can be seen.

    It goes with its `owners`, too, though nobody runs who would delete it.
    """

    namespace: str
    name: str
    spec: dict[str, Any]
    labels: dict[str, str] = {}
    owners: list[OwnerReference] = []


class DeletePodGroup(Decision, frozen=True, tag="delete-pod-group"):
    """Remove a PodGroup that was made for annotations, after its last pod is gone."""

    namespace: str
    name: str
    uid: str


class CreateProvisioning(Decision, frozen=True, tag="create-provisioning"):
    """Make a ProvisioningRequest and the PodTemplates of its pod sets; answered by `ProvisioningWritten`.

    `owner` is kind, name and uid of the workload's object, with which all of it goes.
    """

    namespace: str
    name: str
    owner: tuple[str, str, str]
    class_name: str
    pods: list[ProvisionedPods]
    parameters: dict[str, str] = {}


class DeleteProvisioning(Decision, frozen=True, tag="delete-provisioning"):
    """Remove a ProvisioningRequest that nobody needs, and its templates; answered by `ProvisioningWritten`.

    Attributes:
        uid: Of the request; "" for one that never came to be, or is gone, of which templates may be there.
        workload: The uid of the workload whose templates these are, where the request has none.
    """

    namespace: str
    name: str
    uid: str
    workload: str = ""


class AskExtender(Decision, frozen=True, tag="ask-extender"):
    """Ask an HTTP extender about a class of pods by one of them; answered by `ExtenderAnswered`.

    `ask` tells the answer from others; `extender` is its urlPrefix; `nodes` are the names of the candidates.
    Where no pod of the class exists yet, `stand_in` is sent as it would be, and `name` is empty.
    """

    ask: int
    extender: str
    verb: Literal["filter", "prioritize"]
    namespace: str
    name: str
    uid: str
    nodes: list[str]
    stand_in: Pod | None = None


class NotePluginFault(Decision, frozen=True, tag="plugin-fault"):
    """Log and count that a plugin of a user has failed at an extension point; its pods say so themselves."""

    plugin: str
    point: str
    message: str


class NoteFault(Decision, frozen=True, tag="fault"):
    """Log and count that an object has made the engine raise, and that this is all that it costs.

    Attributes:
        kind: Whose fault it is; "Engine" where that cannot be told.
        during: What was done.
        error: What was raised.
        line: Where, as `module:line`.
    """

    kind: str
    namespace: str
    name: str
    during: str
    error: str
    line: str = ""


AnyDecision = (
    Bind
    | SelectNode
    | ReserveVolume
    | WriteDeviceClaim
    | WriteExtendedClaim
    | Evict
    | Deactivate
    | StartOwner
    | SuspendOwner
    | SetPodCondition
    | KeepAdmission
    | AnnotatePod
    | PatchStatus
    | ResetChecks
    | EmitEvent
    | CreatePodGroup
    | DeletePodGroup
    | CreateProvisioning
    | DeleteProvisioning
    | AskExtender
    | NotePluginFault
    | NoteFault
)

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def error_text(error: Exception) -> str:
    """What was raised, in one line that is the same in every run."""
    text = _ADDRESS.sub("0x...", " ".join(str(error).split()))
    return shortened(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def fault_of(key: tuple[str, str, str], error: Exception, during: str) -> NoteFault:
    """Return what has a fault logged and counted; `key` is the kind, namespace and name of whose it is."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    line = "" if where is None else f"{where.tb_frame.f_globals.get('__name__', '')}:{where.tb_lineno}"
    return NoteFault(*key, during, error_text(error), line)
