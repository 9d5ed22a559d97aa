"""A cluster for each test, with our kinds installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controller.process import Cluster
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti_sim.cluster import EmbeddedCluster


@pytest.fixture
async def bare():
    """An embedded cluster that has never heard of us."""
    async with EmbeddedCluster(nodes=3, gpus=2, seed=1) as cluster:
        yield cluster


@pytest.fixture
async def kubeconfig(bare, tmp_path) -> Path:
    path = tmp_path / "kubeconfig"
    bare.write_kubeconfig(path)
    return path


@pytest.fixture
async def bare_cluster(bare):
    access = Access(bare.url, headers={"Authorization": f"Bearer {bare.token}"})
    async with Client(Credentials.fixed(access)) as client:
        yield Cluster(client)


@pytest.fixture
async def cluster(bare_cluster):
    await bare_cluster.install_crds()
    return bare_cluster
