"""Strategies of the kinds that run to an end: Jobs and CronJobs."""

from __future__ import annotations

from tutti_sim.kinds.jobrules import check_cron, check_job, check_selector
from tutti_sim.kinds.jobstatus import check_status
from tutti_sim.kinds.podwarnings import OF_PODS, warn_of_name, warn_of_spec
from tutti_sim.kinds.resource import Strategy
from tutti_sim.kinds.templates import default_template
from tutti_sim.meta import Json
from tutti_sim.meta.errors import FieldError, invalid

IMMUTABLE = "field is immutable"


class JobStrategy(Strategy):
    """Jobs: their pods are told by labels that carry the Job's uid."""

    generation = True
    has_status = True
    orphans = True

    def default(self, obj: Json) -> None:
        """Fill in what batch/v1 defaults."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("manualSelector", False)
        default_job(spec)
        labels = spec["template"]["metadata"].get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = labels  # the same ones, also when the Job's own are added

    def prepare_create(self, obj: Json) -> None:
        """Select the Job's own pods, unless the creator selects by hand."""
        obj["status"] = {}
        spec, meta = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        uid = meta["uid"]
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        labels["batch.kubernetes.io/controller-uid"] = uid
        labels["batch.kubernetes.io/job-name"] = meta.get("name", "")
        labels["controller-uid"] = uid
        labels["job-name"] = meta.get("name", "")
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        if not meta.get("labels"):
            meta["labels"] = dict(labels)

    def warnings(self, obj: Json, pattern: bytes) -> list[str]:
        """What is odd in its name, which those of its pods begin with, and in the template."""
        del pattern
        found = warn_of_name(obj["metadata"].get("name", ""), OF_PODS)
        return [*found, *warn_of_spec(obj["spec"]["template"]["spec"], "spec.template.spec")]

    def validate(self, obj: Json) -> list[FieldError]:
        """Check template and counts."""
        return [*check_job(obj["spec"], "spec"), *check_selector(obj["spec"])]

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """Template, selector and completions stay; a suspended Job's scheduling directives may change."""
        errors = self.validate(new)
        before, after = old["spec"], new["spec"]
        fixed = ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy"]
        if before.get("completionMode") != "Indexed":
            fixed.append("completions")
        elif before.get("completions") != after.get("completions") != after.get("parallelism"):
            text = "can only be modified in tandem with spec.parallelism"
            errors.append(invalid("spec.completions", after.get("completions"), text))
        errors.extend(
            invalid(f"spec.{field}", after.get(field), IMMUTABLE)
            for field in fixed
            if before.get(field) != after.get(field)
        )
        loose = bool(before.get("suspend")) and "startTime" not in old.get("status", {})
        if _template(before, loose=loose) != _template(after, loose=loose):
            inner = before["template"]["spec"] != after["template"]["spec"]
            field, value = (
                ("spec.template.spec", after["template"]["spec"]) if inner else ("spec.template", after["template"])
            )
            errors.append(invalid(field, value, IMMUTABLE))
        return errors

    def validate_status(self, new: Json, old: Json) -> list[FieldError]:
        """A Job has not ended without what comes before that."""
        return check_status(new, old)


def _template(spec: Json, *, loose: bool) -> Json:
    """The part of a Job's template that may not change."""
    template = dict(spec["template"])
    if loose:
        directives = ("nodeSelector", "tolerations", "schedulingGates", "affinity")
        template["spec"] = {key: value for key, value in template["spec"].items() if key not in directives}
        template.pop("metadata", None)
    return template


def default_job(spec: Json) -> None:
    """Fill in a Job's specification, also as the template of a CronJob."""
    default_template(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            condition.setdefault("status", "True")
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


class CronJobStrategy(Strategy):
    """Cron jobs, which are stored but never fire."""

    generation = True
    has_status = True

    def default(self, obj: Json) -> None:
        """Fill in what batch/v1 defaults."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        job = template.setdefault("spec", {})
        default_template(job)

    def prepare_create(self, obj: Json) -> None:
        """Nothing has run yet."""
        obj["status"] = {}

    def validate(self, obj: Json) -> list[FieldError]:
        """Check schedule and template."""
        return check_cron(obj)
