"""A whole operator beside objects of all kinds that are made to stop it: it lives, says so, and places honest pods."""

from __future__ import annotations

import random

from tests.hostile.cases import sweep
from tests.hostile.whole import besieged

AT_ONCE = 100
OBJECTS = 400


async def test_honest_pods_are_placed_beside_hostile_objects_of_every_kind(tmp_path):
    cases = random.Random(1).sample(list(sweep(1, seed=3)), OBJECTS)
    async with besieged(tmp_path) as siege:
        for at in range(0, OBJECTS, AT_ONCE):
            await siege.send(cases[at : at + AT_ONCE])
            await siege.check()
        assert siege.set_aside() == []
        assert siege.taken > OBJECTS / 4
        assert siege.stored > OBJECTS / 4
        siege.clear()
        await siege.check()
