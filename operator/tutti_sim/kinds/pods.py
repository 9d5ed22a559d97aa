"""The strategy of pods: what the server sets, what may change, and how long they are given to end."""

from __future__ import annotations

from tutti_sim.kinds import alike
from tutti_sim.kinds.containers import check_image
from tutti_sim.kinds.podhost import check_address
from tutti_sim.kinds.podparts import check_added, check_resize
from tutti_sim.kinds.podrules import check_spec
from tutti_sim.kinds.podwarnings import warn_of_name
from tutti_sim.kinds.resource import Strategy
from tutti_sim.meta import Json, clock, names
from tutti_sim.meta.checks import check_text
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid

ALREADY_BOUND = "may not be set on pods that are already bound to a node"
CPU_CLASSES = ("cpu", "memory")


def quality_of_service(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort (apis/core/helper/qos)."""
    guaranteed, anything = True, False
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        resources = container.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        for name in CPU_CLASSES:
            asked, most = requests.get(name), limits.get(name)
            anything = anything or asked not in (None, "0") or most not in (None, "0")
            guaranteed = guaranteed and most is not None and asked == most
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


GATED = "Scheduling is blocked due to non-empty scheduling gates"
MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class PodStrategy(Strategy):
    """Pods."""

    generation = True
    has_status = True
    answers_object = True

    def default(self, obj: Json) -> None:
        """Fill in the status's defaults; the specification has its own since it was read (`PodCodec`)."""
        status = obj.get("status", {})
        for condition in status.get("conditions", ()):
            condition.setdefault("lastProbeTime", None)
            condition.setdefault("lastTransitionTime", None)
        for field in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
            for one in status.get(field, ()):
                _default_container_status(one)
        address = obj.get("status", {}).get("podIP")
        if address and not obj["status"].get("podIPs"):
            obj["status"]["podIPs"] = [{"ip": address}]

    def prepare_create(self, obj: Json) -> None:
        """A new pod is Pending, and not to be scheduled while it is gated."""
        status: Json = {"phase": "Pending", "qosClass": quality_of_service(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": clock.now(),
                    "reason": "SchedulingGated",
                    "message": GATED,
                }
            ]
        obj["status"] = status

    def prepare_update(self, new: Json, old: Json) -> None:
        """Priority is resolved once, when the pod is made; leaving it out does not change it."""
        super().prepare_update(new, old)
        for field in ("priority", "preemptionPolicy"):
            if field in old["spec"]:
                new["spec"].setdefault(field, old["spec"][field])

    def prepare_status(self, new: Json, old: Json) -> None:
        """Status, and labels and annotations with it."""
        labels = new["metadata"].get("labels")
        super().prepare_status(new, old)
        if labels is not None:
            new["metadata"]["labels"] = labels
        status = new.setdefault("status", {})
        status["qosClass"] = status.get("qosClass") or old.get("status", {}).get("qosClass", "BestEffort")

    def prepare_part(self, part: str, new: Json, old: Json) -> None:
        """Resizing changes resources of containers, `ephemeralcontainers` adds containers; nothing else changes."""
        self.prepare_update(new, old)
        wanted, spec = new["spec"], dict(old["spec"])
        if part == "resize":
            for field in ("containers", "initContainers"):
                sizes = {one["name"]: one.get("resources", {}) for one in wanted.get(field, ())}
                if field in spec:
                    spec[field] = [{**one, "resources": sizes.get(one["name"], {})} for one in spec[field]]
        elif "ephemeralContainers" in wanted:
            spec["ephemeralContainers"] = wanted["ephemeralContainers"]
        new["spec"] = spec

    def grace(self, obj: Json, asked: int | None) -> int:
        """The period asked for, else the pod's own; nothing for a pod that is not on a node, or has ended."""
        if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        period = asked if asked is not None else obj["spec"].get("terminationGracePeriodSeconds", 30)
        return 1 if period < 0 else int(period)

    def pattern(self, obj: Json) -> bytes:
        """What the pods of a gang have in common."""
        return alike.pattern(obj["spec"])

    def warnings(self, obj: Json, pattern: bytes) -> list[str]:
        """What is odd about its name, or in its specification unless one like it had nothing odd."""
        return [*warn_of_name(obj["metadata"].get("name", "")), *alike.warnings(obj["spec"], pattern)]

    def validate(self, obj: Json) -> list[FieldError]:
        """Check the specification; a new pod that is still gated has no node."""
        return self.validate_new(obj, b"")

    def validate_new(self, obj: Json, pattern: bytes) -> list[FieldError]:
        """Check the specification, unless it is like one that was sound."""
        spec = obj["spec"]
        own = check_text(spec.get("hostname") or "x", "spec.hostname", names.label_faults)
        own += check_text(spec.get("nodeName") or "x", "spec.nodeName", names.subdomain_faults)
        errors = [] if alike.is_sound(pattern) and not own else check_spec(spec, "spec")
        for field in ("containers", "initContainers"):
            for index, one in enumerate(spec.get(field, ())):
                errors.extend(check_image(one, f"spec.{field}[{index}]"))
        if spec.get("ephemeralContainers"):
            errors.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
        if obj["spec"].get("nodeName") and obj["spec"].get("schedulingGates"):
            errors.append(forbidden_field("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
        return errors

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """Check that only what may change has changed."""
        if new["spec"] == old["spec"]:
            return []
        errors = check_spec(new["spec"], "spec")
        for field in ("containers", "initContainers"):
            if len(new["spec"].get(field, ())) != len(old["spec"].get(field, ())):
                errors.append(forbidden_field(f"spec.{field}", "pod updates may not add or remove containers"))
                return errors
        errors.extend(_gate_changes(new["spec"], old["spec"]))
        errors.extend(_deadline(new["spec"], old["spec"]))
        errors.extend(_tolerations(new["spec"], old["spec"]))
        gated = bool(old["spec"].get("schedulingGates"))
        if gated:
            errors.extend(_selector(new["spec"], old["spec"]))
        if _frozen(new["spec"], gated=gated) != _frozen(old["spec"], gated=gated):
            errors.append(forbidden_field("spec", MAY_CHANGE))
        return errors

    def validate_part(self, part: str, new: Json, old: Json) -> list[FieldError]:
        """What may change through the part does so soundly."""
        if part == "resize":
            before = old.get("status", {}).get("qosClass", "BestEffort")
            return check_resize(new, old, quality=quality_of_service(new["spec"]), before=before)
        return check_added(new, old)

    def validate_status(self, new: Json, old: Json) -> list[FieldError]:
        """No node is nominated for a pod that has one, and its class stays (1.36, ValidatePodStatusUpdate)."""
        status, before, errors = new.get("status", {}), old.get("status", {}), list[FieldError]()
        if status.get("qosClass") != before.get("qosClass", status.get("qosClass")):
            errors.append(invalid("status.qosClass", status.get("qosClass"), "field is immutable"))
        if old["spec"].get("nodeName") and status.get("nominatedNodeName", "") not in (
            "",
            before.get("nominatedNodeName", ""),
        ):
            errors.append(forbidden_field("status.nominatedNodeName", ALREADY_BOUND))
        if status.get("podIPs") != before.get("podIPs"):
            for index, one in enumerate(status.get("podIPs", ())):
                errors.extend(check_address(one.get("ip", ""), f"status.podIPs[{index}]"))
        return errors


def _default_container_status(status: Json) -> None:
    for field in ("state", "lastState"):
        state = status.setdefault(field, {})
        if "running" in state:
            state["running"].setdefault("startedAt", None)
        if "terminated" in state:
            state["terminated"].setdefault("startedAt", None)
            state["terminated"].setdefault("finishedAt", None)


def _frozen(spec: Json, *, gated: bool) -> Json:
    """The part of a specification that may not change."""
    loose = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if gated:
        loose |= {"nodeSelector", "affinity"}
    rest = {key: value for key, value in spec.items() if key not in loose}
    for field in ("containers", "initContainers"):
        if field in rest:
            rest[field] = [{**container, "image": ""} for container in rest[field]]
    return rest


def _gate_changes(new: Json, old: Json) -> list[FieldError]:
    before = {gate["name"] for gate in old.get("schedulingGates", ())}
    return [
        forbidden_field(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(new.get("schedulingGates", ()))
        if gate["name"] not in before
    ]


def _deadline(new: Json, old: Json) -> list[FieldError]:
    field, before, after = (
        "spec.activeDeadlineSeconds",
        old.get("activeDeadlineSeconds"),
        new.get("activeDeadlineSeconds"),
    )
    if before is None or after == before:
        return []
    if after is None:
        return [invalid(field, None, "must not update from a positive integer to nil value")]
    if after > before:
        return [invalid(field, after, f"must be less than or equal to previous value: {before}")]
    return []


def _tolerations(new: Json, old: Json) -> list[FieldError]:
    def timeless(toleration: Json) -> Json:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [timeless(one) for one in new.get("tolerations", ())]
    if all(timeless(one) in kept for one in old.get("tolerations", ())):
        return []
    text = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden_field("spec.tolerations", text)]


def _selector(new: Json, old: Json) -> list[FieldError]:
    before, after = old.get("nodeSelector", {}), new.get("nodeSelector", {})
    if all(after.get(key) == value for key, value in before.items()):
        return []
    text = "additions to selector allowed, but no deletions or mutations"
    return [invalid("spec.nodeSelector", after, text)]
