"""Reading scheduler_perf's YAML: what is known, what is told, and what parameters stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutti_bench.document import THROUGHPUT, DocumentError, load, read
from tutti_bench.durations import seconds_of
from tutti_bench.filters import Filter
from tutti_bench.opcodes.performing import PERFORM
from tutti_bench.operations.any import OPERATIONS
from tutti_bench.session import prepare

GANGS = """
- name: Gangs
  labels: [gang]
  featureGates: {GenericWorkload: true}
  workloadTemplate:
  - opcode: createNodes
    countParam: $initNodes
  - opcode: createPods
    COUNTPARAM: $groups
    countMultiplierParam: $podsPerGroup
    signatureBatchSizeParam: $podsPerGroup
    podTemplatePath: pod.yaml
    collectMetrics: true
    templateParams: {podsPerGroup: $podsPerGroup, fixed: 5}
  - opcode: sleep
    durationParam: $pause
  workloads:
  - name: small
    labels: [short]
    threshold: {gangs: 12}
    params: {initNodes: 10, groups: 3, podsPerGroup: 4, pause: 1m30s}
  - name: large
    threshold: 7
    params: {initNodes: 10, groups: 3, podsPerGroup: 4}
"""


def test_parameters_stand_where_they_are_named():
    scenario = read(GANGS, "f")[0]
    nodes, pods, sleep = prepare(scenario, scenario.workloads[0], Path()).operations
    assert nodes.number == 10
    assert (pods.number, pods.signature_batch_size) == (12, 4)
    assert pods.template_params == {"podsPerGroup": 4, "fixed": 5}
    assert sleep.duration == 90.0
    assert scenario.selector(scenario.workloads[0]) == THROUGHPUT


def test_a_missing_parameter_is_told_before_anything_is_created():
    scenario = read(GANGS, "f")[0]
    with pytest.raises(DocumentError, match=r"Gangs/large: operation 2, sleep: there is no parameter 'pause'"):
        prepare(scenario, scenario.workloads[1], Path())


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ("{n: 1, m: 2}", "a/b: no operation uses the parameters m"),
        ("{n: x}", "a/b: operation 0, createNodes: parameter $n must be a whole number, not 'x'"),
        ("{n: 1.5}", "a/b: operation 0, createNodes: parameter $n must be a whole number, not 1.5"),
        ("{n: true}", "a/b: operation 0, createNodes: parameter $n must be a whole number, not True"),
    ],
)
def test_parameters_of_the_wrong_kind_are_told(params, why):
    text = f"""
- name: a
  workloadTemplate: [{{opcode: createNodes, countParam: $n}}]
  workloads: [{{name: b, params: {params}}}]
"""
    scenario = read(text, "f")[0]
    with pytest.raises(DocumentError) as raised:
        prepare(scenario, scenario.workloads[0], Path())
    assert str(raised.value) == why


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ("{opcode: createPodz}", "opcode: there is no opcode 'createPodz'; did you mean 'createPods'?"),
        ("{opcode: allocResourceClaims}", "namespace: must be given"),
        ("{opcode: createPods}", "count or countParam must be given"),
        ("{opcode: createPods, count: 1, podTemplatPath: x}", "podTemplatPath: there is no such field; did you mean"),
        ("{opcode: createPods, count: 1, collectMetrics: true, skipWaitToCompletion: true}", "goes neither with"),
        ("{opcode: createPods, count: 1, persistentVolumeTemplatePath: x}", "needs one of their claims"),
        ("{opcode: churn, mode: recreate, templatePaths: [x]}", "number cannot be 0 where the mode is recreate"),
        ("{opcode: churn, mode: twice, templatePaths: [x]}", "mode: must be 'create' or 'recreate', not 'twice'"),
        ("{opcode: barrier, stageRequirement: Bound}", "stageRequirement: must be '', 'Scheduled' or 'Attempted'"),
        ("{opcode: sleep, duration: 5}", "duration: 5 has no unit; write for example 5s"),
        ("{opcode: startCollectingMetrics, name: x, namespaces: []}", "namespaces:"),
        ("{opcode: createNodes, count: 1, uniqueNodeLabelStrategy: {labelKey: a}, nodeAllocatableStrategy: {}}",
         "at most one strategy can be given"),
        ("[createPods]", "an operation has an opcode and its fields"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_operation_is_told_with_its_place(operation, why):
    text = f"- name: a\n  workloadTemplate: [{{opcode: sleep}}, {operation}]\n  workloads: [{{name: b}}]\n"
    with pytest.raises(DocumentError) as raised:
        read(text, "f.yaml")
    assert str(raised.value).startswith("f.yaml: [0].workloadTemplate[1]")
    assert why in str(raised.value)


def test_all_that_is_wrong_is_told_at_once():
    text = "- name: a\n  workloadTemplate: [{opcode: x}]\n  workloads: []\n- nam: b\n"
    with pytest.raises(DocumentError) as raised:
        read(text, "f")
    for where in ("[0].workloadTemplate[0].opcode", "[0].workloads", "[1].nam", "[1].workloadTemplate"):
        assert where in str(raised.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [1", "no YAML"),
        ("a: b", "must be a list of scenarios"),
        ("- name: a\n  workloadTemplate: [{opcode: sleep}]\n  workloads: [{name: b}]\n" * 2, "more than one scenario"),
    ],
)
def test_what_is_no_such_file_is_told(text, why):
    with pytest.raises(DocumentError, match=why):
        read(text, "f")


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(DocumentError, match=r"none.yaml: cannot be read"):
        load(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("1m30s", 90), ("500ms", 0.5), ("1.5h", 5400), ("0", 0), (0, 0), ("250us", 0.00025)],
)
def test_durations_are_go_s(text, seconds):
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["10", "s", "1x", "-5s", "1m 30s", "", 5])
def test_what_is_no_duration_is_told(text):
    with pytest.raises(ValueError, match=r"no duration|no unit"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("labels", "pattern", "chosen"),
    [
        ("", "", ["Gangs/small", "Gangs/large"]),
        ("short", "", ["Gangs/small"]),
        ("+gang,-short", "", ["Gangs/large"]),
        ("gang,short", "", ["Gangs/small"]),
        ("other", "", []),
        ("", "large$", ["Gangs/large"]),
        ("", "^Gangs", ["Gangs/small", "Gangs/large"]),
    ],
)
def test_workloads_are_chosen_by_label_and_name(labels, pattern, chosen):
    """Labels of the scenario count for all of its workloads, as in scheduler_perf."""
    found = Filter.parse(labels, pattern).chosen(read(GANGS, "f"))
    assert [f"{scenario.name}/{workload.name}" for scenario, workload in found] == chosen


def test_every_opcode_that_is_read_is_performed():
    assert set(OPERATIONS) == set(PERFORM)
    for opcode, kind in OPERATIONS.items():
        assert kind.model_fields["opcode"].annotation.__args__ == (opcode,)


SCENARIOS = sorted((Path(__file__).parents[2] / "bench" / "scenarios").glob("**/*.yaml"))
SCENARIOS = [path for path in SCENARIOS if path.parent.name != "templates"]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_our_own_scenarios_can_be_run_and_have_a_short_workload(path):
    scenarios = load(path)
    for scenario in scenarios:
        assert any("short" in workload.labels for workload in scenario.workloads)
        for workload in scenario.workloads:
            task = prepare(scenario, workload, path.parent)
            for operation in task.operations:
                for field, value in operation:
                    if field.endswith("template_path") and value:
                        assert (path.parent / value).is_file()
