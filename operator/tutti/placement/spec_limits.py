"""Which pods are refused for what is written in them alone: too many terms.

What it costs to try a pod grows with how much it asks about nodes and other pods, so that has a bound. It is counted
in steps, not in seconds, so that what is refused follows from what is written alone. The API server bounds none of
these lists; a pod of 400 kB names thousands. kube-scheduler has no bound either, but only that pod's own scheduling
waits there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tutti.cluster.classes import PodClass

MOST_TERMS: Final = 500
"""So many terms one pod may have."""
MOST_TERMS_TOGETHER: Final = 4000
"""So many the unlike pods of one workload may have together; equal pods count once."""


def term_count_in_all(classes: Iterable[PodClass]) -> int:
    """Return how many terms some classes have together, each counted once."""
    return sum([pod_class.terms for pod_class in dict.fromkeys(classes)])
