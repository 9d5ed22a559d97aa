"""What a server takes and refuses of a pod template, and that what it takes can be read."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api import pod_templates
from tests.api.pod_templates import BEYOND, RATCHETS, REFUSED, TAKEN
from tutti.api import quantity
from tutti.api.crds import crd
from tutti.api.kinds import KINDS, parse_object
from tutti.api.templates import MOST_FIELDS, NUMBERS, QUANTITY, TEXTS, PodTemplate, pruned, template_schema
from tutti.cluster.created_specs import as_created
from tutti_sim.crd.serving import CustomCodec
from tutti_sim.kinds.decode import TABLE, Notes

CODEC = CustomCodec(crd(KINDS["Workload"])["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
TEMPLATE = template_schema()


def taken(template: Any) -> tuple[Any, list[str]]:
    """A template as a server keeps it in a Workload, and what it complains of."""
    notes = Notes()
    found = CODEC.decode(pod_templates.workload(template), notes)
    assert notes.unknown == []
    faults = [f"{error.field}: {error.message}" for error in CODEC.validate(found, None)]
    return found["spec"]["podGroups"][0].get("template"), faults


def read(template: Any) -> PodTemplate:
    """A template as the operator reads it."""
    raw = pod_templates.workload(pruned(template))
    kept = parse_object("Workload", raw).spec.pod_groups[0].template
    return msgspec.convert(kept, PodTemplate)


@pytest.mark.parametrize("name", TAKEN)
def test_a_template_that_pods_are_made_of_is_taken_whole_and_read(name):
    kept, faults = taken(TAKEN[name])
    assert faults == []
    assert without_nulls(kept) == without_nulls(TAKEN[name])
    as_created(read(kept).spec)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", [*REFUSED.values(), *(case for cases in BEYOND.values() for case in cases)])
def test_a_template_is_refused_where_it_is_wrong(case):
    _, faults = taken(case.template)
    assert any(case.message in fault for fault in faults)
    assert any(
        fault.startswith(f"{pod_templates.AT}{case.path}: ") or f'"{pod_templates.AT}{case.path}"' in fault
        for fault in faults
    )


def test_every_bound_has_a_template_beyond_it():
    assert BEYOND.keys() == TEXTS.keys() | NUMBERS.keys()


@pytest.mark.parametrize("name", RATCHETS)
def test_what_was_stored_before_templates_had_a_schema_can_be_written(name):
    changes, place = RATCHETS[name]
    old = CODEC.decode(pod_templates.stored(), Notes())
    assert CODEC.validate(old, None)
    new = copy.deepcopy(old)
    for change in changes:
        *way, last = change["path"].split("/")[1:]
        at: Any = new
        for step in way:
            at = at[int(step) if isinstance(at, list) else step]
        at[last] = change["value"]
    faults = [error.field for error in CODEC.validate(new, old) if error.field.startswith("spec.")]
    assert faults == ([place] if place else [])
    parse_object("Workload", new)


# Against the types of Kubernetes itself, as a real API server publishes them.


def test_every_field_has_the_type_that_kubernetes_gives_it():
    wrong: list[str] = []
    compare(TEMPLATE, "PodTemplateSpec", "template", wrong)
    assert wrong == ["template.spec.workloadRef: not in 1.36"]


def compare(schema: dict[str, Any], kind: str, at: str, wrong: list[str]) -> None:
    """Note where a schema says something else than a type in the table of built-in types."""
    if kind[0] in "[{":
        if schema.get("type") != ("array" if kind[0] == "[" else "object"):
            wrong.append(f"{at}: {kind}")
        inner = schema.get("items") or schema["additionalProperties"]
        compare(inner, kind[1:-1], f"{at}[]", wrong)
    elif kind in TABLE:
        if schema.get("type") != "object" or not schema["x-kubernetes-preserve-unknown-fields"]:
            wrong.append(f"{at}: {kind}")
        assert len(TABLE[kind]) < MOST_FIELDS
        for name, child in schema.get("properties", {}).items():
            if name in TABLE[kind]:
                compare(child, TABLE[kind][name].kind, f"{at}.{name}", wrong)
            else:
                wrong.append(f"{at}.{name}: not in 1.36")
    else:
        expected = {"str": "string", "int": "integer", "bool": "boolean"}[kind]
        if schema != QUANTITY and schema.get("type") != expected:
            wrong.append(f"{at}: {kind}")


# What is taken can be read, whatever it is.

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["1", "-1", "1.5Gi", "1e3", "+.5m", "1\n", "9" * 300, "x" * 70]),
)
ODD = st.one_of(
    SCALARS,
    st.just([]),
    st.just({}),
    st.lists(SCALARS, max_size=2),
    st.dictionaries(st.text(max_size=2), SCALARS, max_size=2),
)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What may stand at a place of the schema, and now and then what may not."""
    return st.integers(0, 24).flatmap(lambda chosen: ODD if chosen == 0 else right(schema))


def right(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if schema == QUANTITY:
        return st.one_of(
            st.sampled_from(["1", "1.5Gi", "1e3", "+.5m", "0" * 256]), st.integers(0, 2**63 - 1), st.floats(0, 1e300)
        )
    if "properties" in schema:
        fields = schema["properties"]
        chosen = st.sets(st.sampled_from(sorted(fields)), max_size=3)
        known = chosen.flatmap(
            lambda names: st.fixed_dictionaries({name: values(fields[name]) for name in sorted(names)})
        )
        return st.tuples(known, st.dictionaries(st.sampled_from(["x", "y"]), ODD, max_size=1)).map(
            lambda two: {**two[1], **two[0]}
        )
    if "additionalProperties" in schema:
        return st.dictionaries(st.text(max_size=3), values(schema["additionalProperties"]), max_size=2)
    if "items" in schema:
        return st.lists(values(schema["items"]), max_size=2)
    return {
        "object": st.dictionaries(st.text(max_size=3), ODD, max_size=2),
        "string": st.text(max_size=5),
        "boolean": st.booleans(),
        "integer": st.integers(schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)),
    }[schema["type"]]


@given(values(TEMPLATE))
def test_what_a_server_takes_is_read(template):
    kept, faults = taken(template)
    if faults or kept is None:
        return
    for amount in amounts(as_created(read(kept).spec)):
        assert quantity.parse_quantity(amount) >= 0


def amounts(spec: Any) -> list[Any]:
    """Every quantity in a spec."""
    all_of_them = [one.resources for one in (*spec.containers, *spec.init_containers)]
    all_of_them += [spec.resources] if spec.resources else []
    found = [amount for one in all_of_them for part in (one.requests, one.limits) for amount in part.values()]
    return [*found, *spec.overhead.values()]
