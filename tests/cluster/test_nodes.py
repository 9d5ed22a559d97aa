"""Nodes as columns: rows are reused, columns appear, labels follow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tutti.api.core import Node, NodeSpec, ObjectMeta
from tutti.api.selectors import Taint
from tutti.cluster.nodes import ABSENT, NodeColumns


def node(name: str, *, labels: dict[str, str] | None = None, taints: tuple[str, ...] = (), off: bool = False) -> Node:
    return Node(
        ObjectMeta(name=name, labels=labels or {}),
        NodeSpec(off, [Taint(key, "", "NoSchedule") for key in taints]),
    )


def value(columns: NodeColumns, key: str, name: str) -> str | None:
    column = columns.label(key)
    code = column.codes[columns.rows[name]]
    return None if code == ABSENT else column.values[code]


def test_a_node_has_one_row_however_often_it_changes():
    columns = NodeColumns()
    row = columns.put(node("a"), {"cpu": 1000})
    assert columns.put(node("a", off=True), {"cpu": 2000}) == row
    assert (columns.count, len(columns)) == (1, 1)
    assert columns.allocatable[row, columns.resource_index.column("cpu")] == 2000
    assert columns.unschedulable[row]


def test_the_row_of_a_node_that_is_gone_is_reused_and_keeps_nothing_of_it():
    columns = NodeColumns()
    columns.label("zone")
    row = columns.put(node("a", labels={"zone": "x"}, taints=("t",), off=True), {"cpu": 1000, "gpu": 8})
    columns.requested[row] = 7
    columns.remove("a")
    assert columns.count == 0
    assert not columns.present[row]
    assert columns.put(node("b"), {"cpu": 500}) == row
    assert columns.names[row] == "b"
    assert columns.allocatable[row].tolist()[: len(columns.resource_index)] == columns.vector({"cpu": 500}).tolist()
    assert not columns.requested[row].any()
    assert not columns.unschedulable[row]
    assert columns.taint_sets[columns.taint_code[row]] == ()
    assert value(columns, "zone", "b") is None


def test_a_resource_seen_for_the_first_time_gets_a_column_and_moves_nothing():
    columns = NodeColumns()
    row = columns.put(node("a"), {"cpu": 1000})
    columns.requested[row, columns.resource_index.column("cpu")] = 300
    for number in range(20):
        columns.put(node(f"n{number}"), {f"example.com/{number}": number + 1})
    assert columns.allocatable[row, columns.resource_index.column("cpu")] == 1000
    assert columns.requested[row, columns.resource_index.column("cpu")] == 300
    assert columns.allocatable[columns.rows["n19"], columns.resource_index.column("example.com/19")] == 20
    assert columns.allocatable.shape == columns.requested.shape == (21, len(columns.resource_index))


def test_a_resource_that_is_not_offered_any_more_is_gone():
    columns = NodeColumns()
    row = columns.put(node("a"), {"cpu": 1000, "gpu": 8})
    columns.put(node("a"), {"cpu": 1000})
    assert columns.allocatable[row, columns.resource_index.column("gpu")] == 0


def test_the_version_grows_only_with_what_masks_are_made_of():
    columns = NodeColumns()
    columns.put(node("a", labels={"x": "1"}), {"cpu": 1})
    before = columns.version
    columns.put(node("a", labels={"x": "1"}), {"cpu": 2})
    assert columns.version == before
    for change in (node("a"), node("a", taints=("t",)), node("a", off=True)):
        columns.put(change, {"cpu": 2})
        assert columns.version > before
        before = columns.version


NAMES = st.sampled_from([f"n{i}" for i in range(6)])
LABELS = st.dictionaries(st.sampled_from(["zone", "rack"]), st.sampled_from(["x", "y"]))
STEPS = st.lists(st.tuples(NAMES, st.one_of(st.none(), LABELS), st.booleans(), st.integers(0, 5)), max_size=40)


@given(STEPS, st.integers(0, 40))
def test_the_columns_are_what_was_said_last_in_any_order_of_changes(steps, when):
    """The label column is asked for somewhere in between, and kept up to date from then on."""
    columns, truth = NodeColumns(), {}
    for number, (name, labels, off, cpu) in enumerate(steps):
        if number == when:
            columns.label("zone")
        if labels is None:
            if truth.pop(name, None) is not None:
                columns.remove(name)
        else:
            columns.put(node(name, labels=labels, off=off), {"cpu": cpu})
            truth[name] = (labels, off, cpu)
    assert set(columns.rows) == set(truth)
    assert int(columns.present.sum()) == columns.count == len(truth)
    for name, (labels, off, cpu) in truth.items():
        row = columns.rows[name]
        assert columns.names[row] == name
        assert columns.allocatable[row, columns.resource_index.column("cpu")] == cpu
        assert columns.unschedulable[row] == off
        for key in ("zone", "rack"):
            assert value(columns, key, name) == labels.get(key)


def test_many_nodes_fit():
    columns = NodeColumns()
    columns.label("zone")
    for number in range(1000):
        columns.put(node(f"n{number}", labels={"zone": f"z{number % 3}"}), {"cpu": number})
    assert columns.count == 1000
    assert value(columns, "zone", "n998") == "z2"
    assert columns.allocatable[columns.rows["n999"], columns.resource_index.column("cpu")] == 999
