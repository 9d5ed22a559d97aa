"""The component with pages: one port leads from who may come through the Service to the process, and nothing else is open."""

from __future__ import annotations

import shutil

import pytest

from tests.manifests.check import ROOT, rendered
from tutti.api.configuration import UiSettings

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")


def test_pages_are_reached_by_their_port(tmp_path):
    over = ROOT / "build" / "web-view-overlay"
    shutil.rmtree(over, ignore_errors=True)
    over.mkdir(parents=True)
    try:
        text = "resources: [../../manifests/overlays/default]\ncomponents: [../../manifests/components/web-view]\n"
        (over / "kustomization.yaml").write_text(text)
        objects = {(one["kind"], one["metadata"]["name"]): one for one in rendered(over)}
    finally:
        shutil.rmtree(over)

    ports = objects["Deployment", "tutti"]["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert {"name": "pages", "containerPort": int(UiSettings().bind_address.lstrip(":"))} in ports
    assert {"name": "pages", "port": 8444, "targetPort": "pages"} in objects["Service", "tutti"]["spec"]["ports"]
    policy = objects["NetworkPolicy", "tutti-pages"]["spec"]
    assert policy["ingress"][0]["ports"] == [{"port": "pages"}]
    assert policy["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "tutti"}
    rule = objects["ClusterRole", "tutti"]["rules"][-1]
    assert rule == {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]}
