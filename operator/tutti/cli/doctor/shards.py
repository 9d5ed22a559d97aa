"""Checks of shards: whether each has a leader, and whether what there is belongs to one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from tutti.api.messages import counted
from tutti.api.shards import DEFAULT_SHARD, SHARD_ANNOTATION, Shard, lease_of
from tutti.cli.doctor.findings import Finding, FindingVerdict, bad, good, warning
from tutti.cli.doctor.installation import lease_finding
from tutti.cli.doctor.reading import Patient
from tutti.cli.views.configuration import configuration_in
from tutti.controller.shard_records import read_ownership
from tutti.shards.ownership import Ownership

_SHOWN: Final = 3
_CHECK: Final = "shards"


async def shards_check(patient: Patient) -> AsyncIterator[Finding]:
    """Look for shards without a leader, and for nodes and queues that are nobody's or everybody's."""
    known = await configuration_in(patient.client)
    if known.assumed:
        return  # told with the configuration
    settings, election = known.configuration.shards, known.configuration.leader_election
    ownership = Ownership(settings)
    await read_ownership(patient.client, ownership)
    names = [DEFAULT_SHARD, *(one.name for one in settings)]
    retired = [(shard, many) for shard, many in ownership.count().items() if shard not in names]
    for shard, many in retired:
        lease = await lease_finding(
            patient, election.lease_namespace, lease_of(election.lease_name, shard), ready=_SHOULD_LEAD
        )
        yield _retired(
            shard, many, leads=lease.verdict is FindingVerdict.GOOD, kinds=_kinds(ownership, shard, settings)
        )
    if not settings:
        if not retired:
            yield good(_CHECK, "there are none: one process schedules everything")
        return
    for one in settings:
        name = lease_of(election.lease_name, one.name)
        found = await lease_finding(patient, election.lease_namespace, name, ready=_SHOULD_LEAD)
        leads = found.verdict is FindingVerdict.GOOD
        yield found if leads else bad(_CHECK, f"shard {one.name}: {found.message}", _START.format(one.name))
    yield good(_CHECK, f"{counted(len(names), 'shard')}: {_shares(ownership, names)}")
    several = ownership.selected_by_several()
    if several:
        named = ", ".join(f"{name} by {' and '.join(shards)}" for name, shards in list(several.items())[:_SHOWN])
        text = f"{counted(len(several), 'node')} selected by several shards: {named}; each is the first one's"
        yield warning(_CHECK, text, "make nodes of the shards select different labels")
    misled = list(ownership.misled())
    if misled:
        named = ", ".join(f"{one[0]}/{one[1]} (to {one[2]} of {one[4]})" for one in misled[:_SHOWN])
        text = f"{counted(len(misled), 'LocalQueue')} lead out of the shard of their namespace: {named}"
        yield warning(_CHECK, text, "one shard schedules a namespace: make these LocalQueues in others")
    for finding in _on_their_way(ownership, names):
        yield finding


_START: Final = "run a process for it: tutti run --shard {0}, with a second one to follow it (docs/howto/shards.md)"


_SHOULD_LEAD: Final = 1
_ANNOTATED: Final = {"Node": "nodes", "Namespace": "namespaces", "ClusterQueue": "clusterqueues", "Cohort": "cohorts"}


def _kinds(ownership: Ownership, shard: str, settings: Sequence[Shard]) -> list[str]:
    """Return of which kinds annotations are left that nobody changes any more: where there are shards, they do."""
    return [] if settings else sorted({_ANNOTATED[one.kind] for one in ownership.leaving(shard)})


def _retired(shard: str, many: int, *, leads: bool, kinds: Sequence[str]) -> Finding:
    text = f"{counted(many, 'object')} of shard {shard}, which the configuration does not have"
    then = "whose they are takes them over once its lease has run out"
    if kinds:
        text += "; nobody looks at their annotations any more"
        then = f"take these off: kubectl annotate {','.join(kinds)} --all {SHARD_ANNOTATION}-"
    if leads:
        return bad(_CHECK, f"{text}, and its process runs", f"end its processes; {then}")
    return warning(_CHECK, text, then)


def _shares(ownership: Ownership, names: list[str]) -> str:
    counts = {name: Counter(one.kind for one in ownership.held_by(name)) for name in names}
    return "; ".join(
        f"{name} has {counted(tally['Node'], 'node')}, {counted(tally['ClusterQueue'], 'ClusterQueue')} and "
        f"{counted(tally['Namespace'], 'namespace')}"
        for name, tally in counts.items()
    )


def _on_their_way(ownership: Ownership, names: list[str]) -> Iterator[Finding]:
    for name in names:
        leaving = ownership.leaving(name)
        if leaving:
            told = ", ".join(f"{one.kind} {one.name} to {to}" for one, to in list(leaving.items())[:_SHOWN])
            text = f"shard {name} has {counted(len(leaving), 'object')} that others are to have: {told}"
            yield warning(_CHECK, text, "it takes seconds, or until work that holds quota across shards has ended")
