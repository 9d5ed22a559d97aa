"""What the comparison with the floor tells is worked out of its rounds as it says."""

from __future__ import annotations

import msgspec
import pytest

from bench.drain import Drain, Lot, Seen, percentile, told
from tutti.kube.fetching import PodNow
from tutti.kube.store import ObjectKey, Upsert


def bound(name, node="n"):
    pod = msgspec.json.decode(
        msgspec.json.encode({"metadata": {"name": name}, "spec": {"nodeName": node} if node else {}}), type=PodNow
    )
    return Upsert(ObjectKey("drained", name), "", pod)


def test_shares_are_the_medians_of_the_rounds_own_ratios():
    floor = [Drain(100, 0.2, (), ()), Drain(1000, 0.4, (), ()), Drain(10, 0.1, (), ())]
    ours = [Drain(90, 0.3, (), ()), Drain(500, 0.4, (), ()), Drain(20, 0.1, (), ())]
    said = told(1, {"floor": floor, "tutti": ours})
    assert said["tutti"] == {"pods_per_s": 90, "cpu_ms_per_pod": 0.3, "share_of_floor": 0.9, "cpu_of_floor": 1.0}
    assert said["floor"]["share_of_floor"] == 1.0


def test_spreads_and_latencies_of_all_rounds_are_put_together():
    drains = [Drain(1, 1, (0.1, 0.2), (0.01,)), Drain(1, 1, (0.3,), (0.02,))]
    said = told(10, {"floor": drains})["floor"]
    assert (said["spread_p50_ms"], said["spread_p99_ms"]) == (200, 300)
    assert (said["latency_p50_ms"], said["latency_p99_ms"]) == (20.0, 20.0)


@pytest.mark.parametrize(("share", "found"), [(0.0, 1), (0.5, 3), (0.99, 4), (1.0, 4)])
def test_a_percentile_is_one_of_the_values(share, found):
    assert percentile([4, 1, 3, 2], share) == found


def test_a_gang_is_all_pods_of_one_number_and_names_its_size():
    lot = Lot("r0", 5, 2, 0)
    pods = [(name, msgspec.json.decode(body)["metadata"].get("annotations")) for name, body in lot.bodies("tutti")]
    assert [name for name, _ in pods] == ["r0-0-0", "r0-0-1", "r0-1-0", "r0-1-1", "r0-2-0"]
    assert pods[2][1] == {
        "gang-scheduling.preferred.jp/gang-name": "r0-1", "gang-scheduling.preferred.jp/gang-size": "2",
    }  # fmt: skip


def test_only_bound_pods_of_the_lot_count_and_each_once():
    seen = Seen(Lot("r0", 2, 2, 0))
    seen.deliver([bound("r0-0-0"), bound("first-floor-1-0-0"), bound("r0-0-1", node="")])
    first = dict(seen.bound)
    seen.deliver([bound("r0-0-0")])
    assert seen.bound == first
    assert not seen.all.is_set()
    seen.deliver([bound("r0-0-1")])
    assert seen.all.is_set()
    assert len(seen.spreads) == 1
