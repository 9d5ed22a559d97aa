"""Strategies of events, networking, coordination, policy, scheduling, storage and registration kinds.

Events are served by two groups under different field names and stored once, as core/v1. Networking kinds are stored and
shown but move no packet.
"""

from __future__ import annotations

import re

from tutti_sim.kinds.resource import Strategy
from tutti_sim.kinds.workloadrules import SHARE_RULE
from tutti_sim.meta import Json, names
from tutti_sim.meta.checks import check_label_selector
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid, required, unsupported
from tutti_sim.meta.selectors import METADATA, Getter, path


class NetworkPolicyStrategy(Strategy):
    """Network policies: what they apply to follows from what they hold."""

    generation = True

    def default(self, obj: Json) -> None:
        """Policies are about ingress, and about egress if they have rules for it."""
        spec = obj.setdefault("spec", {})
        if "policyTypes" not in spec:
            spec["policyTypes"] = ["Ingress", "Egress"] if "egress" in spec else ["Ingress"]
        for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
            for port in rule.get("ports", ()):
                port.setdefault("protocol", "TCP")


class IngressStrategy(Strategy):
    """Ingresses, which nothing balances."""

    generation = True
    has_status = True

    def default(self, obj: Json) -> None:
        """The specification is always shown."""
        obj.setdefault("spec", {})

    def prepare_create(self, obj: Json) -> None:
        """It has no address yet."""
        obj["status"] = {"loadBalancer": {}}


class EndpointSliceStrategy(Strategy):
    """Endpoint slices."""

    generation = True

    def default(self, obj: Json) -> None:
        """Ports are named and speak TCP; endpoints show their conditions."""
        for port in obj.get("ports", ()):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")
        for endpoint in obj.get("endpoints", ()):
            endpoint.setdefault("conditions", {})


class EndpointsStrategy(Strategy):
    """Endpoints, the older form."""

    def default(self, obj: Json) -> None:
        """Ports speak TCP."""
        for subset in obj.get("subsets", ()):
            for port in subset.get("ports", ()):
                port.setdefault("protocol", "TCP")


# events.k8s.io/v1 name -> core/v1 name
RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
BACK = {old: new for new, old in RENAMED.items()}


def to_core(body: Json) -> Json:
    """An events.k8s.io/v1 document under core/v1 names."""
    return {RENAMED.get(key, key): value for key, value in body.items()}


def from_core(obj: Json) -> Json:
    """A stored event under events.k8s.io/v1 names."""
    renamed = {BACK.get(key, key): value for key, value in obj.items()}
    return {**renamed, "apiVersion": "events.k8s.io/v1"}


def _fields(subject: str) -> dict[str, Getter]:
    parts = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    return {f"{subject}.{part}": path(f"involvedObject.{part}") for part in parts}


SELECTABLE: dict[str, Getter] = {
    **METADATA,
    **_fields("involvedObject"),
    **_fields("regarding"),
    "reason": path("reason"),
    "type": path("type"),
    "reportingComponent": path("reportingComponent"),
    "reportingController": path("reportingComponent"),
    "source": path("source.component"),
}


class EventStrategy(Strategy):
    """Events of either group; `strict` is what events.k8s.io/v1 asks of new ones."""

    def check_name(self, name: str) -> list[str]:
        """A path segment; of the new group a DNS subdomain."""
        return names.subdomain_faults(name) if self._strict else names.path_faults(name)

    create_on_update = True

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self.standard_finalizers = strict

    def default(self, obj: Json) -> None:
        """Fields that are always written, set or not."""
        obj.setdefault("involvedObject", {})
        for field in ("source",):
            obj.setdefault(field, {})
        for field in ("reportingComponent", "reportingInstance"):
            obj.setdefault(field, "")
        for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(field, None)

    def validate(self, obj: Json) -> list[FieldError]:
        """The namespace must be the subject's, and new-style events must say when and by whom."""
        errors: list[FieldError] = []
        subject = obj.get("involvedObject", {}).get("namespace", "")
        own = obj["metadata"].get("namespace", "")
        if subject != own and not (not subject and own == "default"):
            errors.append(invalid("involvedObject.namespace", subject, "does not match event.namespace"))
        if self._strict:
            errors.extend(_strict(obj))
        return errors

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """As for new ones of core/v1."""
        del old
        return self.validate(new) if not self._strict else []


