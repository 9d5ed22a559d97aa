"""Gangs that run with fewer members than they need, as the views tell them."""

from __future__ import annotations

import pytest

from tests.cli.views import scene
from tests.cli.views.loss import MINUTES, gang, nodes
from tests.cli.views.scene import AT, GPU, Json, ours, told
from tutti.cli.views.command_line import plain
from tutti.cli.views.degraded import LostMembers
from tutti.cli.views.gangs import GangView, draw_gangs, gangs
from tutti.cli.views.queues import draw_details, queue_details


def only(*made: Json, at: float = AT) -> GangView:
    (found,) = gangs(told(list(made), at=at))
    return found


def drawn(found: GangView, at: float = AT) -> str:
    return plain(draw_gangs([found], at)).splitlines()[-1]


def queues(gpus: int = 32) -> list[Json]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "d"}},
        ours("ResourceFlavor", "a100", {}),
        scene.queue("q", "", "a100", gpus),
        ours("LocalQueue", "q", {"clusterQueue": "q"}, "d"),
    ]


def test_a_degraded_gang_is_told_with_its_numbers_since_when_and_when_it_is_restarted():
    found = only(*nodes("a", "b"), *gang("a", "a", lost=["b", "b"], gpus=1))

    assert found.phase == "Scheduled"
    seen = found.degraded
    assert seen is not None
    assert (seen.has, seen.required, seen.waiting, seen.missing) == (2, 4, 0, 2)
    assert (seen.since, seen.restarts_at, seen.action) == (AT - 120, AT + 180, "Restart")
    assert drawn(found).endswith("2 of 4 for 2m; waits for 2 successors to be created; restarted whole in 3m")
    assert "Degraded" in drawn(found)


def test_a_gang_that_keeps_is_said_to_run_on():
    found = only(*nodes("a", "b"), *gang("a", lost=["b"], onMemberLoss={"action": "Keep"}, since=AT - 7200))

    assert found.degraded is not None
    assert (found.degraded.restarts_at, found.degraded.action) == (None, "Keep")
    assert drawn(found).endswith("1 of 2 for 120m; waits for 1 successor to be created; runs on (onMemberLoss: Keep)")


def test_successors_that_find_no_node_are_told_with_why():
    found = only(*nodes("a"), *gang("a", lost=["b"], successors=1))

    assert found.degraded is not None
    assert (found.degraded.waiting, found.degraded.missing, found.gate) == (1, 0, "Placement")
    assert "1 of 2 for 2m; its 1 successor waits: 0/1 nodes are available: 1 Insufficient" in drawn(found)


def test_successors_that_fit_are_told_to():
    found = only(*nodes("a", "b"), *gang("a", lost=["b"], successors=1))

    assert drawn(found).endswith(
        "1 of 2 for 2m; its 1 successor fits now, and is not placed yet; restarted whole in 3m"
    )


def test_one_of_which_the_operator_has_said_nothing_yet_is_told_all_the_same():
    made = gang("a", lost=["b"])
    made[0]["status"] = {"started": 2, "conditions": made[0]["status"]["conditions"][:1]}
    found = only(*nodes("a", "b"), *made)

    assert found.degraded is not None
    assert (found.degraded.has, found.degraded.required, found.degraded.since) == (1, 2, AT)


def test_one_whose_window_is_over_is_told_to_be_taken_out():
    found = only(*nodes("a", "b"), *gang("a", lost=["b"], since=AT - 10 * MINUTES))

    assert found.degraded is None
    assert (found.phase, found.reason) == ("Leaving", "MemberLost")
    assert "it starts again whole" in found.why


def test_one_whose_window_is_over_in_a_queue_that_is_closed_is_told_to_stay():
    closed = queues()
    closed[2]["spec"]["stopPolicy"] = "Hold"
    found = only(*nodes("a", "b"), *closed, *gang("a", lost=["b"], since=AT - 10 * MINUTES, queue="q"))

    assert found.degraded is not None
    assert drawn(found).endswith("waits for 1 successor to be created; restarted whole as soon as it could start again")


def test_a_whole_gang_is_not_degraded():
    found = only(*nodes("a", "b"), *gang("a", "b"))

    assert found.degraded is None
    assert "Scheduled" in drawn(found)


def test_degraded_gangs_can_be_asked_for_alone():
    made = [*nodes("a", "b", "c"), *gang("a", lost=["b"])]
    made += [ours("PodGroup", "h", {"schedulingPolicy": {"gang": {"minCount": 1}}}, "d")]
    made += [scene.pod("d", "h-0", 1, gang="h", on="c")]

    assert [one.name for one in gangs(told(made))] == ["g", "h"]
    assert [one.name for one in gangs(told(made), degraded=True)] == ["g"]


def test_what_was_lost_and_what_of_it_is_kept_is_told():
    down = nodes("b")
    down[0]["spec"]["taints"] = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]
    found = only(*nodes("a", "c"), *down, *queues(), *gang("a", lost=["b", "c", "gone"], queue="q", gpus=4))

    seen = found.degraded
    assert seen is not None
    asks = {"cpu": 2000, "memory": 8 << 30, GPU: 4}
    assert seen.lost == (
        LostMembers("g", "b", 1, asks, "Down"), LostMembers("g", "c", 1, asks, "Works"), LostMembers("g", "gone", 1, asks, "Gone"),
    )  # fmt: skip
    assert [(one.flavor, one.resource, one.amount) for one in seen.kept] == [
        ("a100", "cpu", 6000), ("a100", "memory", 24 << 30), ("a100", GPU, 12),
    ]  # fmt: skip


def test_a_queue_tells_who_of_those_that_run_in_it_is_degraded():
    asked = told([*nodes("a", "b"), *queues(), *gang("a", lost=["b"], queue="q")])
    found = queue_details(asked.stock().state, "q")

    assert found is not None
    (entry,) = found.running
    assert entry.degraded is not None
    assert (entry.degraded.has, entry.degraded.required) == (1, 2)
    assert [one.used for one in entry.holds if one.resource == GPU] == [16]
    row = next(line for line in plain(draw_details(found, {GPU}, AT)).splitlines() if line.startswith("d/g"))
    assert (
        "16 nvidia.com/gpu (a100), of which 8 nvidia.com/gpu (a100) for successors: 1 of 2 for 2m, restarted whole in 3m"
        in row
    )


@pytest.mark.parametrize("action", ["Restart", "Keep"])
def test_a_gang_that_has_more_than_it_needs_is_not_degraded_by_a_loss(action: str):
    made = gang("a", "c", lost=["b"], onMemberLoss={"action": action})
    made[0]["spec"]["schedulingPolicy"]["gang"]["minCount"] = 2

    assert only(*nodes("a", "b", "c"), *made).degraded is None
