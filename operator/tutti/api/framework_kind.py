"""How a kind of object that makes pods is described: where its roles and numbers stand, and what is one gang.

The kinds that are known here are rows of this description (`tutti.api.frameworks.kinds`), and users describe kinds of
their own in the same words. A field is named by its path from the top of the object, as in `spec.worker.replicas`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tutti.api.model import Count, LabelKey, Model, ValidationRule

MOST_FRAMEWORKS = 64
"""Kinds that users describe."""
MOST_ROLES = 128
"""Roles of one object that are read."""
MOST_RULES = 16
"""Entries of one list of a description."""

FieldPath = Annotated[str, Field(max_length=256, pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,15}$")]
"""The path of a field: names of fields with dots between them."""
KindName = Annotated[str, Field(max_length=317, pattern=r"^([a-z0-9.-]+/)?[A-Z][A-Za-z0-9]{0,62}$")]
"""An API group and a kind: `batch/Job`; a kind alone is one of the core group."""
RoleName = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""The name of a role."""
GangRule = Literal["Together", "Requested", "Alone", "Transparent"]
"""Together: its pods are one gang. Requested: they are where an annotation asks for it. Alone: each pod starts by
itself. Transparent: what stands below it decides, and it says nothing of gangs."""


class FieldCondition(Model):
    """Something that holds of an object, by one of its fields or annotations."""

    path: FieldPath | None = None
    """The field."""
    annotation: LabelKey | None = None
    """The annotation, in the place of a field."""
    values: Annotated[list[str | bool | int], Field(max_length=MOST_RULES)] = []
    """It has one of these values; none: any value will do."""
    unset: bool = False
    """It holds as well where the field is not given."""
    same_as: FieldPath | None = None
    """It has the same value as this other field, which must be given."""

    RULES: ClassVar = (
        ValidationRule(
            message="exactly one of path and annotation must be given",
            holds=lambda it: (it.path is None) != (it.annotation is None),
        ),
    )


class AmountField(Model):
    """A number of an object."""

    path: FieldPath
    """The field."""
    default: Count = 1
    """What it is where the field is not given."""
    limit: FieldPath | None = None
    """A field that says how many there are at most, if it is given."""
    minus: Count = 0
    """What to take off."""


class RoleDescription(Model):
    """Pods that are made of one template, or several such sets in a list or mapping."""

    form: Literal["One", "List", "Map"] = "One"
    """One: `name` is a role, whose fields stand under `path`. List: each entry under `path` is. Map: each key is the
    name of a role, and its value holds the fields."""
    path: FieldPath | None = None
    """Where it stands; left out: fields are named from the top. Of a role that is not there no pods are made."""
    name: RoleName = "main"
    """With form One: its name."""
    named_by: FieldPath = "name"
    """With form List: the field of an entry that holds its name."""
    replicas: AmountField | None = None
    """How many replicas there are; left out: one."""
    size: AmountField | None = None
    """How many pods a replica has; left out: one."""
    finished: FieldPath | None = None
    """How many replicas have succeeded and are not made again. With form List: in the entry of `finishedIn` that has
    the same name."""
    finished_in: FieldPath | None = None
    """A list, from the top of the object, in which `finished` stands."""
    total: FieldPath | None = None
    """How many replicas must succeed over time; left out: as many as there are."""
    least: FieldPath | None = None
    """To how few replicas it may shrink while it runs."""
    most: FieldPath | None = None
    """To how many replicas it may grow."""
    suspended: FieldPath | None = None
    """Whether it has no pods for now."""
    templates: Annotated[list[FieldPath], Field(max_length=4)] = ["template"]
    """Where its pod template stands; the first that is given."""
    scheduler: FieldPath | None = None
    """Where the name of its scheduler stands, if not in the template."""
    after: FieldPath | None = None
    """A list of {name, status} of roles that must be Ready or Complete before its pods are made."""
    annotations: FieldPath | None = None
    """Annotations that are this role's own, as `template.metadata.annotations` of an entry."""
    only_when: Annotated[list[FieldCondition], Field(max_length=4)] = []
    """What must hold of the object, or there is no such role."""
    later_when: Annotated[list[FieldCondition], Field(max_length=4)] | None = None
    """Its pods are made when the others are placed or run, where any of this holds; an empty list: always."""
    keeps_room: bool = True
    """Whether the gang starts only when there is room for those of its pods that come later, too."""

    RULES: ClassVar = (
        ValidationRule(
            message="a role of form List or Map needs a path: the list or mapping in which the roles stand",
            holds=lambda it: it.form == "One" or it.path is not None,
        ),
    )


