"""The dashboard and the alerts ask for metrics that exist, by labels that these have, and alerts fire when they must."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from handbook.alerts import ALERTS
from handbook.dashboard import ROWS
from handbook.drawing import draw
from handbook.metrics import measures
from handbook.monitoring import files
from handbook.promql.evaluating import History
from handbook.promql.parsing import Aggregation, Binary, Selector, parse, walk
from handbook.scene import jobs

FOLDER = Path(__file__).parents[2] / "manifests" / "overlays" / "monitoring"
LABELS = {series: {*one.labels, "le"} for one in measures() for series in one.series}
PANELS = [panel for row in ROWS for panel in row.panels]
EXPRESSIONS = [line.expression for panel in PANELS for line in panel.lines] + [one.expression for one in ALERTS]


def read(expression):
    return parse(expression.replace("$__rate_interval", "1m").replace("$resource", "cpu"))


@pytest.mark.parametrize("name", files())
def test_the_files_are_those_that_are_generated(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == files()[name], "run `make monitoring`"


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_expression_asks_for_series_and_labels_that_exist(expression):
    tree = read(expression)
    selectors = [one for one in walk(tree) if isinstance(one, Selector)]
    assert selectors
    for one in selectors:
        assert one.name in LABELS
        assert {label for label, _, _ in one.matchers} <= LABELS[one.name]
        counts = one.name.endswith(("_total", "_count", "_sum", "_bucket"))
        assert counts == bool(one.over), f"{one.name}: counters are asked for their growth, gauges for their value"
    for one in walk(tree):
        if isinstance(one, Aggregation):
            inside = [inner for inner in walk(one.of) if isinstance(inner, Selector)]
            assert all(set(one.by) <= LABELS[inner.name] for inner in inside)
        if isinstance(one, Binary) and one.on is not None:
            inside = [inner for inner in walk(one) if isinstance(inner, Selector)]
            assert all(set(one.on) <= LABELS[inner.name] for inner in inside)


def test_legends_name_labels_that_are_left():
    for panel in PANELS:
        for line in panel.lines:
            named = {part.split("}}")[0] for part in line.legend.split("{{")[1:]}
            kept = {label for one in walk(read(line.expression)) if isinstance(one, Aggregation) for label in one.by}
            assert named <= kept, panel.title


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
        'tutti_gang_degraded_since_timestamp_seconds{{cluster_queue=""}} 9999\n',
        'tutti_gang_degraded_since_timestamp_seconds{{cluster_queue=""}} 10000\n',
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
        'tutti_informer_last_event_timestamp_seconds{{resource="pods"}} 9000\n',
        'tutti_informer_last_event_timestamp_seconds{{resource="pods"}} 10500\n',
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


@pytest.mark.parametrize("alert", ALERTS, ids=[one.name for one in ALERTS])
def test_an_alert_fires_when_it_must_and_only_then(alert):
    for text, fires in zip(CASES[alert.name], (True, False), strict=True):
        history = History()
        for number in range(21):
            history.add(10_000.0 + 30 * number, text.format(n=number))
        found = history.evaluate(parse(alert.expression), 10_600.0)
        assert bool(found) is fires, text


def test_a_queue_that_is_stopped_is_not_called_stuck():
    (stuck,) = [one for one in ALERTS if one.name == "TuttiQueueStuck"]
    history = History()
    history.add(1.0, (QUEUE + USED + "0\n" + STATUS + "1\n").format())

    assert history.evaluate(parse(stuck.expression), 1.0) == {}


def test_every_alert_says_what_to_do_and_whose_log_lines_exist():
    source = "".join(path.read_text() for path in (FOLDER.parents[2] / "operator" / "tutti").rglob("*.py"))
    for one in ALERTS:
        assert one.means
        assert one.look
        for word in [part.split("`")[0] for step in one.look for part in step.split("`")[1::2]]:
            if "_" in word and "(" not in word:
                assert f'"{word}"' in source or word in LABELS, word


def test_the_picture_shows_every_panel_with_what_was_scraped():
    history = History()
    for number in range(5):
        text = f'tutti_leader 1\ntutti_partial_gangs 2\nscheduler_pending_pods{{queue="gated"}} {number}\n'
        history.add(1.0 + number, text)
    picture = ET.fromstring(draw(history, caption="a\nb & c", resource="cpu", window="15s"))
    texts = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]

    assert {panel.title for panel in PANELS} | {"b & c", "gated: 4"} <= set(texts)
    numbers = {one.text: one.get("fill") for one in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert numbers["1"] != numbers["2"], "one leader is right, two partial gangs are not"


def test_the_scene_is_the_same_every_time_and_has_a_gang_that_must_wait():
    first, again = list(jobs()), list(jobs())

    assert first == again
    assert max(job.members * job.gpus for job in first) == 64
