"""The dashboard and the alerts ask for metrics that exist, by labels that these have, and alerts fire when they must."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from promql_parser import AggregateExpr, BinaryExpr, MatrixSelector, VectorSelector, parse

from handbook.alerts import ALERTS
from handbook.dashboard import ROWS
from handbook.drawing import draw
from handbook.metrics import measures
from handbook.monitoring import files
from handbook.prometheus import Series, program
from handbook.scene import jobs

FOLDER = Path(__file__).parents[2] / "manifests" / "overlays" / "monitoring"
LABELS = {series: {*one.labels, "le"} for one in measures() for series in one.series}
PANELS = [panel for row in ROWS for panel in row.panels]
EXPRESSIONS = [line.expression for panel in PANELS for line in panel.lines] + [one.expression for one in ALERTS]


def read(expression):
    return parse(expression.replace("$__rate_interval", "1m").replace("$resource", "cpu"))


def parts(tree):
    """An expression and all that it is made of."""
    yield tree
    below = [getattr(tree, name, None) for name in ("lhs", "rhs", "expr", "vector_selector")]
    for one in [*below, *(getattr(tree, "args", None) or ())]:
        if one is not None:
            yield from parts(one)


def selectors(tree):
    return [one for one in parts(tree) if isinstance(one, VectorSelector)]


def kept(tree):
    """The labels by which an aggregation puts series together."""
    return set(tree.modifier.labels) if tree.modifier is not None else set()


@pytest.mark.parametrize("name", files())
def test_the_files_are_those_that_are_generated(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == files()[name], "run `make monitoring`"


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_expression_asks_for_series_and_labels_that_exist(expression):
    tree = read(expression)
    assert selectors(tree)
    ranged = [one.vector_selector for one in parts(tree) if isinstance(one, MatrixSelector)]
    for one in selectors(tree):
        assert one.name in LABELS
        assert {label.name for label in one.matchers.matchers} <= LABELS[one.name]
        counts = one.name.endswith(("_total", "_count", "_sum", "_bucket"))
        asked = str(one) in [str(other) for other in ranged]
        assert counts == asked, f"{one.name}: counters are asked for their growth, gauges for their value"
    for one in parts(tree):
        if isinstance(one, AggregateExpr):
            assert all(kept(one) <= LABELS[inner.name] for inner in selectors(one.expr))
        if isinstance(one, BinaryExpr) and one.modifier is not None and one.modifier.matching is not None:
            assert all(set(one.modifier.matching.labels) <= LABELS[inner.name] for inner in selectors(one))


def test_legends_name_labels_that_are_left():
    for panel in PANELS:
        for line in panel.lines:
            named = {part.split("}}")[0] for part in line.legend.split("{{")[1:]}
            left = [kept(one) for one in parts(read(line.expression)) if isinstance(one, AggregateExpr)]
            assert named <= set().union(*left), panel.title


def test_panels_fill_their_rows_and_do_not_overlap():
    board = json.loads(files()["dashboard.json"])
    taken = set()
    for one in board["panels"]:
        place = one["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}  # fmt: skip
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({one["id"] for one in board["panels"]}) == len(board["panels"])


# Per alert: what is scraped every 30 s for ten minutes when it fires, and when it does not; {n} is the number of the scrape.
# The first scrape is at time 0, as in all of promtool's tests.
QUEUE = 'kueue_pending_workloads{{cluster_queue="q",status="inadmissible"}} 2\n'
USED = 'kueue_cluster_queue_resource_usage{{cohort="",cluster_queue="q",flavor="f",resource="cpu"}} '
STATUS = 'kueue_cluster_queue_status{{cluster_queue="q",status="pending"}} '
WAITS = 'kueue_pending_workloads{{cluster_queue="q",status="active"}} 1\n'
WRITES = 'tutti_kube_writes_total{{writer="bind",outcome="bound"}} {n}00\n'
CASES = {
    "TuttiDown": ("up 1\n", "tutti_leader 0\n"),
    "TuttiNoLeader": ("tutti_leader 0\n", "tutti_leader 1\n"),
    "TuttiTwoLeaders": ('tutti_leader{{p="a"}} 1\ntutti_leader{{p="b"}} 1\n', 'tutti_leader{{p="a"}} 1\n'),
    "TuttiPartialGang": ("tutti_partial_gangs 1\n", "tutti_partial_gangs 0\n"),
    "TuttiGangDegraded": (
        'tutti_gang_degraded_since_timestamp_seconds{{cluster_queue=""}} -1\n',
        'tutti_gang_degraded_since_timestamp_seconds{{cluster_queue=""}} 0\n',
    ),
    "TuttiStalled": (
        WAITS + "tutti_decide_duration_seconds_count 7\n",
        WAITS + "tutti_decide_duration_seconds_count {n}\n",
    ),
    "TuttiLoopStalls": (
        "tutti_event_loop_longest_stall_seconds 6\n",
        "tutti_event_loop_longest_stall_seconds 0.1\n",
    ),
    "TuttiWriteErrors": (
        WRITES + 'tutti_kube_writes_total{{writer="bind",outcome="failed"}} {n}0\n',
        WRITES + 'tutti_kube_writes_total{{writer="bind",outcome="gone"}} {n}0\n',
    ),
    "TuttiWritesWait": (
        'tutti_kube_writes_waiting{{lane="bind"}} 500\ntutti_kube_write_limit 10\n',
        'tutti_kube_writes_waiting{{lane="bind"}} 50\ntutti_kube_write_limit 10\n',
    ),
    "TuttiStreamNotListed": (
        'tutti_informer_synced{{resource="pods"}} 0\n',
        'tutti_informer_synced{{resource="pods"}} 1\n',
    ),
    "TuttiStreamSilent": (
        'tutti_informer_last_event_timestamp_seconds{{resource="pods"}} -1000\n',
        'tutti_informer_last_event_timestamp_seconds{{resource="pods"}} 500\n',
    ),
    "TuttiQueueStuck": (QUEUE + USED + "0\n" + STATUS + "0\n", QUEUE + USED + "3\n" + STATUS + "0\n"),
    "TuttiQueueCannotAdmit": (QUEUE + STATUS + "1\n", QUEUE + STATUS + "0\n"),
    "TuttiPluginFails": (
        'tutti_plugin_faults_total{{plugin="p",point="filter"}} {n}\n',
        'tutti_plugin_faults_total{{plugin="p",point="filter"}} 3\n',
    ),
    "TuttiEngineFails": (
        'tutti_part_failures_total{{part="engine"}} {n}\n',
        'tutti_part_failures_total{{part="deletions"}} {n}\ntutti_part_failures_total{{part="engine"}} 3\n',
    ),
    "TuttiPartFails": (
        'tutti_part_failures_total{{part="deletions"}} {n}\n',
        'tutti_part_failures_total{{part="deletions"}} 3\ntutti_part_failures_total{{part="engine"}} {n}\n',
    ),
    "TuttiSetsAside": (
        'tutti_set_aside_total{{kind="Pod",during="settling"}} {n}\n',
        'tutti_set_aside_total{{kind="Pod",during="settling"}} 3\n',
    ),
}


def test_every_alert_has_a_case():
    assert list(CASES) == [one.name for one in ALERTS]


def written(scraped):
    """A text of scrapes as series of promtool's tests."""
    for line in scraped.splitlines():
        name, _, value = line.replace("{{", "{").replace("}}", "}").rpartition(" ")
        grows = re.fullmatch(r"\{n\}(0*)", value)
        yield {"series": name, "values": f"0+1{grows[1]}x20" if grows else f"{value}x20"}


