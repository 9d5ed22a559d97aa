"""Admission webhooks: asked over HTTPS about writes that their configurations name."""

from __future__ import annotations

import base64
import binascii
import ssl
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import aiohttp
import msgspec
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError

from tutti_sim.crd.cel import converted, program
from tutti_sim.kinds.decode import Notes
from tutti_sim.kinds.mismatch import DecodeError
from tutti_sim.meta import Json
from tutti_sim.meta.errors import ApiError, internal
from tutti_sim.meta.selectors import from_object
from tutti_sim.patch import strategic
from tutti_sim.rest.backend import Backend, Write

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


class Unanswered(Exception):  # noqa: N818 - a fact about the call
    """A webhook could not be asked, or did not answer with a review."""


@lru_cache(maxsize=64)
def _trust(bundle: str) -> ssl.SSLContext:
    """A context that trusts a caBundle; the system's authorities where there is none."""
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    except (ssl.SSLError, binascii.Error, UnicodeDecodeError) as error:
        raise Unanswered(f"unable to load root certificates: {error}") from None


class WebhookCaller:
    """Asks webhooks; holds one HTTP session."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def concern(self, write: Write) -> bool:
        """Whether any webhook's rules name this write."""
        if not any(map(len, map(self._backend.store.collection, STORAGES.values()))):
            return False
        return any(
            rules_match(webhook, write)
            for kind in ("mutating", "validating")
            for webhook in webhooks(self._backend, kind)
        )

    async def mutate(self, write: Write, obj: Json) -> Json:
        """The object as the mutating webhooks leave it, decoded and defaulted again where they changed it."""
        for webhook in list(webhooks(self._backend, "mutating")):
            response = await self._ask(webhook, write, obj)
            patch = response.get("patch") if response else None
            if patch:
                obj = _patched(write, webhook, obj, patch)
        return obj

    async def validate(self, write: Write, obj: Json | None) -> None:
        """ApiError when a webhook refuses. Deletions are shown to the mutating ones here, too."""
        kinds = ("mutating", "validating") if write.operation == "DELETE" else ("validating",)
        for kind in kinds:
            for webhook in list(webhooks(self._backend, kind)):
                await self._ask(webhook, write, obj)

    async def _ask(self, webhook: Webhook, write: Write, obj: Json | None) -> Json | None:
        """The response of a webhook that is concerned; None where it is not, or may be passed over."""
        if not rules_match(webhook, write) or not selects(self._backend, webhook, write, obj):
            return None
        review = _request(write, obj)
        if not conditions_hold(webhook, review):
            return None
        try:
            response = await self._call(webhook, review)
        except Unanswered as error:
            if webhook.ignores_failures:
                return None
            raise internal(
                f'Internal error occurred: failed calling webhook "{webhook.name}": failed to call webhook: {error}'
            ) from None
        write.call.warnings.extend(response.get("warnings") or ())
        if not response.get("allowed"):
            raise _denied(webhook, response)
        return response

    async def _call(self, webhook: Webhook, review: Json) -> Json:
        config = webhook.spec["clientConfig"]
        url = config.get("url")
        if not url:
            service = config.get("service", {})
            raise Unanswered(f'service "{service.get("name")}" cannot be reached: no pods run here, use a url')
        if self._session is None:
            self._session = aiohttp.ClientSession()
        seconds = webhook.spec.get("timeoutSeconds", 10)
        body = msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": review})
        try:
            async with self._session.post(
                url,
                params={"timeout": f"{seconds}s"},
                data=body,
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=_trust(config.get("caBundle", "")) if url.startswith("https:") else True,
                timeout=aiohttp.ClientTimeout(total=seconds),
            ) as answer:
                data = await answer.read()
                if answer.status != 200:  # noqa: PLR2004 - OK
                    raise Unanswered(f"expected status 200, got {answer.status}")
            response = msgspec.json.decode(data, type=dict[str, Any]).get("response")
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
            raise Unanswered(f'Post "{url}?timeout={seconds}s": {str(error) or type(error).__name__}') from None
        if not isinstance(response, dict) or response.get("uid") != review["uid"]:
            raise Unanswered("expected response.uid to be the request's uid")
        return response


def _request(write: Write, obj: Json | None) -> Json:
    resource, call = write.resource, write.call
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    path = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    request: Json = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": path,
        "requestKind": kind,
        "requestResource": path,
        "name": (obj or write.old or {"metadata": {}})["metadata"].get("name", write.name),
        "operation": write.operation,
        "userInfo": {"username": call.user.name, "groups": list(call.user.groups)},
        "object": _shown(write, obj),
        "oldObject": _shown(write, write.old),
        "dryRun": call.dry_run,
        "options": {"kind": f"{write.operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    if write.namespace:
        request["namespace"] = write.namespace
    if call.subresource:
        request["subResource"] = request["requestSubResource"] = call.subresource
    return request


def _shown(write: Write, obj: Json | None) -> Json | None:
    """The object as this API version shows it; one that is not stored yet has no resource version."""
    if obj is None:
        return None
    if not obj["metadata"].get("resourceVersion"):
        meta = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
        obj = {**obj, "metadata": meta}
    return obj if write.resource.outward is None else write.resource.outward(obj)


def _denied(webhook: Webhook, response: Json) -> ApiError:
    status = response.get("status") or {}
    code = status.get("code") or 403
    reason = status.get("reason") or ("Forbidden" if code == 403 else "")  # noqa: PLR2004 - Forbidden
    said = status.get("message") or status.get("reason")
    text = f'admission webhook "{webhook.name}" denied the request' + (f": {said}" if said else " without explanation")
    return ApiError(code, reason, text, details=status.get("details"))


def _patched(write: Write, webhook: Webhook, obj: Json, patch: str) -> Json:
    """The object with a webhook's JSON patch applied."""
    resource = write.resource
    source = obj if resource.outward is None else resource.outward(obj)
    try:
        operations = msgspec.json.decode(base64.b64decode(patch))
        changed = strategic.operations(source, operations)
        changed = changed if resource.inward is None else resource.inward(changed)
        result = resource.read(changed, Notes())
    except (ApiError, DecodeError, binascii.Error, msgspec.DecodeError) as error:
        raise internal(
            f'Internal error occurred: jsonpatch of webhook "{webhook.name}" does not apply: {error}'
        ) from None
    resource.strategy.default(result)
    kept = obj["metadata"]
    result["metadata"] = {**{key: kept[key] for key in kept if key in SYSTEM}, **result["metadata"]}
    return result


SYSTEM = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")
