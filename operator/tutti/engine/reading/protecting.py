"""Whom a ClusterQueue protects from being taken out, also while the rest of it cannot be read.

A mistake anywhere in a queue must not cost the work of those who run in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tutti.api.kinds.queues import MOST_SECONDS


def minimum_runtime(raw: Mapping[str, Any]) -> int | None:
    """Return the minimumRuntimeSeconds of a ClusterQueue that cannot be read as a whole.

    Returns:
        Seconds, 0 where it says none; None where not even this can be read.
    """
    spec = raw.get("spec")
    preemption = spec.get("preemption", {}) if isinstance(spec, Mapping) else None
    if not isinstance(preemption, Mapping):
        return None
    said = preemption.get("minimumRuntimeSeconds")
    if said is None:
        return 0
    return said if isinstance(said, int) and 1 <= said <= MOST_SECONDS else None
