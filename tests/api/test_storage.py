"""Objects of storage as real components write them."""

from __future__ import annotations

import msgspec

from tutti.api.storage import CSINode


def test_a_node_that_no_driver_has_registered_on_has_no_limits():
    """What kubelet 1.36 writes there is null (k8s.io/api storage/v1, CSINodeSpec.Drivers has no omitempty)."""
    found = msgspec.json.decode(b'{"metadata":{"name":"node-0"},"spec":{"drivers":null}}', type=CSINode)
    assert found.limits == {}
