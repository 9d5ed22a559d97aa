"""Strategies of the kinds that make pods: Jobs, CronJobs, Deployments and their kin."""

from __future__ import annotations

from tutti_sim.kinds.jobstatus import check_status
from tutti_sim.kinds.poddefaults import default_spec
from tutti_sim.kinds.podrules import check_spec
from tutti_sim.kinds.resource import Strategy
from tutti_sim.meta import Json, names
from tutti_sim.meta.errors import FieldError, invalid, required, unsupported
from tutti_sim.meta.selectors import from_object

IMMUTABLE = "field is immutable"
REPLACEMENTS = ("Failed", "TerminatingOrFailed")
ROLLOUTS = ("Recreate", "RollingUpdate")


def default_template(owner: Json) -> None:
    """Fill in the pod template of a workload's specification."""
    template = owner.setdefault("template", {})
    template.setdefault("metadata", {})
    default_spec(template.setdefault("spec", {}))


def check_template(template: Json, at: str) -> list[FieldError]:
    """What is wrong with a pod template."""
    errors = [
        invalid(f"{at}.labels", value, fault)
        for value in template.get("metadata", {}).get("labels", {}).values()
        if (fault := names.label_value(value))
    ]
    return [*errors, *check_spec(template["spec"], f"{at}.spec")]


class WorkloadStrategy(Strategy):
    """Kinds with a pod template and a selector over its labels."""

    generation = True
    has_status = True
    answers_object = False
    initial_status: Json = {}

    def default(self, obj: Json) -> None:
        """Fill in what apps/v1 defaults."""
        spec = obj.setdefault("spec", {})
        default_template(spec)
        if obj["kind"] != "DaemonSet":
            spec.setdefault("replicas", 1)
        if obj["kind"] == "ReplicationController":
            labels = spec["template"]["metadata"].get("labels", {})
            spec.setdefault("selector", dict(labels))
            if labels and not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)
        if obj["kind"] == "Deployment":
            _deployment(spec)
        elif obj["kind"] in ("StatefulSet", "DaemonSet"):
            _stateful(spec, obj["kind"])

    def prepare_create(self, obj: Json) -> None:
        """Nothing runs yet."""
        obj["status"] = dict(self.initial_status)

    def validate(self, obj: Json) -> list[FieldError]:
        """Check selector and template."""
        spec = obj["spec"]
        errors: list[FieldError] = []
        labels = spec["template"].get("metadata", {}).get("labels", {})
        selector = spec.get("selector")
        if obj["kind"] == "ReplicationController":
            selector = {"matchLabels": selector or labels}
        if selector is None:
            errors.append(required("spec.selector"))
        elif not selector:
            errors.append(invalid("spec.selector", {}, "empty selector is invalid for deployment"))
        elif not from_object(selector)(labels):
            errors.append(
                invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
            )
        kind = spec.get("strategy", {}).get("type", "RollingUpdate")
        if kind not in ROLLOUTS:
            errors.append(unsupported("spec.strategy", spec["strategy"], ROLLOUTS))
        errors.extend(check_template(spec["template"], "spec.template"))
        return errors

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """The selector stays."""
        errors = self.validate(new)
        if new["spec"].get("selector") != old["spec"].get("selector"):
            errors.append(invalid("spec.selector", new["spec"].get("selector"), IMMUTABLE))
        return errors


class ReplicaSetStrategy(WorkloadStrategy):
    """Replica sets, whose status counts from zero."""

    initial_status: Json = {"replicas": 0}


class StatefulSetStrategy(WorkloadStrategy):
    """Stateful sets, whose claim templates are claims."""

    initial_status: Json = {"replicas": 0, "availableReplicas": 0}

    def default(self, obj: Json) -> None:
        """Fill in the claim templates, too."""
        super().default(obj)
        for claim in obj["spec"].get("volumeClaimTemplates", ()):
            claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            claim.setdefault("status", {})["phase"] = "Pending"


class DaemonSetStrategy(WorkloadStrategy):
    """Daemon sets, which count their templates in an annotation."""

    initial_status: Json = dict.fromkeys(
        ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"), 0
    )

    def prepare_create(self, obj: Json) -> None:
        """The first template."""
        super().prepare_create(obj)
        obj["metadata"].setdefault("annotations", {}).setdefault("deprecated.daemonset.template.generation", "1")


class TemplateStrategy(Strategy):
    """Pod templates."""

    generation = True

    def default(self, obj: Json) -> None:
        """As for the pods made from them."""
        default_template(obj)

    def validate(self, obj: Json) -> list[FieldError]:
        """Check the template."""
        return check_template(obj["template"], "template")


def _deployment(spec: Json) -> None:
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _stateful(spec: Json, kind: str) -> None:
    strategy = spec.setdefault("updateStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if kind == "StatefulSet":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        spec.setdefault("podManagementPolicy", "OrderedReady")
        policy = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        policy.setdefault("whenDeleted", "Retain")
        policy.setdefault("whenScaled", "Retain")
    else:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


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

    def prepare_create(self, obj: Json) -> None:
        """Select the Job's own pods, unless the creator selects by hand."""
        obj["status"] = {}
        spec, meta = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        uid = meta["uid"]
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        unlabelled = not meta.get("labels")
        labels["batch.kubernetes.io/controller-uid"] = uid
        labels["batch.kubernetes.io/job-name"] = meta.get("name", "")
        labels["controller-uid"] = uid
        labels["job-name"] = meta.get("name", "")
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        if unlabelled:
            meta["labels"] = dict(labels)

    def validate(self, obj: Json) -> list[FieldError]:
        """Check template and counts."""
        return check_job(obj["spec"], "spec")

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
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


def check_job(spec: Json, at: str) -> list[FieldError]:
    """What is wrong with a Job's specification."""
    errors = [
        invalid(f"{at}.{field}", spec[field], "must be greater than or equal to 0")
        for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
        if spec.get(field, 0) < 0
    ]
    pod = spec["template"]["spec"]
    if pod.get("restartPolicy") not in ("OnFailure", "Never"):
        where = f"{at}.template.spec.restartPolicy"
        if pod.get("restartPolicy") == "Always":
            errors.append(required(where, 'valid values: "OnFailure", "Never"'))
        else:
            errors.append(unsupported(where, pod.get("restartPolicy"), ("OnFailure", "Never")))
    if spec.get("completionMode", "NonIndexed") not in ("NonIndexed", "Indexed"):
        errors.append(unsupported(f"{at}.completionMode", spec["completionMode"], ("NonIndexed", "Indexed")))
    replacement = spec.get("podReplacementPolicy", "Failed")
    if replacement not in REPLACEMENTS:
        errors.append(unsupported(f"{at}.podReplacementPolicy", replacement, REPLACEMENTS))
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        errors.append(required(f"{at}.completions", "when completion mode is Indexed"))
    errors.extend(check_template(spec["template"], f"{at}.template"))
    return errors


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
        errors = [] if obj["spec"].get("schedule") else [required("spec.schedule")]
        return [*errors, *check_job(obj["spec"]["jobTemplate"]["spec"], "spec.jobTemplate.spec")]
