"""The embedded cluster answers as kube-apiserver 1.36.2 was recorded to answer."""

import asyncio
from pathlib import Path

import pytest

from tests.conformance.replay import load, replay_all
from tutti_sim.cluster import EmbeddedCluster

CASES = load()
KNOWN = set(Path(__file__).with_name("known_failures.txt").read_text(encoding="utf-8").split())


async def _against_embedded(names):
    async with EmbeddedCluster(nodes=0, controllers=False) as cluster:
        return await replay_all(cluster.url, cluster.token, {name: CASES[name] for name in names})


@pytest.fixture(scope="module")
def faults(request):
    """What differs, for each of the cases that were selected, replayed together against one cluster."""
    here = [item for item in request.session.items if item.path == request.path and "faults" in item.fixturenames]
    chosen = [item.callspec.params["name"] for item in here]
    return asyncio.run(_against_embedded(chosen))


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_embedded_cluster_answers_as_recorded(name, faults):
    assert bool(faults[name]) == (name in KNOWN), faults[name] or "passes now: take it off known_failures.txt"


def test_known_failures_name_cases_that_exist():
    assert CASES.keys() >= KNOWN
