"""Plays the scenario against a cluster: sets the stage, lets work arrive, and waits for each act to be done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

import msgspec

from tutti.controller.crds import RESOURCES, installed
from tutti.controller.health import Health
from tutti.kube.client import Client
from tutti.kube.errors import ApiError
from tutti.kube.resources import NAMESPACES, PODS, Resource
from tutti.kube.retry import retrying
from tutti_demo.manifests import Document, definitions, fixtures, pod, pod_group
from tutti_demo.picture import Picture
from tutti_demo.scenario import PAIR, Act, Scenario, Wave
from tutti_demo.watching import Observer
from tutti_sim.children import Child

_SERVED = {
    "CustomResourceDefinition": Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False),
    "Namespace": NAMESPACES,
    "Pod": PODS,
    **RESOURCES,
}


async def set_stage(client: Client, scenario: Scenario) -> None:
    """Install the CRDs, wait until they are served, and create what stands before the first act.

    Raises:
        WireError: the server refused, or could not be reached.
    """
    for definition in definitions():
        await create(client, definition)
    await installed(client, Health())
    for document in fixtures(scenario):
        await create(client, document)


async def create(client: Client, document: Document) -> None:
    """Create an object; that it is there already is as good, for an earlier try may have taken effect.

    Raises:
        WireError: the server refused, or could not be reached.
    """
    path = _SERVED[document["kind"]].path(document["metadata"].get("namespace"))
    body = msgspec.json.encode(document)
    try:
        await retrying(lambda: client.request("POST", path, body=body))
    except ApiError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise


def pair_of(picture: Picture) -> tuple[str, ...]:
    """The host names of the two nodes that the first act is about: the first ones of the first rack."""
    nodes = sorted(picture.nodes.values(), key=lambda node: (node.rack, node.name))
    return tuple(node.hostname for node in nodes[:PAIR])


class Play:
    """One performance. Times are those of `clock`, which the observer shares."""

    def __init__(self, client: Client, observer: Observer, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._observer = observer
        self._picture = observer.picture
        self._clock = clock
        self._pair: tuple[str, ...] = ()

    async def ready(self) -> None:
        """Return once all nodes are there and the operator has judged every queue."""
        scenario = self._picture.scenario
        await self._observer.synced()
        await self._observer.until(lambda: len(self._picture.nodes) >= scenario.nodes)
        await self._observer.until(
            lambda: all(
                (queue := self._picture.queues.get(team.name)) is not None and queue.active for team in scenario.teams
            )
        )
        self._pair = pair_of(self._picture)

    async def run(self) -> None:
        """Play all acts; each begins when the work of the one before is done."""
        for act in self._picture.scenario.acts:
            await self._play(act)

    async def kill(self, operator: Child, after_seconds: float) -> None:
        """Kill the operator so long after now, and see it started again."""
        await asyncio.sleep(after_seconds)
        self._picture.operator("killed with SIGKILL; nobody decides now, what runs goes on", at=self._clock())
        self._observer.touch()
        await operator.crash()
        self._picture.operator(
            "started again; it reads all it knows from the API server", at=self._clock(), restarted=True
        )
        self._observer.touch()

    async def _play(self, act: Act) -> None:
        begun = self._clock()
        self._picture.begin(act, at=begun)
        self._observer.touch()
        for wave in act.waves:
            await asyncio.sleep(begun + wave.at - self._clock())
            await self._send(wave)
        await self._observer.until(lambda: self._picture.finished(act))

    async def _send(self, wave: Wave) -> None:
        for gang in wave.gangs:
            await create(self._client, pod_group(gang))
        for job, name in wave.pods:
            await create(self._client, pod(job, name, pinned_to=self._pair))
