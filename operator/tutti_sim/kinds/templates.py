"""Pod templates: what they are given where they say nothing, and what may be wrong with them."""

from __future__ import annotations

from tutti_sim.kinds.poddefaults import default_spec
from tutti_sim.kinds.podrules import check_spec
from tutti_sim.meta import Json, names
from tutti_sim.meta.checks import check_labels, check_text
from tutti_sim.meta.errors import FieldError


def default_template(owner: Json) -> None:
    """Fill in the pod template of a workload's specification."""
    template = owner.setdefault("template", {})
    template.setdefault("metadata", {})
    default_spec(template.setdefault("spec", {}))


def check_template(template: Json, at: str) -> list[FieldError]:
    """What is wrong with a pod template."""
    meta = template.get("metadata", {})
    errors = list(check_labels(meta.get("labels", {}), f"{at}.labels"))
    for key in sorted(meta.get("annotations", {})):
        errors.extend(check_text(key, f"{at}.annotations", lambda text: names.qualified_faults(text.lower())))
    return [*errors, *check_spec(template["spec"], f"{at}.spec")]
