"""Has an API server ask an operator on this machine: the configurations of the manifests, with another address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from e2e.harness.passage import Passage
from e2e.harness.processes import free_port
from e2e.harness.story import Story

COMPONENTS = Path(__file__).parents[2] / "manifests" / "components"


@contextmanager
def webhooks_asked(
    story: Story,
    serves: Callable[[Story], bool],
    *components: str,
    through: Passage | None = None,
    **configuration: Any,
) -> Iterator[Story]:
    """Start an operator that is asked, with a certificate of its own, until the block ends.

    Args:
        story: Whose operator it is.
        serves: Tells whether a write gets an answer by now.
        components: Whose webhooks are added to those of the component `webhook`.
        through: What the API server asks through, where a story is to shut it.
        configuration: Of the operator.
    """
    if story.cluster.kind == "kind":
        pytest.skip("this API server is in a container, and cannot call a process outside of it")
    port = free_port() if through is None else through.beyond
    asked_at = port if through is None else through.port
    api = client.AdmissionregistrationV1Api(story.api)
    validating, mutating = yaml.safe_load_all((COMPONENTS / "webhook" / "webhooks.yaml").read_text())
    for component in components:
        added = yaml.safe_load((COMPONENTS / component / "webhook.yaml").read_text())
        mutating["webhooks"] += [one["value"] for one in added]
    validating, mutating = (_at(document, asked_at, story.namespace) for document in (validating, mutating))
    story.core.create_namespaced_secret(story.namespace, {"metadata": {"name": "certificate"}})
    own = {
        "secretNamespace": story.namespace,
        "secretName": "certificate",
        "configurationName": story.namespace,
        "hosts": ["127.0.0.1"],
    }
    api.create_validating_webhook_configuration(validating)
    api.create_mutating_webhook_configuration(mutating)
    try:
        story.start_operator(webhook={"enabled": True, "port": port, "selfSigned": own}, **configuration)
        story.wait(lambda: serves(story), "the operator to review what is written")
        yield story
    finally:
        api.delete_validating_webhook_configuration(story.namespace)
        api.delete_mutating_webhook_configuration(story.namespace)


def _at(document: dict[str, Any], port: int, name: str) -> dict[str, Any]:
    document["metadata"]["name"] = name
    for one in document["webhooks"]:
        path = one["clientConfig"].pop("service")["path"]
        one["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
        one["timeoutSeconds"] = 30  # as long as may be: who is not answered on a busy machine goes without
    return document