def _strict(obj: Json) -> list[FieldError]:
    errors = []
    if not obj.get("eventTime"):
        errors.append(required("eventTime"))
    for new, old in (("reportingController", "reportingComponent"), ("reportingInstance", "reportingInstance")):
        if not obj.get(old):
            errors.append(required(new))
    errors.extend(required(field) for field in ("action", "reason") if not obj.get(field))
    if obj.get("type") not in ("Normal", "Warning"):
        errors.append(unsupported("type", obj.get("type", ""), ("Normal", "Warning")))
    return errors


IMMUTABLE = "field is immutable"
HIGHEST_USER_PRIORITY = 1_000_000_000
SHARE = re.compile(r"\d+%")


class LeaseStrategy(Strategy):
    """Leases."""

    create_on_update = True
    needs_version = True
    standard_finalizers = False

    def default(self, obj: Json) -> None:
        """A lease always shows its specification, without what only coordinated election has (behind a gate)."""
        spec = obj.setdefault("spec", {})
        for field in ("strategy", "preferredHolder"):
            spec.pop(field, None)

    def validate(self, obj: Json) -> list[FieldError]:
        """Durations and counts are positive."""
        spec = obj["spec"]
        errors: list[FieldError] = []
        if spec.get("leaseDurationSeconds", 1) <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
        if spec.get("leaseTransitions", 0) < 0:
            text = "must be greater than or equal to 0"
            errors.append(invalid("spec.leaseTransitions", spec["leaseTransitions"], text))
        return errors


class BudgetStrategy(Strategy):
    """Pod disruption budgets."""

    generation = True
    needs_version = True
    has_status = True
    standard_finalizers = False
    checks_metadata = False

    def default(self, obj: Json) -> None:
        """The specification is always shown."""
        obj.setdefault("spec", {})

    def check_name(self, name: str) -> list[str]:
        """A path segment."""
        return names.path_faults(name)

    def prepare_create(self, obj: Json) -> None:
        """Nothing is counted yet."""
        obj["status"] = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

    def prepare_status(self, new: Json, old: Json) -> None:
        """Counts are always shown."""
        super().prepare_status(new, old)
        for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
            new.setdefault("status", {}).setdefault(field, 0)

    def validate(self, obj: Json) -> list[FieldError]:
        """One of the two limits, as a count or a percentage."""
        spec, errors = obj.get("spec", {}), list[FieldError]()
        if "minAvailable" in spec and "maxUnavailable" in spec:
            errors.append(invalid("spec", _shown_budget(spec), "minAvailable and maxUnavailable cannot be both set"))
        for field in ("minAvailable", "maxUnavailable"):
            value = spec.get(field)
            if isinstance(value, str) and not SHARE.fullmatch(value):
                text = SHARE_RULE
                errors.append(invalid(f"spec.{field}", value, text))
            elif isinstance(value, int) and value < 0:
                errors.append(invalid(f"spec.{field}", value, "must be greater than or equal to 0"))
        errors.extend(check_label_selector(spec.get("selector"), "spec.selector"))
        evicts = spec.get("unhealthyPodEvictionPolicy", EVICTS[0])
        if evicts not in EVICTS:
            errors.append(unsupported("spec.unhealthyPodEvictionPolicy", evicts, EVICTS))
        return errors


EVICTS = ("AlwaysAllow", "IfHealthyBudget")
PREEMPTS = ("Never", "PreemptLowerPriority")


