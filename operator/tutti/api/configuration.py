"""The operator's one configuration file: strict, so that a misspelt key is an error and not a default.

Defaults follow kube-scheduler 1.36 where it has the setting (scoring, backoff, leader election).
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from tutti.api.device_mappings import ResourcesSettings
from tutti.api.extensions import Extender, clashes
from tutti.api.framework_kind import MOST_FRAMEWORKS, FrameworkKind
from tutti.api.kinds.parsing import without_nulls
from tutti.api.kinds.pod_group import OnMemberLoss
from tutti.api.load import Measurements, load_problem
from tutti.api.model import API_VERSION, LabelKey, Model, Name, ResourceName
from tutti.api.network import NetworkSettings
from tutti.api.node_health import NodeHealth
from tutti.api.problems import ConfigurationError, FieldProblem, problems_of
from tutti.api.profiles import SchedulerProfile
from tutti.api.shards import MOST_SHARDS, Shard, shards_problem

KIND = "TuttiConfiguration"

Positive = Annotated[int, Field(ge=1)]
Address = Annotated[str, Field(pattern=r"^[^\s]*:[0-9]{1,5}$")]


class BackoffSettings(Model):
    """How long a workload waits after a failed attempt: from base, doubled each time, up to max."""

    base_seconds: Positive = 1
    """After the first attempt."""
    max_seconds: Positive = 10
    """At most."""

    @model_validator(mode="after")
    def check_order(self) -> BackoffSettings:
        """Base cannot be above max."""
        if self.base_seconds > self.max_seconds:
            raise ValueError("maxSeconds cannot be below baseSeconds")
        return self


class FairSharingSettings(Model):
    """Whether queues of a cohort are served by fair shares, and by which rules they take from one another (Kueue)."""

    enable: bool = False
    """Whether shares count; otherwise priority and age do, and those go first who need not borrow."""
    ordering: Literal["BorrowedShare", "DominantShare", "Proportion"] = "BorrowedShare"
    """By what is compared who is next: what is borrowed (Kueue), all that is used (DRF: Volcano, YuniKorn), or what is
    used of what one deserves by weight and demand (Volcano's proportion)."""
    preemption_strategies: list[Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]] = [
        "LessThanOrEqualToFinalShare",
        "LessThanInitialShare",
    ]
    """When one may take from another: while its own share stays at most the other's (final), or is below it before
    anything is taken (initial)."""
    patience_seconds: Annotated[int, Field(ge=0, le=2**31 - 1)] = 60
    """How long the first of a queue waits before it may have a turn: quota and room are kept for it, where its queue
    has no more than its part and owes nothing; 0: no turns, as with Kueue."""

    @model_validator(mode="after")
    def check_strategies(self) -> FairSharingSettings:
        """One strategy, or both in the order in which they make sense: the stricter one first."""
        given = self.preemption_strategies
        both = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
        if given not in ([both[0]], [both[1]], both):
            raise ValueError(f"preemptionStrategies must be one of {both}, or both in this order")
        return self


class AdmissionFairSharing(Model):
    """How past use counts in ClusterQueues whose `admissionScope` goes by it (Kueue's admission fair sharing)."""

    usage_half_life_seconds: Annotated[int, Field(ge=0)] = 168 * 3600
    """After how long past use counts half; 0: what is past does not count."""
    usage_sampling_interval_seconds: Positive = 300
    """An admission counts at once as if it had run for so long."""
    resource_weights: dict[ResourceName, Annotated[float, Field(ge=0)]] = {}
    """What one whole unit (core, byte, device) counts; what is not named counts 1."""


class ClientConnection(Model):
    """How many writes are under way to the API server at once, at most; fewer while it is busy."""

    concurrency: Annotated[int, Field(ge=1, le=1024)] = 64
    """The most writes under way at once."""


class Conventions(Model):
    """Whose labels and annotations are read besides ours, and the settings of those that have any."""

    kubernetes: bool = True
    """Kubernetes' own: `spec.schedulingGroup` (1.36, 1.37) and `spec.workloadRef` (1.35)."""
    scheduler_plugins: bool = True
    """The coscheduling plugin of scheduler-plugins."""
    pfnet: bool = True
    """pfnet's gang plugin."""
    volcano: bool = True
    """Volcano."""
    koordinator: bool = True
    """koordinator."""
    yunikorn: bool = True
    """Apache YuniKorn."""
    kueue: bool = True
    """Kueue's groups of plain pods, queue and priority labels, topology annotations."""
    pfnet_prefix: LabelKey = "gang-scheduling.preferred.jp/gang"
    """What pfnet's annotations begin with."""
    pfnet_default_timeout_seconds: Positive = 30
    """How long a reservation is held for a pfnet gang that does not say."""
    pfnet_timeout_limit_seconds: Positive = 100
    """How long it is held at most, whatever the gang says."""
    pfnet_timeout_jitter_seconds: Annotated[int, Field(ge=0)] = 30
    """Up to how much longer than its timeout a reservation is held, by chance."""
    pfnet_delete_together: bool = False
    """Whether all pods of a gang are deleted once one of them is being deleted."""


