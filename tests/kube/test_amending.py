"""What admission checks add to pods is added, and nothing that is there changes."""

from __future__ import annotations

from typing import Any

import pytest

from tutti.api.selectors import Toleration
from tutti.engine.records.decisions import Bind
from tutti.kube.amending import amendment

SPOT = {"key": "spot", "operator": "Exists", "effect": "NoExecute"}
OLD = {"key": "old", "operator": "Exists"}


def pod(labels: dict[str, str] | None, tolerations: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7", "labels": labels}, "spec": {"tolerations": tolerations}}


def bind(labels: dict[str, str] | None = None, tolerations: tuple[Toleration, ...] = ()) -> Bind:
    return Bind("default", "p", "u", "n", labels=labels or {}, tolerations=list(tolerations))


@pytest.mark.parametrize(
    ("given", "added", "patch"),
    [
        (pod(None, None), bind({"a": "1"}), {"metadata": {"resourceVersion": "7", "labels": {"a": "1"}}}),
        (pod({"a": "1"}, [OLD]), bind({"a": "1"}), {}),
        (
            pod({"b": "2"}, [OLD]),
            bind({"a": "1"}, (Toleration("spot", "Exists", effect="NoExecute"),)),
            {"metadata": {"resourceVersion": "7", "labels": {"a": "1"}}, "spec": {"tolerations": [OLD, SPOT]}},
        ),
        (pod(None, [SPOT]), bind(None, (Toleration("spot", "Exists", effect="NoExecute"),)), {}),
    ],
)
def test_a_pod_gets_what_it_lacks(given: dict[str, Any], added: Bind, patch: dict[str, Any]):
    assert amendment(given, added) == (patch, "")


def test_a_label_with_another_value_is_told_and_nothing_is_written():
    patch, wrong = amendment(pod({"a": "2"}, None), bind({"a": "1", "b": "1"}))
    assert patch == {}
    assert wrong == "an admission check adds label a=1, and the pod has a=2 already"
