"""Strategic merge, field sets, and server-side apply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti_sim.kinds.table import shape
from tutti_sim.meta.errors import ApiError
from tutti_sim.patch import apply, documents, fieldset, strategic
from tutti_sim.patch.shape import UNTYPED

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
    documents.merge(target, {"spec": {"containers": None, "x": {"y": 1}}})
    documents.operations(target, [{"op": "remove", "path": "/spec/containers/0"}])

    assert target == containers(("a", "1"))


DOCUMENTS = st.recursive(
    st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, min_size=1, max_size=3),
    max_leaves=8,
).map(lambda inner: {"data": inner})


@given(DOCUMENTS)
def test_a_field_set_reads_back_as_written(document):
    found = set()
    fieldset.collect(document, UNTYPED, (), found, containers=True)

    assert fieldset.read(fieldset.written(found)) == found
    assert fieldset.existing(found, document, UNTYPED) == found


@given(DOCUMENTS, DOCUMENTS)
def test_applied_fields_are_there_afterwards(live, config):
    merged = apply.merged(live, config, UNTYPED)
    stated = set()
    fieldset.collect(config, UNTYPED, (), stated, containers=False)

    for path in stated:
        assert fieldset.resolve(merged, UNTYPED, path)[0] == fieldset.resolve(config, UNTYPED, path)[0]


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