class LeaderElection(Model):
    """The lease by which one of several replicas acts: lease duration > renew deadline > retry period."""

    enabled: bool = True
    """Whether a lease is needed to act; without it, only one process may run."""
    lease_name: Name = "tutti"
    """The Lease."""
    lease_namespace: Name = "kube-system"
    """The namespace of the Lease."""
    lease_duration_seconds: Positive = 15
    """How long after its last renewal another replica may take it."""
    renew_deadline_seconds: Positive = 10
    """How long its holder acts without having renewed it."""
    retry_period_seconds: Positive = 2
    """How often it is renewed, or tried for."""

    @model_validator(mode="after")
    def check_order(self) -> LeaderElection:
        """A holder must notice that it cannot renew before another one may take the lease."""
        if not self.lease_duration_seconds > self.renew_deadline_seconds > self.retry_period_seconds:
            raise ValueError(
                "leaseDurationSeconds must be above renewDeadlineSeconds, and that above retryPeriodSeconds"
            )
        return self


class MetricsSettings(Model):
    """Where /metrics, /healthz and /readyz are served."""

    bind_address: Address = ":8080"
    """Host and port; no host: every address, port 0: a free one."""
    secure_bind_address: Address | None = None
    """Where /metrics is served instead, over HTTPS with a certificate of its own, and to those alone who send a bearer
    token that the API server knows, and whom it lets `get` the path /metrics. The others stay where they are."""
    local_queues: bool = False
    """Whether there are metrics per LocalQueue, too: as many series again for each of them."""


class SelfSigned(Model):
    """A certificate that the operator makes, renews, and has the API server trust: where there is no cert-manager."""

    secret_namespace: Name = "tutti-system"  # noqa: S105 - the name of a Secret is none
    """The namespace of the Secret."""
    secret_name: Name = "tutti-webhook"  # noqa: S105
    """The Secret that all replicas share it in; it must exist, and may be empty."""
    configuration_name: Name = "tutti"
    """The name of the validating and of the mutating webhook configuration that are to trust it."""
    hosts: Annotated[list[str], Field(min_length=1)] = ["tutti.tutti-system.svc"]
    """The names and addresses that the API server calls the webhook by."""
    days: Annotated[int, Field(ge=1, le=3650)] = 90
    """How long each lasts; it is renewed after two thirds of that."""


class WebhookSettings(Model):
    """The validating webhook: off unless certificates are there for it."""

    enabled: bool = False
    """Whether it is served."""
    port: Annotated[int, Field(ge=1, le=65535)] = 9443
    """Its port."""
    cert_dir: str = "/etc/tutti/webhook"
    """The folder with `tls.crt` and `tls.key`."""
    self_signed: SelfSigned | None = None
    """A certificate of the operator's own, in place of files in certDir."""


class UiSettings(Model):
    """The web view: a process beside the operator that reads, and shows each viewer what he may list."""

    bind_address: Address = ":8444"
    """Where its pages are served, over HTTPS; host and port, as with metrics."""
    hosts: Annotated[list[Annotated[str, Field(min_length=1, max_length=262)]], Field(max_length=16)] = []
    """The names, with ports where these are not 443, that browsers may call it by; left out: any."""
    cert_dir: str = ""
    """The folder with `tls.crt` and `tls.key`; left out: a certificate of its own, made anew at each start."""


