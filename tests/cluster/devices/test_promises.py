"""A claim has the devices that it was promised first, whoever comes to use it, and they are free after the last."""

from __future__ import annotations

import pytest

from tests.placement.scenes import pod
from tutti.api.devices import Device, ResourceSliceSpec
from tutti.cluster.cluster import Cluster
from tutti.cluster.devices.allotments import ClaimAllotment
from tutti.cluster.devices.asks import ClaimAsk
from tutti.cluster.devices.ledger import DeviceLedger
from tutti.cluster.devices.offers import Pick
from tutti.cluster.devices.pools import NodePool, PoolStatus
from tutti.cluster.devices.promises import DevicePromises
from tutti.cluster.devices.published import read_device

POOL = ("gpu.example.com", "n0")
CLAIM = ("default", "c")


class Scene:
    """A node with two devices, and pods that name one claim."""

    def __init__(self) -> None:
        devices = [read_device(Device(name), ResourceSliceSpec(node_name="n0")) for name in ("g0", "g1")]
        self.pool = NodePool(POOL, PoolStatus.COMPLETE, tuple(devices))
        self.ledger = DeviceLedger()
        self.promises = DevicePromises(self.ledger)
        self.cluster = Cluster()

    def place(self, name: str, device: int) -> tuple[str, str]:
        """Promise a pod a device for the claim, chosen as if nobody else used it; returns the pod."""
        claims = [{"name": "d", "resourceClaimName": "c"}]
        record = self.cluster.put_pod(pod(name, resourceClaims=claims), keep=True)
        assert record is not None
        record.assumed = "n0"
        allotment = ClaimAllotment(ClaimAsk("d"), "n0", [Pick(0, 0, 0, 0, device, None, admin=False)], [self.pool])
        self.ledger.take(allotment.held)
        self.promises.earmark(b"class", ["n0"], [(allotment,)], ())
        self.promises.pledge([record], b"class", {})
        return record.key


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("first_goes_first", [False, True])
def test_who_comes_to_a_promised_claim_with_devices_of_its_own_has_those_of_the_claim(shared, first_goes_first):
    scene = Scene()
    first = scene.place("p", 0)
    if shared:
        assert scene.promises.shared("default/c") is not None
    second = scene.place("q", 1)

    promise = scene.promises.of(CLAIM)
    assert promise is not None
    assert promise.pods == (first, second)
    assert scene.ledger.held_of(POOL) == ["g0"]

    one, other = (first, second) if first_goes_first else (second, first)
    assert not scene.promises.release(one)
    assert scene.ledger.held_of(POOL) == ["g0"]
    assert scene.promises.release(other) == [promise]
    assert not scene.ledger.pools()
    assert scene.promises.shared("default/c") is None
