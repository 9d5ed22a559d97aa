"""Structural schemas and CEL rules: what is pruned, defaulted, refused, and in which words."""

import pytest

from tutti_sim.crd import cel
from tutti_sim.crd.definitions import reader
from tutti_sim.crd.schemarules import check_schema
from tutti_sim.crd.structural import shaped
from tutti_sim.crd.validate import validate

INTEGER_OR_TEXT = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
PARTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer", "default": 5}}},
}


def schema(**properties):
    return {"type": "object", "properties": properties}


def faults(value, **properties):
    return [(one.field, one.message) for one in validate(value, schema(**properties), "")]


def test_unknown_fields_are_pruned_and_defaults_filled_in_at_every_level():
    unknown = []

    value = shaped({"parts": [{"name": "a", "x": 1}], "y": 2}, schema(parts=PARTS), "", unknown)

    assert value == {"parts": [{"name": "a", "size": 5}]}
    assert unknown == ['unknown field "parts[0].x"', 'unknown field "y"']


def test_stray_nulls_are_dropped_and_then_defaulted():
    properties = {"a": {"type": "integer", "default": 1}, "b": {"type": "string", "nullable": True}}

    assert shaped({"a": None, "b": None}, schema(**properties), "", []) == {"a": 1, "b": None}


# Answers of kube-apiserver 1.36.2 to the same values.
@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        (1.5, {"type": "integer"}, [
            ("a", 'Invalid value: "number": a in body must be of type integer: "number"'),
            ("<nil>", 'Invalid value: "": Checked value must be of type integer (default format) in a'),
        ]),
        (2**63, {"type": "integer", "format": "int64"}, [
            ("a", 'Invalid value: "float64": a in body must be of type int64: "float64"'),
            ("<nil>", 'Invalid value: "": Checked value must be of type integer with format int64 in a'),
        ]),
        (2**63 - 1, {"type": "integer", "format": "int64"}, []),
        ("1\n", {"type": "string", "pattern": "^1$"}, [("a", "Invalid value: \"1\\n\": a in body should match '^1$'")]),
        ([1], INTEGER_OR_TEXT, [
            ("a", 'Invalid value: "array": a in body must be of type integer,string: "array"'),
            ("<nil>", 'Invalid value: "": "a" must validate at least one schema (anyOf)'),
            ("a", 'Invalid value: "array": a in body must be of type integer: "array"'),
        ]),
        (5, {"type": "string", "enum": ["x"]}, [
            ("a", 'Invalid value: "integer": a in body must be of type string: "integer"'),
            ("a", 'Unsupported value: 5: supported values: "x"'),
        ]),
        ("xxxx", {"type": "string", "maxLength": 3, "pattern": "^y"}, [("a", "Too long: may not be more than 3 bytes")]),
        (["n"], PARTS, [
            ("a[0]", 'Invalid value: "string": a[0] in body must be of type object: "string"'),
            ("a[0]", 'Invalid value: "n": must be an object for an array of list-type map'),
        ]),
        ([{"name": "n"}, {"name": "n"}], PARTS, [("a[1]", 'Duplicate value: {"name":"n"}')]),
    ],
)  # fmt: skip
def test_faults_are_told_as_the_api_server_tells_them(value, declared, expected):
    assert faults({"a": value}, a=declared) == expected


def broken(value, old, *rules, **properties):
    declared = {**schema(**properties), "x-kubernetes-validations": [dict(rule) for rule in rules]}
    return [(one.field, one.message) for one in cel.check(value, old, declared, "spec")]


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("self.n <= 5", True),
        ("self.n > 5", False),
        ("has(self.gone)", False),
        ("!has(self.gone) || self.gone == 'x'", True),
        ("self.words.all(w, w.size() < 4)", True),
        ("self.words.exists_one(w, w == 'one')", True),
        ("self.words.filter(w, w.startsWith('o')).size() == 1", True),
        ("self.words.map(w, w.size()).sum() == 6", True),
        ("self.words == ['one', 'two']", True),
        ("'one' in self.words", True),
        ("self.text.matches('^a+$')", True),
        ("quantity(self.amount).isGreaterThan(quantity('500m'))", True),
        ("self.text.upperAscii() == 'AAA'", True),
        ("self.n == 3 ? self.text == 'aaa' : false", True),
    ],
)
def test_rules_are_evaluated(rule, holds):
    value = {"n": 3, "words": ["one", "two"], "text": "aaa", "amount": "1"}

    assert bool(broken(value, cel.ABSENT, {"rule": rule, "message": "no"})) is not holds


