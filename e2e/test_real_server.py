"""The recorded answers of kube-apiserver, asked of a real one: a case that fails there is a wrong case."""

from __future__ import annotations

import asyncio

import yaml

from e2e.harness.clusters import Cluster
from tests.conformance.replay import load, replay_all


def test_the_recorded_answers_are_those_of_a_real_server(cluster: Cluster) -> None:
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    server = document["clusters"][0]["cluster"]["server"]
    token = document["users"][0]["user"]["token"]
    faults = asyncio.run(replay_all(server, token, load()))
    assert {name: fault for name, fault in faults.items() if fault} == {}