def fires(expression, scraped, folder):
    """Whether an expression has any result after these scrapes, as Prometheus' own promtool evaluates it."""
    promtool = program("promtool")
    if promtool is None:
        pytest.skip("there is no promtool on this machine: `make promtool` fetches it")
    asked = {"expr": f"count({expression})", "eval_time": "10m", "exp_samples": []}
    case = {"interval": "30s", "input_series": list(written(scraped)), "promql_expr_test": [asked]}
    file = folder / "case.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "30s", "tests": [case]}))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 0 or "got:" in told, told
    return done.returncode != 0  # nothing was expected


@pytest.mark.parametrize("alert", ALERTS, ids=[one.name for one in ALERTS])
def test_an_alert_fires_when_it_must_and_only_then(alert, tmp_path):
    must, must_not = CASES[alert.name]
    assert fires(alert.expression, must, tmp_path)
    assert not fires(alert.expression, must_not, tmp_path)


def test_prometheus_takes_the_rules(tmp_path):
    promtool = program("promtool")
    if promtool is None:
        pytest.skip("there is no promtool on this machine: `make promtool` fetches it")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(yaml.safe_load(files()["alerts.yaml"])["spec"]))
    done = subprocess.run(
        [promtool, "check", "rules", tmp_path / "rules.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_queue_that_is_stopped_is_not_called_stuck(tmp_path):
    (stuck,) = [one for one in ALERTS if one.name == "TuttiQueueStuck"]
    assert not fires(stuck.expression, QUEUE + USED + "0\n" + STATUS + "1\n", tmp_path)


def test_every_alert_says_what_to_do_and_whose_log_lines_exist():
    source = "".join(path.read_text() for path in (FOLDER.parents[2] / "operator" / "tutti").rglob("*.py"))
    for one in ALERTS:
        assert one.means
        assert one.look
        for word in [part.split("`")[0] for step in one.look for part in step.split("`")[1::2]]:
            if "_" in word and "(" not in word:
                assert f'"{word}"' in source or word in LABELS, word


def test_the_picture_shows_every_panel_with_what_was_scraped():
    told = {
        "tutti_leader": [Series({}, (1.0,) * 5)],
        "tutti_partial_gangs": [Series({}, (2.0,) * 5)],
        "scheduler_pending_pods": [Series({"queue": "gated"}, (0.0, 1.0, 2.0, 3.0, 4.0))],
    }
    expressions = [line.expression for panel in PANELS for line in panel.lines]
    answers = {one: told.get(selectors(read(one))[0].name, []) for one in expressions}
    picture = ET.fromstring(draw(answers, caption="a\nb & c"))
    texts = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]

    assert {panel.title for panel in PANELS} | {"b & c", "gated: 4"} <= set(texts)
    numbers = {one.text: one.get("fill") for one in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert numbers["1"] != numbers["2"], "one leader is right, two partial gangs are not"


def test_the_scene_is_the_same_every_time_and_has_a_gang_that_must_wait():
    first, again = list(jobs()), list(jobs())

    assert first == again
    assert max(job.members * job.gpus for job in first) == 64
