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


def _gang(story: Story, name: str, size: int, *, least: int = 0, speed: str = "") -> list[dict[str, Any]]:
    """A PodGroup and its pods, as a user would write them; it starts with the least of them, if not with all."""
    meta = {"name": name, "namespace": story.namespace}
    said = {f"{GROUP}/speed-by-members": speed} if speed else {}
    group = {
        "apiVersion": f"{GROUP}/{VERSION}", "kind": "PodGroup", "metadata": meta,
        "spec": {"queueName": story.namespace, "schedulingPolicy": {"gang": {"minCount": least or size}}},
    }  # fmt: skip
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pods = [
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                **meta, "name": f"{name}-{rank}", "labels": {f"{GROUP}/pod-group": name}, "annotations": said,
            },
            "spec": {"schedulerName": "tutti", "containers": [container]},
        }
        for rank in range(size)
    ]  # fmt: skip
    return [group, *pods]


def _written(path: Path, documents: list[dict[str, Any]]) -> str:
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return str(path)


def _what_users_wrote(story: Story) -> dict[str, Any]:
    """All of pods but their status, which kubelets write as they please, and the version of their queue."""
    plain = story.api.sanitize_for_serialization
    found = {
        pod.metadata.name: (plain(pod.spec), pod.metadata.labels, pod.metadata.annotations) for pod in story.pods("")
    }
    return {**found, "queue": story.get("ClusterQueue", story.namespace)["metadata"]["resourceVersion"]}


def test_a_trace_is_played_on_the_nodes_and_queues_of_a_live_cluster_and_changes_nothing(
    story: Story, tmp_path: Path
) -> None:
    story.queue(story.namespace, 2)
    story.start_operator()
    story.gang("runs", 2, queue=story.namespace)
    story.wait(lambda: len(story.where("runs")) == 2, "the gang to be bound")
    story.stop_operator()
    before = _what_users_wrote(story)
    trace = tmp_path / "cluster_log.csv"
    trace.write_text(TRACE)

    found = ask(story, "simulate", str(trace), "--live", "--queue", f"*={story.namespace}", "--step", "0")

    every = found["runs"]["first"]["all"]
    assert (every["jobs"], every["started"], every["ended"]) == (4, 4, 4)
    # two cards: the others start when the first have ended, whatever runs in the cluster itself
    assert (every["wait"]["most"], every["wait"]["mean"]) == (100.0, (0 + 0 + 100 + 90) / 4)
    assert _what_users_wrote(story) == before


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


def test_how_far_an_elastic_gang_would_grow_is_what_it_grows_to(story: Story, tmp_path: Path) -> None:
    story.queue(story.namespace, 5, surplusOrder="BySpeed")
    story.start_operator()
    story.gang("runs", 3, queue=story.namespace)
    story.wait(lambda: len(story.where("runs")) == 3, "the gang to be bound")
    speed = "1=1,4=3.9"
    path = _written(tmp_path / "grows.yaml", _gang(story, "grows", 4, least=1, speed=speed))

    said = ask(story, "what-if", "-f", path)
    (told,) = [one for one in said["workloads"] if one["asked"]]
    assert (told["after"]["course"], told["after"]["members"], sum(told["after"]["nodes"].values())) == ("Now", 2, 2)
    story.object("PodGroup", "grows", {"queueName": story.namespace, "schedulingPolicy": {"gang": {"minCount": 1}}})
    for rank in range(4):
        belongs, said_of_it = {f"{GROUP}/pod-group": "grows"}, {f"{GROUP}/speed-by-members": speed}
        story.pod(f"grows-{rank}", gpus=1, labels=belongs, annotations=said_of_it)
    story.wait(lambda: len(story.where("grows")) == 2, "it to have as many members as was said")
    said = ask(story, "what-if", "--quota", f"{story.namespace}:nvidia.com/gpu=7")
    (told,) = [one for one in said["workloads"] if one["name"] == "grows"]
    assert (told["before"]["members"], told["after"]["members"]) == (2, 4)
    assert said["summary"] == [f"1 workload would have more members: {story.namespace}/grows"]
    story.resize_queue(story.namespace, 7)
    story.wait(lambda: len(story.where("grows")) == 4, "it to grow, as was said")
