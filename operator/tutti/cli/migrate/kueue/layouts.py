"""What makes pods among the objects that Kueue manages: where their templates are, and how the object is held back.

Roles, counts and places of templates are those of the operator's own table (`tutti.api.frameworks`); here stands only
what Kueue does with a kind. Facts: Kueue 0.20, pkg/controller/jobs/*, Suspend and PodSets of each integration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from tutti.api.frameworks import FrameworkKind, KindTable, ProjectedOwner, projected
from tutti.api.frameworks.roles import placed_roles
from tutti.api.problems import path_of
from tutti.cli.migrate.kueue import words
from tutti.cli.migrate.kueue.kinds import mapping

TABLE = KindTable()


class TemplatePlace(NamedTuple):
    """The template of the pods of a role; changes to it change the document.

    Attributes:
        role: The name of the role.
        template: What has their metadata and spec.
        path: Where it stands in the document; "" for a pod, which is its own template.
    """

    role: str
    template: dict[str, Any]
    path: str


class SchedulerField(NamedTuple):
    """A field, other than those of a pod template, that names the scheduler of pods.

    Attributes:
        holder: The mapping that has it.
        path: Where that stands in the document.
    """

    holder: dict[str, Any]
    path: str


@dataclass(slots=True)
class Layout:
    """What there is to know of an object that makes pods.

    Attributes:
        said_by: The object whose labels Kueue reads: the document, or the template of the jobs it makes.
        said_at: Where that stands in the document.
        kind: The row of the operator's table by which it is read; None: no row.
        owner: What the operator will make of it; None: nothing.
        pods: How many pods it makes.
        templates: The pod template of each role; two may have one.
        schedulers: The other fields that name a scheduler.
        texts: Mappings with labels and annotations for pods that are no pod templates, by the mapping that has them,
            the field, and where that mapping stands.
        holds: The mapping whose field `suspend` holds it back; None where nothing does.
        holds_at: Where that stands in the document.
        inner: The objects that it wraps.
        label_here: Whether a queue that only a template names is written on `said_by` for the others.
    """

    said_by: dict[str, Any]
    said_at: str = ""
    kind: FrameworkKind | None = None
    owner: ProjectedOwner | None = None
    pods: int = 0
    templates: list[TemplatePlace] = field(default_factory=list)
    schedulers: list[SchedulerField] = field(default_factory=list)
    texts: list[tuple[dict[str, Any], str, str]] = field(default_factory=list)
    holds: dict[str, Any] | None = None
    holds_at: str = ""
    inner: list[Layout] = field(default_factory=list)
    label_here: bool = True

    def under(self, path: str) -> str:
        """Return a path in `said_by` as one in the document."""
        return f"{self.said_at}.{path}" if self.said_at else path

    def queue(self) -> str:
        """Return the queue that the object or its pods name; "": none, so that Kueue leaves it alone."""
        said = [words.read_word(self.said_by, words.QUEUE)]
        said += [words.read_word(one.template, words.QUEUE) for one in self.templates]
        said += [words.read_word(holder, words.QUEUE, at=at) for holder, at, _ in self.texts]
        return next((one for one in said if one), "")


HOLDERS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("batch", "Job"): "spec",
        ("apps", "Deployment"): "",
        ("apps", "StatefulSet"): "",
        ("jobset.x-k8s.io", "JobSet"): "spec",
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "",
        **{
            ("kubeflow.org", kind): "spec.runPolicy"
            for kind in ("MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")
        },
        ("ray.io", "RayCluster"): "spec",
        ("ray.io", "RayJob"): "spec",
        ("ray.io", "RayService"): "spec",
        ("sparkoperator.k8s.io", "SparkApplication"): "spec",
        ("trainer.kubeflow.org", "TrainJob"): "spec",
    }
)
"""The kinds of the table that Kueue manages, and the mapping whose `suspend` holds each back; "": nothing does."""

WORKFLOWS: Mapping[str, str] = MappingProxyType(
    {"Workflow": "spec", "WorkflowTemplate": "spec", "ClusterWorkflowTemplate": "spec", "CronWorkflow": "workflowSpec"}
)
"""Kinds of Argo Workflows, and where the spec of the workflow stands; of a CronWorkflow in its own spec."""


def layout_of(document: dict[str, Any], at: str = "") -> Layout | None:
    """Return the layout of an object; None for one whose pods are not known here.

    Args:
        document: The object; it may be part of another.
        at: Where it stands in the document that is rewritten.
    """
    group, _, _ = str(document.get("apiVersion", "")).rpartition("/")
    name = str(document.get("kind", ""))
    if (group, name) == ("", "Pod"):
        return Layout(document, at, pods=1, templates=[TemplatePlace("main", document, at)], label_here=False)
    if (group, name) == ("batch", "CronJob"):
        jobs = mapping(mapping(document, "spec"), "jobTemplate")
        return _by_row(jobs, ("batch", "Job"), _joined(at, "spec.jobTemplate"))
    if (group, name) in HOLDERS:
        return _by_row(document, (group, name), at)
    if (group, name) == ("workload.codeflare.dev", "AppWrapper"):
        return _wrapper(document, at)
    if group == "argoproj.io" and name in WORKFLOWS:
        return _workflow(document, name, at)
    return _labelled_templates(document, at)


def _by_row(said_by: dict[str, Any], of: tuple[str, str], at: str) -> Layout | None:
    kind = TABLE.get(*of)
    if kind is None:
        return None
    layout = Layout(said_by, at, kind, holds_at=HOLDERS[of])
    written = {key: part for key, part in said_by.items() if key != "status"}  # nothing of it has run yet
    layout.owner = projected(written, kind.model_copy(update={"suspended": None}))  # what is written is not suspended
    for role, steps in placed_roles(written, kind)[0]:
        layout.pods += role.replicas * role.size
        found = _follow(said_by, steps)
        if found is not None and steps:
            layout.templates.append(TemplatePlace(role.name, found, layout.under(path_of(steps))))
    for described in kind.roles:
        part = _follow(said_by, (described.path or "").split("."))
        if described.scheduler and described.form == "One" and part is not None:
            layout.schedulers.append(SchedulerField(part, layout.under(described.path or "")))
    layout.holds = _follow(said_by, layout.holds_at.split(".")) if layout.holds_at else None
    layout.holds_at = layout.under(layout.holds_at)
    return layout


def _wrapper(document: dict[str, Any], at: str) -> Layout:
    """Return the layout of an AppWrapper: its label counts for the objects that it wraps."""
    spec = mapping(document, "spec")
    layout = Layout(document, at, holds=spec, holds_at=_joined(at, "spec"))
    components = spec.get("components")
    for index, one in enumerate(components if isinstance(components, list) else []):
        wrapped = mapping(one, "template") if isinstance(one, dict) else {}
        inner = layout_of(wrapped, layout.under(f"spec.components[{index}].template"))
        if inner is not None and (inner.templates or inner.schedulers or inner.inner):
            layout.inner.append(inner)
    return layout


def _workflow(document: dict[str, Any], name: str, at: str) -> Layout:
    """Return the layout of a workflow of Argo's: all of its pods are in a queue, or those of some templates are."""
    spec, path = mapping(document, "spec"), "spec"
    if name == "CronWorkflow":
        spec, path = mapping(spec, "workflowSpec"), "spec.workflowSpec"
    layout = Layout(document, at, label_here=False)
    layout.texts.append((spec, "podMetadata", layout.under(path)))
    if layout.queue():
        layout.schedulers.append(SchedulerField(spec, layout.under(path)))
    templates = spec.get("templates")
    for index, one in enumerate(templates if isinstance(templates, list) else []):
        if isinstance(one, dict) and words.read_word(one, words.QUEUE):
            layout.texts.append((one, "metadata", layout.under(f"{path}.templates[{index}]")))
        if isinstance(one, dict) and (words.read_word(one, words.QUEUE) or "schedulerName" in one):
            layout.schedulers.append(SchedulerField(one, layout.under(f"{path}.templates[{index}]")))
    return layout


