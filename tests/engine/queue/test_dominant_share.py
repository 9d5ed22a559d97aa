"""Dominant resource fairness between the queues of a cohort."""

from __future__ import annotations

import pytest

from tests.engine.world import GPU, World


def world_of(ordering: str, **weights: int) -> World:
    """Queues a and b that own nothing, and a lender of 9 GPUs and 18 cpus."""
    world = World(fairSharing={"enable": True, "ordering": ordering})
    world.flavor()
    for name, gpus, cpus in (("lender", 9, 18), ("a", 0, 0), ("b", 0, 0)):
        quotas = [
            {"name": GPU, "nominalQuota": gpus},
            {"name": "cpu", "nominalQuota": cpus},
            {"name": "memory", "nominalQuota": "900Gi" if gpus else 0},
        ]
        groups = [
            {"coveredResources": [one["name"] for one in quotas], "flavors": [{"name": "default", "resources": quotas}]}
        ]
        spec = {"cohortName": "c", "namespaceSelector": {}, "resourceGroups": groups}
        world.object("ClusterQueue", name, spec | {"fairSharing": {"weight": weights.get(name, 1)}})
        world.object("LocalQueue", name, {"clusterQueue": name})
    world.node("n1", gpus=64)
    return world


@pytest.mark.parametrize("ordering", ["BorrowedShare", "DominantShare"])
def test_dominant_shares_are_made_equal(ordering):
    """Ghodsi et al.: of 9 and 18, who asks for (1, 4) each gets 3 and who asks for (3, 1) gets 2."""
    world = world_of(ordering)
    for number in range(9):
        world.pod(f"a-{number}", queue="a", gpus=1, cpu="4", preempts=False)
        world.pod(f"b-{number}", queue="b", gpus=3, cpu="1", preempts=False)
    world.run()
    assert (len(world.where("a-")), len(world.where("b-"))) == (3, 2)


@pytest.mark.parametrize(("ordering", "first"), [("BorrowedShare", "own-1"), ("DominantShare", "a-1")])
def test_what_is_ones_own_counts_in_the_dominant_share_only(ordering, first):
    """`own` uses 6 GPUs of its own and borrows none; a borrows 1, and each asks for one more that has to be borrowed."""
    world = World(fairSharing={"enable": True, "ordering": ordering})
    world.flavor()
    for name, gpus in (("own", 6), ("a", 0), ("lender", 2)):
        world.queue(name, gpus, cohort="c", local=name)
    world.node("n1", gpus=64)
    world.pod("own-0", queue="own", gpus=6, preempts=False)
    world.pod("a-0", queue="a", gpus=1, preempts=False)
    world.run()
    for name in ("own-1", "a-1"):
        world.pod(name, queue=name.split("-")[0], gpus=1, preempts=False)
    world.run()
    assert [bind.name for bind in world.binds()][2:] == [first]


def test_weights_count_in_the_dominant_share():
    world = world_of("DominantShare", a=2)
    for queue in ("a", "b"):
        for number in range(9):
            world.pod(f"{queue}-{number}", queue=queue, gpus=1, preempts=False)
    world.run()
    assert (len(world.where("a-")), len(world.where("b-"))) == (6, 3)


@pytest.mark.parametrize("ordering", ["BorrowedShare", "DominantShare"])
@pytest.mark.parametrize(("weight", "expected"), [(1, (4, 4)), (3, (6, 2))])
def test_a_flavor_says_what_its_units_count(ordering, weight, expected):
    """Queue a borrows of flavor plain, b of flavor dear, on a node that belongs to both."""
    world = World(fairSharing={"enable": True, "ordering": ordering})
    for name in ("plain", "dear"):
        weights = {"resourceWeights": {GPU: weight}} if name == "dear" else {}
        world.flavor(name, nodeLabels={name: "yes"}, **weights)
    for name, flavors in (("a", ("plain",)), ("b", ("dear",)), ("lender", ("plain", "dear"))):
        world.queue(name, 8 if name == "lender" else 0, cohort="c", flavors=flavors, local=name)
    world.node("n1", gpus=8, labels={"plain": "yes", "dear": "yes"})
    for number in range(8):
        for name in ("a", "b"):
            world.pod(f"{name}-{number}", queue=name, gpus=1, preempts=False)
    world.run()
    assert (len(world.where("a-")), len(world.where("b-"))) == expected
