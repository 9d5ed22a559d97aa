"""What a policy says of nodes, as a score by how full they are: any number, brought to 0 to 100.

A policy only tells nodes apart on which pods fit anyway, so it cannot break a promise. One that raises, or answers
with something else than finite numbers of the right shape, is left out, and told of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.extension import Host, PluginCall, PolicyPlugin
from tutti.placement.framework import MAX_SCORE, Counts, Rows, Scores
from tutti.placement.plugins.extensions import WrongAnswerError, shown
from tutti.placement.policy_features import feature_columns

_STEEPEST = 30.0
"""Beyond this nothing changes any more: 100 / (1 + e^-30) is 100."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyScore:
    """The score of a policy.

    Attributes:
        name: Of its plugin.
        profile: The schedulerName of the profile that it stands in.
    """

    name: str
    weight: int
    profile: str
    plugin: PolicyPlugin
    host: Host

    def scores(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, nth: Counts) -> Scores | None:
        """Return int64[m, k] in 0..MAX_SCORE, or None where the policy has failed."""
        asked = PluginCall(self.profile, self.name, "policy")
        try:
            columns = feature_columns(self.plugin.policy_features, pod_class, nodes, rows=rows, nth=nth)
            answer = self.host.timed(asked, lambda: self.plugin.policy(columns))
            return _points(answer, (len(nth), len(rows)))
        except Exception as error:  # noqa: BLE001 - foreign code; without its score any feasible node is as good
            self.host.fault(self.name, "policy", f"{type(error).__name__}: {error}")
            return None


def _points(answer: object, shape: tuple[int, int]) -> Scores:
    """Return int64[m, k] in 0..MAX_SCORE: 100 / (1 + e^-x) of each number.

    Raises:
        WrongAnswerError: They are no finite float64[m, k].
    """
    if not isinstance(answer, np.ndarray) or answer.dtype != np.float64 or answer.shape != shape:
        raise WrongAnswerError(f"policy answered with {shown(answer)}, not with float64[{shape[0]}, {shape[1]}]")
    if not np.isfinite(answer).all():
        raise WrongAnswerError("policy answered with numbers that are not finite")
    points: Scores = np.rint(MAX_SCORE / (1.0 + np.exp(-np.clip(answer, -_STEEPEST, _STEEPEST)))).astype(np.int64)
    return points
