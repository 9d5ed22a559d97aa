"""Which webhooks a write concerns: rules, selectors and match conditions of webhook configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError

from tutti_sim.crd.cel import converted, program
from tutti_sim.meta.labels import from_object
from tutti_sim.rest.backend import Backend, Write

Json = dict[str, Any]

OWN_GROUP = "admissionregistration.k8s.io"
STORAGES = {
    "mutating": f"mutatingwebhookconfigurations.{OWN_GROUP}",
    "validating": f"validatingwebhookconfigurations.{OWN_GROUP}",
}


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook of a configuration."""

    name: str
    mutating: bool
    spec: Json

    @property
    def ignores_failures(self) -> bool:
        """Whether a write goes on when the webhook cannot be asked."""
        return self.spec.get("failurePolicy") == "Ignore"


def webhooks(backend: Backend, kind: str) -> Iterator[Webhook]:
    """All webhooks of a kind (`mutating` or `validating`), in the order they are called."""
    for version in backend.store.collection(STORAGES[kind]).scan():
        for spec in version.obj.get("webhooks", ()):
            yield Webhook(spec["name"], kind == "mutating", spec)


def rules_match(webhook: Webhook, write: Write) -> bool:
    """Whether a webhook's rules name this write. Webhook configurations themselves are never sent."""
    if write.resource.group == OWN_GROUP:
        return False
    return any(_rule(rule, write) for rule in webhook.spec.get("rules", ()))


def _rule(rule: Json, write: Write) -> bool:
    resource, sub = write.resource, write.call.subresource
    scope = rule.get("scope", "*")
    if scope not in ("*", "Namespaced" if resource.namespaced else "Cluster"):
        return False
    path = f"{resource.plural}/{sub}" if sub else resource.plural
    names = {path, "*/*", "*" if not sub else f"{resource.plural}/*", f"*/{sub}" if sub else "*"}
    return (
        _among(rule.get("operations", ()), write.operation)
        and _among(rule.get("apiGroups", ()), resource.group)
        and _among(rule.get("apiVersions", ()), resource.version)
        and any(one in names for one in rule.get("resources", ()))
    )


def _among(values: Any, wanted: str) -> bool:
    return "*" in values or wanted in values


def selects(backend: Backend, webhook: Webhook, write: Write, obj: Json | None) -> bool:
    """Whether the webhook's selectors choose this write: by its namespace's labels, and by the object's."""
    by_namespace = webhook.spec.get("namespaceSelector") or {}
    if by_namespace:
        labels = _namespace_labels(backend, write, obj)
        if labels is not None and not from_object(by_namespace)(labels):
            return False
    by_object = webhook.spec.get("objectSelector") or {}
    if not by_object:
        return True
    states = [state for state in (obj, write.old) if state is not None]
    return any(from_object(by_object)(state["metadata"].get("labels", {})) for state in states)


def _namespace_labels(backend: Backend, write: Write, obj: Json | None) -> Mapping[str, str] | None:
    if write.resource.storage == "namespaces":
        state = obj or write.old or {"metadata": {}}
        labels: Mapping[str, str] = state["metadata"].get("labels", {})
        return labels
    if not write.namespace:
        return None
    namespace = backend.find("namespaces", "", write.namespace) or {"metadata": {}}
    found: Mapping[str, str] = namespace["metadata"].get("labels", {})
    return found


def conditions_hold(webhook: Webhook, review: Json) -> bool:
    """Whether all match conditions of a webhook are true for the request of a review."""
    known = {
        "object": converted(review.get("object")),
        "oldObject": converted(review.get("oldObject")),
        "request": converted(review),
    }
    for condition in webhook.spec.get("matchConditions", ()):
        try:
            if not bool(program(condition["expression"]).evaluate(known)):
                return False
        except (CELEvalError, CELParseError):
            return not webhook.ignores_failures
    return True
