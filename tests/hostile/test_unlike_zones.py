"""Hundreds of pods of which none asks of NUMA zones what another does."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.placement.test_numa import GIB, cluster_of, container, node, room
from tutti.api.core import PodSpec
from tutti.cluster.classes import PodClass
from tutti.cluster.cluster import Cluster
from tutti.placement.plugins.numa_fit import ZoneSearch

NODES = 10


@pytest.mark.parametrize("pods", [20, 80])
def test_those_who_are_pending_are_not_looked_at_one_by_one(pods: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was, some twenty times for each pod that came next: 100 pods took 15 s, and a thousand no end."""
    cluster = cluster_of(*(node(f"n{at}", [{"cpu": 64, "memory": 64 * GIB}] * 2) for at in range(NODES)))
    asked, terms = Counter[str](), ZoneSearch.terms

    def counted(self: ZoneSearch, one: dict[str, int]) -> object:
        asked["times"] += 1
        return terms(self, one)

    with cluster.transaction() as transaction:
        for pod in range(pods):
            assert (room(cluster, unlike(cluster, pod)) > 0).all()
            transaction.put(np.array([pod % NODES]), np.array([1]), unlike(cluster, pod))
        room(cluster, unlike(cluster, pods))
        monkeypatch.setattr(ZoneSearch, "terms", counted)
        last = unlike(cluster, pods + 1)
        assert room(cluster, last).tolist() == [64 - pods // NODES] * NODES
    assert 0 < asked["times"] <= 8


def unlike(cluster: Cluster, nth: int) -> PodClass:
    return cluster.classes.of(PodSpec(containers=[container(cpu=1, memory=100 + nth)]))
