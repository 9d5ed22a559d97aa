"""Who slows down whom on a node: rooms and scores beside a rule written down pod by pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.placement.scenes import node, pod
from tests.placement.single_decision import decide
from tutti.api.interference import BEHAVIOUR_LABEL
from tutti.api.profiles import SchedulerProfile
from tutti.cluster.cluster import Cluster
from tutti.engine.reading.profiles import profile_of
from tutti.placement.gang import Ask, place_ask

BEHAVIOURS = ["a", "b", "c"]


def cluster_with(there: Mapping[str, Sequence[str]]) -> Cluster:
    """Nodes, each with pods of these classes of behaviour; "" for a pod that says nothing."""
    cluster = Cluster()
    cluster.watch_labels((BEHAVIOUR_LABEL,))
    for name, found in there.items():
        cluster.put_node(node(name, cpu=64, memory=64, pods=8))
        for number, one in enumerate(found):
            cluster.put_pod(
                pod(f"{name}-{number}", labels={BEHAVIOUR_LABEL: one} if one else {}, node=name, cpu="1"), keep=True
            )
    return cluster


def rooms(cluster: Cluster, behaviour: str, most: int = 40, **said: Any) -> dict[str, int]:
    """How many pods of a class of behaviour each node takes at most."""
    profile = profile_of(SchedulerProfile(interference=said))
    one = pod("new", labels={BEHAVIOUR_LABEL: behaviour}, cpu="1")
    pod_class = cluster.classes.of(one.spec, "default", one.metadata.labels)
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, most), profile)
    assert rows is not None
    names = [cluster.nodes.names[row] for row in rows]
    return {name: names.count(name) for name in cluster.nodes.names}


def slowed(there: Sequence[str], of: int, percent: Mapping[tuple[str, str], int]) -> int:
    """By how many percent one of the pods on a node is slowed down by all others there."""
    return sum(percent.get((there[of], one), 0) for at, one in enumerate(there) if at != of)


def room(
    there: Sequence[str],
    mine: str,
    percent: Mapping[tuple[str, str], int],
    limit: int | None,
    apart: Sequence[Sequence[str]],
) -> int:
    """How many pods of a class a node takes, tried one after another: who comes, and whom it bothers, bears it."""
    now, count = list(there), 0
    while len(now) < 8:  # the pods that a node of these takes
        if any({mine, one} == set(pair) for pair in apart for one in now):
            break
        after = [*now, mine]
        bothered = [at for at, one in enumerate(after) if at == len(now) or percent.get((one, mine), 0)]
        if limit is not None and any(slowed(after, at, percent) > limit for at in bothered):
            break
        now, count = after, count + 1
    return count


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        # 40 % by each pod of b: none beside b, and any number elsewhere
        ({"slowdowns": [{"of": "a", "beside": "b", "percent": 40}], "max_slowdown_percent": 30}, [8, 0, 7]),
        # 15 % by each other of a: three beside one another are slowed down by 30 %
        ({"slowdowns": [{"of": "a", "beside": "a", "percent": 15}], "max_slowdown_percent": 30}, [3, 3, 2]),
        # who is there bears 20 % of the newcomers, each of which is 10 %
        ({"slowdowns": [{"of": "b", "beside": "a", "percent": 10}], "max_slowdown_percent": 20}, [8, 2, 7]),
        ({"apart": [["a", "b"]]}, [8, 0, 7]),
        ({"apart": [["a", "a"]]}, [1, 1, 0]),
    ],
)
def test_as_many_pods_are_on_a_node_as_bear_one_another(said: dict[str, Any], expected: list[int]):
    cluster = cluster_with({"empty": [], "busy": ["b"], "own": ["a"]})

    assert list(rooms(cluster, "a", **said).values()) == expected


def test_pods_that_say_nothing_are_not_looked_at():
    cluster = cluster_with({"n": ["", ""]})

    assert rooms(cluster, "a", apart=[["a", "b"]]) == {"n": 6}
    assert rooms(cluster, "unknown", apart=[["a", "b"]]) == {"n": 6}


def test_a_pod_goes_where_all_together_lose_least():
    """n0: the newcomer is slowed down by 50 %; n1: two pods there by 20 % each; n2: nobody, but it is full sooner."""
    cluster = cluster_with({"n0": ["b"], "n1": ["c", "c"], "n2": ["", "", "", ""]})
    slowdowns = [{"of": "a", "beside": "b", "percent": 50}, {"of": "c", "beside": "a", "percent": 20}]
    profile = profile_of(SchedulerProfile(interference={"slowdowns": slowdowns, "weight": 10}))
    one = pod("new", labels={BEHAVIOUR_LABEL: "a"}, cpu="1")
    pod_class = cluster.classes.of(one.spec, "default", one.metadata.labels)

    decision = decide(pod_class, cluster.nodes, profile=profile)

    # 100 * 100 / (100 + what all together lose), times the weight
    assert decision.scores["Interference"].tolist() == [10 * 66, 10 * 71, 10 * 100]


pairs = st.tuples(st.sampled_from(BEHAVIOURS), st.sampled_from(BEHAVIOURS))


@given(
    there=st.lists(st.lists(st.sampled_from([*BEHAVIOURS, ""]), max_size=4), min_size=1, max_size=4),
    percent=st.dictionaries(pairs, st.integers(1, 60), max_size=6),
    limit=st.none() | st.integers(0, 120),
    apart=st.lists(pairs, max_size=2),
    mine=st.sampled_from(BEHAVIOURS),
)
def test_rooms_are_those_of_one_pod_after_another(
    there: list[list[str]],
    percent: dict[tuple[str, str], int],
    limit: int | None,
    apart: list[tuple[str, str]],
    mine: str,
):
    if not percent and not apart:
        apart = [("a", "b")]
    said: dict[str, Any] = {
        "slowdowns": [{"of": of, "beside": beside, "percent": by} for (of, beside), by in percent.items()],
        "apart": [list(pair) for pair in apart],
        "max_slowdown_percent": limit if percent else None,
    }
    where = {f"n{number}": found for number, found in enumerate(there)}

    found = rooms(cluster_with(where), mine, **said)

    expected = {name: room(found, mine, percent, said["max_slowdown_percent"], apart) for name, found in where.items()}
    assert found == expected


@given(
    there=st.lists(st.lists(st.sampled_from(BEHAVIOURS), max_size=3), min_size=2, max_size=4),
    percent=st.dictionaries(pairs, st.integers(1, 60), min_size=1, max_size=6),
    limit=st.integers(0, 120),
    count=st.integers(1, 6),
)
def test_a_gang_goes_where_its_pods_would_go_one_by_one(
    there: list[list[str]], percent: dict[tuple[str, str], int], limit: int, count: int
):
    slowdowns = [{"of": of, "beside": beside, "percent": by} for (of, beside), by in percent.items()]
    profile = profile_of(
        SchedulerProfile(interference={"slowdowns": slowdowns, "max_slowdown_percent": limit, "weight": 5})
    )
    cluster = cluster_with({f"n{number}": found for number, found in enumerate(there)})
    one = pod("new", labels={BEHAVIOUR_LABEL: "a"}, cpu="1")
    pod_class = cluster.classes.of(one.spec, "default", one.metadata.labels)
    with cluster.transaction() as transaction:
        rows = place_ask(cluster.nodes, transaction, Ask(pod_class, 0, count), profile)
    assert rows is not None
    together = np.bincount(rows, minlength=len(cluster.nodes)).tolist()

    alone = [0] * len(cluster.nodes)
    for number in range(count):
        decision = decide(pod_class, cluster.nodes, profile=profile)
        if not len(decision.rows):
            break
        row = int(decision.rows[int(decision.total.argmax())])
        alone[row] += 1
        labels = {BEHAVIOUR_LABEL: "a"}
        cluster.put_pod(pod(f"new-{number}", labels=labels, node=cluster.nodes.names[row], cpu="1"), keep=True)
    assert together == alone
