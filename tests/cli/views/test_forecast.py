"""What would become of whom if something were submitted or changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.views.scene import AT, GPU, Json, group, node, ours, pod, queue, told
from tests.cli.views.staging import called
from tutti.api.frameworks import KindTable
from tutti.cli.views.command_line import plain
from tutti.cli.views.drawing import WIDE
from tutti.cli.views.forecast.changes import (
    AskedChange,
    ChangeError,
    added_nodes,
    drain_change,
    quota_change,
    submission,
    weight_change,
)
from tutti.cli.views.forecast.command import draw_forecast
from tutti.cli.views.forecast.model import Course, Forecast, ForecastWorkload
from tutti.cli.views.forecast.outlook import forecast
from tutti.cli.views.what_if import ObservedCluster
from tutti.engine.records.observations import ObjectSeen

HOUR = 3600.0
DAY = 24 * HOUR


def limited(name: str, size: int, seconds: int, *, on: tuple[str, ...] = (), gpus: int = 8) -> list[Json]:
    """A Workload that may run for so long, and its pods: on nodes, or waiting."""
    spec = {"queueName": "main", "maximumExecutionTimeSeconds": seconds, "podGroups": [{"name": "main", "count": size}]}
    made = [ours("Workload", name, spec, "vision")]
    for rank in range(size):
        where = on[rank] if on else None
        one = pod("vision", f"{name}-{rank}", gpus, on=where or "", admitted=("cq", "a") if on else None)
        one["metadata"].setdefault("labels", {}).update(
            {"scheduling.tutti.dev/workload": name, "scheduling.tutti.dev/pod-group": "main"}
        )
        made.append(one)
    return made


def cluster(*more: Json, gpus: int = 16, nodes: int = 2) -> ObservedCluster:
    made: list[Json] = [node(f"n{n}", "m", "r1") for n in range(nodes)]
    made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision"}})
    made += [ours("ResourceFlavor", "a", {}), queue("cq", "", "a", gpus)]
    made.append(ours("LocalQueue", "main", {"clusterQueue": "cq"}, "vision"))
    return told([*made, *more])


def job(name: str = "new", count: int = 2, gpus: int = 8) -> str:
    resources = {"requests": {"cpu": "1", GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    template = {"spec": {"schedulerName": "tutti", "containers": [{"name": "c", "resources": resources}]}}
    meta = {"name": name, "namespace": "vision", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    spec = {"completionMode": "Indexed", "parallelism": count, "completions": count, "template": template}
    return yaml.safe_dump({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})


def submitted(text: str, asked: ObservedCluster) -> list[AskedChange]:
    return submission(text, "", "vision", KindTable((), ()), asked.listed.seen, asked.at)


def foretold(asked: ObservedCluster, *changes: AskedChange, run: float | None = None) -> Forecast:
    return forecast(asked, changes, horizon=DAY, run_seconds=run)


def of(found: Forecast, name: str) -> ForecastWorkload:
    return next(one for one in found.workloads if one.name == name)


def test_work_that_fits_starts_at_once_and_nobody_else_fares_otherwise():
    asked = cluster()
    found = foretold(asked, *submitted(job(), asked))
    one = of(found, "new")
    assert (one.before.course, one.after.course, dict(one.after.nodes)) == (
        Course.ABSENT,
        Course.NOW,
        {"n0": 1, "n1": 1},
    )
    assert found.summary == ("vision/new would start at once on n0 (1 pod), n1 (1 pod)",)
    assert [w.name for w in found.workloads] == ["new"]


def test_work_starts_when_that_ends_whose_time_is_limited_and_waits_where_nobody_knows():
    busy = limited("busy", 2, 7200, on=("n0", "n1"))
    asked = cluster(*busy)
    one = of(foretold(asked, *submitted(job(), asked)), "new")
    assert one.after.course is Course.LATER
    assert one.after.starts_at is not None
    assert one.after.starts_at - AT == pytest.approx(7200, abs=60)  # it has run for no time that anybody knows of

    endless = cluster(
        group("vision", "old", 2),
        *(pod("vision", f"old-{n}", 8, gang="old", on=f"n{n}", admitted=("cq", "a")) for n in range(2)),
    )
    found = foretold(endless, *submitted(job(), endless))
    assert of(found, "new").after.course is Course.WAITS
    assert of(found, "new").after.gate == "Quota"
    assert any("no limit is set" in note for note in found.notes)
    guessed = foretold(endless, *submitted(job(), endless), run=3 * HOUR)
    start = of(guessed, "new").after.starts_at
    assert start is not None
    assert start - AT == pytest.approx(3 * HOUR, abs=60)


def test_more_quota_lets_what_waits_start_and_less_does_not():
    waiting = [group("vision", "wide", 2), *(pod("vision", f"wide-{n}", 8, gang="wide") for n in range(2))]
    asked = cluster(*waiting, gpus=8)
    found = foretold(asked, quota_change(f"cq:{GPU}=16", asked.listed.seen))
    assert (of(found, "wide").before.course, of(found, "wide").after.course) == (Course.WAITS, Course.NOW)
    assert found.summary == ("1 workload would start earlier: vision/wide",)
    worse = foretold(asked, quota_change(f"cq:a:{GPU}=4", asked.listed.seen))
    assert worse.summary == ("nobody would fare otherwise",)


def test_nodes_that_are_added_let_what_waits_for_room_start():
    waiting = [group("vision", "wide", 3), *(pod("vision", f"wide-{n}", 8, gang="wide") for n in range(3))]
    asked = cluster(*waiting, gpus=64)
    found = foretold(asked, added_nodes("n0=2", asked.listed.seen))
    one = of(found, "wide")
    assert (one.before.gate, one.after.course) == ("Placement", Course.NOW)
    assert set(one.after.nodes) == {"n0", "n1", "n0+1"}


def test_a_drain_tells_who_loses_its_place_and_where_it_goes():
    runs = [
        group("vision", "pair", 1),
        pod("vision", "pair-0", 8, gang="pair", on="n0", admitted=("cq", "a"), owner="Job"),
    ]
    asked = cluster(*runs)
    found = foretold(asked, drain_change("n0", asked.listed.seen))
    assert found.changes == ("node n0 is drained",)
    one = of(found, "pair")
    assert one.after.starts_at == pytest.approx(AT)
    assert dict(one.after.nodes) == {"n1": 1}


def test_a_single_pod_that_is_drained_is_told_once_and_one_that_nothing_makes_is_lost():
    single = pod("vision", "single", 8, on="n0", admitted=("cq", "a"), owner="ReplicaSet")
    bare = pod("vision", "bare", 8, on="n1", admitted=("cq", "a"))
    asked = cluster(single, bare, nodes=3)
    found = foretold(asked, *(drain_change(name, asked.listed.seen) for name in ("n0", "n1")))
    assert {one.name: dict(one.after.nodes) for one in found.workloads} == {"single": {"n2": 1}, "bare": {}}
    assert "nothing makes 1 pod of n1 again" in found.notes


def test_who_is_displaced_is_told_with_whom_it_is_for():
    """Reclaim: quota that another queue has lent is taken back for the owner's work."""
    made = [node("n0", "m", "r1"), node("n1", "m", "r1")]
    made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision"}})
    made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "speech"}})
    own, other = queue("cq", "all", "a", 8), queue("other", "all", "a", 8)
    own["spec"]["preemption"] = {"reclaimWithinCohort": "Any"}
    made += [ours("ResourceFlavor", "a", {}), own, other]
    made.append(ours("LocalQueue", "main", {"clusterQueue": "cq"}, "vision"))
    made.append(ours("LocalQueue", "main", {"clusterQueue": "other"}, "speech"))
    made.append(group("speech", "borrower", 2))
    made += [
        pod("speech", f"borrower-{n}", 8, gang="borrower", on=f"n{n}", admitted=("other", "a"), owner="Job")
        for n in range(2)
    ]
    asked = told(made)
    found = foretold(asked, *submitted(job(count=1), asked))
    assert of(found, "new").after.course is Course.NOW
    victim = of(found, "borrower")
    assert (victim.before.course, victim.after.course) == (Course.RUNS, Course.DISPLACED)
    assert "vision/new" in victim.after.displaced_for or "cq" in victim.after.displaced_for
    assert "1 workload would be taken out: speech/borrower" in found.summary
    drawn = plain(draw_forecast(found, WIDE))
    assert "taken out, then waits" in drawn
    assert drawn == plain(draw_forecast(foretold(asked, *submitted(job(count=1), asked)), WIDE))


