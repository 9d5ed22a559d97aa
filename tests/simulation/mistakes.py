"""What users get wrong: objects and pods that cannot be read, and objects that become unreadable and are mended.

Whoever makes no mistake must not notice: everybody else's gangs come to their end as if there were none, and so do those
whose objects have been mended. What stays wrong is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from tests.simulation.server import Json, Server
from tutti_sim.meta.errors import ApiError

BAD: Mapping[str, tuple[Json, ...]] = {
    "Workload": (
        {"podGroups": []},
        {"podGroups": "many"},
        {"podGroups": [{"name": "main", "count": 2, "minCount": 9}]},
        {"podGroups": [{"name": "main", "count": "a lot"}], "queueName": 7},
    ),
    "PodGroup": (
        {"schedulingPolicy": {"gang": {"minCount": 0}}},
        {"schedulingPolicy": {"gang": {"minCount": "three"}}},
        {"schedulingPolicy": []},
        {},
    ),
    "ClusterQueue": (
        {"resourceGroups": 7},
        {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": []}]},
        {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "lots"}]}],
                }
            ],
        },
        {"namespaceSelector": {"matchLabels": 3}},
    ),
    "LocalQueue": ({}, {"clusterQueue": ["cq1"]}, {"clusterQueue": "cq1", "stopPolicy": "Perhaps"}),
    "ResourceFlavor": ({"nodeLabels": ["gpu"]}, {"nodeTaints": [{"key": "k", "effect": "Sometimes"}]}),
    "Cohort": ({"resourceGroups": {}}, {"parentName": 5}),
    "Topology": ({"levels": []}, {"levels": [{"nodeLabel": 1}]}),
}
"""Specs by kind that cannot be used, whatever else there is."""

STRAYS: tuple[Json, ...] = (
    {"labels": {"scheduling.tutti.dev/pod-group": "nobody-has-made-it"}},
    {"labels": {"scheduling.tutti.dev/workload": "nobody-has-made-it"}},
    {"labels": {"scheduling.tutti.dev/queue-name": "nobody-has-made-it"}},
    {
        "annotations": {
            "gang-scheduling.preferred.jp/gang-name": "stray-p",
            "gang-scheduling.preferred.jp/gang-size": "many",
        }
    },
    {"annotations": {"gang.scheduling.koordinator.sh/name": "stray-k"}},
    {
        "annotations": {
            "gang.scheduling.koordinator.sh/name": "stray-j",
            "gang.scheduling.koordinator.sh/min-available": "1",
            "gang.scheduling.koordinator.sh/groups": "[",
        }
    },
    {"labels": {"applicationId": "stray-y"}, "annotations": {"yunikorn.apache.org/task-groups": '[{"name": '}},
    {
        "labels": {"applicationId": "stray-z"},
        "annotations": {
            "yunikorn.apache.org/task-group-name": "t",
            "yunikorn.apache.org/task-groups": '[{"name": "t", "minMember": 1, "minResource": {"cpu": "lots"}}]',
        },
    },
    {"annotations": {"scheduling.tutti.dev/admission": '{"clusterQueue": ['}},
)
"""Metadata of pods that cannot be what their users mean."""


def is_stray(name: str) -> bool:
    """Whether an object is one of which nobody expects that it ever ends."""
    return "stray" in name or "junk" in name


LATEST_SECONDS = 60.0
"""What was decided on is done by then, whatever has changed since: a change comes that late, a bind takes that long."""


class Mistakes:
    """Puts objects of ours into the cluster, right or wrong.

    Attributes:
        junk: Kind and name of those that are wrong for good.
    """

    def __init__(self, server: Server, clock: Callable[[], float]) -> None:
        self._server = server
        self._clock = clock
        self._mended_at: dict[tuple[str, str], float] = {}
        self._meant: dict[tuple[str, str], Json] = {}
        self._spoilt: dict[tuple[str, str], Json] = {}
        self.junk: list[tuple[str, str]] = []
        self.strays: list[str] = []

    async def put(self, kind: str, name: str, spec: Json) -> None:
        """Create or change an object as its user means it, or as it is spoilt for now."""
        self._meant[kind, name] = spec
        bad = self._spoilt.get((kind, name))
        if bad is None or not await self._accepted(kind, name, bad):
            await self._server.put(kind, name, spec)

    async def do_spoil(self, kind: str, name: str, spec: Json) -> None:
        """From now on an object cannot be read, until it is mended."""
        self._spoilt[kind, name] = spec
        self._mended_at[kind, name] = inf
        if self._exists(kind, name):
            await self._accepted(kind, name, spec)

    async def do_mend(self, kind: str, name: str) -> None:
        """Make an object what its user means."""
        if self._spoilt.pop((kind, name), None) is not None and self._exists(kind, name):
            await self._server.put(kind, name, self._meant[kind, name])
        self._mended_at[kind, name] = self._clock()

    def was_spoilt_lately(self, kind: str, name: str) -> bool:
        """Whether an object is spoilt, or what was decided while it was may not be done yet."""
        return self._clock() < self._mended_at.get((kind, name), -inf) + LATEST_SECONDS

    async def mend_all(self) -> None:
        """Make every object what its user means, but for what is wrong for good."""
        for kind, name in list(self._spoilt):
            await self.do_mend(kind, name)

    async def do_junk(self, kind: str, name: str, spec: Json) -> None:
        """Create an object that is wrong for good."""
        if await self._accepted(kind, name, spec) and (kind, name) not in self.junk:
            self.junk.append((kind, name))

    async def add_stray(self, pod: Json) -> None:
        """Create a pod that cannot be what its user means."""
        await self._server.user.create(self._server.pods, "default", pod)
        self.strays.append(pod["metadata"]["name"])

    def tidy(self) -> None:
        """Delete what is wrong for good."""
        for kind, name in self.junk:
            self._server.remove(kind, name)
        pods = self._server.backend.collection(self._server.pods)
        for found in filter(None, (pods.get("default", name) for name in self.strays)):
            self._server.user.remove(self._server.pods, found)

    def _exists(self, kind: str, name: str) -> bool:
        return any(one["metadata"]["name"] == name for one in self._server.objects(kind))

    async def _accepted(self, kind: str, name: str, spec: Json) -> bool:
        """Whether the server takes an object; one that checks schemas refuses most."""
        try:
            await self._server.put(kind, name, spec)
        except ApiError:
            return False
        return True
