"""Where pods of objects whose names the server makes may go, by the topology that their templates ask Kueue for.

The shapes of Kueue's own examples (site/static/examples/tas, 0.20): a gang, the pods that come after it, roles, single
pods, and pods of a Deployment.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import yaml

from tests.cli.migrate.test_admitted import SETUP, make
from tests.engine.world import World
from tutti.cli.migrate.kueue.jobs import Run
from tutti.cli.migrate.kueue.rewriting import rewrite
from tutti.cli.migrate.streams import migrate

LABELS = {"kueue.x-k8s.io/queue-name": "train"}
NEAR = {"kueue.x-k8s.io/podset-required-topology": "rack"}


def template(annotations: dict[str, str]) -> dict[str, Any]:
    container = {"name": "work", "resources": {"requests": {"cpu": 1}}}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}


def a_world(*nodes: tuple[str, int]) -> World:
    """Queues as migrated, and nodes: the rack of each, and its CPUs."""
    world = World()
    world.follow_owners()
    for number, (rack, cpu) in enumerate(nodes):
        world.node(f"n{number}", cpu=str(cpu), labels={"rack": rack})
    setup = SETUP.partition("---\napiVersion: batch/v1")[0].replace("QUOTA", "100")
    for second, one in enumerate(migrated(*yaml.safe_load_all(setup))):
        meta = {"uid": f"uid-{second}", "creationTimestamp": f"1970-01-01T00:00:{second:02}Z", **one["metadata"]}
        world.put_object(one["kind"], {**one, "metadata": meta, "status": {}})
    return world


def migrated(*documents: dict[str, Any]) -> list[dict[str, Any]]:
    done = migrate(yaml.safe_dump_all(documents, sort_keys=False), "in", partial(rewrite, run=Run()))
    assert not done.entries or all("lost" not in str(one.note.level) for one in done.entries)
    return [one for one in yaml.safe_load_all(done.text) if one]


def racks(world: World, begins: str = "") -> set[str]:
    rack = {name: node.metadata.labels["rack"] for name, node in world.nodes.items()}
    return {rack[node] for node in world.where(begins).values()}


def made_by(world: World, document: dict[str, Any], kind: str) -> Any:
    """An object that has got its name, in the cluster."""
    meta = document["metadata"]
    said = {of: meta.get(of) for of in ("labels", "annotations")}
    return world.owner(kind, f"{meta['generateName']}x1", spec=document["spec"], group=_group(document), **said)


def _group(document: dict[str, Any]) -> str:
    return str(document["apiVersion"].rpartition("/")[0])


def a_job(completions: int) -> dict[str, Any]:
    spec = {"parallelism": 3, "completions": completions, "template": template(NEAR)}
    meta = {"generateName": "near-", "namespace": "default", "labels": LABELS}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def test_the_pods_that_come_after_those_of_a_gang_keep_to_its_rack():
    world = a_world(("a", 2), ("b", 3), ("a", 8))
    [written] = migrated(a_job(completions=6))
    job = made_by(world, written, "Job")
    for rank in range(3):
        make(world, f"near-{rank}", written["spec"]["template"], job)
    world.run()
    (rack,) = racks(world)
    world.finish("near-0", "near-1")
    for rank in (3, 4):
        make(world, f"near-{rank}", written["spec"]["template"], job)
    world.run()

    assert len(world.where("near")) >= 3
    assert racks(world) == {rack}


def test_each_role_of_a_jobset_keeps_to_a_rack_and_no_more():
    def role(name: str) -> dict[str, Any]:
        job = {"parallelism": 2, "completions": 2, "template": template(NEAR)}
        return {"name": name, "replicas": 1, "template": {"spec": job}}

    spec = {"suspend": True, "replicatedJobs": [role("one"), role("two")]}
    meta = {"generateName": "set-", "namespace": "default", "labels": LABELS}
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    [written] = migrated({**kind, "metadata": meta, "spec": spec})
    world = a_world(("a", 3), ("b", 2))  # all four never fit one
    top = made_by(world, written, "JobSet")
    for one in written["spec"]["replicatedJobs"]:
        made = one["template"]["spec"]["template"]
        for rank in range(2):
            name = {"jobset.sigs.k8s.io/replicatedjob-name": one["name"], "jobset.sigs.k8s.io/job-index": "0"}
            whole = {**made, "metadata": {**made["metadata"], "labels": name}}
            make(world, f"{one['name']}-{rank}", whole, top)
    world.run()

    assert len(world.where()) == 4
    assert len(racks(world, "one")) == len(racks(world, "two")) == 1


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_single_pods_each_have_a_rack_of_their_own(kind):
    """A pod is in one rack wherever it is: it asks for nothing that could hold it back (Kueue: a pod set of one)."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "one-", "namespace": "default"}}
    pod["metadata"] |= {"labels": LABELS, "annotations": NEAR}
    pod["spec"] = template({})["spec"]
    labels = {"app": "serve"}
    whole = template(NEAR)
    whole["metadata"]["labels"] = labels
    serve = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generateName": "one-", "labels": LABELS}}
    serve["spec"] = {"replicas": 3, "selector": {"matchLabels": labels}, "template": whole}
    [written] = migrated(pod if kind == "Pod" else serve)
    world = a_world(("a", 1), ("b", 1), ("c", 1))
    if kind == "Pod":
        for rank in range(3):
            make(world, f"one-{rank}", written)
    else:
        top = made_by(world, {**written, "metadata": {**written["metadata"], "namespace": "default"}}, "Deployment")
        replicas = world.owner("ReplicaSet", "one-x1-abc", controller=top, spec=written["spec"], group="apps")
        for rank in range(3):
            make(world, f"one-{rank}", written["spec"]["template"], replicas)
    world.until(30)

    assert len(world.where("one")) == 3
    assert racks(world) == {"a", "b", "c"}
