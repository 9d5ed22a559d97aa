"""Validation of what a pod says about where it may be: node selectors, affinity, spreading, tolerations and taints.

Node selectors, affinity, spreading: core and apimachinery validation.go.
"""

from __future__ import annotations

from tutti_sim.meta import Json, names
from tutti_sim.meta.checks import check_label_selector, check_labels, check_requirement, check_text
from tutti_sim.meta.errors import FieldError, duplicate, forbidden_field, invalid, required, unsupported

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
HEAVIEST = 100
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
POLICIES = ("Honor", "Ignore")
UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
ALL_KEYS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def check_affinity(affinity: Json, at: str) -> list[FieldError]:
    """What is wrong with a pod's affinity."""
    errors: list[FieldError] = []
    node = affinity.get("nodeAffinity", {})
    if REQUIRED in node:
        errors.extend(check_node_selector(node[REQUIRED], f"{at}.nodeAffinity.{REQUIRED}"))
    for index, term in enumerate(node.get(PREFERRED, ())):
        where = f"{at}.nodeAffinity.{PREFERRED}[{index}]"
        errors.extend(_weight(term, where))
        errors.extend(_node_term(term.get("preference", {}), f"{where}.preference"))
    for kind in ("podAffinity", "podAntiAffinity"):
        own = affinity.get(kind, {})
        for index, term in enumerate(own.get(REQUIRED, ())):
            errors.extend(_pod_term(term, f"{at}.{kind}.{REQUIRED}[{index}]"))
        for index, term in enumerate(own.get(PREFERRED, ())):
            where = f"{at}.{kind}.{PREFERRED}[{index}]"
            errors.extend(_weight(term, where))
            errors.extend(_pod_term(term.get("podAffinityTerm", {}), f"{where}.podAffinityTerm"))
    return errors


def _weight(term: Json, at: str) -> list[FieldError]:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= HEAVIEST else [invalid(f"{at}.weight", weight, f"must be in the range 1-{HEAVIEST}")]


def check_node_selector(selector: Json, at: str) -> list[FieldError]:
    """What is wrong with a node selector, of a pod or of a volume."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{at}.nodeSelectorTerms", "must have at least one node selector term")]
    return [error for index, term in enumerate(terms) for error in _node_term(term, f"{at}.nodeSelectorTerms[{index}]")]


def _node_term(term: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, one in enumerate(term.get("matchExpressions", ())):
        errors.extend(check_requirement(one, f"{at}.matchExpressions[{index}]", compares=True))
    for index, one in enumerate(term.get("matchFields", ())):
        errors.extend(_field_requirement(one, f"{at}.matchFields[{index}]"))
    return errors


def _field_requirement(one: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values, key = one.get("operator", ""), one.get("values", ()), one.get("key", "")
    if operator in ("In", "NotIn"):
        if len(values) != 1:
            text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(required(f"{at}.values", text))
    else:
        errors.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
    if key != "metadata.name":
        errors.append(invalid(f"{at}.key", key, "not a valid field selector key"))
        return errors
    for index, value in enumerate(values):
        errors.extend(check_text(value, f"{at}.values[{index}]", names.subdomain_faults))
    return errors


def _pod_term(term: Json, at: str) -> list[FieldError]:
    errors = check_label_selector(term.get("labelSelector"), f"{at}.labelSelector")
    errors.extend(check_label_selector(term.get("namespaceSelector"), f"{at}.namespaceSelector"))
    for name in term.get("namespaces", ()):
        errors.extend(check_text(name, f"{at}.namespace", names.label_faults))
    errors.extend(_label_keys(term, at, "matchLabelKeys"))
    errors.extend(_label_keys(term, at, "mismatchLabelKeys"))
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{at}.topologyKey", "can not be empty"))
    errors.extend(check_text(key, f"{at}.topologyKey", names.qualified_faults))
    return errors


def _label_keys(owner: Json, at: str, field: str) -> list[FieldError]:
    """What is wrong with keys whose values a pod's own labels give."""
    keys = owner.get(field) or ()
    if not keys:
        return []
    if owner.get("labelSelector") is None:
        return [forbidden_field(f"{at}.{field}", "must not be specified when labelSelector is not set")]
    errors: list[FieldError] = []
    selector = owner["labelSelector"]
    taken = {*selector.get("matchLabels", {}), *(one.get("key") for one in selector.get("matchExpressions", ()))}
    for index, key in enumerate(keys):
        errors.extend(check_text(key, f"{at}.{field}[{index}]", names.qualified_faults))
        if field == "matchLabelKeys" and key in taken and "minDomains" in owner:
            errors.append(invalid(f"{at}.{field}[{index}]", key, "exists in both matchLabelKeys and labelSelector"))
    return errors


