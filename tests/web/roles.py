"""People of a cluster: service accounts with tokens, and what roles let them list."""

from __future__ import annotations

import json
from typing import Any

from tutti.kube.client import Client

Json = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
VIEW: Json = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "tutti-view"},
    "rules": [
        {
            "apiGroups": ["scheduling.tutti.dev"],
            "resources": ["clusterqueues", "cohorts", "localqueues", "podgroups", "workloads"],
            "verbs": ["get", "list", "watch"],
        },
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
    ],
}
"""Bound in a namespace, it lets see what is in it, and nothing of the whole cluster."""


async def post(client: Client, path: str, made: Json) -> Json:
    return json.loads(await client.request("POST", path, body=json.dumps(made).encode()))


async def person(client: Client, name: str, *, everywhere: bool = False, in_: tuple[str, ...] = ()) -> str:
    """Make a service account that may view everything, or some namespaces; returns a token of it."""
    meta = {"name": name, "namespace": "default"}
    await post(
        client,
        "/api/v1/namespaces/default/serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
    )
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "tutti-view"}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]
    said = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    if everywhere:
        await post(
            client, f"{RBAC}/clusterrolebindings", {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRoleBinding", **said}
        )
    for namespace in in_:
        bound = {"apiVersion": f"{GROUP}/v1", "kind": "RoleBinding", **said}
        await post(client, f"{RBAC}/namespaces/{namespace}/rolebindings", bound)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    answer = await post(client, f"/api/v1/namespaces/default/serviceaccounts/{name}/token", request)
    return answer["status"]["token"]
