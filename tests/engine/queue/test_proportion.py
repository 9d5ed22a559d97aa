"""Volcano's proportion between the queues of a cohort."""

from __future__ import annotations

import pytest

from tests.engine.world import World


def world_of(ordering: str, gpus: int, **weights: int) -> World:
    """Queues that own nothing, and a lender."""
    world = World(fairSharing={"enable": True, "ordering": ordering})
    world.flavor()
    world.queue("lender", gpus, cohort="c", local="lender")
    for name, weight in weights.items():
        world.queue(name, 0, cohort="c", local=name, fairSharing={"weight": weight})
    world.node("n1", gpus=64)
    return world


def test_a_queue_has_all_while_the_other_is_idle_and_its_part_once_it_is_not():
    world = world_of("Proportion", 8, a=1, b=3)
    for number in range(20):
        world.pod(f"a-{number}", queue="a", preempts=False)
    world.run()
    assert (world.used("a"), world.used("b")) == (8, 0)
    for number in range(20):
        world.pod(f"b-{number}", queue="b", preempts=False)
    world.run()
    assert (world.used("a"), world.used("b")) == (8, 0)
    seen = []
    for _ in range(8):
        finished = next(name for name in world.where("a-") if world.pods["default", name].status.phase != "Succeeded")
        world.finish(finished)
        world.run()
        seen.append((world.used("a"), world.used("b")))
    assert seen == [(7, 1), (6, 2), (5, 3), (4, 4), (3, 5), (2, 6), (2, 6), (2, 6)]


@pytest.mark.parametrize(("ordering", "first"), [("DominantShare", "little"), ("Proportion", "much")])
def test_who_asks_for_little_deserves_no_more_than_that(ordering, first):
    """Of 4, `little` deserves the 1 that it asks for and `much` 3, whatever the weights: 1 of 1 is more than 1 of 3."""
    world = world_of(ordering, 4, little=3, much=1)
    world.pod("little-0", queue="little", preempts=False)
    for number in range(9):
        world.pod(f"much-{number}", queue="much", preempts=False)
    world.run()
    assert next(bind.name.split("-")[0] for bind in world.binds()) == first
    assert (world.used("little"), world.used("much")) == (1, 3)


def test_those_who_left_the_line_are_deserved_for_no_more():
    """With 6 of b's pods deleted, b asks for 2 and a deserves 6: what a has is 5 of 6, and what b has 1 of 2."""
    world = world_of("Proportion", 0, a=1, b=1)
    for number in range(8):
        world.pod(f"a-{number}", queue="a", preempts=False)
        world.pod(f"b-{number}", queue="b", preempts=False)
    world.run()
    world.delete(*(f"b-{number}" for number in range(6)))
    world.queue("lender", 8, cohort="c", local="lender")
    world.run()
    order = "".join(bind.name[0] for bind in world.binds())
    assert order == "aaabaaab"
