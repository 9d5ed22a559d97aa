"""The strategy of roles and their bindings (pkg/apis/rbac)."""

from __future__ import annotations

from tutti_sim.kinds.resource import Strategy
from tutti_sim.meta import Json, names
from tutti_sim.meta.checks import check_text
from tutti_sim.meta.errors import FieldError, invalid, required, unsupported

GROUP = "rbac.authorization.k8s.io"
SUBJECTS = ("ServiceAccount", "User", "Group")


class RoleStrategy(Strategy):
    """RBAC kinds, whose names only have to fit a path."""

    create_on_update = True

    def default(self, obj: Json) -> None:
        """Subjects and role references belong to groups."""
        for subject in obj.get("subjects", ()):
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", "rbac.authorization.k8s.io")
        if obj["kind"] in ("Role", "ClusterRole"):
            obj.setdefault("rules", None)
        else:
            role = obj.setdefault("roleRef", {})
            role["apiGroup"] = role.get("apiGroup") or GROUP

    def check_name(self, name: str) -> list[str]:
        """A path segment."""
        return names.path_faults(name)

    def validate(self, obj: Json) -> list[FieldError]:
        """Every rule allows something (pkg/apis/rbac/validation, ValidatePolicyRule)."""
        if obj["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            return _binding(obj)
        found = [_rule(rule, f"rules[{i}]", obj["kind"] == "Role") for i, rule in enumerate(obj.get("rules") or ())]
        return [error for errors in found for error in errors]

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """A binding's role stays."""
        if new.get("roleRef") == old.get("roleRef"):
            return []
        return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]


def _rule(rule: Json, at: str, namespaced: bool) -> list[FieldError]:
    errors = [] if rule.get("verbs") else [required(f"{at}.verbs", "verbs must contain at least one value")]
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            errors.append(invalid(f"{at}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.keys() & {"apiGroups", "resources", "resourceNames"}:
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(f"{at}.nonResourceURLs", urls, text))
        return errors
    for field, one in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(field):
            errors.append(required(f"{at}.{field}", f"resource rules must supply at least one {one}"))
    return errors


def _binding(obj: Json) -> list[FieldError]:
    """A binding is of a role, and for subjects that can be told (ValidateRoleBinding)."""
    role, errors = obj.get("roleRef") or {}, list[FieldError]()
    kinds = ("Role", "ClusterRole") if obj["kind"] == "RoleBinding" else ("ClusterRole",)
    if role.get("apiGroup", "") != GROUP:
        errors.append(unsupported("roleRef.apiGroup", role.get("apiGroup", ""), (GROUP,)))
    if role.get("kind", "") not in kinds:
        errors.append(unsupported("roleRef.kind", role.get("kind", ""), kinds))
    name = role.get("name", "")
    errors.extend(check_text(name, "roleRef.name", names.path_faults) if name else [required("roleRef.name")])
    for index, subject in enumerate(obj.get("subjects") or ()):
        errors.extend(_subject(subject, f"subjects[{index}]", namespaced=obj["kind"] == "RoleBinding"))
    return errors


def _subject(subject: Json, at: str, *, namespaced: bool) -> list[FieldError]:
    kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
    errors = [] if name else [required(f"{at}.name")]
    if kind == "ServiceAccount":
        if name:
            errors.extend(check_text(name, f"{at}.name", names.subdomain_faults))
        if group:
            errors.append(unsupported(f"{at}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{at}.namespace"))
    elif kind not in ("User", "Group"):
        errors.append(unsupported(f"{at}.kind", kind, SUBJECTS))
    elif group != GROUP:
        errors.append(unsupported(f"{at}.apiGroup", group, (GROUP,)))
    return errors
