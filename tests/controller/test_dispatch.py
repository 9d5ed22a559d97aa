"""The part of carrying out that is pure: several patches of one status become one that loses none of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tutti.controller.dispatch import composed


def applied(document, patch):
    """RFC 7386, word for word."""
    result = dict(document)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = applied(result[key] if isinstance(result.get(key), dict) else {}, value)
        else:
            result[key] = value
    return result


def test_fields_of_earlier_patches_stay_and_later_values_win():
    assert composed({"a": 1, "b": {"x": 1}}, {"b": {"y": 2}, "c": None}) == {"a": 1, "b": {"x": 1, "y": 2}, "c": None}
    assert composed({"a": {"x": 1}}, {"a": None}) == {"a": None}


flat = st.dictionaries(
    st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 3), st.lists(st.integers(), max_size=2))
)


@given(document=flat, first=flat, then=flat)
def test_the_composition_of_flat_patches_does_what_they_do_one_after_the_other(document, first, then):
    document = applied({}, document)
    assert applied(document, composed(first, then)) == applied(applied(document, first), then)
