"""A template is cut down to what is read of it; what is wrong with it is told as before."""

from __future__ import annotations

import json
import tracemalloc

import msgspec
import pytest

from tests.engine.world import World
from tutti.api.core import PodSpec
from tutti.api.templates import MOST_BYTES, TOO_LARGE, prune_workload, pruned
from tutti.controller.watch_list import WATCH_LIST
from tutti.kube.decoding import Reader

WHOLE = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "junk": {}},
    "spec": {
        "restartPolicy": "Never",
        "dnsPolicy": "Default",
        "nodeSelector": {"zone": "z1"},
        "priorityClassName": "high",
        "overhead": {"cpu": 1},
        "tolerations": [{"key": "a", "operator": "Exists", "junk": {}}],
        "containers": [{"name": "c", "image": "x", "env": [{}] * 9, "resources": {"requests": {"cpu": "2"}}}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}],
                    "junk": {},
                }
            }
        },
    },
    "status": {},
}


def test_what_is_read_of_a_template_stays_and_nothing_else():
    kept = pruned(WHOLE)
    assert set(kept) == {"metadata", "spec"}
    assert kept["metadata"] == {"labels": {"a": "b"}}
    assert "dnsPolicy" not in kept["spec"]
    assert "env" not in kept["spec"]["containers"][0]
    assert "junk" not in json.dumps(kept)
    assert msgspec.convert(kept["spec"], PodSpec) == msgspec.convert(WHOLE["spec"], PodSpec)


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": "x"},
        {"containers": {"a": {"b": {}}}},
        {"containers": [[{}]]},
        {"nodeSelector": {"a": {"b": "c"}}},
        {"nodeSelector": [1]},
        {"containers": [{"resources": {"requests": {"cpu": [["1"]]}}}]},
        {"affinity": 7},
        [],
    ],
)
def test_what_is_not_as_it_should_be_is_still_refused_where_it_was(spec):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(spec, PodSpec)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(pruned({"spec": spec})["spec"], PodSpec)


@pytest.mark.parametrize(
    "raw",
    [None, [], {}, {"spec": None}, {"spec": {"podGroups": {}}}, {"spec": {"podGroups": [None, {"template": []}]}}],
)
def test_what_is_no_workload_is_left_as_it_is(raw):
    before = json.dumps(raw)
    assert json.dumps(prune_workload(raw)) == before


def workload(template):
    groups = [{"name": "x", "count": 2, "template": template}]
    metadata = {"name": "w", "namespace": "default", "uid": "u", "resourceVersion": "1", "generation": 1}
    return {"metadata": metadata, "spec": {"podGroups": groups}, "status": {}}


@pytest.mark.parametrize(
    "junk",
    [
        {"spec": {"containers": [{"name": "c"}]}, "junk": {f"k{number:05d}": {} for number in range(75_000)}},
        {"spec": {"containers": [{}] * 300_000}},
        {"spec": {"nodeSelector": {f"k{number:05d}": {} for number in range(75_000)}}},
        {"metadata": {"annotations": {f"k{number:05d}": "v" for number in range(60_000)}}},
    ],
)
def test_a_megabyte_of_small_things_takes_no_more_memory_than_a_template_may(junk):
    stream = next(one for one in WATCH_LIST if one.kind == "Workload")
    line = msgspec.json.encode({"type": "ADDED", "object": workload(junk)})
    reader = Reader(stream.view, stream.trim)
    tracemalloc.start()
    kept = reader.read(reader.event(line)[1])
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept["metadata"]["name"] == "w"
    assert after < 8 * MOST_BYTES


def test_a_template_that_is_too_large_is_told_how_large():
    world = World()
    world.node("n0")
    raw = workload({"spec": {"containers": [{"name": "c" * 70_000}]}})
    world.put_object("Workload", prune_workload(raw))
    world.pod("p")
    world.run()
    assert raw["spec"]["podGroups"][0]["template"].keys() == {TOO_LARGE}
    why = world.why("Workload", "w")
    assert why.reason == "InvalidTemplate"
    assert "65536 is the most that is kept" in why.message
    assert set(world.where()) == {"p"}
