"""People of a cluster: service accounts with tokens, and what roles let them list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tutti.kube.client import Client

Json = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
_MANIFESTS = Path(__file__).parents[2] / "manifests"


def _role(file: str, name: str) -> Json:
    found = yaml.safe_load_all((_MANIFESTS / file).read_text())
    return next(one for one in found if (one["kind"], one["metadata"]["name"]) == ("ClusterRole", name))


_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
_VIEW: Json = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "view"},
    "rules": [*_role("base/user-roles.yaml", "tutti-view")["rules"], _PODS],
}
"""What Kubernetes' controllers make of its role `view`, of which ours is a part: it lists no nodes."""


async def make_roles(client: Client) -> None:
    """Have the roles that people are given: in a namespace `view`, and everywhere what `manifests/viewer.yaml` allows."""
    for role in (_VIEW, _role("viewer.yaml", "tutti-viewer")):
        await post(client, f"{RBAC}/clusterroles", role)


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
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "tutti-viewer" if everywhere else "view"}
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
