"""Who may do what, by the roles that are stored: kube-apiserver 1.36, plugin/pkg/auth/authorizer/rbac/rbac.go.

Administrators (`system:masters`) may do everything. Aggregated roles are put together when they are asked for; a real
cluster has a controller write them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tutti_sim.meta import Json
from tutti_sim.meta.selectors import from_object
from tutti_sim.rest.backend import Backend
from tutti_sim.rest.metadata import User

_GROUP: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Attributes:
    """What somebody wants to do: to a resource, or, with a `path`, to what is none."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def of_review(cls, spec: Json) -> Attributes:
        """Return what an access review asks about."""
        beside = spec.get("nonResourceAttributes")
        if beside:
            return cls(str(beside.get("verb", "")), path=str(beside.get("path", "")))
        asked = spec.get("resourceAttributes") or {}
        below = f"/{asked['subresource']}" if asked.get("subresource") else ""
        return cls(
            str(asked.get("verb", "")),
            str(asked.get("group", "")),
            f"{asked.get('resource', '')}{below}",
            str(asked.get("namespace", "")),
            str(asked.get("name", "")),
        )


def permits(backend: Backend, user: User, asked: Attributes) -> bool:
    """Whether a role lets somebody do it."""
    if "system:masters" in user.groups:
        return True
    return any(_allows(rule, asked) for rule in _rules_of(backend, user, asked.namespace))


def _rules_of(backend: Backend, user: User, namespace: str) -> Iterator[Json]:
    """Yield the rules that somebody has in the whole cluster, and in a namespace."""
    for binding in _all(backend, "clusterrolebindings"):
        if _concerns(binding, user):
            yield from _role_rules(backend, binding["roleRef"], "")
    for binding in _all(backend, "rolebindings", namespace) if namespace else ():
        if _concerns(binding, user):
            yield from _role_rules(backend, binding["roleRef"], namespace)


def _all(backend: Backend, plural: str, namespace: str = "") -> Iterator[Json]:
    resource = backend.resource(_GROUP, "v1", plural)
    return (version.obj for version in backend.collection(resource).scan(namespace))


def _concerns(binding: Json, user: User) -> bool:
    return any(_is(subject, user) for subject in binding.get("subjects") or ())


def _is(subject: Json, user: User) -> bool:
    name = subject.get("name", "")
    match subject.get("kind"):
        case "User":
            return bool(name == user.name)
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            return user.name == f"system:serviceaccount:{subject.get('namespace', '')}:{name}"
        case _:
            return False


def _role_rules(backend: Backend, reference: Json, namespace: str) -> Sequence[Json]:
    plural, where = ("roles", namespace) if reference.get("kind") == "Role" else ("clusterroles", "")
    found = backend.collection(backend.resource(_GROUP, "v1", plural)).get(where, reference.get("name", ""))
    if found is None:
        return ()
    selectors = (found.obj.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    if not selectors:
        return found.obj.get("rules") or ()
    chosen = [from_object(selector) for selector in selectors]
    return [
        rule
        for role in _all(backend, "clusterroles")
        if any(one(role["metadata"].get("labels") or {}) for one in chosen)
        for rule in role.get("rules") or ()
    ]


def _allows(rule: Json, asked: Attributes) -> bool:
    """Whether a rule covers it (pkg/apis/rbac/v1/evaluation_helpers.go)."""
    if not _covers(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        urls = rule.get("nonResourceURLs") or ()
        return any(one in ("*", asked.path) or _begins(one, asked.path) for one in urls)
    names = rule.get("resourceNames") or ()
    if names and asked.name not in names:
        return False
    return _covers(rule.get("apiGroups"), asked.group) and _covers_resource(rule.get("resources") or (), asked.resource)


def _covers(named: Sequence[str] | None, one: str) -> bool:
    return "*" in (named or ()) or one in (named or ())


def _covers_resource(named: Sequence[str], one: str) -> bool:
    _, slash, below = one.partition("/")
    return _covers(named, one) or bool(slash and f"*/{below}" in named)


def _begins(pattern: str, path: str) -> bool:
    return pattern.endswith("*") and path.startswith(pattern[:-1])