class Logging(Model):
    """How log lines look, and from which level on they are written."""

    format: Literal["json", "console"] = "json"
    """One JSON object per line, or lines for people."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """debug: every decision; info: every change of state."""


class ThrottlesSettings(Model):
    """Throttles and ClusterThrottles of kube-throttler: which are looked at, and whose pods count."""

    name: Annotated[str, Field(min_length=1, max_length=253)] = "kube-throttler"
    """What `spec.throttlerName` of those says that are looked at."""
    count_schedulers: list[Name] = []
    """Other schedulers whose pods count as well, beside those of the profiles."""
    merge_overrides: bool = False
    """Whether an override leaves the usual threshold to what it does not name; in kube-throttler that is unlimited."""


class UserGroup(Model):
    """A group, and who is in it."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    """What limits of queues call it."""
    users: Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(max_length=10_000)] = []
    """Who is in it."""


class UsersSettings(Model):
    """Whose a workload is, where queues limit or order by users (docs/howto/orders.md)."""

    by: Literal["Namespace", "Annotation"] = "Namespace"
    """Namespace: the label `namespaceLabel` of its namespace, or the name of that where it has none; tenants do not
    label namespaces. Annotation: `scheduling.tutti.dev/user` of its Workload or PodGroup, else of what its pods come
    from at the top, else of the pod; `manifests/components/users` keeps everybody from writing another's name there."""
    namespace_label: LabelKey = "scheduling.tutti.dev/user"
    """The label of namespaces that names their user."""
    groups: Annotated[list[UserGroup], Field(max_length=1000)] = []
    """Groups of users; one may be in several."""

    @model_validator(mode="after")
    def check_groups(self) -> UsersSettings:
        """A group stands once."""
        for name, times in Counter(one.name for one in self.groups).items():
            if times > 1:
                raise ValueError(f"groups: {name} stands {times} times; list its users once")
        return self


class HamiSettings(Model):
    """GPUs that pods share by HAMi: its device plugin tells of cards, and is told here who gets which parts."""

    weight: Annotated[int, Field(ge=1, le=100)] = 10
    """What it counts that a pod fills the tightest hole, against other scores, of which each has up to 100 points."""


