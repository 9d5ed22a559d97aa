"""Validation of the kinds that keep pods (pkg/apis/apps/validation)."""

from __future__ import annotations

import re
from typing import Any

from tutti_sim.kinds.templates import check_template
from tutti_sim.meta import Json
from tutti_sim.meta.checks import check_label_selector, check_least
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid, required, unsupported
from tutti_sim.meta.selectors import from_object

ROLLOUTS = ("Recreate", "RollingUpdate")
SHARE = re.compile(r"\d+%")
UNREADABLE = {"Deployment": "invalid label selector", "ReplicaSet": "invalid label selector", "StatefulSet": ""}
"""What is said of selectors that cannot be read, where the template is not looked at then."""
SHARE_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def check_workload(obj: Json) -> list[FieldError]:
    """What is wrong with a Deployment or one of its kin."""
    spec, kind = obj["spec"], obj["kind"]
    errors: list[FieldError] = []
    if kind == "StatefulSet":
        errors.extend(_stateful(spec))
    errors.extend(check_least(spec.get("replicas"), "spec.replicas"))
    if kind in ("ReplicaSet", "ReplicationController"):
        errors.extend(check_least(spec.get("minReadySeconds"), "spec.minReadySeconds"))
    errors.extend(_selector(spec, kind))
    detail = UNREADABLE.get(kind)
    if detail is not None and check_label_selector(spec.get("selector"), ""):
        errors.append(invalid("spec.selector", _shown_selector(spec["selector"]), detail))
    else:
        errors.extend(_template(spec, kind))
    if kind == "Deployment":
        errors.extend(_deployment(spec))
    elif kind == "DaemonSet":
        errors.extend(_daemons(spec))
    return errors


