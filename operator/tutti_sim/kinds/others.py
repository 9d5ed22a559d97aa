"""Strategies of coordination, policy, scheduling, storage and registration kinds."""

from __future__ import annotations

import re
from typing import Any

from tutti_sim.kinds.affinityrules import check_label_selector
from tutti_sim.kinds.strategy import Strategy
from tutti_sim.meta import names
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid, required, unsupported

Json = dict[str, Any]

IMMUTABLE = "field is immutable"
HIGHEST_USER_PRIORITY = 1_000_000_000
SHARE = re.compile(r"\d+%")


class LeaseStrategy(Strategy):
    """Leases."""

    create_on_update = True

    def default(self, obj: Json) -> None:
        """A lease always shows its specification."""
        obj.setdefault("spec", {})

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
    has_status = True

    def default(self, obj: Json) -> None:
        """The specification is always shown."""
        obj.setdefault("spec", {})

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
        spec = obj.get("spec", {})
        if "minAvailable" in spec and "maxUnavailable" in spec:
            return [invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")]
        errors = check_label_selector(spec.get("selector"), "spec.selector")
        for field in ("minAvailable", "maxUnavailable"):
            value = spec.get(field)
            if isinstance(value, str) and not SHARE.fullmatch(value):
                text = "a valid percent string must be a numeric string followed by an ending '%'"
                errors.append(invalid(f"spec.{field}", value, text))
            elif isinstance(value, int) and value < 0:
                errors.append(invalid(f"spec.{field}", value, "must be greater than or equal to 0"))
        return errors


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
        if obj["value"] > HIGHEST_USER_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            return [forbidden_field("value", text)]
        return []

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """Value and preemption policy stay."""
        errors = []
        if new.get("value") != old.get("value"):
            errors.append(forbidden_field("value", "may not be changed in an update."))
        if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
            errors.append(invalid("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE))
        return errors


class RoleStrategy(Strategy):
    """RBAC kinds, whose names only have to fit a path."""

    def default(self, obj: Json) -> None:
        """Subjects and role references belong to groups."""
        for subject in obj.get("subjects", ()):
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", "rbac.authorization.k8s.io")
        if obj["kind"] in ("Role", "ClusterRole"):
            obj.setdefault("rules", None)

    def check_name(self, name: str) -> str:
        """A path segment."""
        return names.path_segment(name)

    def validate(self, obj: Json) -> list[FieldError]:
        """Every rule allows something (pkg/apis/rbac/validation, ValidatePolicyRule)."""
        found = [_rule(rule, f"rules[{i}]", obj["kind"] == "Role") for i, rule in enumerate(obj.get("rules") or ())]
        return [error for errors in found for error in errors]

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """A binding's role stays."""
        if new.get("roleRef") == old.get("roleRef"):
            return []
        return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]


def _rule(rule: Json, at: str, namespaced: bool) -> list[FieldError]:
    errors = [] if rule.get("verbs") else [required(f"{at}.verbs", "verbs must contain at least one value")]
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            errors.append(invalid(f"{at}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.keys() & {"apiGroups", "resources", "resourceNames"}:
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(f"{at}.nonResourceURLs", urls, text))
        return errors
    for field, one in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(field):
            errors.append(required(f"{at}.{field}", f"resource rules must supply at least one {one}"))
    return errors


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
    """Webhook configurations, which have no managed fields."""

    generation = True
    managed = False

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
