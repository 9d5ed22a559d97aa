"""Installs the CRDs from crds/, as `kubectl apply -f crds/` does, and waits until they are served."""

from __future__ import annotations

from pathlib import Path

import yaml
from kubernetes import client

from e2e.harness.processes import wait_for

FOLDER = Path(__file__).parents[2] / "crds"


def install_crds(api: client.ApiClient) -> None:
    """Create what is not there yet."""
    extensions = client.ApiextensionsV1Api(api)
    names = []
    for file in sorted(FOLDER.glob("scheduling.tutti.dev_*.yaml")):
        body = yaml.safe_load(file.read_text())
        names.append(body["metadata"]["name"])
        try:
            extensions.create_custom_resource_definition(body)
        except client.ApiException as error:
            if error.status != 409:
                raise

    def established(name: str) -> bool:
        found = extensions.read_custom_resource_definition(name)
        return any(c.type == "Established" and c.status == "True" for c in found.status.conditions or [])

    wait_for(lambda: all(map(established, names)), "the CRDs to be established")
