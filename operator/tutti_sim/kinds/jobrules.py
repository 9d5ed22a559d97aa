"""Validation of Jobs and CronJobs (pkg/apis/batch/validation)."""

from __future__ import annotations

import re
from typing import Any

from tutti_sim.kinds.templates import check_template
from tutti_sim.meta import Json, names
from tutti_sim.meta.checks import check_label_selector, check_least, check_text
from tutti_sim.meta.errors import FieldError, invalid, omitted, required, shown_value, too_long, too_many, unsupported
from tutti_sim.meta.selectors import from_object

REPLACEMENTS = ("Failed", "TerminatingOrFailed")
MODES = ("NonIndexed", "Indexed")
ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
OPERATORS = ("In", "NotIn")
STATUSES = ("False", "True", "Unknown")
CONCURRENCY = ("Allow", "Forbid", "Replace")
MOST_RULES, MOST_CODES, MOST_PARALLEL = 20, 255, 100_000
PATH = re.compile(r"[a-zA-Z0-9!$&'()*+,;=:@%._~/-]+")
INDEXED = "requires indexed completion mode"
CRON_NAME_LIMIT = 52


def check_job(spec: Json, at: str) -> list[FieldError]:
    """What is wrong with a Job's specification, its selector aside."""
    errors: list[FieldError] = []
    for field in (
        "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
        "backoffLimitPerIndex", "maxFailedIndexes",
    ):  # fmt: skip
        errors.extend(check_least(spec.get(field), f"{at}.{field}"))
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        errors.append(required(f"{at}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    errors.extend(_managed_by(spec.get("managedBy"), f"{at}.managedBy"))
    errors.extend(_completion(spec, at))
    if "podFailurePolicy" in spec:
        errors.extend(_failure_policy(spec, f"{at}.podFailurePolicy"))
    if "successPolicy" in spec:
        errors.extend(_success_policy(spec, f"{at}.successPolicy"))
    replacement = spec.get("podReplacementPolicy", "Failed")
    if replacement not in REPLACEMENTS:
        errors.append(unsupported(f"{at}.podReplacementPolicy", replacement, REPLACEMENTS))
    elif "podFailurePolicy" in spec and replacement != "Failed":
        errors.append(unsupported(f"{at}.podReplacementPolicy", replacement, ("Failed",)))
    errors.extend(check_template(spec["template"], f"{at}.template"))
    errors.extend(_restarts(spec, at))
    return errors


def _restarts(spec: Json, at: str) -> list[FieldError]:
    where, given = f"{at}.template.spec.restartPolicy", spec["template"]["spec"].get("restartPolicy")
    if given in ("", "Always"):
        return [required(where, 'valid values: "OnFailure", "Never"')]
    if given not in ("OnFailure", "Never"):
        return [unsupported(where, given, ("OnFailure", "Never"))]
    if "podFailurePolicy" in spec and given != "Never":
        return [invalid(where, given, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _managed_by(name: str | None, at: str) -> list[FieldError]:
    if name is None:
        return []
    domain, _, path = name.partition("/")
    errors: list[FieldError] = []
    if not name or not path:
        errors.append(invalid(at, name, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        errors.extend(check_text(domain, at, names.subdomain_faults))
        if not PATH.fullmatch(path):
            errors.append(invalid(at, path, f"Invalid path (regex used for validation is '{PATH.pattern}')"))
    if len(name) > names.LABEL_LIMIT:
        errors.append(too_long(at, names.LABEL_LIMIT))
    return errors


def _completion(spec: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    mode, wanted, failed = (
        spec.get("completionMode", "NonIndexed"),
        spec.get("completions"),
        spec.get("maxFailedIndexes"),
    )
    if mode not in MODES:
        return [unsupported(f"{at}.completionMode", mode, MODES)]
    if mode == "NonIndexed":
        errors.extend(
            invalid(f"{at}.{field}", spec[field], INDEXED)
            for field in ("backoffLimitPerIndex", "maxFailedIndexes")
            if field in spec
        )
        return errors
    if wanted is None:
        return [required(f"{at}.completions", "when completion mode is Indexed")]
    if spec.get("parallelism", 0) > MOST_PARALLEL:
        text = f"must be less than or equal to {MOST_PARALLEL} when completion mode is Indexed"
        errors.append(invalid(f"{at}.parallelism", spec["parallelism"], text))
    if failed is not None and failed > wanted:
        errors.append(invalid(f"{at}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    return errors


def _failure_policy(spec: Json, at: str) -> list[FieldError]:
    rules, pod = spec["podFailurePolicy"].get("rules") or (), spec["template"]["spec"]
    errors: list[FieldError] = []
    if len(rules) > MOST_RULES:
        errors.append(too_many(f"{at}.rules", len(rules), MOST_RULES))
    known = {one.get("name") for field in ("containers", "initContainers") for one in pod.get(field, ())}
    for index, rule in enumerate(rules):
        errors.extend(_failure_rule(rule, f"{at}.rules[{index}]", known, indexed="backoffLimitPerIndex" in spec))
    return errors


def _one_of(values: tuple[str, ...]) -> str:
    return f"valid values: [{' '.join(map(shown_value, values))}]"


def _failure_rule(rule: Json, at: str, known: set[Any], *, indexed: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if not action:
        errors.append(required(f"{at}.action", _one_of(ACTIONS)))
    elif action == "FailIndex" and not indexed:
        errors.append(invalid(f"{at}.action", action, "requires the backoffLimitPerIndex to be set"))
    elif action not in ACTIONS:
        errors.append(unsupported(f"{at}.action", action, ACTIONS))
    if codes is not None:
        errors.extend(_exit_codes(codes, f"{at}.onExitCodes", known))
    if len(conditions) > MOST_RULES:
        errors.append(too_many(f"{at}.onPodConditions", len(conditions), MOST_RULES))
    for index, one in enumerate(conditions):
        errors.extend(_condition(one, f"{at}.onPodConditions[{index}]"))
    if codes is not None and conditions:
        errors.append(omitted(at, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if codes is None and not conditions:
        errors.append(omitted(at, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _condition(one: Json, at: str) -> list[FieldError]:
    errors = check_text(one.get("type", ""), f"{at}.type", names.qualified_faults)
    status = one.get("status", "")
    if not status:
        errors.append(required(f"{at}.status", _one_of(STATUSES)))
    elif status not in STATUSES:
        errors.append(unsupported(f"{at}.status", status, STATUSES))
    return errors


def _exit_codes(codes: Json, at: str, known: set[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values, name = codes.get("operator", ""), codes.get("values") or [], codes.get("containerName")
    if not operator:
        errors.append(required(f"{at}.operator", _one_of(OPERATORS)))
    elif operator not in OPERATORS:
        errors.append(unsupported(f"{at}.operator", operator, OPERATORS))
    if name is not None and name not in known:
        text = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{at}.containerName", name, text))
    place = f"{at}.values"
    if not values:
        errors.append(invalid(place, values, "at least one value is required"))
    elif len(values) > MOST_CODES:
        errors.append(too_many(place, len(values), MOST_CODES))
    if operator == "In":
        errors.extend(
            invalid(f"{place}[{index}]", one, "must not be 0 for the In operator")
            for index, one in enumerate(values)
            if one == 0
        )
    if sorted(values) != values:
        errors.append(invalid(place, values, "must be ordered"))
    errors.extend(
        FieldError("FieldValueDuplicate", f"{place}[{index}]", f"Duplicate value: {one}")
        for index, one in enumerate(values)
        if one in values[:index]
    )
    return errors


def _success_policy(spec: Json, at: str) -> list[FieldError]:
    rules = spec["successPolicy"].get("rules") or []
    if spec.get("completionMode") != "Indexed":
        shown = [
            {"SucceededIndexes": one.get("succeededIndexes"), "SucceededCount": one.get("succeededCount")}
            for one in rules
        ]
        return [invalid(at, {"Rules": shown or None}, INDEXED)]
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        return [required(f"{at}.rules", text)]
    errors: list[FieldError] = []
    if len(rules) > MOST_RULES:
        errors.append(too_many(f"{at}.rules", len(rules), MOST_RULES))
    for index, rule in enumerate(rules):
        errors.extend(_success_rule(rule, f"{at}.rules[{index}]", spec.get("completions") or 0))
    return errors


def _success_rule(rule: Json, at: str, completions: int) -> list[FieldError]:
    errors: list[FieldError] = []
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        return [required(at, "at least one of succeededCount or succeededIndexes must be specified")]
    total = completions
    if indexes is not None:
        found = _count_indexes(indexes, completions)
        if isinstance(found, str):
            errors.append(invalid(f"{at}.succeededIndexes", indexes, f"error parsing succeededIndexes: {found}"))
        else:
            total = found
    if count is not None:
        errors.extend(check_least(count, f"{at}.succeededCount"))
        if count > completions:
            text = "must be less than or equal to {} (the number of specified completions)"
            errors.append(invalid(f"{at}.succeededCount", count, text.format(completions)))
        elif not errors and indexes is not None and count > total:
            text = "must be less than or equal to {} (the number of indexes in the specified succeededIndexes field)"
            errors.append(invalid(f"{at}.succeededCount", count, text.format(total)))
    return errors


def _count_indexes(text: str, completions: int) -> int | str:
    """How many indexes a text names, or what is wrong with it."""
    total, last = 0, -1
    if not text:
        return 0
    for part in text.split(","):
        bounds = part.split("-")
        if len(bounds) > 2:  # noqa: PLR2004 - from and to
            rule = "the requirement that an index interval can have at most two parts separated by '-'"
            return f"the fragment {shown_value(part)} violates {rule}"
        if not all(one.isdecimal() for one in bounds):
            wrong = next(one for one in bounds if not one.isdecimal())
            return f"cannot convert string to integer for index: {shown_value(wrong)}"
        first, final = int(bounds[0]), int(bounds[-1])
        if final >= completions:
            return f"too large index: {shown_value(bounds[-1])}"
        if first <= last or final < first:
            return "non-increasing order"
        total, last = total + final - first + 1, final
    return total


def check_selector(spec: Json) -> list[FieldError]:
    """What is wrong with what tells a Job's pods."""
    selector, labels = spec.get("selector"), spec["template"].get("metadata", {}).get("labels", {})
    none = [required("spec.selector")]
    errors = none if selector is None else check_label_selector(selector, "spec.selector")
    if (not errors and not from_object(selector)(labels)) or selector is None:
        text = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels or None, text))
    return errors


def check_cron(obj: Json) -> list[FieldError]:
    """What is wrong with a CronJob."""
    spec, errors = obj["spec"], list[FieldError]()
    if len(obj["metadata"].get("name", "")) > CRON_NAME_LIMIT:
        text = f"must be no more than {CRON_NAME_LIMIT} characters"
        errors.append(invalid("metadata.name", obj["metadata"]["name"], text))
    if not spec.get("schedule"):
        errors.append(required("spec.schedule"))
    for field in ("startingDeadlineSeconds",):
        errors.extend(check_least(spec.get(field), f"spec.{field}"))
    policy = spec.get("concurrencyPolicy", "Allow")
    if policy not in CONCURRENCY:
        errors.append(unsupported("spec.concurrencyPolicy", policy, CONCURRENCY))
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors.extend(check_least(spec.get(field), f"spec.{field}"))
    return [*errors, *check_job(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")]
