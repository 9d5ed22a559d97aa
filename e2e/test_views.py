"""What the command line answers is what the operator beside it says and does."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from e2e.harness.story import Story
from tutti.cli.main import cli


def ask(story: Story, *arguments: str, code: int = 0) -> Any:
    """Call `tutti` with the credentials of the cluster's kubeconfig, and return its answer.

    In this process, for to load the command takes another one longer than the answer does.
    """
    words = [*arguments, "--kubeconfig", str(story.cluster.kubeconfig), "-o", "json"]
    answer = CliRunner().invoke(cli, words, catch_exceptions=False, prog_name="tutti")
    assert answer.exit_code == code, answer.stderr
    return json.loads(answer.stdout)


def standing(story: Story, gang: str) -> tuple[str, str]:
    """The gate that a gang waits at and why, by the command line."""
    steps = ask(story, "explain", "workload", f"{story.namespace}/{gang}")["steps"]
    (waits,) = [step for step in steps if step["verdict"] == "Waits"]
    return waits["gate"], waits["message"]


def test_a_gang_over_quota_is_explained_as_the_operator_does_and_what_helps_helps(story: Story) -> None:
    story.queue(story.namespace, 4)
    story.start_operator()
    story.gang("first", 3, queue=story.namespace)
    story.wait(lambda: len(story.where("first")) == 3, "the first gang to be bound")
    story.gang("second", 2, queue=story.namespace)
    story.wait(lambda: story.why("second").get("gate") == "Quota", "the second gang to say that it waits for quota")

    assert standing(story, "second") == ("Quota", story.why("second")["message"])
    told = ask(story, "explain", "workload", f"{story.namespace}/second")["remedies"]
    assert {"what": f"{story.namespace}/first (3 nvidia.com/gpu) ends", "then": "", "moves": []} in told
    waiting = {one["name"]: one["gate"] for one in ask(story, "gangs", "-n", story.namespace, "--waiting")}
    assert waiting == {"second": "Quota"}
    found = ask(story, "queue", story.namespace)
    (gpus,) = [use for use in found["queue"]["uses"] if use["resource"] == "nvidia.com/gpu"]
    assert (gpus["used"], gpus["own"], gpus["free"]) == (3, 4, 1)
    assert [one["name"] for one in found["waiting"]] == ["second"]

    story.finish("first")

    story.wait(lambda: len(story.where("second")) == 2, "the second gang to be bound, as was said")


def test_a_gang_without_nodes_is_explained_as_the_operator_does(story: Story) -> None:
    pair = story.cluster.nodes[:2]
    story.label_nodes(pair, {"e2e/pair": "views"})
    story.start_operator()
    story.gang("wide", 5, selector={"e2e/pair": "views"})
    story.wait(lambda: story.why("wide").get("gate") == "Placement", "the gang to say that it waits for nodes")

    assert standing(story, "wide") == ("Placement", story.why("wide")["message"])
    (room,) = ask(story, "explain", "workload", f"{story.namespace}/wide")["rooms"]
    assert (room["pods"], room["fits"], set(room["examples"])) == (5, 4, set(pair))
    story.label_nodes(pair, {"e2e/pair": None})


def test_a_node_is_checked_before_it_is_drained(story: Story) -> None:
    """Nothing makes the pods of a bare gang again: a drain would break it for good."""
    story.start_operator()
    story.gang("pair", 2, gpus=2)
    story.wait(lambda: len(story.where("pair")) == 2, "the gang to be bound")
    node = story.node_of("pair-0")

    found = ask(story, "drain-check", node, code=1)
    (gang,) = [one for one in found["gangs"] if one["namespace"] == story.namespace]

    assert (gang["name"], gang["bound"], gang["leaving"], gang["breaks"], gang["whole"]) == ("pair", 2, 1, True, False)
    used = {one["node"]: one["used"] for one in ask(story, "top", "nodes", "-r", "nvidia.com/gpu")["nodes"]}
    assert used[node] == 2


def test_what_is_said_of_a_change_is_what_happens_when_it_is_made(story: Story) -> None:
    story.queue(story.namespace, 2)
    story.start_operator()
    story.gang("first", 2, queue=story.namespace)
    story.wait(lambda: len(story.where("first")) == 2, "the first gang to be bound")
    story.gang("second", 3, queue=story.namespace)
    story.wait(lambda: story.why("second").get("gate") == "Quota", "the second gang to say that it waits for quota")

    said = ask(story, "what-if", "--quota", f"{story.namespace}:nvidia.com/gpu=5")
    (second,) = [one for one in said["workloads"] if one["namespace"] == story.namespace]
    assert (second["name"], second["before"]["course"], second["after"]["course"]) == ("second", "Waits", "Now")
    assert story.why("second").get("gate") == "Quota", "to ask has changed nothing"

    story.resize_queue(story.namespace, 5)

    story.wait(lambda: len(story.where("second")) == 3, "the second gang to be bound, as was said")
