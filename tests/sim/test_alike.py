"""Pods like one that was seen before are read, checked and accounted for as if they were the first."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_sim.kinds import alike
from tutti_sim.kinds.alike import PodCodec
from tutti_sim.kinds.decode import DecodeError, Notes
from tutti_sim.kinds.poddefaults import default_pod
from tutti_sim.kinds.podrules import check_spec
from tutti_sim.kinds.pods import PodStrategy, quality_of_service
from tutti_sim.kinds.resource import BuiltinCodec
from tutti_sim.patch import managed


class PlainCodec(BuiltinCodec):
    """Reads each pod field by field."""

    def decode(self, body: dict[str, Any], notes: Notes) -> dict[str, Any]:
        """A fresh pod with its defaults."""
        pod = super().decode(body, notes)
        default_pod(pod.setdefault("spec", {}))
        return pod


PLAIN = PlainCodec("Pod")
SIZES = {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"nvidia.com/gpu": 1}}

values: st.SearchStrategy[Any] = st.sampled_from(["0", "rank-7", "", "x", 'ü\n"', None, 3, ["a"]])
variables = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["RANK", "SIZE", ""]),
        "value": values,
        "valueFrom": st.sampled_from([{"fieldRef": {"fieldPath": "metadata.name"}}, {"fieldRef": {}}, None]),
        "unheard": st.just(1),
    },
)
containers = st.fixed_dictionaries(
    {"name": st.sampled_from(["worker", "sidecar", "Bad Name", ""])},
    optional={
        "image": st.just("train:1"),
        "env": st.one_of(st.lists(st.one_of(variables, st.none()), max_size=3), st.none(), st.just("no list")),
        "resources": st.sampled_from([SIZES, {}, {"requests": {"cpu": "many"}}]),
        "ports": st.just([{"containerPort": 80}]),
    },
)
specifications = st.fixed_dictionaries(
    {"containers": st.lists(st.one_of(containers, st.none()), max_size=2)},
    optional={
        "initContainers": st.one_of(st.lists(containers, max_size=1), st.none()),
        "nodeName": st.one_of(values, st.just("node-1")),
        "hostname": st.one_of(values, st.just("w-0")),
        "restartPolicy": st.sampled_from(["Never", "Sometimes", None]),
        "tolerations": st.just([{"operator": "Exists"}]),
        "unheard": st.just({}),
    },
)


def read(codec: BuiltinCodec, pod: dict[str, Any]) -> tuple[bytes, list[str]]:
    """A pod as it is read, or what is said against it; and what was noted."""
    notes = Notes()
    try:
        return msgspec.json.encode(codec.decode(pod, notes)), notes.unknown
    except DecodeError as error:
        return str(error).encode(), []


@given(spec=specifications)
def test_a_pod_is_read_to_the_letter_as_without_patterns(spec: dict[str, Any]) -> None:
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a", "labels": {"l": "v"}}, "spec": spec}
    assert read(PodCodec(), pod) == read(PLAIN, pod)


@given(spec=specifications)
def test_what_is_sound_by_its_pattern_has_no_fault(spec: dict[str, Any]) -> None:
    body, _ = read(PLAIN, {"spec": spec})
    if not body.startswith(b"{"):
        return
    obj = msgspec.json.decode(body)
    strategy = PodStrategy()
    known = strategy.pattern(obj)
    assert alike.is_sound(known) == (not check_spec(obj["spec"], "spec"))
    assert strategy.validate_new(obj, known) == strategy.validate(obj)


@given(spec=specifications)
def test_fields_are_accounted_for_as_without_patterns(spec: dict[str, Any]) -> None:
    pod = {"metadata": {"labels": {"l": "v"}}, "spec": spec}
    body, _ = read(PLAIN, pod)
    if not body.startswith(b"{"):
        return
    accounts = []
    notes = Notes()
    PodCodec().decode(pod, notes)
    for known in (b"", alike.pattern(msgspec.json.decode(body)["spec"]), notes.pattern):
        obj = msgspec.json.decode(body)
        managed.on_create(obj, PLAIN.shape, manager="m", api_version="v1", keeps_status=False, pattern=known)
        accounts.append(msgspec.json.encode(obj["metadata"]["managedFields"][0]["fieldsV1"]))
    assert accounts == [accounts[0]] * 3


texts = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3)
metadata = st.fixed_dictionaries(
    {"name": st.just("p")},
    optional={
        "labels": texts,
        "annotations": texts,
        "generateName": st.just("p-"),
        "finalizers": st.lists(st.sampled_from(["a/b", "c/d"]), min_size=1, unique=True),
    },
)


@given(meta=metadata)
def test_fields_of_metadata_are_those_of_its_tree(meta: dict[str, Any]) -> None:
    obj = {"metadata": dict(meta), "spec": {"hostname": "h"}}
    own = {name: value for name, value in meta.items() if name != "name"}
    expected = {"f:metadata": managed.tree(own, PLAIN.shape.field("metadata"), blank=True)} if own else {}

    managed.on_create(obj, PLAIN.shape, manager="m", api_version="v1", keeps_status=False)

    assert obj["metadata"]["managedFields"][0]["fieldsV1"] == {**expected, "f:spec": {"f:hostname": {}}}


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi", "gpu": "1"}, "Guaranteed"),
        ({"cpu": "1", "memory": "1Gi", "gpu": "2"}, {"cpu": "1", "memory": "1Gi", "gpu": "1"}, "Guaranteed"),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1"}, "Burstable"),
        ({"cpu": "1"}, {"cpu": "1"}, "Burstable"),
        ({}, {"memory": "1Gi"}, "Burstable"),
        ({"cpu": "0"}, {}, "BestEffort"),
        ({}, {"gpu": "1"}, "BestEffort"),
        ({}, {}, "BestEffort"),
    ],
)
def test_quality_of_service_looks_at_processor_and_memory(
    limits: dict[str, str], requests: dict[str, str], expected: str
) -> None:
    """The rules of apis/core/helper/qos; of a second container that says nothing no pod is Guaranteed."""
    one = {"resources": {"limits": limits, "requests": requests}}

    assert quality_of_service({"containers": [one]}) == expected
    both = quality_of_service({"containers": [one, {"resources": {}}]})
    assert both == ("BestEffort" if expected == "BestEffort" else "Burstable")


def test_pods_of_a_gang_share_a_pattern_and_keep_what_is_their_own() -> None:
    def pod(rank: str) -> dict[str, Any]:
        worker = {"name": "worker", "image": "train:1", "env": [{"name": "RANK", "value": rank}], "resources": SIZES}
        return {"spec": {"containers": [worker], "hostname": f"w-{rank}", "nodeName": f"n-{rank}"}}

    assert alike.pattern(pod("1")["spec"]) == alike.pattern(pod("2")["spec"]) != b""
    for rank in ("1", "2"):
        found = PodCodec().decode(pod(rank), Notes())["spec"]
        assert found["containers"][0]["env"] == [{"name": "RANK", "value": rank}]
        assert (found["hostname"], found["nodeName"]) == (f"w-{rank}", f"n-{rank}")
        found["containers"][0]["resources"]["requests"]["cpu"] = "9"  # admission may change what was read


def test_the_order_of_what_is_given_is_kept() -> None:
    spec = {"hostname": "h", "containers": [{"env": [{"value": "1", "name": "A"}], "name": "c"}], "nodeName": "n"}
    pod = {"spec": spec, "metadata": {"name": "a"}}
    found = PodCodec().decode(pod, Notes())
    assert list(found) == ["spec", "metadata"]
    assert list(found["spec"])[:3] == ["hostname", "containers", "nodeName"]
    assert found["spec"]["containers"][0]["env"] == [{"value": "1", "name": "A"}]
    assert list(found["spec"]["containers"][0])[:2] == ["env", "name"]


@pytest.mark.parametrize("spec", [None, [], "text", {"a": {1, 2}, None: 1}, {"containers": [], "x": "y" * (1 << 14)}])
def test_what_is_no_json_object_or_long_has_no_pattern(spec: Any) -> None:
    assert alike.pattern(spec) == b""
    assert not alike.is_sound(b"")
