"""Check of what the operator may do: each right that it needs here is asked of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

from tutti.api.configuration import TuttiConfiguration
from tutti.api.frameworks.fields import FieldReader
from tutti.api.messages import listed
from tutti.api.model import GROUP
from tutti.cli.doctor.findings import Finding, bad, good, unknown
from tutti.cli.doctor.reading import Patient
from tutti.cli.views.configuration import configuration_in
from tutti.controller.discovery import served_version
from tutti.controller.watch_list import WATCH_LIST, optional_kinds

_AT_ONCE: Final = 8
_SHOWN: Final = 5
WRITES: Final = (
    ("", "pods/binding", "create"),
    ("", "pods/eviction", "create"),
    ("", "pods/status", "patch"),
    ("", "pods", "delete"),
    ("events.k8s.io", "events", "create"),
    (GROUP, "clusterqueues/status", "patch"),
    (GROUP, "podgroups/status", "patch"),
    (GROUP, "workloads/status", "patch"),
)
"""What the operator writes in every cluster (manifests/base/cluster-role.yaml)."""
SHARED_OUT: Final = (("", "nodes"), ("", "namespaces"), (GROUP, "clusterqueues"), (GROUP, "cohorts"))
"""What it writes on, besides, where there are shards (manifests/components/shards)."""


class NeededRight(NamedTuple):
    """Something that the operator has to be allowed.

    Attributes:
        resource: In the plural; with what is below it, as `pods/binding`.
        namespace: The one that it is needed in; "" for all.
        name: Of the one object that it is needed for; "" for all.
    """

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""


async def rights_check(patient: Patient) -> AsyncIterator[Finding]:
    """Ask the API server whether the operator may do what it has to."""
    path = f"/apis/apps/v1/namespaces/{patient.namespace}/deployments/{patient.deployment}"
    found = await patient.get(path)
    account = FieldReader(found).text("spec.template.spec.serviceAccountName") or ("default" if found else "tutti")
    if found is None and await patient.get(f"/api/v1/namespaces/{patient.namespace}/serviceaccounts/{account}") is None:
        text = f"there is no ServiceAccount {patient.namespace}/{account}, whose rights would be asked for"
        yield unknown("rights", text, "it comes with the operator, and has its rights from the same manifests")
        return
    user = f"system:serviceaccount:{patient.namespace}:{account}"
    wanted = await _needed(patient, (await configuration_in(patient.client)).configuration)
    missing = await _missing(patient, user, wanted)
    if not missing:
        yield good("rights", f"{user} has all {len(wanted)} rights that it needs here")
        return
    remedy = (
        "apply the roles of this release, by your overlay: kubectl apply --server-side --force-conflicts -k "
        "manifests/overlays/default; with the component of each kind that is served: docs/rbac.md"
    )
    yield bad("rights", f"{user} may not {rights_in_words(missing)}", remedy)


async def _needed(patient: Patient, configuration: TuttiConfiguration) -> list[NeededRight]:
    """Return what the operator has to be allowed in this cluster by its configuration, each once."""
    watched = [(one.resource.group, one.resource.plural) for one in WATCH_LIST]
    watched += [
        (kind.group, kind.plural)
        for kind in optional_kinds(configuration)
        if await served_version(patient.client, kind, absent=(HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN))
    ]
    wanted = [NeededRight(*one, verb) for one in watched for verb in ("list", "watch")]
    wanted += [NeededRight(*one) for one in WRITES]
    election = configuration.leader_election
    if election.enabled:
        for verb in ("create", "get", "update"):
            name = "" if verb == "create" else election.lease_name
            wanted.append(NeededRight("coordination.k8s.io", "leases", verb, election.lease_namespace, name))
    if configuration.shards:
        wanted += [NeededRight(*one, verb) for one in SHARED_OUT for verb in ("get", "patch")]
    return list(dict.fromkeys(wanted))


async def _missing(patient: Patient, user: str, wanted: Sequence[NeededRight]) -> list[NeededRight]:
    """Return those that somebody lacks, in order."""
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{patient.namespace}", "system:authenticated"]
    turn = asyncio.Semaphore(_AT_ONCE)

    async def allowed(one: NeededRight) -> bool:
        plural, _, below = one.resource.partition("/")
        asked = {"group": one.group, "resource": plural, "subresource": below, "verb": one.verb}
        async with turn:
            return await patient.may(user, groups, {**asked, "namespace": one.namespace, "name": one.name})

    answers = await asyncio.gather(*map(allowed, wanted))
    return [one for one, may in zip(wanted, answers, strict=True) if not may]


def rights_in_words(rights: Sequence[NeededRight]) -> str:
    """Return rights as a sentence goes on after `may not`: `list and watch nodes, namespaces; create pods/binding`."""
    verbs: dict[str, list[str]] = {}
    for one in rights:
        verbs.setdefault(f"{one.resource}{f'.{one.group}' if one.group else ''}", []).append(one.verb)
    resources: dict[str, list[str]] = {}
    for resource, (*others, last) in verbs.items():
        resources.setdefault(f"{', '.join(others)} and {last}" if others else last, []).append(resource)
    return "; ".join(f"{its} {listed(which, len(which), _SHOWN)}" for its, which in resources.items())