def check_spreads(constraints: list[Json], at: str) -> list[FieldError]:
    """What is wrong with topology spread constraints."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, one in enumerate(constraints):
        where = f"{at}[{index}]"
        errors.extend(_spread(one, where))
        pair = (one.get("topologyKey", ""), one.get("whenUnsatisfiable", ""))
        if pair in seen:
            errors.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}"))
        seen.add(pair)
    return errors


def _spread(one: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    skew, when, domains = one.get("maxSkew", 0), one.get("whenUnsatisfiable", ""), one.get("minDomains")
    if skew <= 0:
        errors.append(invalid(f"{at}.maxSkew", skew, "must be greater than zero"))
    if not one.get("topologyKey"):
        errors.append(required(f"{at}.topologyKey", "can not be empty"))
    if when not in UNSATISFIABLE:
        errors.append(unsupported(f"{at}.whenUnsatisfiable", when, UNSATISFIABLE))
    if domains is not None and domains <= 0:
        errors.append(invalid(f"{at}.minDomains", domains, "must be greater than zero"))
    if domains is not None and when != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
        errors.append(invalid(f"{at}.minDomains", domains, text))
    errors.extend(
        unsupported(f"{at}.{field}", one[field], POLICIES)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy")
        if field in one and one[field] not in POLICIES
    )
    errors.extend(_label_keys(one, at, "matchLabelKeys"))
    errors.extend(check_label_selector(one.get("labelSelector"), f"{at}.labelSelector"))
    return errors


def check_tolerations(tolerations: list[Json], at: str) -> list[FieldError]:
    """What is wrong with tolerations."""
    return [error for index, one in enumerate(tolerations) for error in _toleration(one, f"{at}[{index}]")]


def _toleration(one: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, key = one.get("operator", ""), one.get("key", "")
    effect, value = one.get("effect", ""), one.get("value", "")
    if key:
        errors.extend(check_text(key, f"{at}.key", names.qualified_faults))
    elif operator != "Exists":
        errors.append(invalid(f"{at}.operator", operator, ALL_KEYS))
    if one.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.append(invalid(f"{at}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    if operator in ("Equal", ""):
        if fault := ";".join(names.label_value_faults(value)):
            errors.append(invalid(f"{at}.operator", value, fault))
    elif operator == "Exists":
        if value:
            text = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid(f"{at}.operator", _shown(one), text))
    else:
        compares = ("Lt", "Gt") if operator in ("Lt", "Gt") else ()  # known, and behind a gate
        errors.append(unsupported(f"{at}.operator", operator, ("Equal", "Exists", *compares)))
    if effect and effect not in EFFECTS:
        errors.append(unsupported(f"{at}.effect", effect, EFFECTS))
    return errors


def _shown(one: Json) -> Json:
    fields = (("Key", "key"), ("Operator", "operator"), ("Value", "value"), ("Effect", "effect"))
    return {title: one.get(field, "") for title, field in fields} | {"TolerationSeconds": one.get("tolerationSeconds")}


def check_taints(taints: list[Json], at: str) -> list[FieldError]:
    """What is wrong with a node's taints."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        key, effect, value = taint.get("key", ""), taint.get("effect", ""), taint.get("value", "")
        errors.extend(check_text(key, f"{at}[{index}].key", names.qualified_faults))
        if fault := ";".join(names.label_value_faults(value)):
            errors.append(invalid(f"{at}[{index}].value", value, fault))
        if not effect:
            errors.append(required(f"{at}[{index}].effect"))
        elif effect not in EFFECTS:
            errors.append(unsupported(f"{at}[{index}].effect", effect, EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            error = duplicate(f"{at}[{index}]", shown)
            text = f"{error.message}: taints must be unique by key and effect pair"
            errors.append(FieldError(error.reason, error.field, text))
        seen.add((key, effect))
    return errors


def check_selected_labels(labels: Json, at: str) -> list[FieldError]:
    """What is wrong with a plain node selector."""
    return list(check_labels(labels, at))
