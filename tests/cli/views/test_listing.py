"""A cluster listed once: gangs of other projects too, and what cannot be read is named and left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web

from tests.cli.views import scene
from tests.cli.views.scene import node, pod
from tests.cli.views.staging import called, staged
from tutti.api.configuration import Conventions, TuttiConfiguration
from tutti.cli.views.gangs import gangs
from tutti.cli.views.listing import Listed, list_cluster
from tutti.cli.views.what_if import ObservedCluster
from tutti.engine.records.observations import GangObjectSeen, PodSeen

VOLCANO = "scheduling.volcano.sh"
LOOSE = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def kubeconfig_of(url: str, path: Path) -> Path:
    named = {"name": "one"}
    config = {
        "clusters": [{**named, "cluster": {"server": url}}],
        "users": [{**named, "user": {"token": "t"}}],
        "contexts": [{**named, "context": {"cluster": "one", "user": "one", "namespace": "mine"}}],
        "current-context": "one",
    }
    path.write_text(json.dumps(config))
    return path


class Small:
    """An API server with these objects and no others, by the path of their collection."""

    def __init__(self, objects: dict[str, list[dict]], resources: dict[str, list[str]]) -> None:
        self.objects, self.resources = objects, resources

    async def answer(self, request: web.Request) -> web.Response:
        if request.path in self.resources:
            return web.json_response({"resources": [{"name": name} for name in self.resources[request.path]]})
        if request.path.count("/") == 3 and request.path.startswith("/apis/"):
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": self.objects.get(request.path, [])})


@pytest.fixture
async def listed_from(tmp_path):
    """Lists a small API server."""
    runners: list[web.AppRunner] = []

    async def start(objects: dict[str, list[dict]], resources: dict[str, list[str]] | None = None, **more) -> Listed:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", Small(objects, resources or {}).answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        return await list_cluster(
            kubeconfig_of(f"http://{host}:{port}", tmp_path / "k"),
            None,
            TuttiConfiguration(conventions=Conventions(**more)),
        )

    yield start
    for runner in runners:
        await runner.cleanup()


def theirs() -> tuple[dict[str, list[dict]], dict[str, list[str]]]:
    """A gang of Volcano's of three, of whom one pod is there."""
    member = pod("d", "g-0", 1, labels={})
    member["metadata"] |= {"annotations": {"scheduling.k8s.io/group-name": "g"}, "uid": "u"}
    group = {"metadata": {"name": "g", "namespace": "d", "uid": "g"}, "spec": {"minMember": 3}}
    path = f"/apis/{VOLCANO}/v1beta1"
    objects = {"/api/v1/pods": [member], "/api/v1/nodes": [node("n", "m", "r")], f"{path}/podgroups": [group]}
    return objects, {path: ["podgroups", "queues"]}


async def test_gangs_of_other_projects_are_as_large_as_their_objects_say(listed_from):
    found = await listed_from(*theirs())
    (gang,) = gangs(ObservedCluster(found, scene.AT))

    assert (gang.name, gang.required, gang.members, gang.gate) == ("g", 3, 1, "Gather")


async def test_a_convention_that_is_off_is_not_asked_for(listed_from):
    found = await listed_from(*theirs(), volcano=False)

    assert not [one for one in found.seen if isinstance(one, GangObjectSeen)]


async def test_what_cannot_be_read_is_named_and_the_rest_goes_on(listed_from):
    broken = {"metadata": {"name": "broken", "namespace": "d", "uid": "b"}, "spec": {"containers": 7}}
    nameless = {"metadata": {}, "spec": {"containers": 7}}
    found = await listed_from({"/api/v1/pods": [broken, nameless, pod("d", "p", 1)]})

    assert [one.pod.metadata.name for one in found.seen if isinstance(one, PodSeen)] == ["p"]
    assert [one.partition(":")[0] for one in found.unreadable] == ["pods d/broken", "pods without a name"]
    assert found.namespace == "mine"


def test_on_a_cluster_that_serves_their_kind_too(tmp_path):
    """Over the embedded cluster's own discovery."""
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"}
    versions = [{"name": "v1beta1", "served": True, "storage": True, "schema": LOOSE}]
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{VOLCANO}"},
        "spec": {"group": VOLCANO, "scope": "Namespaced", "names": names, "versions": versions},
    }
    objects, _ = theirs()
    group = objects[f"/apis/{VOLCANO}/v1beta1/podgroups"][0] | {"apiVersion": f"{VOLCANO}/v1beta1", "kind": "PodGroup"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "d"}}
    with staged(tmp_path / "k", [definition, space, group, *objects["/api/v1/pods"]]):
        answer = called(tmp_path / "k", "gangs", "-o", "json")

    assert [(one["name"], one["required"]) for one in json.loads(answer.output)] == [("g", 3)]
