"""Checks of what Tutti finds around it: clocks, other schedulers on the same nodes, figures, queues that are off."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from typing import Final

from tutti.api.conditions import legible_conditions
from tutti.api.frameworks.fields import FieldReader
from tutti.api.messages import counted
from tutti.cli.doctor.findings import Finding, bad, good, unknown, warning
from tutti.cli.doctor.reading import MOST_ENTRIES, Json, Patient
from tutti.cli.views.configuration import configuration_in
from tutti.controller.discovery import OUR_RESOURCES
from tutti.kube.errors import WireError
from tutti.kube.node_metrics import MeasuringError, read_metrics_server
from tutti.kube.resources import LEASES, NODES, PODS

CLOCK_SECONDS: Final = 5.0
"""By how much clocks may differ."""
_HEARTBEATS: Final = "kube-node-lease"
_SHOWN: Final = 3
_LONGEST_COUNT: Final = 18  # digits of 64 bits, all of them
QUEUE_LABELS: Final = ("scheduling.tutti.dev/queue-name", "kueue.x-k8s.io/queue-name")
_DEFAULT: Final = "default-scheduler"


async def clocks_check(patient: Patient) -> AsyncIterator[Finding]:
    """Compare the clocks: of the API server, of this machine, and of the nodes by what their kubelets write."""
    ahead = await patient.server_is_ahead()
    if ahead is None:
        yield unknown("clocks", "the API server does not tell what time it is")
        return
    now = patient.clock() + ahead
    if abs(ahead) > CLOCK_SECONDS:
        text = f"the clock of the API server is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the one here"
        yield warning("clocks", text, "set both by NTP: ages and expected starts are told by them")
    early = [
        (name, at - now) for name, at in _renewals(await patient.each(LEASES, _HEARTBEATS)) if at - now > CLOCK_SECONDS
    ]
    if early:
        early.sort(key=lambda one: -one[1])
        named = ", ".join(f"{name} by {seconds:.0f} s" for name, seconds in early[:_SHOWN])
        text = f"the clocks of {counted(len(early), 'node')} are ahead of the API server's: {named}"
        yield bad("clocks", text, "set the clocks of nodes by NTP: run times, leases and heartbeats go by them")
    if not early and abs(ahead) <= CLOCK_SECONDS:
        yield good("clocks", f"they agree within {CLOCK_SECONDS:.0f} s")


def _renewals(leases: Sequence[Json]) -> Iterator[tuple[str, float]]:
    for one in leases:
        try:
            at = datetime.fromisoformat(FieldReader(one).text("spec.renewTime")).timestamp()
        except ValueError:
            continue
        yield str(one["metadata"]["name"]), at


async def schedulers_check(patient: Patient) -> AsyncIterator[Finding]:
    """Look for pods on the same nodes that others have placed, and for pods of queues that are not for us."""
    ours = set((await configuration_in(patient.client)).configuration.scheduler_names)
    pods = await patient.each(PODS)
    misdirected = [one for one in pods if _waits(one) and _scheduler(one) not in ours and _names_queue(one)]
    if misdirected:
        named = ", ".join(_name(one) for one in misdirected[:_SHOWN])
        who = ", ".join(sorted({_scheduler(one) for one in misdirected}))
        text = f"{counted(len(misdirected), 'pod')} with the label of a queue wait for {who}, as {named}"
        remedy = f"write schedulerName: {min(ours)} into their templates; component pod-webhook does it for namespaces"
        yield bad("schedulers", text, remedy)
    devices = _devices(await patient.each(NODES))
    held: Counter[tuple[str, str]] = Counter()
    holders: Counter[str] = Counter()
    for one in pods:
        if _scheduler(one) in ours or not _node(one) or _has_ended(one):
            continue
        asked = [(name, many) for name, many in _asks(one) if name in devices]
        holders[_scheduler(one)] += bool(asked)
        for name, many in asked:
            held[_scheduler(one), name] += many
    if held:
        told = ", ".join(
            f"{many} {name} by {counted(holders[who], 'pod')} of {who}" for (who, name), many in sorted(held.items())
        )
        text = f"devices are taken beside Tutti: {told}; it counts them as used, and as nobody's quota"
        remedy = (
            "bring these pods to a queue, keep them off by a taint that only queued pods tolerate, or lower the quota"
        )
        yield warning("schedulers", text, remedy)
    if not (misdirected or held):
        yield good(
            "schedulers", "nobody else places pods with devices, and no pod of a queue waits for another scheduler"
        )


def _scheduler(pod: Json) -> str:
    return FieldReader(pod).text("spec.schedulerName") or _DEFAULT


def _node(pod: Json) -> str:
    return FieldReader(pod).text("spec.nodeName")


def _waits(pod: Json) -> bool:
    return not _node(pod) and not _has_ended(pod)


def _has_ended(pod: Json) -> bool:
    return FieldReader(pod).text("status.phase") in ("Succeeded", "Failed")


def _names_queue(pod: Json) -> bool:
    labels = FieldReader(pod).mapping("metadata.labels")
    return any(label in labels for label in QUEUE_LABELS)


def _name(one: Json) -> str:
    return f"{one['metadata'].get('namespace', '')}/{one['metadata']['name']}"


def _devices(nodes: Sequence[Json]) -> set[str]:
    return {name for one in nodes for name in FieldReader(one).mapping("status.allocatable") if "/" in name}


def _asks(pod: Json) -> Iterator[tuple[str, int]]:
    for container in FieldReader(pod).entries("spec.containers", MOST_ENTRIES):
        for name, many in container.mapping("resources.requests").items():
            count = str(many)
            if count.isdecimal() and len(count) <= _LONGEST_COUNT:
                yield name, int(count)


async def metrics_check(patient: Patient) -> AsyncIterator[Finding]:
    """Look at the figures that the configuration goes by."""
    configuration = (await configuration_in(patient.client)).configuration
    settings = configuration.measured
    if settings is None:
        yield good("metrics", "no profile goes by what nodes use, so none are needed")
        return
    if settings.address is not None:
        text = f"they are read from {settings.address}, which only the operator can reach for sure"
        yield unknown(
            "metrics", text, "its metric tutti_measurements tells whether they come; tutti top nodes reads them"
        )
        return
    try:
        found = await read_metrics_server(patient.client, patient.clock())
    except (WireError, MeasuringError) as error:
        remedy = (
            "install metrics-server, or name a Prometheus in measurements.address; until then load is not looked at"
        )
        yield bad("metrics", f"a profile goes by what nodes use, and nobody tells: {error}", remedy)
        return
    yield good("metrics", f"metrics.k8s.io tells what {counted(len(found.nodes), 'node')} use")


async def queues_check(patient: Patient) -> AsyncIterator[Finding]:
    """Look for queues that cannot be used."""
    off = []
    found = await patient.each(OUR_RESOURCES["ClusterQueue"])
    for one in found:
        conditions = {each["type"]: each for each in legible_conditions(one.get("status"))}
        active = conditions.get("Active")
        if active is not None and active["status"] != "True":
            off.append(f"{one['metadata']['name']}: {active.get('message') or active.get('reason')}")
    if not found:
        yield warning("queues", "there are no ClusterQueues: work that names no queue runs, other work waits",
                      "docs/tutorial.md begins with one")  # fmt: skip
    elif off:
        more = f" and {len(off) - _SHOWN} more" if len(off) > _SHOWN else ""
        yield bad("queues", f"{counted(len(off), 'queue')} inactive: {'; '.join(off[:_SHOWN])}{more}",
                  "put right what each says: kubectl describe clusterqueue NAME")  # fmt: skip
    else:
        yield good("queues", f"none of {counted(len(found), 'queue')} is inactive")
