"""One cluster per process, of the kind that `--cluster` names; one namespace and operator per story."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from e2e.harness.clusters import KINDS, Cluster, started, unavailable
from e2e.harness.crds import install_crds
from e2e.harness.doorway import Doorway
from e2e.harness.power import Power
from e2e.harness.servers import Server
from e2e.harness.story import Story

_numbers = itertools.count(1)
# Longer than any one wait of a story: that one says what it has waited for.
_STORY_SECONDS = 1800
# So many binds come through a doorway.
_LETS = 30


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cluster", default="embedded", choices=KINDS, help="what the stories in e2e/ run on")
    parser.addoption("--write-transcripts", action="store_true", help="keep what kubectl says as what it should say")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Some stories are about one kind of cluster only."""
    cluster = config.getoption("--cluster")
    elsewhere = [
        item
        for item in items
        if (item.path.name.startswith("test_real_") and cluster != "envtest")
        or (item.get_closest_marker("kind") and cluster != "kind")
        or bool(item.get_closest_marker("node")) != (cluster == "node")
    ]
    config.hook.pytest_deselected(items=elsewhere)
    items[:] = [item for item in items if item not in elsewhere]
    for item in items:
        if "e2e" in item.path.parts and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_STORY_SECONDS))


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kind: str = request.config.getoption("--cluster")
    if lacking := unavailable(kind):
        pytest.skip(lacking)
    with started(kind, tmp_path_factory.mktemp("cluster")) as found:
        with found.connect() as api:
            install_crds(api)
        yield found


@pytest.fixture
def story(cluster: Cluster, tmp_path: Path) -> Iterator[Story]:
    told = Story(cluster, f"story-{next(_numbers)}", tmp_path)
    yield told
    told.close()


@pytest.fixture
def doorway(story: Story, tmp_path: Path) -> Iterator[Doorway]:
    """What the operator comes through: half of a small gang is bound, and then nobody before it is opened."""
    with Doorway(story.kubeconfig, tmp_path, _LETS) as found:
        story.kubeconfig = found.kubeconfig
        yield found
        found.open()
        story.stop_operator()
        story.kubeconfig = story.cluster.kubeconfig


@pytest.fixture
def power(story: Story) -> Iterator[Power]:
    """The switches of the kubelets, where the cluster has any."""
    if why := story.cluster.machines.can_die:
        pytest.skip(why)
    switches = Power(story)
    yield switches
    story.stop_operator()
    switches.restore()


@pytest.fixture
def machines(story: Story) -> Iterator[tuple[str, ...]]:
    """Three nodes of this story's own, which may be lost."""
    if why := story.cluster.machines.can_come:
        pytest.skip(why)
    names = tuple(f"{story.namespace}-{letter}" for letter in "abc")
    for name in names:
        story.cluster.machines.add(name)
    story.label_nodes(names, {"e2e/story": story.namespace})
    yield names
    for name in names:
        story.cluster.machines.remove(name)


@pytest.fixture
def server(story: Story) -> Server:
    """The control plane, where it is one whose processes a story may kill."""
    if story.cluster.server is None:
        pytest.skip("there is no control plane here whose processes a story may kill")
    return story.cluster.server


@pytest.fixture
def core(cluster: Cluster) -> Iterator[client.CoreV1Api]:
    with cluster.connect() as api:
        yield client.CoreV1Api(api)
