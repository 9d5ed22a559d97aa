"""Kinds of other projects, defined as far as the stories need them where the server does not have them."""

from __future__ import annotations

from typing import Any

from kubernetes import client

from e2e.harness.processes import wait_for

_SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


_WITHOUT_STATUS = ("scheduling.volcano.sh",)
"""Whose kinds have no subresource for their status (Volcano ed72c7c8, config/crd)."""


def serve(
    api: client.ApiClient, group: str, version: str, kind: str, *, plural: str = "", scope: str = "Namespaced"
) -> None:
    """Have the server serve a kind with a status, if it does not do so by itself."""
    plural = plural or f"{kind.lower()}s"
    if _is_served(api, group, version, plural):
        return
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    one: dict[str, Any] = {"name": version, "served": True, "storage": True, "schema": _SCHEMA, "subresources": {}}
    if group not in _WITHOUT_STATUS:
        one["subresources"] = {"status": {}}
    body = {
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {"group": group, "scope": scope, "names": names, "versions": [one]},
    }
    client.ApiextensionsV1Api(api).create_custom_resource_definition(body)
    wait_for(lambda: _is_served(api, group, version, plural), f"{plural}.{group} to be served")


def _is_served(api: client.ApiClient, group: str, version: str, plural: str) -> bool:
    try:
        found: Any = client.CustomObjectsApi(api).get_api_resources(group, version)
    except client.ApiException as error:
        if error.status == 404:
            return False
        raise
    return any(one.name == plural for one in found.resources)