def _labelled_templates(document: dict[str, Any], at: str) -> Layout | None:
    """Return the layout of an object of an unknown kind: those pod templates in it that name a queue."""
    layout = Layout(document, at, label_here=False)
    for template, steps in _pod_templates(document, ()):
        if words.read_word(template, words.QUEUE):
            layout.templates.append(TemplatePlace("main", template, layout.under(path_of(steps))))
    return layout if layout.templates else None


def _pod_templates(value: Any, steps: tuple[str | int, ...]) -> Iterator[tuple[dict[str, Any], tuple[str | int, ...]]]:
    """Yield what looks like a pod template below the top: metadata, and a spec with containers."""
    if isinstance(value, dict):
        if (
            steps
            and isinstance(value.get("metadata"), dict)
            and isinstance(mapping(value, "spec").get("containers"), list)
        ):
            yield value, steps
            return
        for key, item in value.items():
            yield from _pod_templates(item, (*steps, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _pod_templates(item, (*steps, index))


def _follow(value: Any, steps: Sequence[str | int]) -> dict[str, Any] | None:
    for step in steps:
        inside = value.get(step) if isinstance(value, dict) else None
        value = value[step] if isinstance(value, list) and isinstance(step, int) else inside
    return value if isinstance(value, dict) else None


def _joined(at: str, path: str) -> str:
    return f"{at}.{path}" if at else path
