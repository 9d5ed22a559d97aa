"""Objects that own thousands of others, and of which something changes all the time."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.engine.ingest.owners import template
from tests.engine.world import World
from tutti.api.core import OwnerReference
from tutti.engine.ingest import managed_owners

JOBS = 30


@pytest.mark.parametrize(("said", "read"), [("annotations", 0), ("labels", JOBS)])
def test_what_is_suspended_below_an_object_is_read_anew_only_where_that_says_something_else(
    said: str, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever annotated a Deployment that his suspended Jobs name as their owner had all of them read: 0.3 ms for each."""
    filed, file = Counter[str](), managed_owners._file

    def counted(*asked: object) -> None:
        filed["times"] += 1
        file(*asked)

    world = World()
    world.node("n1")
    world.flavor()
    world.queue("cq", 8, manage="Suspend")
    world.follow_owners()

    def parent(**texts: dict[str, str]) -> OwnerReference:
        return world.owner("Deployment", "parent", spec={"replicas": 1}, **texts)

    above = parent()
    template_of_ours = {"spec": {"schedulerName": "tutti", **template(100)["spec"]}}
    for number in range(JOBS):
        world.owner(
            "Job",
            f"job-{number}",
            controller=above,
            labels={"kueue.x-k8s.io/queue-name": "queue"},
            spec={"suspend": True, "parallelism": 1, "completions": 1, "template": template_of_ours},
        )
    world.run()
    assert len(world.engine.state.held_owners) == JOBS
    monkeypatch.setattr(managed_owners, "_file", counted)
    parent(**{said: {"scheduling.tutti.dev/queue-name" if said == "labels" else "made-up": "queue"}})
    world.run()
    assert filed["times"] == read