SIZES = {"type": "array", "items": {"type": "integer", "maximum": 9}}


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ({"a": 10}, {"a": 10, "b": 1}, []),
        ({"a": 10}, {"a": 11}, ["a"]),
        ({"a": "x"}, {"a": "x", "parts": []}, []),
        ({}, {"a": 10}, ["a"]),
        ({"parts": [{"name": "p", "size": "x"}]}, {"parts": [{"name": "o"}, {"name": "p", "size": "x"}]}, []),
        ({"parts": ["x", {"name": "p", "size": "x"}]}, {"parts": [{"name": "p", "size": "x"}]}, []),
        ({"sizes": [10]}, {"sizes": [10], "b": 1}, []),
        ({"sizes": [10]}, {"sizes": [10, 1]}, ["sizes[0]"]),
    ],
)
def test_what_an_update_leaves_as_it_was_is_not_held_against_it(old, new, fields):
    """KEP-4008; lists whose items no key tells apart are compared as a whole."""
    declared = schema(a={"type": "integer", "maximum": 9}, b={"type": "integer"}, parts=PARTS, sizes=SIZES)
    assert [fault.field for fault in validate(new, declared, "", old)] == fields


def test_a_transition_rule_needs_an_earlier_value():
    rule = {"rule": "self.n >= oldSelf.n", "message": "must not shrink"}

    assert broken({"n": 1}, cel.ABSENT, rule) == []
    assert broken({"n": 1}, {"n": 2}, rule) == [("spec", 'Invalid value: "object": must not shrink')]


def test_rules_below_are_checked_against_their_counterpart():
    fixed = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}]}

    assert broken({"a": "2"}, {"a": "1"}, a=fixed) == [("spec.a", 'Invalid value: "2": is fixed')]
    assert broken({"a": "2"}, {}, a=fixed) == []


def test_a_message_expression_speaks_for_the_rule():
    rule = {"rule": "self.n < 2", "messageExpression": "'too many: ' + string(self.n)"}

    assert broken({"n": 3}, cel.ABSENT, rule) == [("spec", 'Invalid value: "object": too many: 3')]


@pytest.mark.parametrize(
    ("rule", "complaint"), [("self.nope > 1", "undefined field 'nope'"), ("self. >", "Syntax error")]
)
def test_rules_that_do_not_compile_are_refused(rule, complaint):
    declared = {**schema(a={"type": "string"}), "x-kubernetes-validations": [{"rule": rule}]}

    (fault,) = check_schema(declared, "s")

    assert "compilation failed" in fault.message
    assert complaint in fault.message


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.n", [3]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[*].type", ["Ready", "Other"]),
        (".status.conditions[1].type", ["Other"]),
        (".metadata.labels.example\\.com/a", ["b"]),
        (".gone.n", []),
    ],
)
def test_printer_columns_read_json_paths(path, found):
    document = {
        "spec": {"n": 3},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other"}]},
        "metadata": {"labels": {"example.com/a": "b"}},
    }

    assert reader(path)(document) == found


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30, 10**400, -(10**400)])
def test_a_rule_is_asked_about_whole_numbers_that_64_bits_do_not_hold(number):
    """Each made the server answer 500, with a stack of thousands of lines; the API server reads them as floating point."""
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "self.of[0] > 0.5", "message": "too little"}]}
    found = [fault.message for fault in cel.check({"of": [number]}, cel.ABSENT, schema, "spec")]
    assert any("too little" in one for one in found) is (number < 0)
