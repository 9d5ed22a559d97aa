"""`tutti simulate --live` and `tutti what-if` on a real cluster: they change nothing, and what they say happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from e2e.harness.story import GROUP, VERSION, Story
from e2e.test_views import ask

TRACE = """job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue,vc
a,u,1,1,1,COMPLETED,2020-05-01 00:00:00,,,100,q,v
b,u,1,1,1,COMPLETED,2020-05-01 00:00:00,,,100,q,v
c,u,1,1,1,COMPLETED,2020-05-01 00:00:00,,,50,q,v
d,u,1,1,1,COMPLETED,2020-05-01 00:00:10,,,nan,q,v
"""


def _gang(story: Story, name: str, size: int) -> list[dict[str, Any]]:
    """A PodGroup and its pods, as a user would write them."""
    meta = {"name": name, "namespace": story.namespace}
    group = {
        "apiVersion": f"{GROUP}/{VERSION}", "kind": "PodGroup", "metadata": meta,
        "spec": {"queueName": story.namespace, "schedulingPolicy": {"gang": {"minCount": size}}},
    }  # fmt: skip
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pods = [
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {**meta, "name": f"{name}-{rank}", "labels": {f"{GROUP}/pod-group": name}},
            "spec": {"schedulerName": "tutti", "containers": [container]},
        }
        for rank in range(size)
    ]  # fmt: skip
    return [group, *pods]


def _written(path: Path, documents: list[dict[str, Any]]) -> str:
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return str(path)


def _versions(story: Story) -> dict[str, str]:
    """The version of everything in the namespace, and of its queue."""
    pods = {pod.metadata.name: pod.metadata.resource_version for pod in story.pods("")}
    queue = story.get("ClusterQueue", story.namespace)["metadata"]["resourceVersion"]
    return {**pods, "queue": queue}


def test_a_trace_is_played_on_the_nodes_and_queues_of_a_live_cluster_and_changes_nothing(
    story: Story, tmp_path: Path
) -> None:
    story.queue(story.namespace, 2)
    story.start_operator()
    story.gang("runs", 2, queue=story.namespace)
    story.wait(lambda: len(story.where("runs")) == 2, "the gang to be bound")
    story.stop_operator()
    before = _versions(story)
    trace = tmp_path / "cluster_log.csv"
    trace.write_text(TRACE)

    found = ask(story, "simulate", str(trace), "--live", "--queue", f"*={story.namespace}", "--step", "0")

    every = found["runs"]["first"]["all"]
    assert (every["jobs"], every["started"], every["ended"]) == (4, 4, 4)
    # two cards: the others start when the first have ended, whatever runs in the cluster itself
    assert (every["wait"]["most"], every["wait"]["mean"]) == (100.0, (0 + 0 + 100 + 90) / 4)
    assert _versions(story) == before


def test_what_is_said_of_work_is_what_happens_when_it_is_submitted(story: Story, tmp_path: Path) -> None:
    story.queue(story.namespace, 3)
    story.start_operator()
    story.gang("runs", 1, queue=story.namespace)
    story.wait(lambda: len(story.where("runs")) == 1, "the gang to be bound")
    fits = _written(tmp_path / "fits.yaml", _gang(story, "fits", 2))
    waits = _written(tmp_path / "waits.yaml", _gang(story, "waits", 3))

    said = ask(story, "what-if", "-f", fits)
    (told,) = [one for one in said["workloads"] if one["asked"]]
    assert (told["name"], told["before"]["course"], told["after"]["course"]) == ("fits", "Absent", "Now")
    assert sum(told["after"]["nodes"].values()) == 2
    later = ask(story, "what-if", "-f", waits, code=1)
    (told,) = [one for one in later["workloads"] if one["asked"]]
    assert (told["after"]["course"], told["after"]["gate"]) == ("Waits", "Quota")
    both = ask(story, "what-if", "-f", waits, "--quota", f"{story.namespace}:nvidia.com/gpu=4")
    assert next(one for one in both["workloads"] if one["asked"])["after"]["course"] == "Now"
    assert not story.pods("fits"), "to ask has made nothing"

    story.gang("fits", 2, queue=story.namespace)
    story.wait(lambda: len(story.where("fits")) == 2, "the gang to be bound, as was said")
    story.gang("waits", 3, queue=story.namespace)
    story.wait(lambda: story.why("waits").get("gate") == "Quota", "the other to wait, as was said")
