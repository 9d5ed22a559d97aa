"""Strategic merge, field sets, and server-side apply."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_sim.kinds.decode import shape
from tutti_sim.meta.errors import ApiError
from tutti_sim.patch import apply, managed, strategic
from tutti_sim.patch.strategic import UNTYPED

POD = shape("Pod")


def containers(*pairs):
    return {"spec": {"containers": [{"name": name, "image": image} for name, image in pairs]}}


def test_containers_are_joined_by_name():
    merged = strategic.merge(containers(("a", "1"), ("b", "1")), containers(("b", "2"), ("c", "1")), POD)

    assert merged == containers(("a", "1"), ("b", "2"), ("c", "1"))


def test_an_item_is_deleted_by_directive():
    patch = {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}

    assert strategic.merge(containers(("a", "1"), ("b", "1")), patch, POD) == containers(("b", "1"))


def test_a_list_without_a_merge_key_is_replaced():
    before = {"spec": {"tolerations": [{"key": "a"}]}}

    assert strategic.merge(before, {"spec": {"tolerations": [{"key": "b"}]}}, POD)["spec"]["tolerations"] == [
        {"key": "b"}
    ]


def test_the_order_of_a_list_can_be_set():
    patch = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}

    assert strategic.merge(containers(("a", "1"), ("b", "1")), patch, POD) == containers(("b", "1"), ("a", "1"))


def test_patches_leave_their_target_alone():
    target = containers(("a", "1"))
    strategic.merge(target, containers(("a", "2")), POD)
    strategic.merge_json(target, {"spec": {"containers": None, "x": {"y": 1}}})
    strategic.operations(target, [{"op": "remove", "path": "/spec/containers/0"}])

    assert target == containers(("a", "1"))


def refused(target, *steps):
    """The code and the message that a JSON patch is refused with."""
    with pytest.raises(ApiError) as error:
        strategic.operations(target, list(steps))
    return error.value.code, error.value.message


APPLIES_NOT = (422, "the server rejected our request due to an error in our request")


def test_copies_are_bounded_as_by_a_real_server():
    labels = {"labels": {"x": "y" * 1000}, "annotations": {}}
    double = [{"op": "copy", "from": "/metadata", "path": f"/metadata/annotations/a{n}"} for n in range(17)]

    assert refused({"metadata": labels}, *double) == APPLIES_NOT


def test_copies_are_bounded_to_the_byte():
    half = "x" * (strategic.COPIED_BYTES // 2 - 2)  # and its quotes
    copy = {"op": "copy", "from": "/data/a", "path": "/data/b"}

    assert strategic.operations({"data": {"a": half}}, [copy, copy]) == {"data": {"a": half, "b": half}}
    assert refused({"data": {"a": half, "c": 1}}, copy, copy, {**copy, "from": "/data/c"}) == APPLIES_NOT


def test_operations_are_counted():
    step = {"op": "test", "path": "/a", "value": 1}

    assert strategic.operations({"a": 1}, [step] * 10_000) == {"a": 1}
    assert refused({"a": 1}, *[step] * 10_001) == (
        413,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
    )


@pytest.mark.parametrize(
    "step",
    [
        {"op": "test", "path": "", "value": None},
        {"op": "test", "path": "", "value": {}},
        {"op": "test", "path": ""},
        {"op": "copy", "from": "", "path": "/b"},
        {"op": "move", "from": "", "path": "/b"},
        {"op": "copy", "from": "/a", "path": ""},
        {"op": "add", "path": "", "value": {}},
        {"op": "remove", "path": ""},
        {"op": "replace", "path": "", "value": 1},
        {"op": "replace", "path": ""},
        {"op": "copy", "from": "/b/c", "path": "/d"},
        {"op": "copy", "path": "/d"},
        {"op": "copy", "from": "/a"},
        None,
    ],
)
def test_what_does_not_apply(step):
    assert refused({"a": 1}, step) == APPLIES_NOT


def test_the_whole_document_is_tested_and_replaced():
    steps = [{"op": "test", "path": "", "value": {"a": 1}}, {"op": "replace", "path": "", "value": {"b": 2}}]

    assert strategic.operations({"a": 1}, steps) == {"b": 2}


@pytest.mark.parametrize("patch", [None, []])
def test_a_patch_of_no_operations_changes_nothing(patch):
    assert strategic.operations({"a": 1}, patch) == {"a": 1}


def test_copies_of_one_value_are_apart():
    steps = [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/x", "value": 1}]

    assert strategic.operations({"a": {}}, steps) == {"a": {}, "b": {"x": 1}}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"op": "add"}, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("x", "cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
        ([1], "cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1, "path": "/a"}], "cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        ([{"op": "test", "path": []}], "cannot unmarshal array into Go struct field jsonPatchOp.path of type string"),
        ([{"op": "test", "path": "/a", "value": 1}, []], "unmarshal array into Go value of type handlers.jsonPatchOp"),
    ],
)
def test_what_is_no_patch(patch, message):
    with pytest.raises(ApiError, match=re.escape(message)) as error:
        strategic.operations({"a": 1}, patch)

    assert error.value.code == 400


DOCUMENTS = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, min_size=1, max_size=3),
    max_leaves=8,
).map(lambda inner: {"data": inner})


@given(DOCUMENTS)
def test_a_field_set_reads_back_as_written(document):
    found = set()
    managed.collect(document, UNTYPED, (), found, containers=True)

    assert managed.read_fields(managed.write_fields(found)) == found
    assert managed.existing(found, document, UNTYPED) == found


@given(DOCUMENTS, DOCUMENTS)
def test_applied_fields_are_there_afterwards(live, config):
    merged = apply.merged(live, config, UNTYPED)
    stated = set()
    managed.collect(config, UNTYPED, (), stated, containers=False)

    for path in stated:
        assert managed.resolve(merged, UNTYPED, path)[0] == managed.resolve(config, UNTYPED, path)[0]


def applied(live, config, manager, *, force=False):
    return apply.apply(live, config, UNTYPED, manager=manager, api_version="v1", subresource="", force=force)


def test_a_field_that_is_stated_no_more_goes_unless_another_holds_it():
    live = applied({"metadata": {}}, {"data": {"a": "1", "b": "1"}}, "one")
    live = applied(live, {"data": {"b": "1"}}, "two")
    live = applied(live, {"data": {}}, "one")

    assert live["data"] == {"b": "1"}


def test_another_manager_s_field_is_a_conflict_until_forced():
    live = applied({"metadata": {}}, {"data": {"a": "1"}}, "one")

    with pytest.raises(ApiError, match=r'Apply failed with 1 conflict: conflict with "one": \.data\.a'):
        applied(live, {"data": {"a": "2"}}, "two")
    assert applied(live, {"data": {"a": "2"}}, "two", force=True)["data"] == {"a": "2"}
