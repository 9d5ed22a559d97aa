"""Absurd words of one tenant about orders, users, speed, data, behaviour and the network harm nobody but himself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.admission.test_throttling import throttle
from tests.engine.world import GPU, World
from tutti.api.conventions.flavor_seconds import FLAVOR_SECONDS
from tutti.api.conventions.order_annotations import EXPECTED_SECONDS, PROGRESS, USER
from tutti.api.conventions.speed_by_members import SPEED_BY_MEMBERS
from tutti.api.interference import BEHAVIOUR_LABEL
from tutti.api.network import GROUP_LABEL, WORKLOAD_LABEL

ABSURD = (
    "", " ", "nan", "-1", "1e308", "9" * 400, "x" * 100_000, "\x00", "\u202ecba", "🦄=🦄", "=", ",,,,", "a=b=c", "1=1,1=1",
    "[" * 5000, '{"dataset": null}', '[{"dataset": "d", "gib": -1}]', '[{"hosts": ["n1"], "gib": 1e999}]', "null",
    "default=1", "default=0", "default=99999999999", "parallel=1", "parallel=1e9", "1=1," * 400, "n1",
)  # fmt: skip
ANNOTATIONS = (
    FLAVOR_SECONDS, EXPECTED_SECONDS, PROGRESS, USER, SPEED_BY_MEMBERS, "scheduling.tutti.dev/data",
    "scheduling.tutti.dev/after",
)  # fmt: skip
LABELS = (BEHAVIOUR_LABEL, GROUP_LABEL, WORKLOAD_LABEL)
HONEST = {FLAVOR_SECONDS: "default=60", EXPECTED_SECONDS: "60", USER: "anna", SPEED_BY_MEMBERS: "1=1,2=1.5"}


def everything() -> World:
    """A queue that goes by all that tenants may say of themselves, and another one's beside it."""
    slowdowns = [{"of": "noisy", "beside": "quiet", "percent": 50}]
    profile = {"interference": {"slowdowns": slowdowns, "maxSlowdownPercent": 20}, "dataLocality": {"weight": 100}}
    world = World(
        namespaces=("default", "other"),
        users={"by": "Annotation"},
        throttles={"name": "kube-throttler"},
        network={},
        profiles=[profile],
    )
    for name in ("n1", "n2"):
        world.node(name, gpus=4)
    world.flavor()
    shared: dict[str, Any] = {
        "ordering": {"factors": [{"factor": "Shortest"}, {"factor": "Progress"}], "maxWaitSeconds": 3600},
        "userLimits": [{"users": ["*"], "resources": {GPU: 3}}],
        "flavorFungibility": {"preference": "EarliestFinish"},
        "surplusOrder": "BySpeed",
    }
    world.queue("mine", 4, **shared)
    world.queue("theirs", 4, local="queue", namespace="other", **shared)
    world.throttle("Throttle", throttle(1000))
    return world


@pytest.mark.parametrize("said", ABSURD, ids=range(len(ABSURD)))
@pytest.mark.parametrize("where", ["annotations", "labels", "object"])
def test_others_start_and_nobody_has_more_than_he_may(where: str, said: str) -> None:
    world = everything()
    words = (
        {"annotations": dict.fromkeys(ANNOTATIONS, said)}
        if where != "labels"
        else {"labels": dict.fromkeys(LABELS, said)}
    )
    world.pod_group("liar", 1, queueName="queue")
    if where == "object":
        world.objects["PodGroup", "default", "liar"]["metadata"]["annotations"] = dict.fromkeys(ANNOTATIONS, said)
        world.restart()
    for rank in range(6):
        world.pod(f"liar-{rank}", group="liar", **(words if where != "object" else {}))
    world.pod("single", queue="queue", **words)
    world.pod_group("honest", 2, "other", queueName="queue")
    for rank in range(2):
        world.pod(f"honest-{rank}", group="honest", namespace="other", annotations=HONEST)
    world.run()

    # another's quota is whole, and his gang has started; the liar has no more than one user may
    assert sum(bool(world.pods["other", f"honest-{rank}"].spec.node_name) for rank in range(2)) == 2
    ours = [pod for (space, _), pod in world.pods.items() if space == "default" and pod.spec.node_name]
    assert len(ours) <= 3
    world.restart()
    world.run()
    assert [pod for (space, _), pod in world.pods.items() if space == "default" and pod.spec.node_name] == ours


@pytest.mark.parametrize("said", ["1=1,2=2,8=8", "parallel=1", ""])
def test_who_lies_about_his_speed_takes_no_minimum_from_others(said: str) -> None:
    """What docs/howto/elastic.md says: surplus of his own queue, before others of his priority, and no more."""
    world = World()
    world.node("n1", gpus=4)
    world.flavor()
    world.queue("cq", 4, surplusOrder="BySpeed")
    world.gang("liar", 8, min_count=1, queue="queue", annotations={SPEED_BY_MEMBERS: said} if said else {})
    world.gang("a", 2, min_count=2, queue="queue")
    world.gang("b", 1, queue="queue")
    world.run()
    assert (len(world.where("liar")), len(world.where("a")), len(world.where("b"))) == (1, 2, 1)