def test_a_weight_is_changed_and_a_manifest_of_queues_is_taken_as_it_says():
    asked = cluster()
    weight = weight_change("cq=3", asked.listed.seen)
    assert weight.what == "ClusterQueue cq has weight 3"
    (change,) = submitted(yaml.safe_dump(ours("ResourceFlavor", "b", {})), asked)
    assert change.what == "ResourceFlavor b is made as the manifest says"
    assert foretold(asked, weight, change).summary == ("nobody would fare otherwise",)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda seen: quota_change("nonsense", seen), "is written QUEUE:[FLAVOR:]RESOURCE=AMOUNT"),
        (lambda seen: quota_change(f"none:{GPU}=1", seen), "there is no ClusterQueue none; there are cq"),
        (lambda seen: quota_change("cq:unknown=1", seen), "has no quota of unknown"),
        (lambda seen: quota_change(f"cq:{GPU}=lots", seen), "lots"),
        (lambda seen: quota_change(f"cq:{GPU}=-1", seen), "-1"),
        (lambda seen: weight_change("cq", seen), "is written QUEUE=WEIGHT"),
        (lambda seen: weight_change("cq=heavy", seen), "weight"),
        (lambda seen: added_nodes("n0=0", seen), "within 1 and 10000"),
        (lambda seen: added_nodes("nobody=1", seen), "there is no node nobody"),
        (lambda seen: drain_change("nobody", seen), "there is no node nobody"),
        (lambda seen: submission("", "", "vision", KindTable((), ()), seen, AT), "nothing in the manifest"),
        (lambda seen: submission("a: [", "", "vision", KindTable((), ()), seen, AT), "cannot be read"),
        (lambda seen: submission("kind: Service\nmetadata: {name: x}", "", "v", KindTable((), ()), seen, AT), "nothing that makes pods"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_with_what_would_be_right(make, said):
    with pytest.raises(ChangeError) as caught:
        make(cluster().listed.seen)
    assert said in str(caught.value)


def test_the_command_answers_on_a_cluster_and_writes_nothing(kubeconfig: Path, tmp_path: Path):
    before = called(kubeconfig, "gangs", "-o", "json").output
    answer = called(kubeconfig, "what-if", "--quota", f"vision:{GPU}=64", "-o", "json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.output)
    assert found["changes"] == [f"ClusterQueue vision has 64 {GPU} of its own"]
    file = tmp_path / "job.yaml"
    file.write_text(job("too-large", 40))
    refused = called(kubeconfig, "what-if", "-f", str(file))
    assert refused.exit_code == 1
    assert "vision/too-large would still wait at the Queue gate: ClusterQueue vision is StrictFIFO" in refused.output
    assert called(kubeconfig, "what-if").exit_code == 2
    assert called(kubeconfig, "gangs", "-o", "json").output == before


def elastic(name: str, size: int, speed: str, *, least: int = 1, gpus: int = 4, on: tuple[str, ...] = ()) -> list[Json]:
    """A gang that starts with some members and says how fast it is with how many; the first of them on nodes."""
    made = [group("vision", name, least)]
    made[0]["metadata"]["annotations"] = {"scheduling.tutti.dev/speed-by-members": speed}
    for rank in range(size):
        where = on[rank] if rank < len(on) else ""
        made.append(pod("vision", f"{name}-{rank}", gpus, gang=name, on=where, admitted=("cq", "a") if where else None))
    return made


def by_speed(asked: ObservedCluster) -> ObservedCluster:
    """The same cluster, whose queue gives members to the gang that gains most."""
    for one in asked.listed.seen:
        if isinstance(one, ObjectSeen) and one.kind == "ClusterQueue":
            one.raw["spec"]["surplusOrder"] = "BySpeed"
    return asked


STEEP, FLAT = "1=1,4=3.9", "1=1,2=1.5,4=1.8"


@pytest.mark.parametrize("order", ["InTurn", "BySpeed"])
def test_an_elastic_gang_is_told_with_how_many_members_it_starts_and_to_how_many_it_grows(order):
    busy = limited("busy", 2, 7200, on=("n0", "n1"), gpus=6)
    asked = cluster(*busy)
    asked = by_speed(asked) if order == "BySpeed" else asked
    found = foretold(asked, *submitted(yaml.safe_dump_all(elastic("new", 4, STEEP, gpus=2)), asked))
    one = of(found, "new")
    assert (one.after.course, dict(one.after.nodes), one.after.members) == (Course.NOW, {"n0": 1, "n1": 1}, 4)
    assert one.after.members_at is not None
    assert one.after.members_at - AT == pytest.approx(7200, abs=60)
    assert found.summary[0].startswith(
        "vision/new would start at once on n0 (1 pod), n1 (1 pod), and grow to 4 pods in "
    )


def test_a_gang_that_would_grow_by_a_change_or_not_any_more_fares_otherwise():
    flat = elastic("flat", 4, FLAT, on=("n0",))
    asked = by_speed(cluster(*flat, gpus=8))
    (grown,) = foretold(asked, quota_change(f"cq:{GPU}=16", asked.listed.seen)).workloads
    assert (grown.before.course, grown.before.members) == (Course.RUNS, 2)
    assert (grown.after.course, grown.after.members) == (Course.RUNS, 4)
    steep = yaml.safe_dump_all(elastic("steep", 4, STEEP))
    found = foretold(asked, *submitted(steep, asked))
    assert of(found, "flat").after.members == 1
    assert "1 workload would have fewer members: vision/flat" in found.summary
    assert "runs, 2 members" in plain(draw_forecast(found, WIDE))
