"""Checks of what was installed: the kinds, the operator, and the webhooks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from tutti.api.conditions import legible_conditions
from tutti.api.crds import structural_schema
from tutti.api.frameworks.fields import FieldReader
from tutti.api.kinds import KINDS
from tutti.api.messages import counted
from tutti.api.model import GROUP, VERSION
from tutti.cli.doctor.findings import Finding, bad, good, unknown, warning
from tutti.cli.doctor.reading import MOST_ENTRIES, Patient
from tutti.cli.views.configuration import configuration_in
from tutti.controller.discovery import CRDS, OUR_RESOURCES
from tutti.kube.errors import ApiError
from tutti.kube.resources import LEASES, APIResource

OLDEST, NEWEST = 30, 37
"""The minor versions of Kubernetes 1 that it is tested with."""
_WEBHOOKS = "admissionregistration.k8s.io"
_SLICES = APIResource("discovery.k8s.io", "v1", "endpointslices")
_OF_SERVICE = frozenset(("kubernetes.io/service-name",))
_SHOWN: Final = 3


async def server_check(patient: Patient) -> AsyncIterator[Finding]:
    """Look at the version of the API server."""
    found = await patient.get("/version") or {}
    minor = "".join(one for one in str(found.get("minor", "")) if one.isdigit())
    said = f"Kubernetes {found.get('gitVersion') or 'of an unknown version'}"
    if not minor:
        yield unknown("server", said)
    elif int(minor) < OLDEST:
        yield bad("server", f"{said} is older than 1.{OLDEST}", f"upgrade the cluster to 1.{OLDEST} or newer")
    elif int(minor) > NEWEST:
        yield warning("server", f"{said} is newer than any that was tried", "look for a newer release of Tutti")
    else:
        yield good("server", said)


async def kinds_check(patient: Patient) -> AsyncIterator[Finding]:
    """Look at the CustomResourceDefinitions: whether they are there, served, and of this release."""
    remedy = "apply the CRDs of this release: kubectl apply --server-side --force-conflicts -k crds"
    missing, unserved, older = [], [], []
    for name, kind in KINDS.items():
        plural = OUR_RESOURCES[name].label
        found = await patient.get(CRDS.path(name=plural))
        if found is None:
            missing.append(plural)
            continue
        conditions = {one["type"]: one["status"] for one in legible_conditions(found.get("status"))}
        versions = {one.text("name"): one for one in FieldReader(found).entries("spec.versions", MOST_ENTRIES)}
        version = versions.get(VERSION)
        if version is None or not version.flag("served") or conditions.get("Established") != "True":
            unserved.append(plural)
            continue
        there = set(_fields(version.value("schema.openAPIV3Schema")))
        lacking = [field for field in _fields(structural_schema(kind)) if field not in there]
        if lacking:
            older.append(f"{plural} lacks {', '.join(lacking[:_SHOWN])}{', ...' if len(lacking) > _SHOWN else ''}")
    if missing:
        named = "all of them" if len(missing) == len(KINDS) else ", ".join(missing)
        yield bad("kinds", f"{counted(len(missing), 'CRD')} missing: {named}", remedy)
    if unserved:
        text = f"{', '.join(unserved)}: {VERSION} is not served; its CRD may wait for a name that another has"
        yield bad("kinds", text, f"kubectl describe crd {unserved[0]} says why; then {remedy}")
    if older:
        text = (
            f"CRDs of another release: {'; '.join(older)}; what they lack is dropped without a word when it is written"
        )
        yield bad("kinds", text, remedy)
    if not (missing or unserved or older):
        yield good("kinds", f"all {len(KINDS)} are served as {VERSION}, and know every field of this release")


def _fields(schema: Any, at: str = "") -> Iterator[str]:
    """Yield the paths of what a schema has a field for; what is no schema has none."""
    if not isinstance(schema, Mapping):
        return
    properties = schema.get("properties")
    for name, below in properties.items() if isinstance(properties, Mapping) else ():
        yield f"{at}{name}"
        yield from _fields(below, f"{at}{name}.")
    yield from _fields(schema.get("items"), at)


async def operator_check(patient: Patient) -> AsyncIterator[Finding]:
    """Look at the operator: whether it runs, is configured, and holds its lease."""
    where = f"{patient.namespace}/{patient.deployment}"
    found = await patient.get(f"/apis/apps/v1/namespaces/{patient.namespace}/deployments/{patient.deployment}")
    if found is None:
        yield await _absent(patient, where)
        return
    deployment = FieldReader(found)
    wanted, ready = deployment.number("spec.replicas", 1), deployment.number("status.readyReplicas")
    if not ready:
        remedy = f"kubectl -n {patient.namespace} get pods, and the log and /readyz of one, say what it waits for"
        yield bad("operator", f"none of {counted(wanted, 'replica')} of Deployment {where} is ready", remedy)
    elif ready < wanted:
        yield warning("operator", f"{ready} of {wanted} replicas of {where} are ready", "see the events of its pods")
    else:
        yield good("operator", f"{counted(ready, 'replica')} of Deployment {where} ready")
    known = await configuration_in(patient.client)
    if known.assumed:
        yield warning("configuration", known.assumed, "tutti check FILE says what is wrong with a configuration")
    else:
        yield good("configuration", "it can be read, and the operator can be started with it")
    election = known.configuration.leader_election
    if election.enabled and not known.assumed:
        yield await lease_finding(patient, election.lease_namespace, election.lease_name, ready=ready)


async def _absent(patient: Patient, where: str) -> Finding:
    """Say that no Deployment is there, and whether somebody schedules without one: who renews the lease does."""
    remedy = "kubectl apply -k manifests/overlays/default, or name it with --namespace and --name"
    election = (await configuration_in(patient.client)).configuration.leader_election
    try:
        held = await _held(patient, election.lease_namespace, election.lease_name)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        held = None
    if held is None or not -_AHEAD_SECONDS <= held.age <= held.lasts:
        text = f"there is no Deployment {where}: nobody schedules here, unless it is installed under another name"
        return bad("operator", text, remedy)
    text = (
        f"there is no Deployment {where}, but {held.holder} renews Lease "
        f"{election.lease_namespace}/{election.lease_name}: an operator that was started otherwise"
    )
    return warning("operator", text, f"for one that the cluster keeps running: {remedy}")


class _Held(NamedTuple):
    """A lease that somebody holds.

    Attributes:
        age: Seconds since it was renewed, by the API server's clock; negative where its holder's is ahead.
        lasts: For how many seconds it is good.
    """

    holder: str
    age: float
    lasts: float


async def _held(patient: Patient, namespace: str, name: str) -> _Held | None:
    """Return how a lease is held; None where nobody holds it."""
    lease = FieldReader(await patient.get(LEASES.path(namespace, name)))
    renewed, holder = _moment(lease.text("spec.renewTime")), lease.text("spec.holderIdentity")
    if renewed is None or not holder:
        return None
    ahead = await patient.server_is_ahead() or 0.0
    lasts = float(lease.number("spec.leaseDurationSeconds") or 15)
    return _Held(holder, patient.clock() + ahead - renewed, lasts)


async def lease_finding(patient: Patient, namespace: str, name: str, *, ready: int) -> Finding:
    """Look at a lease: whether somebody holds it, and whose clock is wrong.

    Args:
        patient: Is looked at.
        namespace: That of the lease.
        name: Its name.
        ready: How many replicas are; without any, that nobody leads is no finding of its own.
    """
    held = await _held(patient, namespace, name)
    if held is None:
        text = f"nobody holds Lease {namespace}/{name}: no replica decides"
        remedy = f"the operator needs get, create and update of leases in {namespace}; its log says what is refused"
        return bad("leader", text, remedy) if ready else unknown("leader", text, "see the finding about the operator")
    holder = held.holder
    if held.age > held.lasts:
        text = f"Lease {namespace}/{name} of {holder} was renewed {held.age:.0f} s ago, and lasts {held.lasts:.0f} s"
        return bad("leader", text, "the replica that held it hangs or is gone: see its log, and restart it")
    if held.age < -_AHEAD_SECONDS:
        text = f"the clock of {holder} is {-held.age:.0f} s ahead of the API server's"
        return bad("leader", text, "set the clocks of the nodes by NTP: backoffs, limits and windows go by them")
    return good("leader", f"{holder} holds Lease {namespace}/{name}")


_AHEAD_SECONDS: Final = 5.0


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


async def webhooks_check(patient: Patient) -> AsyncIterator[Finding]:
    """Look at the webhooks: whether somebody answers, and whether the API server gets that far."""
    configurations = [
        await patient.get(f"/apis/{_WEBHOOKS}/v1/{kind}/{patient.deployment}")
        for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
    ]
    hooks = [hook for one in configurations for hook in FieldReader(one).entries("webhooks", MOST_ENTRIES)]
    if not hooks:
        text = "none are installed: mistakes in objects are told by conditions, after they were written"
        yield good("webhooks", text)
        return
    for service in dict.fromkeys(_services(hooks)):
        yield await _service(patient, *service)
    if any(not hook.value("clientConfig.caBundle") for hook in hooks):
        remedy = (
            "overlay webhook needs cert-manager; component self-signed has the operator write it (docs/security.md)"
        )
        yield bad("webhooks", "some have no caBundle, so that the API server trusts no certificate of theirs", remedy)
    cohort = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Cohort", "metadata": {"name": "tutti-doctor"}, "spec": {}}
    problem = await patient.try_write(OUR_RESOURCES["Cohort"], cohort)
    if "webhook" in problem:
        remedy = (
            "a network policy, a missing endpoint or a certificate keeps the API server from the operator's port 9443"
        )
        yield bad("webhooks", f"the API server cannot reach them: {problem}", remedy)
    elif problem:
        yield unknown(
            "webhooks", f"whether they can be reached was not found out: {problem}", "ask somebody who may write"
        )
    else:
        yield good("webhooks", "a write that was not kept went through them")


def _services(hooks: Sequence[FieldReader]) -> Iterator[tuple[str, str]]:
    for hook in hooks:
        service = hook.below("clientConfig.service")
        if service is not None:
            yield service.text("namespace"), service.text("name")


async def _service(patient: Patient, namespace: str, name: str) -> Finding:
    if await patient.get(f"/api/v1/namespaces/{namespace}/services/{name}") is None:
        text = f"they lead to Service {namespace}/{name}, which does not exist: nothing of Tutti's can be written"
        return bad("webhooks", text, "apply your overlay again, or delete the webhook configurations")
    slices = map(FieldReader, await patient.each(_SLICES, namespace))
    mine = [one for one in slices if one.texts("metadata.labels", _OF_SERVICE) == dict.fromkeys(_OF_SERVICE, name)]
    ready = sum(
        end.value("conditions.ready") is not False for one in mine for end in one.entries("endpoints", MOST_ENTRIES)
    )
    if not ready:
        text = f"Service {namespace}/{name} has no endpoint that is ready: nothing of Tutti's can be written"
        return bad("webhooks", text, "the operator has to be ready: see the finding about it")
    return good("webhooks", f"Service {namespace}/{name} has {counted(ready, 'endpoint')}")
