"""Views of clusters in whose objects something stands that no schema has there: each answers, or says what is wrong.

Where definitions check nothing, and in files that people write, anything may stand below `spec` and `status`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.cli.doctor.test_illegible import PUT, grafted
from tests.cli.views.scene import AT, GPU, Json, group, node, ours, pod, queue, told
from tutti.api.frameworks import KindTable
from tutti.cli.views.explain.lookup import explained_by_status
from tutti.cli.views.explain.wanted import WantedError, pods_of_workloads
from tutti.cli.views.forecast.changes import ChangeError, priority_change, quota_change, submission, weight_change
from tutti.cli.views.what_if import ObservedCluster
from tutti.web.standing import engine_answers, told_statuses

PENDING = {"reasons": [{"gate": "Quota", "reason": "OutOfQuota", "message": "all is used"}], "position": 1}
STATUS: Json = {
    "phase": "Pending", "bound": 0, "members": 1, "pendingReason": PENDING, "pending": PENDING,
    "conditions": [{"type": "Degraded", "status": "True", "reason": "Lost", "message": "one is lost"}],
}  # fmt: skip
TEMPLATE: Json = {"metadata": {"labels": {"app": "x"}, "annotations": {}}, "spec": {"schedulerName": "tutti"}}
WORKLOAD = ours(
    "Workload", "work", {"queueName": "main", "podGroups": [{"name": "main", "count": 1, "template": TEMPLATE}]}, "d"
)
GROUP, QUEUE = group("d", "gang", 1), queue("q", "both", "a", 4)
OBJECTS: dict[str, Json] = {
    "Workload": {**WORKLOAD, "status": STATUS},
    "PodGroup": {**GROUP, "status": STATUS},
    "ClusterQueue": {**QUEUE, "status": {"conditions": [{"type": "Active", "status": "True"}]}},
    "Cohort": ours("Cohort", "both", {"parentName": "", "fairSharing": {"weight": "1"}}),
    "LocalQueue": ours("LocalQueue", "main", {"clusterQueue": "q"}, "d"),
    "ResourceFlavor": ours("ResourceFlavor", "a", {"nodeLabels": {"a": "b"}}),
    "Topology": ours("Topology", "racks", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}),
}


def places(found: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in an object below its metadata, entries of lists and maps too."""
    here = [(*at, step) for step in (found if isinstance(found, dict) else range(len(found)))]
    below = [place for step in here for place in _below(found, step)]
    return [one for one in (*here, *below) if one[0] in ("spec", "status")]


def _below(found: Any, step: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    inner = found[step[-1]]
    return places(inner, step) if isinstance(inner, dict | list) else []


def cluster(kind: str, place: tuple[str | int, ...], value: Any) -> ObservedCluster:
    made: dict[str, Json] = {**OBJECTS, kind: grafted(OBJECTS[kind], place, value)}
    around: list[Json] = [node("n1", "m", "r1"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "d"}}]
    classes: list[Json] = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    ]
    return told([*around, *classes, *made.values(), pod("d", "gang-0", 1, gang="gang")])


def refused(asking: Callable[[], object], *errors: type[Exception]) -> None:
    """Have something asked for; that it cannot be had is an answer."""
    try:
        asking()
    except errors:
        return


def ask(asked: ObservedCluster, document: Json) -> None:
    """Ask for all that reads objects as they are written."""
    seen, name = asked.listed.seen, document["metadata"]["name"]
    told_statuses(seen)
    explained_by_status(asked.listed, "d", name)
    refused(lambda: quota_change(f"q:a:{GPU}=2", seen), ChangeError)
    refused(lambda: weight_change("q=2", seen), ChangeError)
    refused(lambda: weight_change("both=2", seen), ChangeError)
    refused(lambda: pods_of_workloads(seen), WantedError)
    refused(lambda: submission(yaml.safe_dump(document), "", "d", KindTable(()), seen, AT), ChangeError)
    if not isinstance(document["spec"], dict):
        engine_answers(asked)
        refused(lambda: priority_change(f"d/{name}=high", asked), ChangeError)


@pytest.mark.parametrize("kind", OBJECTS)
def test_what_is_no_object_where_one_belongs_is_looked_over(kind: str) -> None:
    raised: list[str] = []
    for place in places(OBJECTS[kind]):
        for called, value in PUT.items():
            try:
                ask(cluster(kind, place, value), grafted(OBJECTS[kind], place, value))
            except Exception as error:  # noqa: BLE001 - all that is raised is told together
                at = error.__traceback__
                while at is not None and at.tb_next is not None:
                    at = at.tb_next
                where = "" if at is None else f"{at.tb_frame.f_code.co_filename.rpartition('/')[2]}:{at.tb_lineno}"
                raised.append(f"{'.'.join(map(str, place))} = {called}: {error!r} in {where}")

    assert raised == [], "\n".join(raised)
