"""What the configuration says of code that is not ours: plugins, and kube-scheduler's HTTP extenders.

An extender is written as in a KubeSchedulerConfiguration (kube-scheduler 1.36, apis/config/types.go, `Extender`), so
that its entry can be copied. What Tutti would not do with it is an error and not left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tutti.api.model import LabelKey, Model, ResourceName

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|us|µs|ns|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DEFAULT_TIMEOUT = "5s"  # kube-scheduler 1.36, extender.go, DefaultExtenderTimeout


class PluginUse(Model):
    """A plugin that is to be asked, by the name of its entry point in the group `tutti.plugins`."""

    name: LabelKey
    """The name of its entry point."""
    weight: Annotated[int, Field(ge=1, le=100)] = 1
    """How much its score counts against the others; only for a plugin that scores."""
    args: dict[str, Any] = {}
    """What the plugin is made with; the plugin says what may stand here."""


class ManagedResource(Model):
    """A resource that makes a pod the extender's business."""

    name: ResourceName
    """An extended resource, such as example.com/gpu-memory."""
    ignored_by_scheduler: bool = False
    """Whether the extender alone counts it: then no node is ruled out for having too little of it."""

    @model_validator(mode="after")
    def check_name(self) -> Self:
        """Only extended resources can be managed (validation.go, validateExtendedResourceName)."""
        domain, slash, _ = self.name.partition("/")
        native = not slash or domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
        if native or self.name.startswith("requests."):
            raise ValueError(f"{self.name} is no extended resource; one has a domain of its own (example.com/thing)")
        return self


class ExtenderTls(Model):
    """How an extender is trusted, and how it knows us; `...Data` is base64 of what the file would hold."""

    insecure: bool = False
    """Whether any certificate is trusted."""
    server_name: str = ""
    """The name that its certificate must have; left out: that in the URL."""
    cert_file: str = ""
    """Our certificate."""
    key_file: str = ""
    """The key of our certificate."""
    ca_file: str = ""
    """The certificate authorities that are trusted."""
    cert_data: str = ""
    """Our certificate."""
    key_data: str = ""
    """The key of our certificate."""
    ca_data: str = ""
    """The certificate authorities that are trusted."""


class Extender(Model):
    """An HTTP service that is asked which nodes a pod may go to, and which it prefers."""

    url_prefix: Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
    """Where it is; the verb comes after it."""
    filter_verb: str = ""
    """What it is asked which nodes a pod may go to; left out: not asked."""
    prioritize_verb: str = ""
    """What it is asked how good nodes are; left out: not asked."""
    preempt_verb: str = ""
    """Not supported: must be left out."""
    bind_verb: str = ""
    """Not supported: must be left out."""
    weight: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """What its scores are multiplied with."""
    enable_https: Annotated[bool, Field(alias="enableHTTPS")] = False
    """Whether it is spoken to in TLS."""
    tls_config: ExtenderTls = ExtenderTls()
    http_timeout: str = _DEFAULT_TIMEOUT
    """How long it may take, as Go writes durations."""
    node_cache_capable: bool = False
    """Whether names of nodes are enough for it; otherwise it is sent whole nodes."""
    managed_resources: list[ManagedResource] = []
    """It is asked for pods that request one of these; none: for all pods."""
    ignorable: bool = False
    """Whether it is done without where it fails."""

    @model_validator(mode="after")
    def check_verbs(self) -> Self:
        """What is asked of an extender must be something that it is asked here."""
        if self.bind_verb:
            raise ValueError(
                "bindVerb is not supported: Tutti binds all pods of a gang itself, at once; leave it out, and let the "
                "extender take note of a pod when it sees it bound"
            )
        if self.preempt_verb:
            raise ValueError("preemptVerb is not supported: extenders are not asked about victims; leave it out")
        if not (self.filter_verb or self.prioritize_verb):
            raise ValueError("an extender without filterVerb and prioritizeVerb is never asked; give one of them")
        if self.prioritize_verb and self.weight < 1:
            raise ValueError("weight must be at least 1 where there is a prioritizeVerb")
        return self

    @model_validator(mode="after")
    def check_timeout(self) -> Self:
        """The timeout is a duration as Go writes it; 0 stands for the default, as upstream."""
        duration_seconds(self.http_timeout)
        return self

    @property
    def timeout_seconds(self) -> float:
        """How long one call may take."""
        return duration_seconds(self.http_timeout) or duration_seconds(_DEFAULT_TIMEOUT)

    @property
    def manages(self) -> frozenset[str]:
        """The resources that make a pod its business; empty: every pod is."""
        return frozenset(one.name for one in self.managed_resources)


def duration_seconds(duration: str) -> float:
    """Return a duration such as `1m30s` or `100ms` in seconds.

    Raises:
        ValueError: the text is no duration.
    """
    parts = _DURATION.findall(duration)
    if duration == "0":
        return 0.0
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(f"httpTimeout {duration!r} is no duration; one is 5s, 100ms or 1m30s")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def clashes(extenders: Sequence[Extender]) -> Iterator[str]:
    """Yield what is wrong between several extenders, as kube-scheduler checks it (validation.go)."""
    urls = [one.url_prefix for one in extenders]
    for url in dict.fromkeys(url for url in urls if urls.count(url) > 1):
        yield f"extender {url} is given twice; an extender is known by its urlPrefix"
    managed = [one.name for extender in extenders for one in extender.managed_resources]
    for name in dict.fromkeys(name for name in managed if managed.count(name) > 1):
        yield f"resource {name} is managed by two extenders; one alone can"
