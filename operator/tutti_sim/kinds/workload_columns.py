"""The columns that `kubectl get` shows for kinds with a pod template (pkg/printers/internalversion)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tutti_sim.kinds.columns import AGE, NAME, NONE, UNSET, status
from tutti_sim.kinds.resource import Column
from tutti_sim.meta import Json, clock, selectors


def labels_text(labels: Json | None) -> str:
    """Labels as one text, sorted by key."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def _selector(obj: Json) -> str:
    return selectors.selector_text(obj["spec"].get("selector") or {}) or NONE


def _of_containers(field: str, template: Callable[[Json], Json]) -> Callable[[Json], str]:
    return lambda obj: ",".join(
        str(one.get(field, "")) for one in template(obj).get("spec", {}).get("containers") or ()
    )


def _template(obj: Json) -> Json:
    return obj["spec"].get("template") or {}


def _wide(template: Callable[[Json], Json] = _template, priority: int = 1) -> tuple[Column, Column]:
    return (
        Column("Containers", _of_containers("name", template), priority=priority),
        Column("Images", _of_containers("image", template), priority=priority),
    )


SELECTOR = Column("Selector", _selector, priority=1)


def _ready_of(obj: Json) -> str:
    return f"{status(obj, 'readyReplicas')}/{obj['spec'].get('replicas', 0)}"


def _counted(title: str, field: str, kind: str = "integer") -> Column:
    return Column(title, lambda obj: status(obj, field), type=kind)


def _job_completions(obj: Json) -> str:
    wanted = obj["spec"].get("completions")
    if wanted is None:
        parallelism = obj["spec"].get("parallelism", 0)
        wanted = f"1 of {parallelism}" if parallelism > 1 else "1"
    return f"{status(obj, 'succeeded')}/{wanted}"


def _job_status(obj: Json) -> str:
    for condition in status(obj, "conditions", ()):
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed", "Suspended"):
            return str(condition["type"])
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else "Running"


def _job_duration(obj: Json) -> str:
    start, end = status(obj, "startTime", None), status(obj, "completionTime", None)
    if not start:
        return ""
    return clock.span((clock.parse_time(end) - clock.parse_time(start)).total_seconds()) if end else clock.age(start)


def _suspended(obj: Json) -> str:
    given = obj["spec"].get("suspend")
    return UNSET if given is None else str(bool(given))


def _last_run(obj: Json) -> str:
    last = status(obj, "lastScheduleTime", None)
    return clock.age(last) if last else NONE


def _job_template(obj: Json) -> Json:
    found: Json = (obj["spec"].get("jobTemplate") or {}).get("spec", {}).get("template") or {}
    return found


def _no_selector(obj: Json) -> str:
    selector = (obj["spec"].get("jobTemplate") or {}).get("spec", {}).get("selector")
    return selectors.selector_text(selector) if selector else NONE


def _revised(obj: Json) -> str:
    for owner in obj["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower() + (f".{group}" if group else "")
            return f"{kind}/{owner.get('name', '')}"
    return NONE


_REPLICAS = (
    NAME,
    Column("Desired", lambda obj: obj["spec"].get("replicas", 0), type="integer"),
    _counted("Current", "replicas"),
    _counted("Ready", "readyReplicas"),
    AGE,
    *_wide(),
)


def _any(obj: Json) -> Any:
    return labels_text(obj["spec"].get("selector"))


COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "Job": (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        *_wide(),
        SELECTOR,
    ),
    "CronJob": (
        NAME,
        Column("Schedule", lambda obj: obj["spec"].get("schedule", "")),
        Column("Timezone", lambda obj: obj["spec"].get("timeZone") or NONE),
        Column("Suspend", _suspended, type="boolean"),
        Column("Active", lambda obj: len(status(obj, "active", ())), type="integer"),
        Column("Last Schedule", _last_run),
        AGE,
        *_wide(_job_template),
        Column("Selector", _no_selector, priority=1),
    ),
    "Deployment": (
        NAME,
        Column("Ready", _ready_of),
        _counted("Up-to-date", "updatedReplicas", "string"),
        _counted("Available", "availableReplicas", "string"),
        AGE,
        *_wide(),
        SELECTOR,
    ),
    "ReplicaSet": (*_REPLICAS, SELECTOR),
    "ReplicationController": (*_REPLICAS, Column("Selector", _any, priority=1)),
    "StatefulSet": (NAME, Column("Ready", _ready_of), AGE, *_wide()),
    "DaemonSet": (
        NAME,
        _counted("Desired", "desiredNumberScheduled"),
        _counted("Current", "currentNumberScheduled"),
        _counted("Ready", "numberReady"),
        _counted("Up-to-date", "updatedNumberScheduled"),
        _counted("Available", "numberAvailable"),
        Column("Node Selector", lambda obj: labels_text(_template(obj).get("spec", {}).get("nodeSelector"))),
        AGE,
        *_wide(),
        SELECTOR,
    ),
    "ControllerRevision": (
        NAME,
        Column("Controller", _revised),
        Column("Revision", lambda obj: obj.get("revision", 0)),
        AGE,
    ),
    "PodTemplate": (
        NAME,
        *_wide(lambda obj: obj.get("template") or {}, 0),
        Column("Pod Labels", lambda obj: labels_text(obj.get("template", {}).get("metadata", {}).get("labels"))),
    ),
}
