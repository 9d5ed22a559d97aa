"""Applications as users of diktyo's kinds write them; the manifests are the page's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness.guests import serve
from e2e.harness.story import Story

PAGE = Path(__file__).parent.parent / "docs" / "howto" / "network.md"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def of_the_page(kind: str) -> Any:
    """The manifest of a kind on the page."""
    texts = re.findall(r"<<'END'\n(.+?)\nEND", PAGE.read_text(), re.DOTALL)
    found = [one for text in texts for one in yaml.safe_load_all(text)]
    return next(one for one in found if one["kind"] == kind)


def labels(workload: str) -> dict[str, str]:
    return {"appgroup.diktyo.x-k8s.io": "shop", "appgroup.diktyo.x-k8s.io.workload": workload}


@pytest.fixture
def zones(story: Story) -> dict[str, str]:
    """Two nodes in two zones, and an operator that is configured as the page says."""
    nodes = story.cluster.nodes[:2]
    for node, zone in zip(nodes, ("z1", "z2"), strict=True):
        story.label_nodes([node], {ZONE: zone, REGION: "west", "e2e.example.com/network": story.namespace})
    network = {**of_the_page("TuttiConfiguration")["network"], "namespaces": [story.namespace]}
    story.start_operator(network=network, leaderElection={"enabled": False})
    return dict(zip(("z1", "z2"), nodes, strict=True))


def create(story: Story, kind: str, plural: str) -> None:
    found = of_the_page(kind)
    group, version = found["apiVersion"].split("/")
    found["metadata"]["namespace"] = story.namespace
    story.custom.create_namespaced_custom_object(group, version, story.namespace, plural, found)


def test_a_part_waits_for_its_app_group_and_then_goes_near_what_it_needs(story: Story, zones: dict[str, str]) -> None:
    own = {"e2e.example.com/network": story.namespace}
    story.pod("db", gpus=1, labels=labels("db"), selector={**own, ZONE: "z2"})
    story.wait(lambda: "AppGroup shop does not exist" in waits(story, "db"), "the part to say what is missing")

    for kind, plural in (("AppGroup", "appgroups"), ("NetworkTopology", "networktopologies")):
        group, version = of_the_page(kind)["apiVersion"].split("/")
        serve(story.api, group, version, kind, plural=plural)
        create(story, kind, plural)
    story.wait(lambda: node_of(story, "db") == zones["z2"], "the part to be bound when its AppGroup is there")
    story.kill_operator()
    story.start_operator(network={"namespaces": [story.namespace], "weight": 100}, leaderElection={"enabled": False})
    story.pod("web", gpus=1, labels=labels("web"), selector=own)

    story.wait(lambda: node_of(story, "web") == zones["z2"], "the part to be bound where what it needs is near")


def waits(story: Story, pod: str) -> str:
    found = story.core.read_namespaced_pod(pod, story.namespace)
    return next((one.message for one in found.status.conditions or () if one.type == "PodScheduled"), "") or ""


def node_of(story: Story, pod: str) -> str:
    return story.core.read_namespaced_pod(pod, story.namespace).spec.node_name or ""