class LeaderFirst(Model):
    """One pod of each replica is made first, and the others when that one has a node."""

    annotations: Annotated[list[LabelKey], Field(min_length=1, max_length=4)]
    """It is so where the object, or a role in its own annotations, has one of these."""
    unless: Annotated[list[LabelKey], Field(max_length=4)] = []
    """It is not where it has one of these too."""
    label: LabelKey
    """The label of a pod by which the first one is known."""
    value: str = "0"
    """What it says on the first one."""


class ReplicaGroups(Model):
    """Each replica of the object is a gang of its own."""

    label: LabelKey
    """The label that has another value on the pods of each replica."""
    size_annotation: LabelKey | None = None
    """The annotation of its pods that says how many they are; it goes before what the object says."""
    sized: RoleName
    """The role that has all the pods of a replica but those of the other roles."""
    led_by: RoleName | None = None
    """The role whose pod owns the others of its replica: with another such pod the replica is made anew."""


class PodRoles(Model):
    """How to tell which role a pod is of."""

    labels: Annotated[list[LabelKey], Field(max_length=4)] = []
    """Labels of pods that hold it; the first that is there. Case does not matter."""
    names: Annotated[dict[str, RoleName], Field(max_length=MOST_RULES)] = {}
    """Roles by what stands in the label, where that is not the name of the role."""
    rest: RoleName | None = None
    """The role of pods whose label says anything else."""
    by_owner: Annotated[dict[KindName, RoleName], Field(max_length=4)] = {}
    """Roles by the kind of what stands between the pod and the object; this goes before labels."""


class ElasticRole(Model):
    """A role whose bounds stand elsewhere in the object."""

    role: RoleName
    """The role."""
    least: FieldPath
    """To how few replicas it may shrink."""
    most: FieldPath
    """To how many it may grow."""


class TemplatePatches(Model):
    """Patches by which others change the pod templates that an object has from elsewhere.

    Who wrote an entry stands in it under `manager`. What the object makes of the templates is there while it is
    suspended, so that they can be read in that.
    """

    path: FieldPath
    """The list."""
    roles: FieldPath
    """In an entry: a list of patches of roles, each with the `name` of the role."""
    template: FieldPath
    """In the patch of a role: that of its pod template. Its node selector is added to what the template says, and its
    tolerations take the place of those of the template."""
    active_in: FieldPath | None = None
    """A list, from the top of the object, whose entries count under `active` what runs: the patches cannot be changed
    while anything does."""


