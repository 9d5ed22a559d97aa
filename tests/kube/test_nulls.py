"""What Go writes as null is read as left out, in every field of every view; what cannot be read has changed all the same."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from copy import deepcopy
from datetime import datetime
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from tests.engine.world import World
from tutti.api.core import Node
from tutti.controller.watch_list import WATCH_LIST
from tutti.engine.records.observations import NodeSeen, ObjectUnread
from tutti.kube.decoding import DEEPEST, Reader, cut_depth, object_decoder
from tutti.kube.metrics import WireMetrics
from tutti.kube.resources import NODES
from tutti.kube.store import Deletion, ObjectStore, Unreadable, Upsert

VIEWS = {stream.kind: stream.view for stream in WATCH_LIST if stream.view != dict[str, Any]}
IDENTITY = {("metadata",)} | {("metadata", name) for name in ("name", "namespace", "uid", "resourceVersion")}
"""What Go never writes as null, and an object is known by."""

ENTRY = "entry of a map"


def sample(kind: Any) -> Any:
    """An object of a view in which nothing is left out."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return sample(next(one for one in get_args(kind) if one is not type(None)))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind)
        return {one.encode_name: sample(hints[one.name]) for one in msgspec.structs.fields(kind)}
    if origin is list or kind is list:
        return [sample((get_args(kind) or (str,))[0])]
    if origin is tuple:
        return [sample(get_args(kind)[0])]
    if origin is dict:
        return {ENTRY: sample(get_args(kind)[1])}
    plain: dict[Any, Any] = {str: "1", int: 1, float: 1, bool: True, datetime: "2026-01-01T00:00:00Z", Any: "1"}
    return plain[kind]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field of an object, however deep."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*at, key)
            yield from places(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*at, index))


def parent(value: Any, at: tuple[Any, ...]) -> Any:
    for step in at[:-1]:
        value = value[step]
    return value


@pytest.mark.parametrize("kind", VIEWS)
def test_null_in_any_field_of_any_view_is_read_as_left_out(kind):
    whole = sample(VIEWS[kind])
    fields = [at for at in places(whole) if at not in IDENTITY and at[-1] != ENTRY]
    assert fields
    reader, read = Reader(VIEWS[kind]), msgspec.json.Decoder(VIEWS[kind]).decode
    for at in fields:
        null, without = deepcopy(whole), deepcopy(whole)
        parent(null, at)[at[-1]] = None
        del parent(without, at)[at[-1]]
        line = json.dumps({"type": "ADDED", "object": null}).encode()
        try:
            items = [reader.event(line)[1], reader.item(msgspec.Raw(json.dumps(null).encode()))]
            found = [reader.read(item) for item in items]
        except ValueError as error:
            raise AssertionError(f"{kind}: null at {at}") from error
        assert found == [read(json.dumps(without).encode())] * 2, at
        assert [item[0].name for item in items] == ["1", "1"], at


FROM_KUBELETS = [
    # kubernetes-client/python, issue 895; Kubernetes 1.36, core/v1 ContainerImage and storage/v1 CSINodeSpec
    ("Node", {"status": {"images": [{"names": None, "sizeBytes": 3}, {"names": ["a"]}], "conditions": None}}),
    ("Node", {"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": None}]}}),
    ("CSINode", {"spec": {"drivers": None}}),
    ("CSINode", {"spec": {"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": None, "allocatable": None}]}}),
    (
        "Pod",
        {"metadata": {"creationTimestamp": None}, "status": {"conditions": [{"type": "x", "lastProbeTime": None}]}},
    ),
]


@pytest.mark.parametrize(("kind", "said"), FROM_KUBELETS)
def test_what_kubelets_write_is_read(kind, said):
    obj = {**said, "metadata": {**said.get("metadata", {}), "name": "n1", "uid": "u", "resourceVersion": "1"}}
    _, item = Reader(VIEWS[kind]).event(json.dumps({"type": "MODIFIED", "object": obj}).encode())
    assert Reader(VIEWS[kind]).read(item).metadata.name == "n1"


def node(version: int, **said: Any) -> bytes:
    meta = {"name": "n1", "uid": "u", "resourceVersion": str(version)}
    return json.dumps({"type": "MODIFIED", "object": {"metadata": meta, **said}}).encode()


def test_an_object_that_can_no_longer_be_read_has_changed():
    told: list[Any] = []
    mirror = ObjectStore(NODES, WireMetrics(CollectorRegistry()), view=Node, deliver=told.extend, unread=told.append)
    mirror.take_lines([node(1), node(2, spec={"unschedulable": "perhaps"}), node(3)])
    assert [type(one) for one in told] == [Upsert, Unreadable, Upsert]
    assert (told[1].key.name, told[1].uid) == ("n1", "u")
    assert "Expected `bool`" in told[1].problem
    mirror.begin_list()
    mirror.end_list("9")
    assert isinstance(told[-1], Deletion)


def test_a_node_that_can_no_longer_be_read_takes_no_new_pods_until_it_can():
    world = World()
    world.node("n1")
    world.pod("runs")
    world.run()
    world.tell(ObjectUnread("Node", "", "n1", "spec.unschedulable: Expected `bool`, got `str`"))
    world.tell(ObjectUnread("Node", "", "never-seen", "nothing of it can be read"))
    world.pod("waits")
    world.run()
    assert set(world.where()) == {"runs"}
    assert "node(s) were unschedulable" in world.why("Pod", "waits").message
    assert "cannot be read: spec.unschedulable" in world.engine.state.cluster.unreadable["n1"]
    world.tell(NodeSeen(world.nodes["n1"]))
    world.run()
    assert set(world.where()) == {"runs", "waits"}
    assert not world.replay().differences


@pytest.mark.parametrize("depth", [5, DEEPEST - 5, DEEPEST + 50, 5_000, 9_999])
def test_what_is_nested_without_end_is_cut_and_the_rest_is_read(depth):
    deep = "[" * depth + '"]"' + "]" * depth
    meta = {"name": "w", "uid": "u"}
    text = json.dumps({"metadata": meta, "spec": {"junk": 7, "queueName": "q", "more": [{}]}}).replace("7", deep)
    line = f'{{"type":"ADDED","object":{text}}}'.encode()
    free = Reader(dict[str, Any])
    for item in (free.event(line)[1], free.item(msgspec.Raw(text.encode()))):
        found = free.read(item)
        assert (item[0].name, found["spec"]["queueName"], found["spec"]["more"]) == ("w", "q", [{}])
        msgspec.json.encode(found)
    assert Reader(Node).read(Reader(Node).event(line)[1]).metadata.name == "w"
    assert object_decoder(Node)(text.encode()).metadata.name == "w"


@pytest.mark.parametrize("text", [b'{"a": "\\"', b'"\\', b"[" * 300, b"]" * 300, b'{"a' + b"[{" * 200])
def test_what_is_no_json_is_cut_as_well(text):
    assert len(cut_depth(text)) <= len(text) + 4


def test_who_wrote_which_field_is_not_kept():
    meta = {"name": "w", "uid": "u", "labels": {"a": "b"}}
    text = json.dumps({"metadata": {**meta, "managedFields": [{"fieldsV1": {"f:spec": {}}}]}, "spec": {}}).encode()
    assert object_decoder(dict[str, Any])(text) == {"metadata": meta, "spec": {}}
