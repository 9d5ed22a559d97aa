"""The table of built-in types, and decoding by it."""

import pytest

from tests.sim.type_table import TABLE as STORED
from tests.sim.type_table import rendered
from tutti_sim.kinds.builtin import resources
from tutti_sim.kinds.decode import DecodeError, Notes, decoder
from tutti_sim.kinds.table import TABLE


def decode(kind, document):
    notes = Notes()
    return decoder(kind)(document, "", notes), notes.unknown


def test_the_stored_table_is_the_official_client_s():
    assert STORED.read_text(encoding="utf-8") == rendered(), "run python -m tests.sim.type_table"


def test_every_built_in_resource_has_its_type():
    assert [one.plural for one in resources() if one.codec.type_name not in TABLE] == []


def test_unknown_fields_are_dropped_and_named():
    document = {"metadata": {"name": "p", "x": 1}, "spec": {"containers": [{"name": "c", "y": 1}]}}

    obj, unknown = decode("Pod", document)

    assert obj == {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    assert unknown == ['unknown field "metadata.x"', 'unknown field "spec.containers[0].y"']


def test_zero_values_that_go_cannot_tell_from_absent_are_left_out():
    document = {
        "metadata": {"labels": {}, "finalizers": [], "namespace": ""},
        "spec": {"hostNetwork": False, "priority": 0},
    }

    assert decode("Pod", document)[0] == {"metadata": {}, "spec": {"priority": 0}}


@pytest.mark.parametrize(
    ("kind", "document", "message"),
    [
        ("Pod", {"spec": {"containers": "x"}}, r"unmarshal string into Go struct field PodSpec\.spec\.containers"),
        ("Pod", {"spec": {"priority": "x"}}, "PodSpec.spec.priority of type int32"),
        ("Lease", {"spec": {"renewTime": "2024-01-02T03:04:05Z"}}, "parsing time"),
        ("Secret", {"data": {"k": "%%"}}, "illegal base64"),
        ("Pod", {"spec": {"overhead": {"cpu": "much"}}}, "quantities must match"),
    ],
)
def test_wrong_types_are_refused_in_go_s_words(kind, document, message):
    with pytest.raises(DecodeError, match=message):
        decode(kind, document)
