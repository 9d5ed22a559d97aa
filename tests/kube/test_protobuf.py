"""Bindings in protobuf say what they would in JSON."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.kube.protobuf import binding
from tutti_sim.http.protobuf import decode_protobuf

# Of any length, for a length of 128 and more takes another byte.
TEXTS = st.text(min_size=1, max_size=400)


@given(TEXTS, TEXTS, TEXTS, TEXTS, st.dictionaries(TEXTS, st.text(max_size=40_000), max_size=3))
def test_a_binding_is_read_as_it_was_written(namespace, name, uid, node, annotations):
    said = decode_protobuf(binding(namespace, name, uid, node, annotations))
    metadata = {"namespace": namespace, "name": name, "uid": uid}
    assert said == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {**metadata, "annotations": annotations} if annotations else metadata,
        "target": {"kind": "Node", "name": node},
    }


# Protocol Buffers, "Encoding": a length of n bytes is written in sevens of bits, the least first.
@pytest.mark.parametrize(
    ("length", "written"),
    [(127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (16383, b"\xff\x7f"), (16384, b"\x80\x80\x01")],
)
def test_a_length_is_written_in_sevens_of_bits(length, written):
    node = "n" * length
    assert b"\x1a" + written + node.encode() in binding("ns", "p", "u", node, {})


def test_large_annotations_are_not_kept():
    binding("ns", "p", "u", "n", {"warm": "up"})
    tracemalloc.start()
    try:
        for number in range(100):
            binding("ns", "p", "u", "n", {"large": f"{number:0100000}"})
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
