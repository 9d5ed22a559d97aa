"""Whether annotations let a pod be moved."""

from __future__ import annotations

import pytest

from tutti.api.kinds.consolidation import MOVABLE_ANNOTATION
from tutti.engine.records.gang_membership import SAFE_TO_EVICT, SCALE_DOWN_MARK, says_movable

OURS = {SAFE_TO_EVICT: "false", SCALE_DOWN_MARK: f"{SAFE_TO_EVICT},karpenter.sh/do-not-disrupt"}
THEIRS = {SAFE_TO_EVICT: "false", SCALE_DOWN_MARK: "karpenter.sh/do-not-disrupt"}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({MOVABLE_ANNOTATION: "true"}, True),
        ({MOVABLE_ANNOTATION: "no"}, False),
        ({MOVABLE_ANNOTATION: "true", SAFE_TO_EVICT: "false"}, False),
        ({MOVABLE_ANNOTATION: "true", SAFE_TO_EVICT: "true"}, True),
        ({MOVABLE_ANNOTATION: "true", **OURS}, True),
        ({MOVABLE_ANNOTATION: "true", **THEIRS}, False),
        (OURS, None),
    ],
    ids=str,
)
def test_what_annotations_say_of_being_moved(annotations, expected):
    assert says_movable(annotations) is expected
