"""Whether a role allows a request, by the rules of Kubernetes RBAC (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

from pathlib import Path

import yaml

BASE = Path(__file__).parents[2] / "manifests" / "base"

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def documents(name):
    return [document for document in yaml.safe_load_all((BASE / name).read_text()) if document]


def framework_rules():
    """The rule that each component of `components/frameworks` adds to the role, by the name of its folder."""
    files = sorted((BASE.parent / "components" / "frameworks").glob("*/rule.yaml"))
    return {file.parent.name: [patch["value"] for patch in yaml.safe_load(file.read_text())] for file in files}


def device_rules():
    """What the component `components/devices` adds to the role."""
    file = BASE.parent / "components" / "devices" / "rule.yaml"
    return [patch["value"] for patch in yaml.safe_load(file.read_text())]


def rules():
    """All rules of the service account in an overlay, with the namespace they hold in (None: everywhere)."""
    cluster = documents("cluster-role.yaml")[0]["rules"]
    cluster += [rule for added in framework_rules().values() for rule in added]
    cluster += device_rules()
    lease = documents("lease-role.yaml")[0]
    return [(None, rule) for rule in cluster] + [(lease["metadata"]["namespace"], rule) for rule in lease["rules"]]


def allows(group, resource, verb, *, namespace="", name=""):
    return any(
        where in (None, namespace)
        and group in rule["apiGroups"]
        and resource in rule["resources"]
        and verb in rule["verbs"]
        and (name in rule["resourceNames"] if "resourceNames" in rule else True)
        for where, rule in rules()
    )


def granted():
    """Everything that is allowed: group, resource and verb."""
    return {
        (group, resource, verb)
        for _, rule in rules()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked(method, path, query):
    """What a request asks RBAC for: group, resource (with subresource), verb, namespace, name; None if nothing."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None  # discovery and versions are open to every authenticated client
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 2 else ""
    rest = rest[2:] if namespace else rest
    name = rest[1] if len(rest) > 1 else ""
    resource = "/".join([rest[0], *rest[2:3]])
    if method == "GET":
        verb = "get" if name else "watch" if query.get("watch") in ("1", "true") else "list"
    else:
        verb = _VERBS[method]
    return group, resource, verb, namespace, name
