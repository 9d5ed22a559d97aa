"""The gang plugin of pfnet: three annotations under a prefix of the cluster's choice.

Kept: a size of 1 or less is an ordinary pod; the timeout is the pod's or the default, but at most the limit, and by
chance a little more; members must agree on both; no more members than the size have nodes at once; and, where the
configuration says so, all members are deleted with the first that is. Not kept: taking unreadable annotations for an
ordinary pod, since a user who misspells a size must be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tutti.api.conventions.claim import Claim, ConventionError, annotation, object_name
from tutti.api.conventions.texts import MOST_SECONDS, integer

if TYPE_CHECKING:
    from tutti.api.configuration import Conventions
    from tutti.api.core import Pod

_ANY = -(2**63)


def keys(settings: Conventions) -> tuple[str, ...]:
    """Return all that is read: the annotations with a gang's name, its size and its timeout."""
    return tuple(f"{settings.pfnet_prefix}-{suffix}" for suffix in ("name", "size", "schedule-timeout-seconds"))


def read(pod: Pod, settings: Conventions) -> Claim | None:
    """The gang that the annotations describe; None without them, or with a size of 1 or less."""
    annotations = pod.metadata.annotations
    name_key, size_key, timeout_key = keys(settings)
    name = annotations.get(name_key, "")
    size = integer(annotations, size_key, annotation(size_key), least=_ANY)
    if size is None and not name:
        return None
    if size is None:
        raise ConventionError(
            f"must be given, because {name_key} makes the pod a member of a gang", annotation(size_key)
        )
    if size <= 1:
        return None
    if not name:
        raise ConventionError(
            f"must be given, because {size_key} makes the pod a member of a gang", annotation(name_key)
        )
    timeout = integer(annotations, timeout_key, annotation(timeout_key), least=1, most=MOST_SECONDS)
    return Claim(
        convention="pfnet",
        namespace=pod.metadata.namespace,
        group=object_name(name),
        min_count=size,
        count=size,
        most=size,
        timeout_seconds=min(timeout or settings.pfnet_default_timeout_seconds, settings.pfnet_timeout_limit_seconds),
        timeout_jitter_seconds=settings.pfnet_timeout_jitter_seconds,
        implicit=True,
        leaves_together=settings.pfnet_delete_together,
    )
