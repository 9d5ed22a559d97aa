"""Carries decisions out: each kind goes to the writer it belongs to, and what became of it is observed.

Nothing here waits for a write before taking the next decision; what must be in order is in order because it is about
one object, and each object has one writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, assert_never

import msgspec
import structlog

from tutti.api import throttles
from tutti.api.conventions.gang_objects import GANG_KINDS
from tutti.api.extensions import Extender
from tutti.api.frameworks import KindTable
from tutti.controller.bind_line import BindLine
from tutti.controller.discovery import OUR_RESOURCES
from tutti.controller.extender_calls import ExtenderCalls
from tutti.controller.logs import details_are_told
from tutti.controller.merging import composed
from tutti.controller.metrics import Metrics
from tutti.controller.progress import GangTimes
from tutti.engine.records.decisions import (
    AnnotatePod,
    AnyDecision,
    AskExtender,
    Bind,
    CreatePodGroup,
    CreateProvisioning,
    Deactivate,
    DeletePodGroup,
    DeleteProvisioning,
    EmitEvent,
    Evict,
    KeepAdmission,
    NoteFault,
    NotePluginFault,
    PatchStatus,
    ReserveVolume,
    ResetChecks,
    SelectNode,
    SetPodCondition,
    StartOwner,
    SuspendOwner,
    WriteDeviceClaim,
    WriteExtendedClaim,
)
from tutti.engine.records.observations import (
    AnyObservation,
    BindAnswer,
    BindFinished,
    ChecksReset,
    ClaimWritten,
    Deactivated,
    DeviceClaimWritten,
    EvictFinished,
    ExtenderAnswered,
    OwnerWritten,
    PodAnnotated,
    PodGroupWritten,
)
from tutti.engine.records.pod_admission import ADMITTED_CONDITION
from tutti.engine.records.provisioning import ProvisioningWritten
from tutti.kube.annotator import PodAnnotator
from tutti.kube.binder import Binder, BindOutcome, BindResult, ClaimWriter
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.device_claims import ClaimTurns, DeviceClaimWriter
from tutti.kube.errors import WireError
from tutti.kube.events import EventRecorder
from tutti.kube.evictor import Deactivator, Evictor, EvictOutcome
from tutti.kube.extended_claims import ExtendedClaimWriter
from tutti.kube.fencing import Confirm, Fence, LeadershipDoubted, LeadershipLost, LeaseTerm, no_term, unconfirmed
from tutti.kube.flow_control import PriorityLevel
from tutti.kube.owner_writer import OwnerWriter
from tutti.kube.pod_group_writer import PodGroupWriter
from tutti.kube.provisioning_writer import ProvisioningWriter
from tutti.kube.resources import PODS, APIResource
from tutti.kube.statuses import PodConditionUpdate, StatusTarget, StatusWriter

log = structlog.get_logger(__name__)

_BOUND: Final = BindAnswer.BOUND
_OF_OWNERS: Final = (StartOwner, SuspendOwner)

Change = (
    Deactivate
    | AnnotatePod
    | StartOwner
    | SuspendOwner
    | CreateProvisioning
    | DeleteProvisioning
    | CreatePodGroup
    | DeletePodGroup
)
"""What changes one object, and is answered by what became of it."""


class Drained(NamedTuple):
    """Whether nothing is under way any more; a late event does no harm.

    Attributes:
        writes: Binds, evictions and whatever else has an answer.
        statuses: Late ones are refused only where another generation of the lease has written after them.
    """

    writes: bool
    statuses: bool


class Dispatch:
    """The way from the engine to the writers, and back for their results.

    `carry_out` may be called only while `run` runs.
    """

    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        confirm: Confirm = unconfirmed,
        observe: Callable[[AnyObservation], None],
        metrics: Metrics,
        times: GangTimes,
        instance: str,
        term: Callable[[], LeaseTerm | None] = no_term,
        extenders: Sequence[Extender] = (),
        kinds: KindTable,
    ) -> None:
        self._client = client
        self._fence = fence
        self._term = term
        self._observe = observe
        self._metrics = metrics
        self._times = times
        self._bind_line = BindLine(
            Binder(client, fence=fence, term=term),
            at_once=client.concurrency,
            spawn=self._spawn,
            guard=self._guard,
            answered=self._bound,
        )
        self._evictor = Evictor(client, fence=fence, confirm=confirm)
        self._deactivator = Deactivator(client, OUR_RESOURCES["Workload"], fence=fence, confirm=confirm)
        self._owners = OwnerWriter(client, kinds, fence=fence, confirm=confirm)
        self._annotator = PodAnnotator(client, fence=fence)
        self._pod_groups = PodGroupWriter(client, OUR_RESOURCES["PodGroup"], fence=fence)
        self._claims = ClaimWriter(client, fence=fence)
        turns = ClaimTurns()
        self._device_claims = DeviceClaimWriter(client, fence=fence, turns=turns)
        self._provisioning = ProvisioningWriter(client, fence=fence, is_named=self._is_told)
        self._extended_claims = ExtendedClaimWriter(client, fence=fence, turns=turns)
        self._statuses = StatusWriter(client, fence=fence, term=term)
        self._events = EventRecorder(client, fence=fence, controller="tutti", instance=instance)
        self._extending = ExtenderCalls(client, extenders, observe=observe, metrics=metrics)
        self._binds = {answer: metrics.binds.labels(answer) for answer in BindAnswer}
        self._wanted: dict[StatusTarget, dict[str, Any]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Keep the writers running until cancelled, or until this process may not write any more."""
        with self._client.counting_waiting(PriorityLevel.BIND, self._bind_line.__len__):
            async with self._extending, asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._statuses.run(), name="status writer")
                group.create_task(self._events.run(), name="event recorder")

    def carry_out(self, decisions: Sequence[AnyDecision]) -> None:
        """Start every write of one decision; its binds stand in line before anything else, and ask for turns first.

        Raises:
            LeadershipLost: This process may not write any more, so nothing was started.
        """
        with suppress(LeadershipDoubted):  # each write waits until it is known
            self._fence()
        binds = [decision for decision in decisions if isinstance(decision, Bind)]
        self._times.decided(binds)
        for decision in (*binds, *(one for one in decisions if not isinstance(one, Bind))):
            try:
                self._start(decision)
            except LeadershipLost:
                raise
            except Exception as error:  # noqa: BLE001 - a bulkhead: it is this write's
                self._set_aside(decision, error)

    def _start(self, decision: AnyDecision) -> None:
        match decision:
            case Bind():
                self._drop_condition(decision)
                self._bind_line.add(decision)
            case SelectNode() | ReserveVolume() | WriteDeviceClaim() | WriteExtendedClaim():
                self._spawn(self._guard(decision, self._choose(decision)))
            case Evict():
                self._spawn(self._guard(decision, self._evict(decision)))
            case (
                Deactivate()
                | AnnotatePod()
                | StartOwner()
                | SuspendOwner()
                | CreateProvisioning()
                | DeleteProvisioning()
                | CreatePodGroup()
                | DeletePodGroup()
            ):
                self._spawn(self._guard(decision, self._change(decision)))
            case SetPodCondition() | KeepAdmission():
                self._put_condition(decision)
            case PatchStatus() | ResetChecks():
                self._put_status(decision)
            case EmitEvent():
                self.record(decision)
            case AskExtender():
                self._spawn(self._guard(decision, self._extending.ask(decision)))
            case NotePluginFault() | NoteFault():
                self._note(decision)
            case _:
                assert_never(decision)

    def _note(self, fault: NotePluginFault | NoteFault) -> None:
        """Log and count what has failed in the engine."""
        if isinstance(fault, NotePluginFault):
            self._metrics.plugin_faults.labels(fault.plugin, fault.point).inc()
            log.error("plugin_failed", plugin=fault.plugin, point=fault.point, error=fault.message)
        else:
            self._metrics.set_aside.labels(fault.kind, fault.during).inc()
            log.error("set_aside", **{field: getattr(fault, field) for field in fault.__struct_fields__})

    def record(self, event: EmitEvent) -> None:
        """Record an event about an object."""
        warning = event.type == "Warning"
        if warning or details_are_told():
            say = log.info if warning else log.debug  # what went well is logged as what it is
            fields = {"reason": event.reason, "kind": event.kind, "namespace": event.namespace, "name": event.name}
            say("told", **fields, note=event.note)
        self._events.record(event)

    def node_gone(self, node: str) -> None:
        """Bind nobody more to a node that is gone: who were to be bound there are known not to be."""
        for bind in self._bind_line.withdraw(node):
            self._bound(bind, BindResult(BindOutcome.FAILED, "the node is gone"))

    def forget(self, resource: APIResource, namespace: str, name: str, uid: str) -> None:
        """Drop what is remembered of an object that is gone: one whose status is written here."""
        target = StatusTarget(resource, namespace, name, uid)
        self._wanted.pop(target, None)
        self._statuses.forget(target, parts=("", "PodScheduled", ADMITTED_CONDITION))

    async def drain(self, *, within_seconds: float) -> Drained:
        """Wait until everything started has been written, or the time is over; nothing more may be started."""
        deadline = asyncio.get_running_loop().time() + within_seconds
        while self._under_way and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(self._under_way, timeout=left)  # what goes on by itself begins meanwhile
        unsaid, _ = [
            await flush(within_seconds=max(0.0, deadline - asyncio.get_running_loop().time()))
            for flush in (self._statuses.flush, self._events.flush)
        ]
        if self._under_way:
            log.warning("writes_abandoned", left=len(self._under_way) + len(self._bind_line))
        return Drained(writes=not self._under_way, statuses=not unsaid)

    def _spawn(self, write: Coroutine[Any, Any, None]) -> None:
        if self._group is None:
            write.close()
            raise RuntimeError("decisions can be carried out only while the dispatch runs")
        task = self._group.create_task(write)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _guard(self, decision: AnyDecision, write: Awaitable[None]) -> None:
        """Await one write; what it raises that nobody expects costs this write alone."""
        try:
            await write
        except LeadershipLost:
            raise
        except Exception as error:  # noqa: BLE001 - a bulkhead: it is this write's
            self._set_aside(decision, error)

    def _set_aside(self, decision: AnyDecision, error: Exception) -> None:
        """Tell that a write has raised, and answer the engine where it waits for what becomes of it."""
        said = f"{type(error).__name__}: {error}"
        kind, where = type(decision).__name__, (getattr(decision, "namespace", ""), getattr(decision, "name", ""))
        self._metrics.set_aside.labels(kind, "writing").inc()
        log.error("write_set_aside", kind=kind, namespace=where[0], name=where[1], exc_info=error)
        answer = OwnerWritten(decision.uid, said) if isinstance(decision, _OF_OWNERS) else _unwritten(decision, said)
        if answer is not None:
            self._observe(answer)

    def _bound(self, bind: Bind, result: BindResult) -> None:
        """Count what has become of a bind, and have it observed."""
        answer = result.outcome.answer
        self._binds[answer].inc()
        self._times.answered(bind, bound=answer is _BOUND)
        self._observe(BindFinished(bind.namespace, bind.name, bind.uid, bind.node, answer, result.message))

    async def _choose(self, choice: SelectNode | ReserveVolume | WriteDeviceClaim | WriteExtendedClaim) -> None:
        if isinstance(choice, WriteDeviceClaim):
            self._observe(await self._device_claims.write(choice))
        elif isinstance(choice, WriteExtendedClaim):
            self._observe(await self._extended_claims.write(choice))
        elif isinstance(choice, SelectNode):
            self._observe(await self._claims.select_node(choice))
        else:
            self._observe(await self._claims.reserve_volume(choice))

    async def _evict(self, evict: Evict) -> None:
        outcome, message = await self._evictor.evict(evict)
        done = outcome in (EvictOutcome.LEAVING, EvictOutcome.GONE)
        self._metrics.evictions.labels(str(done).lower()).inc()
        self._observe(EvictFinished(evict.namespace, evict.name, evict.uid, done, message))

    async def _change(self, wanted: Change) -> None:
        """Set a Workload inactive, annotate a pod, start or suspend what makes pods, ask for nodes, or make a gang."""
        if isinstance(wanted, CreateProvisioning | DeleteProvisioning):
            self._observe(await self._provisioning.write(wanted))
        elif isinstance(wanted, CreatePodGroup | DeletePodGroup):
            self._observe(await self._pod_groups.write(wanted))
        elif isinstance(wanted, AnnotatePod):
            self._observe(await self._annotator.annotate(wanted))
        elif isinstance(wanted, Deactivate):
            self._observe(await self._deactivator.deactivate(wanted))
        else:
            self._observe(await self._owners.write(wanted))

    async def _is_told(self, kind: str, namespace: str, name: str, uid: str) -> bool:
        """Wait until the status of an object of ours is written; returns whether it is in time."""
        target = StatusTarget(OUR_RESOURCES[kind], namespace, name, uid)
        return await self._statuses.settled(target, within_seconds=5.0)

    def _put_condition(self, decision: SetPodCondition | KeepAdmission) -> None:
        about = (decision.namespace, decision.name, decision.uid)
        if isinstance(decision, KeepAdmission):
            kept = PodConditionUpdate(ADMITTED_CONDITION, "True", "Admitted", decision.admission)
            self._statuses.put_pod_condition(*about, verdict=kept, once=True)
            return
        verdict = PodConditionUpdate(
            "PodScheduled", "False", decision.reason, decision.message, decision.observed_generation
        )
        self._statuses.put_pod_condition(*about, verdict=verdict, nominated_node=decision.nominated_node)

    def _drop_condition(self, bind: Bind) -> None:
        """Do not tell a pod any more why it waits: written after the bind, that would stand on a pod that is bound."""
        self._statuses.forget(StatusTarget(PODS, bind.namespace, bind.name, bind.uid), parts=("PodScheduled",))

    def _put_status(self, patch: PatchStatus | ResetChecks) -> None:
        """Want the sum of all patches so far: the writer sends only the newest, and none of them may be lost.

        What checks say is written once, and is none of them: it would undo what others have written since.
        """
        if isinstance(patch, ResetChecks):
            self._spawn(self._guard(patch, self._reset_checks(patch)))
            return
        target = StatusTarget(_resource(patch), patch.namespace, patch.name, patch.uid)
        wanted = self._wanted[target] = composed(self._wanted.get(target, {}), patch.status)
        self._statuses.put(target, wanted)

    async def _reset_checks(self, reset: ResetChecks) -> None:
        """Write what checks say and the round it is, once: others write the same list, and are not to be undone."""
        status: dict[str, Any] = {"admissionChecks": reset.checks, "checksRound": reset.round}
        term = self._term()
        status |= {} if term is None else {"fence": term}
        body = msgspec.json.encode({"metadata": {"uid": reset.uid}, "status": status})
        path = OUR_RESOURCES[reset.kind].path(reset.namespace, reset.name, "status")
        done = True
        try:
            await self._client.write(
                PriorityLevel.STATUS, "PATCH", path, body=body, fence=self._fence, content_type=MERGE_PATCH
            )
        except WireError as error:
            done = False
            log.warning(
                "checks_not_reset", kind=reset.kind, namespace=reset.namespace, name=reset.name, error=str(error)
            )
        self._observe(ChecksReset(reset.kind, reset.namespace, reset.name, reset.round, done))