class PriorityClassStrategy(Strategy):
    """Priority classes, whose value never changes."""

    def default(self, obj: Json) -> None:
        """Preempt, and count from one (the generation is set once)."""
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def prepare_create(self, obj: Json) -> None:
        """The generation is 1 and stays so."""
        obj["metadata"]["generation"] = 1

    def validate(self, obj: Json) -> list[FieldError]:
        """High values belong to the system's own classes."""
        if obj["metadata"].get("name", "").startswith("system-"):
            return []
        errors: list[FieldError] = []
        if obj["value"] > HIGHEST_USER_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            errors.append(forbidden_field("value", text))
        if not obj["preemptionPolicy"]:
            errors.append(required("preemptionPolicy"))
        elif obj["preemptionPolicy"] not in PREEMPTS:
            errors.append(unsupported("preemptionPolicy", obj["preemptionPolicy"], ("PreemptLowerPriority", "Never")))
        return errors

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """Value and preemption policy stay."""
        errors = []
        if new.get("value") != old.get("value"):
            errors.append(forbidden_field("value", "may not be changed in an update."))
        if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
            errors.append(invalid("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE))
        return errors


def _shown_budget(spec: Json) -> Json:
    fields = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
    return {field[0].upper() + field[1:]: spec.get(field) for field in fields}


class PolicyStrategy(Strategy):
    """Policies in CEL and their bindings: they are kept as a server keeps them, and nothing is held to them here."""

    generation = True

    def default(self, obj: Json) -> None:
        """Fill in what admissionregistration/v1 defaults."""
        spec = obj.get("spec") or {}
        if obj["kind"] == "ValidatingAdmissionPolicy":
            spec.setdefault("failurePolicy", "Fail")
        for matched in filter(None, (spec.get("matchConstraints"), spec.get("matchResources"))):
            matched.setdefault("matchPolicy", "Equivalent")
            matched.setdefault("namespaceSelector", {})
            matched.setdefault("objectSelector", {})
            for rule in (*matched.get("resourceRules", ()), *matched.get("excludeResourceRules", ())):
                rule.setdefault("scope", "*")


class WebhookStrategy(Strategy):
    """Webhook configurations."""

    generation = True
    needs_version = True
    standard_finalizers = False

    def default(self, obj: Json) -> None:
        """Fill in what admissionregistration/v1 defaults."""
        for hook in obj.get("webhooks", ()):
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("timeoutSeconds", 10)
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            if obj["kind"] == "MutatingWebhookConfiguration":
                hook.setdefault("reinvocationPolicy", "Never")
            if "service" in hook.get("clientConfig", {}):
                hook["clientConfig"]["service"].setdefault("port", 443)
            for rule in hook.get("rules", ()):
                rule.setdefault("scope", "*")

    def validate(self, obj: Json) -> list[FieldError]:
        """Names, side effects and review versions must be said."""
        errors: list[FieldError] = []
        for index, hook in enumerate(obj.get("webhooks", ())):
            at = f"webhooks[{index}]"
            if hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
                if "sideEffects" in hook:
                    errors.append(unsupported(f"{at}.sideEffects", hook["sideEffects"], ("None", "NoneOnDryRun")))
                else:
                    text = "must specify one of None, NoneOnDryRun"
                    errors.append(required(f"{at}.sideEffects", text))
            if not hook.get("admissionReviewVersions"):
                errors.append(required(f"{at}.admissionReviewVersions", "must specify one of v1, v1beta1"))
            config = hook.get("clientConfig", {})
            if ("url" in config) == ("service" in config):
                errors.append(required(f"{at}.clientConfig", "exactly one of url or service is required"))
        return errors


class SpecStrategy(Strategy):
    """Kinds with a counted specification and, if `status`, a status of its own."""

    generation = True

    def __init__(self, *, status: bool = False) -> None:
        self.has_status = status

    def default(self, obj: Json) -> None:
        """The specification is always shown."""
        obj.setdefault("spec", {})