def _template(spec: Json, kind: str) -> list[FieldError]:
    pod = spec["template"]["spec"]
    if kind == "StatefulSet":  # its controller names its pods, and their volumes of claims
        own = {one.get("metadata", {}).get("name", "") for one in spec.get("volumeClaimTemplates", ())}
        claims = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sorted(own)]
        others = [one for one in pod.get("volumes", ()) if one.get("name", "") not in own]
        shown = {key: value for key, value in pod.items() if key not in ("hostname", "subdomain")}
        template = {**spec["template"], "spec": {**shown, "volumes": claims + others}}
        errors = check_template(template, "spec.template")
    else:
        errors = check_template(spec["template"], "spec.template")
    if pod.get("restartPolicy") != "Always":
        place = "spec.template.spec.restartPolicy"
        errors.append(unsupported(place, pod.get("restartPolicy"), ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        title = kind if kind in ("StatefulSet", "DaemonSet") else "ReplicaSet"
        place = "spec.template.spec.activeDeadlineSeconds"
        errors.append(forbidden_field(place, f"activeDeadlineSeconds in {title} is not Supported"))
    return errors


def _shown_selector(selector: Json) -> Json:
    """A selector as it is shown where it cannot be read: labels in order."""
    shown: Json = {}
    if selector.get("matchLabels"):
        shown["matchLabels"] = dict(sorted(selector["matchLabels"].items()))
    if selector.get("matchExpressions"):
        shown["matchExpressions"] = [
            {"key": one.get("key", ""), "operator": one.get("operator", "")}
            | ({"values": one["values"]} if one.get("values") else {})
            for one in selector["matchExpressions"]
        ]
    return shown


def _selector(spec: Json, kind: str) -> list[FieldError]:
    labels = spec["template"].get("metadata", {}).get("labels", {})
    selector = spec.get("selector")
    if kind == "ReplicationController":
        selector = {"matchLabels": selector or labels}
    if selector is None:
        errors = [required("spec.selector")]
    else:
        errors = check_label_selector(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            what = kind.lower() if kind in ("StatefulSet", "DaemonSet") else "deployment"
            errors.append(invalid("spec.selector", {}, f"empty selector is invalid for {what}"))
    if (not errors and selector is not None and not from_object(selector)(labels)) or (errors and selector is None):
        text = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels or None, text))
    return errors


def _deployment(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    strategy = spec.get("strategy", {})
    kind, rolling = strategy.get("type", "RollingUpdate"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            errors.append(forbidden_field("spec.strategy.rollingUpdate", text))
    elif kind == "RollingUpdate":
        errors.extend(_rolling(rolling or {}, "spec.strategy.rollingUpdate"))
    else:
        shown = {"Type": kind, "RollingUpdate": rolling}
        errors.append(unsupported("spec.strategy", shown, ROLLOUTS))
    errors.extend(check_least(spec.get("minReadySeconds"), "spec.minReadySeconds"))
    errors.extend(check_least(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        errors.extend(check_least(deadline, "spec.progressDeadlineSeconds"))
        if deadline <= spec.get("minReadySeconds", 0):
            text = "must be greater than minReadySeconds"
            errors.append(invalid("spec.progressDeadlineSeconds", deadline, text))
    return errors


def _daemons(spec: Json) -> list[FieldError]:
    errors = check_least(spec.get("minReadySeconds"), "spec.minReadySeconds")
    strategy, at = spec.get("updateStrategy", {}), "spec.updateStrategy"
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        for field in ("maxUnavailable", "maxSurge"):
            errors.extend(check_count_or_share((rolling or {}).get(field, 0), f"{at}.rollingUpdate.{field}"))
        gone, more = ((rolling or {}).get(field, 0) for field in ("maxUnavailable", "maxSurge"))
        if not _is_zero(gone) and not _is_zero(more):
            text = "may not be set when maxUnavailable is non-zero"
            errors.append(invalid(f"{at}.rollingUpdate.maxSurge", more, text))
        elif _is_zero(gone) and _is_zero(more):
            errors.append(required(f"{at}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    elif kind != "OnDelete":
        shown = {"Type": kind, "RollingUpdate": rolling}
        errors.append(unsupported(at, shown, ("RollingUpdate", "OnDelete")))
    return errors


def _rolling(rolling: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("maxUnavailable", "maxSurge"):
        errors.extend(check_count_or_share(rolling.get(field, 0), f"{at}.{field}"))
    if not errors and all(_is_zero(rolling.get(field, 0)) for field in ("maxUnavailable", "maxSurge")):
        text = "may not be 0 when `maxSurge` is 0"
        errors.append(invalid(f"{at}.maxUnavailable", rolling.get("maxUnavailable", 0), text))
    share = rolling.get("maxUnavailable", 0)
    if isinstance(share, str) and SHARE.fullmatch(share) and int(share[:-1]) > 100:  # noqa: PLR2004 - all of them
        errors.append(invalid(f"{at}.maxUnavailable", share, "must not be greater than 100%"))
    return errors


def _is_zero(value: Any) -> bool:
    return value in (0, "0%")


def check_count_or_share(value: int | str, at: str) -> list[FieldError]:
    """What is wrong with a count, or a share of all that is told in percent."""
    if isinstance(value, int):
        return check_least(value, at)
    return [] if SHARE.fullmatch(value) else [invalid(at, value, SHARE_RULE)]


def _stateful(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        errors.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    kind = spec.get("updateStrategy", {}).get("type", "")
    rolling = spec.get("updateStrategy", {}).get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            text = "only allowed for updateStrategy 'RollingUpdate'"
            errors.append(invalid("spec.updateStrategy.rollingUpdate", rolling, text))
    elif kind != "RollingUpdate":
        errors.append(
            invalid("spec.updateStrategy", spec.get("updateStrategy"), "must be 'RollingUpdate' or 'OnDelete'")
        )
    elif rolling is not None:
        errors.extend(check_least(rolling.get("partition"), "spec.updateStrategy.rollingUpdate.partition"))
    return errors
