"""Pods of one class are decided on alike: whatever a filter or score reads tells classes apart.

Pods differ in any field of the spec that is read at all, found by the types themselves, so that a field that is added
tomorrow is tried too. What is compared is every plugin's answer to the pod as it was written, before a class has left
anything out.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from tests.drawing import examples
from tests.placement.scenes import KEYS, LABELS, ZONES, clusters, pod, specs
from tests.placement.single_decision import decide
from tutti.api.core import ContainerImage, ContainerPort, ObjectMeta, OwnerReference, Pod, PodSpec
from tutti.api.owners import owner_of
from tutti.cluster.class_book import _new_class, _Traits
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster

TYPES = inspect.type_info(PodSpec)
POOLS: dict[str, list[Any]] = {
    "topology_key": KEYS,
    "key": ["k", "app", "tier", "rack", "topology.kubernetes.io/zone"],
    "values": ["x", "r1", *ZONES],
    "match_labels": ["x", "y", "t"],
    "match_label_keys": ["app", "tier", "job-index"],
    "node_selector": ["r1", "r2", *ZONES],
    "namespaces": ["default", "other"],
    "effect": ["NoSchedule", "PreferNoSchedule", "NoExecute", ""],
    "when_unsatisfiable": ["DoNotSchedule", "ScheduleAnyway"],
    "node_affinity_policy": ["Honor", "Ignore"],
    "node_taints_policy": ["Honor", "Ignore"],
    "restart_policy": ["", "Always"],
    "action": ["Restart", "RestartAllContainers"],
    "protocol": ["TCP", "UDP"],
    "host_ip": ["", "0.0.0.0", "10.0.0.1"],
    "image": ["", "big", "small", "other"],
    "host_port": [0, 80, 443],
    "container_port": [80, 443],
    "weight": [1, 50, 100],
    "max_skew": [1, 2],
    "min_domains": [1, 2, 3],
    "toleration_seconds": [0, 300],
    "requests": ["500m", "1", "2", "1Gi"],
    "limits": ["500m", "2", "1Gi"],
    "overhead": ["500m", "1"],
}
OPERATORS = {"Toleration": ["Exists", "Equal"], "": ["In", "NotIn", "Exists", "DoesNotExist"]}
KEYS_OF: dict[str, list[str]] = {
    "requests": ["cpu", "memory", "example.com/x", "ephemeral-storage"],
    "limits": ["cpu", "memory"],
    "overhead": ["cpu", "memory"],
    "match_labels": ["app", "tier"],
    "node_selector": ["rack", "topology.kubernetes.io/zone"],
}


def some(draw: st.DrawFn, kind: Any, name: str, owner: str = "") -> Any:
    """Any value of a type that the API server would accept under this name."""
    if isinstance(kind, inspect.UnionType):
        kinds = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        if name in POOLS:
            return draw(st.sampled_from(POOLS[name]))
        return some(draw, draw(st.sampled_from(kinds)), name, owner)
    if isinstance(kind, inspect.StructType):
        given_ = {}
        for field in kind.fields:
            if field.required or draw(st.booleans()):
                given_[field.name] = some(draw, field.type, field.name, kind.cls.__name__)
        return sound(kind.cls(**given_))
    if isinstance(kind, inspect.ListType):
        return [some(draw, kind.item_type, name, owner) for _ in range(draw(st.integers(0, 2)))]
    if isinstance(kind, inspect.DictType):
        keys = draw(st.lists(st.sampled_from(KEYS_OF.get(name, ["app"])), unique=True, max_size=2))
        return {key: draw(st.sampled_from(POOLS.get(name, ["x"]))) for key in keys}
    pool = OPERATORS.get(owner, OPERATORS[""]) if name == "operator" else POOLS.get(name)
    if pool is None:
        pool = {inspect.BoolType: [False, True], inspect.IntType: [0, 1, 2, 3]}.get(type(kind), ["x", "y"])
    return draw(st.sampled_from(pool))


def sound(value: Any) -> Any:
    """Mend what the API server would refuse: In without values, Exists with some."""
    name = type(value).__name__
    if name in ("LabelSelectorRequirement", "NodeSelectorRequirement"):
        values = (value.values or ["x"]) if value.operator in ("In", "NotIn") else []
        return msgspec.structs.replace(value, values=values)
    if name == "Toleration" and value.operator == "Exists":
        return msgspec.structs.replace(value, value="")
    return value


def changed(draw: st.DrawFn, value: Any, kind: Any, name: str, owner: str = "") -> Any:
    """The value with something in it replaced, wherever that is."""
    if isinstance(kind, inspect.UnionType) and value is not None and draw(st.integers(0, 3)):
        kinds = [one for one in kind.types if isinstance(one, inspect.StructType)]
        if kinds:
            return changed(draw, value, kinds[0], name, owner)
    if isinstance(kind, inspect.StructType) and value is not None:
        field = draw(st.sampled_from(kind.fields))
        part = changed(draw, getattr(value, field.name), field.type, field.name, kind.cls.__name__)
        return sound(msgspec.structs.replace(value, **{field.name: part}))
    if isinstance(kind, inspect.ListType) and value and draw(st.booleans()):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], changed(draw, value[at], kind.item_type, name, owner), *value[at + 1 :]]
    return some(draw, kind, name, owner)


def as_written(one: Pod, known: PodClass) -> PodClass:
    """The class of a pod of which nothing has been left out, and all labels count."""
    meta = one.metadata
    owner = owner_of(meta.owner_references)
    traits = _Traits(meta.namespace, meta.labels, owner, known.volumes, known.devices, known.cards)
    return _new_class(one.spec, b"", traits)


def outcome(pod_class: PodClass, cluster: Cluster) -> tuple[object, ...]:
    """What every plugin says."""
    if pod_class.problem:
        return (pod_class.problem,)
    decision = decide(pod_class, cluster.nodes)
    scores = {name: column.tolist() for name, column in decision.scores.items()}
    return decision.rows.tolist(), scores, decision.reasons, decision.final.tolist(), decision.message


def furnish(draw: st.DrawFn, cluster: Cluster) -> None:
    """Have some images on some nodes, and pods whose signature no class has touched."""
    for row in range(len(cluster.nodes)):
        images = draw(st.sampled_from([[], ["big:latest"], ["small:latest"]]))
        cluster.nodes.images.put(row, [ContainerImage(images, 500_000_000 * (row + 1))])
    for i in range(draw(st.integers(0, 2))):
        one = enriched(draw, pod(f"raw{i}", labels=draw(st.sampled_from(LABELS)), **draw(specs())))
        known = cluster.classes.of(one.spec, "default", one.metadata.labels)
        row = draw(st.integers(0, len(cluster.nodes) - 1))
        cluster.nodes.label_index.add(as_written(one, known).pod_signature, row)


def enriched(draw: st.DrawFn, one: Pod) -> Pod:
    """The same pod with some of what random changes seldom bring together."""
    replace = msgspec.structs.replace
    ports = st.sampled_from([[], [], [ContainerPort(80, 80)]])
    containers = [
        replace(c, image=draw(st.sampled_from(POOLS["image"])), ports=c.ports or draw(ports))
        for c in one.spec.containers
    ]
    spreads = [
        replace(c, min_domains=draw(st.sampled_from([None, 2, 3])) if c.when_unsatisfiable == "DoNotSchedule" else None)
        for c in one.spec.topology_spread_constraints
    ]
    hosts = {"host_network": draw(st.booleans()), "host_users": draw(st.sampled_from([None, True, False]))}
    return replace(one, spec=replace(one.spec, containers=containers, topology_spread_constraints=spreads, **hosts))


def judge(cluster: Cluster, one: Pod, other: Pod) -> bool:
    """Hold two pods to the property; returns whether they are of one class."""
    first, second = cluster.put_pod(one, keep=True), cluster.put_pod(other, keep=True)
    if first.pod_class is not second.pod_class:
        return False
    said = outcome(as_written(one, first.pod_class), cluster)
    assert said == outcome(as_written(other, second.pod_class), cluster)
    assert said == outcome(first.pod_class, cluster)
    return True


@pytest.mark.parametrize("field", [field.name for field in TYPES.fields])
@examples(40)
@given(data=st.data(), cluster=clusters(), base=specs(), labels=st.sampled_from(LABELS))
def test_whatever_a_plugin_reads_of_a_spec_tells_classes_apart(field, data, cluster, base, labels):
    draw = data.draw
    furnish(draw, cluster)
    kind = next(one for one in TYPES.fields if one.name == field)
    one = enriched(draw, pod("a", labels=labels, **base))
    for _ in range(draw(st.integers(0, 2))):
        one = msgspec.structs.replace(one, spec=changed(draw, one.spec, TYPES, ""))
    part = changed(draw, getattr(one.spec, field), kind.type, field)
    spec = msgspec.structs.replace(one.spec, **{field: part})
    one = msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, node_name=""))
    other = Pod(ObjectMeta(name="b", namespace="default", uid="b", labels=labels), spec)
    if not spec.node_name:  # one that is bound is not decided on
        judge(cluster, one, other)


OWNERS = [[], *([OwnerReference("apps/v1", "ReplicaSet", name, name, True)] for name in ("s", "other"))]
METAS = st.tuples(
    st.sampled_from([*LABELS, {"app": "x", "job-index": "1"}, {"app": "x", "job-index": "2"}]),
    st.sampled_from(["default", "other"]),
    st.sampled_from(OWNERS),
)


@examples(300)
@given(clusters(), specs(), METAS, METAS)
def test_whatever_a_plugin_reads_of_metadata_tells_classes_apart(cluster, spec, one, other):
    pods = []
    for name, (labels, namespace, owners) in (("a", one), ("b", other)):
        meta = ObjectMeta(name=name, namespace=namespace, uid=name, labels=labels, owner_references=owners)
        pods.append(Pod(meta, pod("p", **spec).spec))
    judge(cluster, *pods)


def test_what_no_plugin_reads_does_not_split_a_gang():
    cluster = Cluster()
    container = {"resources": {"requests": {"cpu": "1"}}}
    plain = pod("a", labels={"rank": "0"}, containers=[{"name": "c", **container}])
    named = pod("b", labels={"rank": "1"}, containers=[{"name": "d", **container}], priority=7, schedulerName="tutti")
    assert judge(cluster, plain, named)


def test_waiting_pods_are_classed_anew_when_a_label_comes_to_matter():
    cluster = Cluster()
    first = cluster.put_pod(pod("a", labels={"app": "x"}), keep=True)
    second = cluster.put_pod(pod("b", labels={"app": "y"}), keep=True)
    assert first.pod_class is second.pod_class

    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.put_pod(pod("c", affinity=apart), keep=True)

    assert first.pod_class is not second.pod_class
    assert first.pod_class is cluster.classes.of(pod("d").spec, "default", {"app": "x"})
