"""Taints and tolerations (Kubernetes 1.36, core/v1/toleration.go)."""

from __future__ import annotations

import pytest

from tutti.api.selectors import Taint, Toleration, untolerated

GPU = Taint(key="gpu", value="yes", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration(key="gpu", value="yes", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Equal", value="yes"), True),
        (Toleration(key="gpu", operator="Equal", value="no"), False),
        (Toleration(key="gpu", value="yes", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="PreferNoSchedule"), False),
        (Toleration(key="gpu"), False),
        (Toleration(key="gpu", operator="Gt", value="0"), False),
        (Toleration(key="gpu", operator="exists"), False),
    ],
)
def test_a_toleration_covers_by_effect_key_and_operator(toleration, tolerates):
    assert toleration.tolerates(GPU) is tolerates


def test_the_first_untolerated_taint_of_the_given_effects_is_named():
    soft = Taint(key="soft", effect="PreferNoSchedule")
    out = Taint(key="out", effect="NoExecute")
    covers_gpu = [Toleration(key="gpu", operator="Exists")]

    assert untolerated([soft, GPU, out], []) == GPU
    assert untolerated([soft, GPU, out], covers_gpu) == out
    assert untolerated([soft, GPU], covers_gpu) is None
    assert untolerated([soft, GPU, out], [], ["PreferNoSchedule"]) == soft
    assert untolerated([], []) is None
