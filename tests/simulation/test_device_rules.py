"""Each thing that must hold of devices in the simulation is missed where it does not: something breaks it, and it is told.

`test_mutations.py` asks whether a breakage shows at all; this, whether each rule about devices is looked after by itself.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.devices import DRIVER, GROUP
from tests.simulation.run import play
from tests.simulation.scenario import drawn
from tests.simulation.steps import Scenario
from tests.simulation.stories import cluster, devices, gang, story
from tests.simulation.test_mutations import BREAKAGES, SHARED
from tests.simulation.world import World


@pytest.mark.parametrize(
    ("said", "breakage", "scenarios"),
    [
        ("has no devices", "pods are bound before their claims have devices", [SHARED, drawn(15)]),
        ("which several claims have", "devices that claims have are free", [drawn(8)]),
        (" was bound to n", "who comes to share a claim chooses for himself", [SHARED]),
        ("is not reserved for it", "the claim of a group is noted as its pods'", [*map(drawn, range(1, 30))]),
    ],
    ids=[
        "no bound pod without its allocation",
        "no device twice",
        "where its devices are",
        "no user that is not noted",
    ],
)
def test_what_must_hold_of_devices_is_missed(
    monkeypatch: pytest.MonkeyPatch, said: str, breakage: str, scenarios: list[Scenario]
):
    BREAKAGES[breakage](monkeypatch)
    assert any(said in violation for one in scenarios for violation in play(one).violations)


def allocates(*users: str) -> Callable[[World], None]:
    """Have somebody give the claim `one` a device and note pods as its users, that need not exist."""

    def write(world: World) -> None:
        claims = world.server.resource(*GROUP, "resourceclaims")
        claim = world.server.backend.collection(claims).get("default", "one")
        assert claim is not None
        result = {"request": "r", "driver": DRIVER, "pool": "n0", "device": "gpu-0"}
        noted = [{"resource": "pods", "name": name, "uid": f"uid-of-{name}"} for name in users]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": noted}
        world.server.user.set_status(claims, claim, status)

    def prepare(world: World) -> None:
        world.loop.call_at(5.0, write, world)

    return prepare


@pytest.mark.parametrize(
    ("users", "said"), [((), ["claim one"]), (("gone",), [])], ids=["nobody is noted", "who is noted is gone"]
)
def test_no_allocation_is_left_that_nobody_uses(users: tuple[str, ...], said: list[str]):
    """What somebody is noted for who is gone the claim controller takes off; what nobody is noted for stays, and is told."""
    scenario = story(cluster(), devices(shared="one"), gang("g", 1, gpus=0), heal_at=10)
    left = [
        one for one in play(scenario, prepare=allocates(*users)).violations if "has devices that nobody uses" in one
    ]
    assert [one.rpartition(": ")[2] for one in left] == said
