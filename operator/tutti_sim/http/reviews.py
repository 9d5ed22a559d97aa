"""Kinds that are questions: who am I, may I, is this token good."""

from __future__ import annotations

from collections.abc import Callable

from tutti_sim.kinds.resource import Resource
from tutti_sim.meta import Json
from tutti_sim.rest.metadata import User
from tutti_sim.rest.rbac import Attributes

ADMIN = User("tutti-admin", ("system:masters", "system:authenticated"))
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def allowed(user: User) -> bool:
    """Whether a user may do everything; the others may look at versions and health only."""
    return "system:masters" in user.groups


def _rules(spec: Json, user: User) -> Json:
    del spec
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    return {
        "resourceRules": [everything] if allowed(user) else [],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}] if allowed(user) else [],
        "incomplete": False,
    }


def _self(spec: Json, user: User) -> Json:
    del spec
    return {"userInfo": {"username": user.name, "groups": list(user.groups)}}


Question = Callable[[Json, User], Json]


class Reviews:
    """Answers reviews; `identify` tells whose a token is, and `permits` what somebody may do."""

    def __init__(self, identify: Callable[[str], User | None], permits: Callable[[User, Attributes], bool]) -> None:
        self._identify = identify
        self._permits = permits
        self._questions: dict[str, Question] = {
            "selfsubjectaccessreviews": self._access,
            "subjectaccessreviews": self._access,
            "localsubjectaccessreviews": self._access,
            "selfsubjectrulesreviews": _rules,
            "selfsubjectreviews": _self,
            "tokenreviews": self._token,
        }

    def knows(self, resource: Resource) -> bool:
        """Whether a resource is a review."""
        return resource.plural in self._questions

    def answer(self, resource: Resource, body: Json, user: User) -> Json:
        """The review with its status."""
        spec = body.get("spec") or {}
        status = self._questions[resource.plural](spec, user)
        return {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": {"creationTimestamp": None},
            "spec": spec,
            "status": status,
        }

    def _access(self, spec: Json, user: User) -> Json:
        groups = spec.get("groups")
        asked = user if "user" not in spec and groups is None else User(spec.get("user", ""), tuple(groups or ()))
        return {"allowed": self._permits(asked, Attributes.of_review(spec))}

    def _token(self, spec: Json, user: User) -> Json:
        del user
        owner = self._identify(str(spec.get("token", "")))
        if owner is None:
            return {"authenticated": False, "user": {}}
        return {"authenticated": True, "user": {"username": owner.name, "groups": list(owner.groups)}}