class FrameworkKind(Model):
    """A kind of object that makes pods, or makes what does."""

    group: Annotated[str, Field(max_length=253, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$")]
    """Its API group."""
    kind: Annotated[str, Field(pattern=r"^[A-Z][A-Za-z0-9]{0,62}$")]
    """The kind."""
    plural: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,62}$")]
    """Its plural, as in the path of the API."""
    versions: Annotated[list[Annotated[str, Field(pattern=r"^v[0-9][a-z0-9]{0,20}$")]], Field(min_length=1)]
    """The versions in which it can be read, the newest first."""
    gang: GangRule
    """Which of its pods are one gang."""
    together_when: Annotated[list[FieldCondition], Field(max_length=4)] = []
    """With gang Together: what must hold for that; where it does not, a stated minimum still makes a gang."""
    made_at_once: Annotated[list[FieldCondition], Field(max_length=4)] = []
    """What must hold for all of its pods to be made at once; else a gang of them would never start."""
    composes: Annotated[list[KindName], Field(max_length=MOST_RULES)] = []
    """Kinds that it makes and whose pods are its own, so that it decides for them."""
    numbers_of: KindName | None = None
    """The one of these that says how many pods there are; there is one gang for each of them."""
    current: FieldPath | None = None
    """With `numbersOf`: the name of the one to which pods belong that are not below it."""
    replica_groups: ReplicaGroups | None = None
    """Whether each of its replicas is a gang."""
    roles: Annotated[list[RoleDescription], Field(max_length=MOST_RULES)] = []
    """Its roles."""
    pod_roles: PodRoles = PodRoles()
    """How to tell of which role a pod is."""
    minimum: FieldPath | None = None
    """How many pods must be placed at once; left out: all that there are."""
    minimum_annotations: Annotated[list[LabelKey], Field(max_length=MOST_RULES)] = []
    """Annotations of the object that say so as well, besides our own; the first that is there goes before the field."""
    elastic: ElasticRole | None = None
    """A role that may have fewer replicas than are asked for."""
    autoscaled: FieldPath | None = None
    """Whether something grows and shrinks its roles between `least` and `most`; where not, they bound the replicas."""
    in_order: Annotated[list[FieldCondition], Field(min_length=1, max_length=4)] | None = None
    """Where all of this holds, each role is made when those before it are ready."""
    leader_first: LeaderFirst | None = None
    """Whether the others are made only when the first pod of a replica has a node."""
    domain_annotations: Annotated[list[LabelKey], Field(max_length=4)] = []
    """Annotations, of the object or of a role, that name a node label: each replica has its nodes within one value."""
    suspended: FieldPath | None = None
    """Whether no pods are made for now."""
    startable: bool = False
    """Whether it may be started here (`manage: Suspend` on a queue): pods are made when `suspended` is false, and while
    it is true the node selectors and tolerations of its pod templates may be changed."""
    template_patches: TemplatePatches | None = None
    """With startable and numbersOf: how that is done where the templates stand in what the object makes of others."""
    startable_when: Annotated[list[FieldCondition], Field(max_length=4)] = []
    """What must hold for that; an object of which it does not is left alone."""
    ended_when: Annotated[list[FieldCondition], Field(max_length=4)] = []
    """When it makes no pods any more, besides a condition Complete, Completed, Failed or Succeeded that is True; any of
    these will do."""
    sub_group_labels: Annotated[list[LabelKey], Field(max_length=4)] = []
    """Labels of pods that together tell which of them are near one another."""
    attempt_label: LabelKey | None = None
    """The label of pods that counts how often all of them were made anew."""
    queue: FieldPath | None = None
    """The queue, where no label of the object says it."""
    priority_class: FieldPath | None = None
    """The priority class, where no label says it."""
    scheduler: FieldPath | None = None
    """Where it names the scheduler of pods whose template and role name none."""
    schedule_timeout: FieldPath | None = None
    """For how many seconds a complete reservation is held."""

    RULES: ClassVar = (
        ValidationRule(
            message="numbersOf must be one of the kinds that it composes",
            holds=lambda it: it.numbers_of is None or it.numbers_of in it.composes,
        ),
        ValidationRule(
            message="startable needs suspended, and gang Together",
            holds=lambda it: not it.startable or (it.suspended is not None and it.gang == "Together"),
        ),
        ValidationRule(
            message="templatePatches needs startable and numbersOf: what has the numbers has the templates as well",
            holds=lambda it: it.template_patches is None or (it.startable and it.numbers_of is not None),
        ),
        ValidationRule(
            message="a kind with gang Together needs roles, or numbersOf: else nobody knows how many pods there are",
            holds=lambda it: it.gang != "Together" or bool(it.roles) or it.numbers_of is not None,
        ),
        ValidationRule(
            message="a name of a role in replicaGroups.sized, elastic or podRoles must be that of a role of form One, "
            "or there must be roles of form List or Map",
            holds=lambda it: it.knows_roles(),
        ),
        ValidationRule(
            message="core groups and the groups of pod groups cannot be described: those objects own no pods of theirs",
            holds=lambda it: it.group not in ("", "scheduling.k8s.io", "scheduling.tutti.dev"),
        ),
    )

    @property
    def id(self) -> str:
        """Group and kind in one, as other descriptions name it."""
        return f"{self.group}/{self.kind}"

    def knows_roles(self) -> bool:
        """Whether each role that the description speaks of can exist."""
        if any(role.form != "One" for role in self.roles):
            return True
        spoken = {*self.pod_roles.names.values(), *self.pod_roles.by_owner.values()}
        spoken |= {self.elastic.role} if self.elastic else set()
        if self.replica_groups is not None:
            spoken |= {self.replica_groups.sized, self.replica_groups.led_by or self.replica_groups.sized}
        spoken |= {self.pod_roles.rest} if self.pod_roles.rest else set()
        return spoken <= {role.name for role in self.roles}
