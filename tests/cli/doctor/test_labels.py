"""Which keys on a pod were meant otherwise, and which are none of ours to say."""

from __future__ import annotations

import pytest

from tutti.cli.doctor.labels import mistaken_keys

OURS = "scheduling.tutti.dev"


@pytest.mark.parametrize(
    ("labels", "annotations", "found"),
    [
        pytest.param([f"{OURS}/pod-group", f"{OURS}/queue-name"], [f"{OURS}/after"], [], id="as they are read"),
        pytest.param(
            [f"{OURS}/podgroup"], [], [(f"label {OURS}/podgroup", f"label {OURS}/pod-group")], id="without a hyphen"
        ),
        pytest.param(
            [f"{OURS}/PodGroups"], [], [(f"label {OURS}/PodGroups", f"label {OURS}/pod-group")], id="as a kind"
        ),
        pytest.param([f"{OURS}/queue"], [], [(f"label {OURS}/queue", f"label {OURS}/queue-name")], id="cut short"),
        pytest.param(
            ["tutti.dev/pod-group"], [], [("label tutti.dev/pod-group", f"label {OURS}/pod-group")], id="another group"
        ),
        pytest.param(
            [],
            [f"{OURS}/pod-group"],
            [(f"annotation {OURS}/pod-group", f"label {OURS}/pod-group")],
            id="an annotation in a label's place",
        ),
        pytest.param(
            [f"{OURS}/after"], [], [(f"label {OURS}/after", f"annotation {OURS}/after")], id="and the other way round"
        ),
        pytest.param(
            [], [f"{OURS}/expected-second"],
            [(f"annotation {OURS}/expected-second", f"annotation {OURS}/expected-seconds")], id="of an annotation",
        ),
        pytest.param(
            [f"{OURS}/pod-group-name"],
            [],
            [(f"label {OURS}/pod-group-name", f"label {OURS}/pod-group")],
            id="with more behind it",
        ),
        pytest.param(
            [f"{OURS}/movable"],
            [f"{OURS}/behavior"],
            [(f"label {OURS}/movable", f"annotation {OURS}/movable"),
             (f"annotation {OURS}/behavior", f"label {OURS}/behaviour")],
            id="of orders and profiles",
        ),
        pytest.param([f"{OURS}/pod-group"], [f"{OURS}/pod-group"], [], id="written in both places"),
        pytest.param([f"{OURS}/podgroup", f"{OURS}/pod-group"], [], [], id="beside the one that is read"),
        pytest.param(["kueue.x-k8s.io/podgroup", "podgroup", "tutti"], [], [], id="of others"),
        pytest.param(["tutti-frutti.io/workloads", "simulate.tutti.dev/queue"], [], [], id="called nearly like us"),
        pytest.param([f"{OURS}/max-exec-time-seconds"], [f"{OURS}/min-member"], [], id="read of who makes pods"),
        pytest.param([f"{OURS}/team", f"{OURS}/shard", f"{OURS}/started"], [f"{OURS}/gang"], [], id="like none"),
        pytest.param([f"{OURS}/{'pod-group' * 1000}"], [], [], id="longer than a key may be"),
    ],
)  # fmt: skip
def test_what_was_meant_by_what_nobody_reads(labels, annotations, found):
    meta = {"name": "p", "labels": dict.fromkeys(labels, "x"), "annotations": dict.fromkeys(annotations, "x")}
    assert list(mistaken_keys({"metadata": meta})) == found


@pytest.mark.parametrize("meta", [{"name": "p"}, {"name": "p", "labels": None, "annotations": None}])
def test_a_pod_on_which_nothing_is_written(meta):
    assert not list(mistaken_keys({"metadata": meta}))
