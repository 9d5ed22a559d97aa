"""A text changed so that it says something else keeps the rest as it was."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.drawing import examples
from tutti.cli.migrate.editing import compose, construct, restated


def edited(text: str, wanted):
    return restated(text, compose(text), wanted)


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ("a: 1 # one\nb: 2\n", {"a": 3, "b": 2}, "a: 3 # one\nb: 2\n"),
        ("cohort: x # c\n", {"cohortName": "x"}, "cohortName: x # c\n"),
        ("a: 1\n# of b\nb: 2 # two\nc: 3\n", {"a": 1, "c": 3}, "a: 1\n# of b\nc: 3\n"),
        ("a:\n  b: 1\n  # last\n\nz: 0\n", {"a": {"b": 1, "c": 2}, "z": 0}, "a:\n  b: 1\n  c: 2\n  # last\n\nz: 0\n"),
        ("a: 1\n", {"new": [1], "a": 1}, "new:\n- 1\na: 1\n"),
        ("- b: 1\n  c: 2\n", [{"c": 2}], "- c: 2\n"),
        ("- b: 1\n", [{"a": 0, "b": 1}], "- a: 0\n  b: 1\n"),
        ("- b: 1\n", [{}], "- {}\n"),
        ("a: {b: 1, c: 2} # kept\nd: '4'\n", {"a": {"c": 2}, "d": "4"}, "a: {c: 2} # kept\nd: '4'\n"),
        ("a:\nb: 1\n", {"a": {"x": 1}, "b": 1}, "a:\n  x: 1\nb: 1\n"),
        ("a: |\n  text\nb: 1\n", {"b": 1}, "b: 1\n"),
        ("a: 1", {"a": 1, "b": 2}, "a: 1\nb: 2\n"),
        ("t: 2026-01-05T08:00:00Z\na: 1\n", {"t": "2026-01-05T08:00:00Z", "a": 2}, "t: 2026-01-05T08:00:00Z\na: 2\n"),
    ],
)
def test_only_what_differs_is_edited(before, wanted, after):
    assert edited(before, wanted) == (after, True)


@pytest.mark.parametrize(
    ("before", "wanted"),
    [
        ("a: &x {b: 1} # shared\nc: *x\n", {"a": {"b": 2}, "c": {"b": 1}}),
        ("a:\n- 1\n# about two\n- 2\n", {"a": [1]}),
        ('{"a": 1} # as JSON\n', {"a": 2}),
    ],
)
def test_comments_that_cannot_be_kept_are_told_of(before, wanted):
    text, kept = edited(before, wanted)

    assert construct(compose(text)) == wanted
    assert not kept


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["", "x", "a b", "1", "true", "# no", "- x", "two\nlines\n"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdef"), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, VALUES, st.sampled_from([None, False]), st.booleans())
@examples(500)
def test_whatever_is_wanted_the_text_says_it(found, wanted, style, indented):
    class Dumper(yaml.SafeDumper):
        def increase_indent(self, flow=False, indentless=False):
            return super().increase_indent(flow, indentless and not indented)

    text = yaml.dump({"top": found}, Dumper=Dumper, default_flow_style=style, sort_keys=False)
    said, _ = edited(text, {"top": wanted})

    assert construct(compose(said)) == {"top": wanted}