class TuttiConfiguration(Model):
    """Everything an administrator can set."""

    api_version: Literal["scheduling.tutti.dev/v1alpha1"] = "scheduling.tutti.dev/v1alpha1"
    kind: Literal["TuttiConfiguration"] = "TuttiConfiguration"
    profiles: Annotated[list[SchedulerProfile], Field(min_length=1)] = [SchedulerProfile()]
    """The `schedulerName`s whose pods are ours, and how those are placed; left out: `tutti`, as kube-scheduler does."""
    require_queue: bool = False
    """Whether a workload that names no queue waits until it names one; otherwise it needs no quota."""
    default_local_queue: Name | Literal[""] = "default"
    """The LocalQueue, where a namespace has one of that name, of workloads that name none and are younger than it."""
    extenders: list[Extender] = []
    """kube-scheduler's HTTP extenders, asked for the pods of every profile, in this order."""
    permit_timeout_seconds: Positive = 300
    """How long a complete reservation is held, where neither the workload nor its queue says so."""
    volume_binding_timeout_seconds: Positive = 600
    """How long it is held for volumes."""
    bind_window_seconds: Positive = 60
    """How long a gang may be bound in part, before `onBindFailure` decides."""
    on_member_loss: OnMemberLoss = OnMemberLoss()
    """What becomes of a gang that runs and has lost members, where it does not say itself."""
    autoscaler: Literal["ClusterAutoscaler", "Karpenter", "None"] = "ClusterAutoscaler"
    """How members of which quota and nodes are held, but which are not bound yet, show that to who adds and removes
    nodes. ClusterAutoscaler: `status.nominatedNodeName` names the node, so that it counts as used. Karpenter, which
    looks away from pods that name a node: they say `Unschedulable`, and name none. None: nothing of the kind."""
    victims_timeout_seconds: Positive = 300
    """How long room and quota are held for whom others are being taken out."""
    victims_overdue_seconds: Positive = 120
    """How long after its grace period a pod may be there before others are taken out in its place, once for each
    workload that waits for its room (docs/concepts/placement.md)."""
    backoff: BackoffSettings = BackoffSettings()
    fair_sharing: FairSharingSettings = FairSharingSettings()
    admission_fair_sharing: AdmissionFairSharing = AdmissionFairSharing()
    seed: int = 0
    """What random choices begin with, so that a recorded run replays: the jitter of timeouts and backoffs."""
    client_connection: ClientConnection = ClientConnection()
    conventions: Conventions = Conventions()
    frameworks: Annotated[list[FrameworkKind], Field(max_length=MOST_FRAMEWORKS)] = []
    """Kinds of your own that make pods, beside those that are known, or in place of one of these (docs/frameworks)."""
    hami: HamiSettings | None = None
    """Left out: what HAMi says of cards is not looked at; `{}`: pods share them (docs/howto/gpu-sharing.md)."""
    resources: ResourcesSettings = ResourcesSettings()
    throttles: ThrottlesSettings | None = None
    """Left out: throttles are not looked at."""
    users: UsersSettings | None = None
    """Left out: users are not told apart, so that no queue limits them; orders go by LocalQueue."""
    measurements: Measurements | None = None
    """Left out: nothing is measured, so that no profile may have `load`."""
    node_health: NodeHealth | None = None
    """Left out: of the conditions of nodes only those count that Kubernetes makes taints of."""
    network: NetworkSettings | None = None
    """Left out: what the network costs is not looked at; `{}`: who talks to whom is read (docs/howto/network.md)."""
    leader_election: LeaderElection = LeaderElection()
    shards: Annotated[list[Shard], Field(max_length=MOST_SHARDS)] = []
    """Parts of the cluster that processes of their own schedule (`tutti run --shard`, docs/howto/shards.md); left out:
    one process schedules all of it."""
    metrics: MetricsSettings = MetricsSettings()
    webhook: WebhookSettings = WebhookSettings()
    ui: UiSettings | None = None
    """Left out: no pages are served; `{}`: they are, to who signs in (docs/howto/web-view.md)."""
    logging: Logging = Logging()

    @model_validator(mode="after")
    def check_profiles(self) -> TuttiConfiguration:
        """Each schedulerName may have one profile only."""
        names = self.scheduler_names
        if len(set(names)) != len(names):
            raise ValueError(f"each schedulerName needs one profile, and only one: {', '.join(names)}")
        return self

    @model_validator(mode="after")
    def check_extenders(self) -> TuttiConfiguration:
        """Extenders must be told apart, and share no resource."""
        for problem in clashes(self.extenders):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def check_load(self) -> TuttiConfiguration:
        """A profile that goes by load needs figures."""
        for profile in self.profiles:
            if profile.load is None:
                continue
            if self.measurements is None:
                text = f"the profile {profile.scheduler_name} has load; say where it is read what nodes use"
                raise ValueError(f"measurements: {text}")
            problem = load_problem(profile.load, self.measurements)
            if problem:
                raise ValueError(f"profiles: load of {profile.scheduler_name}: {problem}")
        return self

    @model_validator(mode="after")
    def check_frameworks(self) -> TuttiConfiguration:
        """A kind may be described once only."""
        described = Counter(one.id for one in self.frameworks)
        for name, times in described.items():
            if times > 1:
                raise ValueError(f"frameworks: {name} is described {times} times; keep one of them")
        return self

    @model_validator(mode="after")
    def check_shards(self) -> TuttiConfiguration:
        """Shards have nothing in common, and what would need them to is refused."""
        problem = shards_problem(self.shards)
        if not problem and self.shards and not self.leader_election.enabled:
            problem = "they need leaderElection.enabled: by its lease a shard is one process's"
        if not problem and self.shards and self.throttles is not None:
            problem = "throttles count pods of all shards, of which none sees all; leave one of the two out"
        if not problem and self.shards and self.ui is not None:
            problem = "ui works out what one process would decide, and shards decide apart; leave one of the two out"
        if problem:
            raise ValueError(f"shards: {problem}")
        return self

    @property
    def measured(self) -> Measurements | None:
        """Where it is read what nodes use; None where no profile goes by it, so that nothing is read."""
        return self.measurements if any(one.load is not None for one in self.profiles) else None

    @property
    def scheduler_names(self) -> list[str]:
        """The `schedulerName`s whose pods are ours."""
        return [profile.scheduler_name for profile in self.profiles]


def load_configuration(text: str, origin: str = "configuration") -> TuttiConfiguration:
    """The configuration in a YAML text; an empty text gives the defaults. `origin` is named in errors.

    Raises:
        ConfigurationError: the text is no YAML mapping, or a key or value in it is wrong.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigurationError(origin, [FieldProblem("", f"this is not YAML: {error}")]) from error
    if document is None:
        return TuttiConfiguration()
    if not isinstance(document, dict):
        message = f"must be a mapping that starts with apiVersion: {API_VERSION} and kind: {KIND}"
        raise ConfigurationError(origin, [FieldProblem("", message)])
    try:
        return TuttiConfiguration.model_validate(without_nulls(document))
    except ValidationError as error:
        raise ConfigurationError(origin, problems_of(error, TuttiConfiguration)) from error
