"""How a World carries out what the engine decides: at once, unless a test holds it back, refuses it or names an outcome."""

from __future__ import annotations

from typing import Any

from tests.engine.nodes_and_pods import replaced
from tutti.api.core import PodCondition
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
    WriteDeviceClaim,
    WriteExtendedClaim,
)
from tutti.engine.records.observations import (
    BindAnswer,
    BindFinished,
    ChecksReset,
    Deactivated,
    EvictFinished,
    GangObjectSeen,
    ObjectSeen,
    PodAnnotated,
    PodSeen,
)
from tutti.engine.records.pod_admission import ADMITTED_CONDITION


def merged(before: Any, patch: Any) -> Any:
    """A merge patch applied as a server does it (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    out = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


class DecisionWriters:
    """The part of a World that writes decisions; of the rest it needs what is there, and `tell`.

    `hold_binds` keeps binds in `pending_binds` until `answer`; `outcomes` names the next outcomes of a pod's binds;
    `hold_evictions` keeps evicted pods there, being deleted, until `delete`; `refuse_evictions`, `refuse_deactivation`,
    `refuse_resets` and `refuse_annotations` have these writes fail; with `may_raise` the engine may set aside what makes
    it raise.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asks: list[AskExtender] = []
        self.pending_binds: list[Bind] = []
        self.hold_binds = False
        self.hold_evictions = False
        self.refuse_evictions = False
        self.refuse_deactivation = False
        self.refuse_resets = False
        self.refuse_annotations = False
        self.may_raise = False
        self.outcomes: dict[str, list[str]] = {}

    def _carry_out_all(self, decisions: list[AnyDecision]) -> None:
        for decision in decisions:
            self._carry_out(decision)

    def _carry_out(self, decision: AnyDecision) -> None:  # noqa: PLR0912 - one per kind
        match decision:
            case Bind():
                self.pending_binds.append(decision)
                outcomes = self.outcomes.get(decision.name)
                if not self.hold_binds:
                    self.answer(decision, outcomes.pop(0) if outcomes else "Bound")
            case SelectNode() | ReserveVolume():
                self.storage.choose(decision)
            case WriteDeviceClaim() | WriteExtendedClaim():
                self.devices.choose(decision)
            case Evict():
                self._evict(decision)
            case Deactivate():
                self._deactivate(decision)
            case SetPodCondition():
                told = decision.reason, decision.message, decision.observed_generation
                condition = PodCondition("PodScheduled", "False", *told)
                self._nominate(decision)
                self._set_condition(decision.namespace, decision.name, condition)
            case KeepAdmission():
                kept = PodCondition(ADMITTED_CONDITION, "True", "Admitted", decision.admission)
                self._set_condition(decision.namespace, decision.name, kept)
            case AnnotatePod():
                self._annotate(decision)
            case PatchStatus():
                self._patch(decision)
            case ResetChecks():
                self._reset_checks(decision)
            case CreateProvisioning() | DeleteProvisioning():
                self.autoscaler.write(decision)
            case CreatePodGroup():
                self.object("PodGroup", decision.name, decision.spec, decision.namespace, decision.labels)
            case DeletePodGroup():
                self.remove_object("PodGroup", decision.name, decision.namespace)
            case AskExtender():
                self.asks.append(decision)
            case NoteFault():
                assert self.may_raise, f"{decision.during} {decision.kind} {decision.name} raised {decision.error}"
            case EmitEvent() | NotePluginFault():
                pass

    def _nominate(self, decision: SetPodCondition) -> None:
        pod = self.pods.get((decision.namespace, decision.name))
        if pod is not None and decision.nominated_node is not None:
            status = replaced(pod.status, nominated_node_name=decision.nominated_node)
            self.pods[decision.namespace, decision.name] = replaced(pod, status=status)

    def _annotate(self, decision: AnnotatePod) -> None:
        pod, where = self.pods.get((decision.namespace, decision.name)), (decision.namespace, decision.name)
        done = not self.refuse_annotations
        if done and pod is not None and pod.metadata.uid == decision.uid:
            annotations = merged(pod.metadata.annotations, decision.annotations)
            self.put(replaced(pod, metadata=replaced(pod.metadata, annotations=annotations)))
        self.tell(PodAnnotated(*where, decision.uid, done=done, message="" if done else "forbidden"))

    def _evict(self, decision: Evict) -> None:
        pod = self.pods.get((decision.namespace, decision.name))
        if not self.refuse_evictions and pod is not None and pod.metadata.uid == decision.uid:
            if self.hold_evictions:
                self.begin_deleting(decision.name)
            else:
                self.delete(decision.name, namespace=decision.namespace)
        done = not self.refuse_evictions
        self.tell(EvictFinished(decision.namespace, decision.name, decision.uid, done=done))

    def _deactivate(self, decision: Deactivate) -> None:
        found = self.objects.get(("Workload", decision.namespace, decision.name))
        generation = 0
        if found is not None and found["metadata"]["uid"] == decision.uid and not self.refuse_deactivation:
            self.object("Workload", decision.name, {**found["spec"], "active": False}, decision.namespace)
            generation = found["metadata"]["generation"] + 1
        self.tell(Deactivated(decision.namespace, decision.name, decision.uid, generation))

    def _patch(self, decision: PatchStatus) -> None:
        throttle = self.throttles.get((decision.kind, decision.namespace, decision.name))
        if throttle is not None and decision.api_version:
            status = merged(throttle["status"], decision.status)
            assert status != throttle["status"], f"{decision.kind} {decision.name} is told what it says already"
            self.throttle(decision.kind, {**throttle, "status": status})
            return
        if decision.api_version:
            key = (decision.api_version, decision.kind, decision.namespace, decision.name)
            thing = self.gang_objects.get(key)
            if thing is not None and thing["metadata"]["uid"] == decision.uid:
                self.gang_objects[key] = {**thing, "status": merged(thing["status"], decision.status)}
                self.tell(GangObjectSeen(decision.api_version, decision.kind, self.gang_objects[key]))
            return
        found = self.objects.get((decision.kind, decision.namespace, decision.name))
        if found is None or found["metadata"]["uid"] != decision.uid:
            return
        status = merged(found["status"], decision.status)
        assert status != found["status"], f"{decision.kind} {decision.name} is told what it says already"
        # A new document each time: the journal and the engine may still hold the old one.
        self.objects[decision.kind, decision.namespace, decision.name] = {**found, "status": status}
        self.tell(ObjectSeen(decision.kind, self.objects[decision.kind, decision.namespace, decision.name]))

    def _reset_checks(self, decision: ResetChecks) -> None:
        key = (decision.kind, decision.namespace, decision.name)
        found = self.objects.get(key)
        if self.refuse_resets or found is None or found["metadata"]["uid"] != decision.uid:
            self.tell(ChecksReset(*key, decision.round, done=False))
            return
        news = {"admissionChecks": decision.checks, "checksRound": decision.round}
        self.objects[key] = {**found, "status": {**found["status"], **news}}
        self.tell(ObjectSeen(decision.kind, self.objects[key]))
        self.tell(ChecksReset(*key, decision.round, done=True))

    def answer(self, bind: Bind, outcome: str = "Bound", *, seen: bool = True) -> None:
        """Let a held bind come to an end; without `seen`, the watch has not shown the pod on its node yet."""
        self.pending_binds.remove(bind)
        pod = self.pods.get((bind.namespace, bind.name))
        if outcome == "Bound" and (pod is None or pod.metadata.uid != bind.uid):
            outcome = "Gone"
        if outcome == "Bound":
            self.land(bind, seen=seen)
        said = f"the server said {outcome}"
        self.tell(BindFinished(bind.namespace, bind.name, bind.uid, bind.node, BindAnswer(outcome), said))

    def land(self, bind: Bind, *, seen: bool = True) -> None:
        """The server has taken a bind; the answer is another matter."""
        pod = self.pods[bind.namespace, bind.name]
        assert not pod.spec.node_name, f"{bind.name} is bound twice"
        assert not pod.spec.scheduling_gates, f"{bind.name} is bound while gated"
        assert pod.metadata.deletion_timestamp is None, f"{bind.name} is bound while being deleted"
        spec = replaced(pod.spec, node_name=bind.node, tolerations=[*pod.spec.tolerations, *bind.tolerations])
        labels, annotations = {**pod.metadata.labels, **bind.labels}, {**pod.metadata.annotations, **bind.annotations}
        meta = replaced(pod.metadata, annotations=annotations, labels=labels)
        self.pods[bind.namespace, bind.name] = replaced(pod, spec=spec, metadata=meta)
        if seen:
            self.tell(PodSeen(self.pods[bind.namespace, bind.name]))
