"""Objects of other projects that say how large gangs are, by how pods name them, and what follows for a gang.

A PodGroup of ours that somebody wrote goes before them. One that was made for such a gang shows its status only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tutti.api.conventions import GangMembership
from tutti.api.conventions.gang_objects import GangObject, gangs_in
from tutti.engine.records.members import Group
from tutti.engine.records.workloads import Workload

Source = tuple[str, str, str, str]
"""API group, kind, namespace and name of an object."""


class GangObjects:
    """All that are known, whatever version they were read in."""

    def __init__(self) -> None:
        self._of: dict[Source, tuple[GangObject, ...]] = {}
        self._by_name: dict[tuple[str, str, str], dict[Source, GangObject]] = {}

    def put(self, api_version: str, kind: str, raw: Mapping[str, Any]) -> tuple[str, str]:
        """Add or change an object; returns its namespace and name."""
        meta = raw["metadata"]
        source = (api_version.partition("/")[0], kind, str(meta.get("namespace", "")), str(meta["name"]))
        self._forget(source)
        self._of[source] = found = tuple(gangs_in(api_version, kind, raw))
        for one in found:
            self._by_name.setdefault((one.convention, one.namespace, one.name), {})[source] = one
        return source[2:]

    def drop(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        """Forget an object that does not exist any more."""
        self._forget((api_version.partition("/")[0], kind, namespace, name))

    def of(self, claim: GangMembership) -> GangObject | None:
        """Return what is said of the gang that a pod claims to be in; None where nothing is."""
        found = self._by_name.get((claim.convention, claim.namespace, claim.object or claim.group))
        return next(iter(found.values())) if found else None

    def _forget(self, source: Source) -> None:
        for one in self._of.pop(source, ()):
            named = self._by_name[one.convention, one.namespace, one.name]
            del named[source]
            if not named:
                del self._by_name[one.convention, one.namespace, one.name]


def task_of(known: GangObjects, claim: GangMembership) -> str:
    """Return the role of a member in a gang whose object counts by tasks; "" where it does not."""
    found = known.of(claim) if claim.task else None
    return claim.task if found is not None and found.roles else ""


def take_sizes(workload: Workload, found: GangObject, name: str) -> None:
    """Take over how many members a gang needs, in all and of each role.

    Where it needs more in all than the roles add up to, the rest falls to roles that have more members than they need,
    in the order of their arrival: a little stricter than Volcano, to which any member will do.
    """
    assert found.spec is not None  # it can be read
    least = found.spec.min_count
    roles = dict(found.roles)
    for group in workload.groups.values():
        if group.name not in roles:
            group.min_count, group.count = 0, None  # it may have been a role before
    if not roles:
        workload.group(name).min_count = least
        return
    for role, needed in roles.items():
        group = workload.group(role)
        group.min_count = group.count = needed
    _spread(list(workload.groups.values()), least - sum(roles.values()))


def _spread(groups: Iterable[Group], more: int) -> None:
    """Raise the minimum of groups by so many in all: of those that have the members for it, else of the first."""
    first: Group | None = None
    for group in groups:
        first = first or group
        tally = group.tally()
        taken = min(more, max(0, tally.live + tally.succeeded - group.min_count))
        group.min_count += taken
        more -= taken
    if first is not None:
        first.min_count += more
