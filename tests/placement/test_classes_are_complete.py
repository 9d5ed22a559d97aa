"""Pods of one class are decided on alike: whatever a filter or score reads tells classes apart."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement.scenes import LABELS, clusters, pod, specs
from tutti.placement.decision import Decision, decide

pods = st.tuples(
    specs(),
    st.sampled_from([*LABELS, {"app": "x", "job-index": "1"}, {"app": "x", "job-index": "2"}]),
    st.sampled_from(["default", "other"]),
    st.sampled_from(["", "1", "2"]),
)


def whole(decision: Decision) -> tuple[object, ...]:
    scores = {name: column.tolist() for name, column in decision.scores.items()}
    return decision.rows.tolist(), scores, decision.reasons, decision.final.tolist()


@settings(max_examples=150, deadline=None)
@given(clusters(), pods, pods, st.booleans())
def test_pods_of_one_class_are_decided_on_alike(cluster, one, other, same_spec):
    spec, labels, namespace, cpu = one
    a = pod("a", labels=labels, namespace=namespace, cpu=cpu, **spec)
    spec_b, labels_b, namespace_b, cpu_b = other
    if same_spec:
        spec_b, cpu_b = spec, cpu
    b = pod("b", labels=labels_b, namespace=namespace_b, cpu=cpu_b, **spec_b)
    for each in (a, b):
        cluster.classes.of(each.spec, each.metadata.namespace, each.metadata.labels)  # what either's selectors read
    class_a = cluster.classes.of(a.spec, namespace, labels)
    class_b = cluster.classes.of(b.spec, namespace_b, labels_b)
    if class_a is not class_b:
        return

    # Every label watched: then each pod has the class that its own labels give.
    cluster.classes.watch(["app", "tier", "job-index"])
    full_a = cluster.classes.of(a.spec, namespace, labels)
    full_b = cluster.classes.of(b.spec, namespace_b, labels_b)
    assert whole(decide(full_a, cluster.nodes)) == whole(decide(full_b, cluster.nodes))
    assert whole(decide(class_a, cluster.nodes)) == whole(decide(full_a, cluster.nodes))


def test_labels_that_no_selector_reads_do_not_split_a_gang():
    from tutti.cluster.cluster import Cluster

    cluster = Cluster()
    spec = pod("p").spec

    assert cluster.classes.of(spec, "default", {"rank": "0"}) is cluster.classes.of(spec, "default", {"rank": "1"})


def test_waiting_pods_are_classed_anew_when_a_label_comes_to_matter():
    from tutti.cluster.cluster import Cluster

    cluster = Cluster()
    first = cluster.put_pod(pod("a", labels={"app": "x"}), keep=True)
    second = cluster.put_pod(pod("b", labels={"app": "y"}), keep=True)
    assert first.klass is second.klass

    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.put_pod(pod("c", affinity=apart), keep=True)

    assert first.klass is not second.klass
    assert first.klass is cluster.classes.of(pod("d").spec, "default", {"app": "x"})
