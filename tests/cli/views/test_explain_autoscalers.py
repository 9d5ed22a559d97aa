"""What autoscalers make of pods that wait, and who is told that they add no nodes for it."""

from __future__ import annotations

import copy

from tests.cli.views import scene
from tests.cli.views.explaining import gang, of
from tests.cli.views.scene import Json, node


def seen_by_autoscalers(made: list[Json], name: str) -> tuple[str, ...]:
    return of(name, made, trying=False).autoscaler


def plain_cluster(*made: Json) -> list[Json]:
    """Two racks of two nodes with eight GPUs each."""
    nodes = [node(f"n{i}", "NVIDIA-A100", f"r{i // 2}") for i in range(4)]
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}]
    return [*nodes, *spaces, *made]


def test_a_gang_that_fits_singly_and_not_in_one_rack_is_told_that_no_node_will_be_added():
    (said,) = seen_by_autoscalers(plain_cluster(*gang("ring", 4, rack=True)), "default/ring")

    assert said.startswith("autoscaler sees room: all 4 pods fit singly, so it adds no nodes. It does not know that")
    assert f"they must share one {scene.RACK} (have nodes added in one {scene.RACK}" in said


def test_a_gang_that_fits_singly_in_part_is_told_for_how_many_nodes_are_added():
    (said,) = seen_by_autoscalers(plain_cluster(*gang("ring", 6, rack=True)), "default/ring")

    assert said.startswith("autoscaler sees room: 4 of 6 pods fit singly, so it adds nodes for 2 pods only.")


def test_a_gang_that_lacks_nothing_but_nodes_is_told_nothing_of_autoscalers():
    assert seen_by_autoscalers(plain_cluster(*gang("big", 6)), "default/big") == ()


def test_pods_that_do_not_select_the_nodes_of_their_flavor_are_told_to():
    room, advice = of("serving/llm", trying=False).autoscaler

    assert "flavor h100 keeps them to nodes with its labels" in room
    assert advice == (
        f"give the pods the node label of flavor h100 as nodeSelector ({scene.MODEL}: NVIDIA-H100): an autoscaler knows no "
        "flavors, and may grow another pool"
    )


def test_pods_that_select_the_nodes_of_their_flavor_are_not():
    made = copy.deepcopy(scene.objects())
    for one in made:
        if one["kind"] == "Pod" and one["metadata"]["name"].startswith("llm"):
            one["spec"]["nodeSelector"] = {scene.MODEL: "NVIDIA-H100"}
    assert seen_by_autoscalers(made, "serving/llm") == ()


def test_who_waits_for_quota_is_told_nothing_of_autoscalers():
    assert of("vision/train-2", trying=False).autoscaler == ()
