"""Strategies of the kinds that make pods and keep them: Deployments and their kin."""

from __future__ import annotations

from tutti_sim.kinds.podwarnings import OF_PODS, warn_of_name, warn_of_spec
from tutti_sim.kinds.resource import Strategy
from tutti_sim.kinds.templates import check_template, default_template
from tutti_sim.kinds.workloadrules import check_workload
from tutti_sim.meta import Json, names
from tutti_sim.meta.checks import check_text
from tutti_sim.meta.errors import FieldError, invalid

IMMUTABLE = "field is immutable"


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

    def warnings(self, obj: Json, pattern: bytes) -> list[str]:
        """What is odd in the name, where pods' names begin with it and more, and in the template."""
        del pattern
        named = obj["kind"] in ("Deployment", "ReplicaSet", "ReplicationController")
        found = warn_of_name(obj["metadata"].get("name", ""), OF_PODS) if named else []
        return found + warn_of_spec(obj["spec"]["template"]["spec"], "spec.template.spec")

    def validate(self, obj: Json) -> list[FieldError]:
        """Check counts, selector, template and how it is rolled out."""
        return check_workload(obj)

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

    def check_name(self, name: str) -> list[str]:
        """A DNS label: its pods' host names begin with it."""
        return names.label_faults(name)

    def validate_new(self, obj: Json, pattern: bytes) -> list[FieldError]:
        """The service that its pods belong to is named as one; what is there already may be named otherwise."""
        service = obj["spec"].get("serviceName")
        errors = check_text(service, "spec.serviceName", names.label_faults) if service else []
        return [*errors, *super().validate_new(obj, pattern)]

    def default(self, obj: Json) -> None:
        """Fill in the claim templates, too."""
        super().default(obj)
        obj["spec"].setdefault("serviceName", "")
        for claim in obj["spec"].get("volumeClaimTemplates", ()):
            claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            claim.setdefault("status", {})["phase"] = "Pending"
        if "status" in obj:
            obj["status"].setdefault("availableReplicas", 0)


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
