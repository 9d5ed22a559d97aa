"""Checks of shards: whether each has a leader, and whether what there is belongs to one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Final

from tutti.api.messages import counted
from tutti.api.shards import DEFAULT_SHARD, lease_of
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
    if not settings:
        yield _retired(retired) if retired else good(_CHECK, "there are none: one process schedules everything")
        return
    for one in settings:
        name = lease_of(election.lease_name, one.name)
        found = await lease_finding(patient, election.lease_namespace, name, ready=1)
        leads = found.verdict is FindingVerdict.GOOD
        yield found if leads else bad(_CHECK, f"shard {one.name}: {found.message}", _START.format(one.name))
    yield good(_CHECK, f"{counted(len(names), 'shard')}: {_shares(ownership, names)}")
    if retired:
        yield _retired(retired)
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


def _retired(retired: list[tuple[str, int]]) -> Finding:
    text = ", ".join(f"{counted(many, 'object')} of shard {shard}" for shard, many in retired)
    return bad(
        _CHECK,
        f"{text}, which the configuration does not have",
        "end its processes; where shards are configured, whose they are takes them over once its lease has run out",
    )


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
