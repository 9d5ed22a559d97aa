"""Policies: what they are told of nodes, what their answer counts, and what a file may say."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tests.placement.scenes import LABELS, clusters, node, one_after_another, pod, specs
from tutti.api.configuration import load_configuration
from tutti.api.problems import ConfigurationError
from tutti.cluster.class_book import ClassBook
from tutti.cluster.cluster import Cluster
from tutti.engine.records.plugins import Enabled, PluginHost
from tutti.placement.gang import Ask, place_ask
from tutti.placement.plugins.node_resources import BalancedAllocation
from tutti.placement.plugins.policy_score import PolicyScore
from tutti.placement.policy_features import (
    POLICY_FEATURES,
    UnknownFeatureError,
    check_features,
    feature_columns,
)
from tutti.placement.policy_file import (
    MOST_BYTES,
    PolicyFile,
    PolicyFileError,
    digest,
    read_policy,
    write_policy,
)
from tutti.placement.profile import Profile

NAMES = tuple(one.name for one in POLICY_FEATURES)
GPU = "nvidia.com/gpu"
ROWS, FIRST = np.arange(3), np.array([1, 2])


def machine(name: str, cpu: str, memory: str, gpus: str = "0"):
    return msgspec.structs.replace(
        node(name),
        status=msgspec.convert(
            {"allocatable": {"cpu": cpu, "memory": memory, GPU: gpus, "pods": "110"}}, type(node(name).status)
        ),
    )


def asking(name: str, cpu: str, memory: str, gpus: str = "", on: str = ""):
    requests = {"cpu": cpu, "memory": memory, **({GPU: gpus} if gpus else {})}
    containers = [{"name": "c", "resources": {"requests": requests}}]
    return pod(name, node=on, containers=containers)


@pytest.fixture
def cluster() -> Cluster:
    """An empty node of 8 cards, one of 4 of which two are taken, and one without."""
    found = Cluster()
    for one in (machine("a", "16", "64Gi", "8"), machine("b", "8", "64Gi", "4"), machine("c", "8", "32Gi")):
        found.put_node(one)
    found.put_pod(asking("there", "4", "32Gi", "2", on="b"), keep=False)
    return found


# Worked out by hand: [1st pod, 2nd pod] by [a, b, c].
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cpuFree", [[14 / 16, 2 / 8, 6 / 8], [12 / 16, 0, 4 / 8]]),
        ("memoryFree", [[48 / 64, 16 / 64, 16 / 32], [32 / 64, 0, 0]]),
        ("devicesFree", [[7 / 8, 1 / 4, 0], [6 / 8, 0, 0]]),
        ("deviceHole", [[7 / 8, 1 / 8, 0], [6 / 8, 0, 0]]),
        ("devicesOffered", [[1, 1, 0], [1, 1, 0]]),
        ("begun", [[0, 1, 0], [1, 1, 1]]),
        ("imbalance", [[1 / 8, 0, 1 / 4], [1 / 4, 0, 1 / 2]]),
        ("roomLeft", [[np.log2(4) / np.log2(257), np.log2(2) / np.log2(257), 0], [np.log2(3) / np.log2(257), 0, 0]]),
        ("cpuAsked", [[2 / 16, 2 / 8, 2 / 8]] * 2),
        ("memoryAsked", [[16 / 64, 16 / 64, 16 / 32]] * 2),
        ("devicesAsked", [[1 / 8, 1 / 4, 0]] * 2),
        ("cpuMeasured", [[0, 0, 0]] * 2),
        ("memoryMeasured", [[0, 0, 0]] * 2),
    ],
)
def test_a_feature_says_what_its_meaning_says(cluster, name, expected):
    pod_class = cluster.classes.of(asking("new", "2", "16Gi", "1").spec)
    found = feature_columns([name], pod_class, cluster.nodes, rows=ROWS, nth=FIRST)[name]
    np.testing.assert_allclose(found, expected)


def test_every_feature_has_a_line_in_the_table():
    (mark,) = test_a_feature_says_what_its_meaning_says.pytestmark
    assert [name for name, _ in mark.args[1]] == list(NAMES)


def test_pods_without_devices_are_told_of_all_devices(cluster):
    pod_class = cluster.classes.of(asking("new", "2", "16Gi").spec)
    found = feature_columns(["devicesFree", "begun"], pod_class, cluster.nodes, rows=ROWS, nth=FIRST)
    np.testing.assert_allclose(found["devicesFree"], [[1, 1 / 2, 0]] * 2)
    np.testing.assert_allclose(found["begun"], [[0, 1, 0], [0, 1, 1]])


amounts = st.sampled_from(["0", "1", "500m", "9223372036854775807", "1e30", "7"])


@examples(100)
@given(st.lists(st.tuples(amounts, amounts, amounts), min_size=1, max_size=4), amounts, amounts, amounts)
def test_features_are_parts_of_one_whatever_nodes_offer_and_pods_ask_for(nodes, cpu, memory, gpus):
    cluster = Cluster()
    for place, (has_cpu, has_memory, has_gpus) in enumerate(nodes):
        cluster.put_node(machine(f"n{place}", has_cpu, has_memory, has_gpus))
    try:
        pod_class = cluster.classes.of(asking("p", cpu, memory, gpus).spec)
    except ValueError:  # no amount that the API server lets by
        return
    found = feature_columns(NAMES, pod_class, cluster.nodes, rows=np.arange(len(nodes)), nth=np.array([1, 2, 20_000]))
    for name, values in found.items():
        assert values.shape == (3, len(nodes)), name
        assert ((values >= 0) & (values <= 1)).all(), name


numbers = st.lists(st.integers(-40, 40).map(lambda n: n / 10), min_size=len(NAMES), max_size=len(NAMES))


def profile_of(policy: object, weight: int = 10) -> Profile:
    host = PluginHost({}, ClassBook())
    return Profile(fill=(BalancedAllocation(), PolicyScore("learned", weight, "tutti", policy, host)))


@examples(80)
@given(clusters(), specs(), st.sampled_from(LABELS), st.integers(1, 10), numbers)
def test_a_gang_goes_where_a_policy_would_have_sent_its_pods_one_by_one(cluster, spec, labels, count, weights):
    policy = read_policy(write_policy(PolicyFile(features=NAMES, output=tuple(weights))))
    pod_class = cluster.classes.of(pod("p", labels=labels, **spec).spec, "default", labels)
    profile = profile_of(policy)
    expected = one_after_another(cluster, pod_class, count, profile)
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, count), profile)
        assert sorted(rows.tolist()) == sorted(expected)


class Answers:
    policy_features = ("cpuFree",)
    policy_features_version = 1

    def __init__(self, answer):
        self.answer = answer

    def policy(self, features):
        return self.answer(features["cpuFree"])


def scored(cluster, plugin) -> tuple[list | None, list[str]]:
    host = PluginHost({"tutti": [Enabled("own", plugin)]}, cluster.classes)
    (score,) = host.extended("tutti", Profile(fill=())).fill
    pod_class = cluster.classes.of(asking("new", "2", "16Gi", "1").spec)
    found = score.scores(pod_class, cluster.nodes, ROWS, FIRST)
    return None if found is None else found.tolist(), [one.message for one in host.take_faults()]


def test_any_number_counts_as_points_from_0_to_100(cluster):
    places = np.array([[-1e300, 0.0, 1e300], [-1.0, 1.0, 30.0]])
    assert scored(cluster, Answers(lambda _: places)) == ([[0, 50, 100], [27, 73, 100]], [])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: x[0], "policy answered with float64[3], not with float64[2, 3]"),
        (lambda x: x.astype(np.float32), "policy answered with float32[2, 3]"),
        (list, "policy answered with list"),
        (lambda x: x * np.nan, "numbers that are not finite"),
        (lambda x: np.where(x > 0, np.inf, 0.0), "numbers that are not finite"),
        (lambda x: x.lost, "AttributeError"),
    ],
)
def test_a_policy_that_answers_wrongly_is_left_out_and_told_of(cluster, answer, said):
    found, (message,) = scored(cluster, Answers(answer))
    assert found is None
    assert said in message


@pytest.mark.parametrize(
    ("version", "names", "said"),
    [
        (2, ("cpuFree",), "version 2 of the features, and there is version 1: train it anew"),
        (1, ("cpuFree", "luck"), "there is no feature 'luck'; version 1 has cpuFree,"),
        (1, (), "at least one feature"),
        (1, ("cpuFree", "cpuFree"), "each of them once"),
    ],
)
def test_features_that_there_are_not_are_named(version, names, said):
    with pytest.raises(UnknownFeatureError, match=said):
        check_features(version, names)


GOOD = PolicyFile(features=("cpuFree", "begun"), output=(1.5, -2.0), trained={"by": "hand"})
LAYERS = PolicyFile(
    features=("cpuFree",), hidden=((2.0,), (-1.0,)), hidden_bias=(0.0, 0.5), output=(3.0, 1.0), bias=0.25
)


def signed(policy: PolicyFile, **other: object) -> bytes:
    changed = msgspec.structs.replace(policy, **other)
    return msgspec.json.encode(msgspec.structs.replace(changed, checksum=digest(changed)))


def test_a_file_is_read_as_it_was_written():
    read = read_policy(write_policy(GOOD))
    assert (read.policy_features, read.output.tolist(), read.trained) == (GOOD.features, [1.5, -2.0], {"by": "hand"})
    assert read.checksum == digest(GOOD)
    assert read.policy({"cpuFree": np.array([[0.5]]), "begun": np.array([[1.0]])}).tolist() == [[-1.25]]
    two = read_policy(write_policy(LAYERS)).policy({"cpuFree": np.array([[0.5, 1.0]])})
    expected = [3 * np.tanh(1.0) + np.tanh(0.0) + 0.25, 3 * np.tanh(2.0) + np.tanh(-0.5) + 0.25]
    np.testing.assert_allclose(two, [expected])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is no policy: Input data was truncated"),
        (b"[" * 50_000, "it is no policy"),
        (b"\xff\xfe", "it is no policy"),
        (b" " * (MOST_BYTES + 1), f"larger than {MOST_BYTES} bytes"),
        (write_policy(GOOD).replace(b"1.5", b"NaN"), "it is no policy"),
        (write_policy(GOOD).replace(b"1.5", b"-Infinity"), "it is no policy"),
        (write_policy(GOOD).replace(b"1.5", b"1e999"), "out of range"),
        (write_policy(GOOD).replace(b"1.5", b"null"), "Expected `float`, got `null`"),
        (write_policy(GOOD).replace(b'"bias"', b'"bios"'), "unknown field `bios`"),
        (write_policy(GOOD).replace(b"1.5", b"1.6"), "checksum: it is 'sha256:.*it was changed"),
        (write_policy(GOOD)[:-40], "it is no policy: Input data was truncated"),
        (signed(GOOD, format="weights"), "format: it is 'weights', version 1, and must be 'tutti-policy', 1"),
        (signed(GOOD, version=2), "format: it is 'tutti-policy', version 2"),
        (signed(GOOD, features_version=9), "features: it is for version 9"),
        (signed(GOOD, features=("cpuFree", "luck")), "features: there is no feature 'luck'"),
        (signed(GOOD, output=(1.0,)), r"output: it has 1 numbers, and must have 2"),
        (signed(GOOD, output=(1.0, 1e5)), r"output\[1\]: it is 100000, and must be within -10000 and 10000"),
        (signed(GOOD, bias=-1e300), r"bias\[0\]: it is -1e\+300"),
        (signed(LAYERS, hidden=((2.0,),)), "hiddenBias: it has 2 numbers, and must have 1"),
        (signed(LAYERS, hidden=((2.0, 1.0), (1.0,))), r"hidden\[0\]: it has 2 numbers, and must have 1"),
        (signed(LAYERS, hidden=((0.0,),) * 65, hidden_bias=(0.0,) * 65), "hidden: it has 65 rows, and may have 64"),
        (signed(GOOD, trained={str(n): "" for n in range(99)}), "trained: it has 99 entries"),
    ],
)
def test_a_file_that_is_no_policy_says_where_and_why(data, said):
    with pytest.raises(PolicyFileError, match=said):
        read_policy(data)


@examples(100)
@given(st.binary(max_size=60), st.integers(0, 300), st.integers(0, 255))
def test_no_file_does_worse_than_being_refused(noise, place, byte):
    whole = bytearray(write_policy(GOOD))
    whole[place % len(whole)] = byte
    for data in (noise, bytes(whole)):
        try:
            policy = read_policy(data)
        except PolicyFileError:
            continue
        assert np.isfinite(policy.output).all()


def test_a_profile_cannot_pack_accelerators_by_rule_and_by_what_was_learned():
    text = "profiles: [{acceleratorPacking: {}, learnedScore: {file: policy.json}}]"
    with pytest.raises(ConfigurationError, match="acceleratorPacking decides in place of learnedScore"):
        load_configuration(text)