def _unwritten(decision: AnyDecision, why: str) -> AnyObservation | None:  # noqa: PLR0911 - one answer per decision
    """Return what the engine is answered where a write has raised; None where it waits for no answer."""
    match decision:
        case Bind(namespace=space, name=name, uid=uid, node=node):
            return BindFinished(space, name, uid, node, BindAnswer.UNKNOWN, why)
        case (
            SelectNode(namespace=space, name=name, uid=uid, node=target)
            | ReserveVolume(namespace=space, name=name, uid=uid, volume=target)
        ):
            return ClaimWritten(space, name, uid, target, done=False, message=why)
        case (
            WriteDeviceClaim(namespace=space, name=name, uid=uid, change=change)
            | WriteExtendedClaim(namespace=space, name=name, uid=uid, change=change)
        ):
            return DeviceClaimWritten(space, name, uid, change, done=False, message=why)
        case Evict(namespace=space, name=name, uid=uid):
            return EvictFinished(space, name, uid, done=False, message=why)
        case AnnotatePod(namespace=space, name=name, uid=uid):
            return PodAnnotated(space, name, uid, done=False, message=why)
        case Deactivate(namespace=space, name=name, uid=uid):
            return Deactivated(space, name, uid, 0)
        case CreatePodGroup(namespace=space, name=name) | DeletePodGroup(namespace=space, name=name):
            return PodGroupWritten(space, name, done=False)
        case ResetChecks(kind=kind, namespace=space, name=name, round=number):
            return ChecksReset(kind, space, name, number, done=False)
        case CreateProvisioning(namespace=space, name=name, owner=owner):
            return ProvisioningWritten(space, name, owner[:2], problem=why)
        case DeleteProvisioning(namespace=space, name=name, uid=uid):
            return ProvisioningWritten(space, name, uid=uid, problem=why)
        case AskExtender(ask=ask):
            return ExtenderAnswered(ask, error=why)
        case _:
            return None


def _resource(patch: PatchStatus) -> APIResource:
    """Return where the object of a status is served."""
    group, _, version = patch.api_version.partition("/")
    if not group:
        return OUR_RESOURCES[patch.kind]
    if group == throttles.GROUP:
        namespaced = patch.kind == throttles.NAMESPACED_KIND
        return APIResource(group, version, throttles.PLURALS[patch.kind], namespaced=namespaced)
    kind = next(one for one in GANG_KINDS if (one.group, one.kind) == (group, patch.kind))
    return APIResource(group, version, kind.plural)
