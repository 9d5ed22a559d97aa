"""Discovery: which groups, versions and resources there are, one by one and in the aggregated form."""

from __future__ import annotations

import base64
import hashlib
from contextvars import ContextVar

from tutti_sim.http.rendering import ranges
from tutti_sim.kinds.resource import Registry, Resource, Subresource
from tutti_sim.meta import Json

HIDDEN: ContextVar[frozenset[str]] = ContextVar("hidden", default=frozenset())
"""Kinds, as `<plural>.<group>`, that the list of a group and version does not show to this request."""
AGGREGATED = ("v2", "v2beta1")
VERSION: Json = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-06-09T00:00:00Z",
    "goVersion": "go1.26",
    "compiler": "gc",
    "platform": "linux/amd64",
}


def aggregated_version(accept: str) -> str:
    """The version of aggregated discovery that a client wants and can have; empty when it wants the plain form."""
    for entry in ranges(accept):
        if entry.params.get("as") != "APIGroupDiscoveryList":
            if entry.media in ("application/json", "*/*", "application/*"):
                return ""
        elif entry.params.get("g") == "apidiscovery.k8s.io" and entry.params.get("v") in AGGREGATED:
            return entry.params["v"]
    return ""


def core_versions(address: str) -> Json:
    """The answer of `/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group(registry: Registry, name: str) -> Json:
    """One group with its versions."""
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in registry.groups()[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def group_list(registry: Registry) -> Json:
    """The answer of `/apis`."""
    groups = [group(registry, name) for name in registry.groups() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def resource_list(registry: Registry, name: str, version: str) -> Json:
    """The answer of `/api/v1` and `/apis/<group>/<version>`."""
    entries: list[Json] = []
    hidden = HIDDEN.get()
    for resource in registry.within(name, version):
        if hidden and f"{resource.plural}.{name}" in hidden:
            continue
        entries.append(_entry(resource))
        for path, subresource in sorted(resource.subresources.items()):
            entries.append(_sub_entry(resource, path, subresource))
    group_version = f"{name}/{version}" if name else version
    listing: Json = {"kind": "APIResourceList", "groupVersion": group_version, "resources": entries}
    return {"kind": "APIResourceList", "apiVersion": "v1", **listing} if name else listing


def _entry(resource: Resource) -> Json:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if "list" in resource.verbs:
        entry["storageVersionHash"] = _hash(f"{resource.group}/{resource.version}/{resource.kind}")
    return entry


def _sub_entry(resource: Resource, path: str, subresource: Subresource) -> Json:
    entry: Json = {
        "name": f"{resource.plural}/{path}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": subresource.kind,
        "verbs": list(subresource.verbs),
    }
    if subresource.version:
        entry["group"], entry["version"] = subresource.group, subresource.version
    return entry


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def aggregated(registry: Registry, version: str, *, core: bool) -> Json:
    """The answer of `/api` (core) or `/apis` in the aggregated form."""
    items = [
        {
            "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
            "versions": [_group_version(registry, name, one) for one in versions],
        }
        for name, versions in registry.groups().items()
        if bool(name) is not core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def _group_version(registry: Registry, name: str, version: str) -> Json:
    resources = [_discovered(resource) for resource in registry.within(name, version)]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _discovered(resource: Resource) -> Json:
    entry: Json = {
        "resource": resource.plural,
        "responseKind": {"group": "", "version": "", "kind": resource.kind}
        if not resource.custom
        else {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": path,
                "responseKind": {"group": one.group, "version": one.version, "kind": one.kind},
                "verbs": list(one.verbs),
            }
            for path, one in sorted(resource.subresources.items())
        ]
    return entry


def root_paths(registry: Registry) -> Json:
    """The answer of `/`."""
    paths = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
    for name, versions in registry.groups().items():
        if name:
            paths += [f"/apis/{name}", *(f"/apis/{name}/{version}" for version in versions)]
    return {"paths": sorted(paths)}
