"""A watch's bytes: lines in chunks that end anywhere."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.kube.decoding import LONGEST_LINE_BYTES, BrokenStream, LineSplitter, read_error, read_event, read_meta
from tutti.kube.errors import ApiError

lines_of_bytes = st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b" ")), max_size=10)


@given(lines_of_bytes, st.binary(max_size=9).map(lambda b: b.replace(b"\n", b" ")), st.data())
def test_lines_do_not_depend_on_where_chunks_end(lines, unfinished, data):
    stream = b"".join(line + b"\n" for line in lines) + unfinished
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    splitter = LineSplitter()
    received = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += splitter.feed(stream[start:end])
    assert received == [line for line in lines if line.strip()]


def test_a_line_without_end_is_not_collected_for_ever():
    splitter = LineSplitter()
    chunk = b"x" * (LONGEST_LINE_BYTES // 4)
    for _ in range(4):
        assert splitter.feed(chunk) == []
    with pytest.raises(BrokenStream, match="longer than"):
        splitter.feed(chunk)


@pytest.mark.parametrize("line", [b"<html>", b"[]", b'{"type":"ADDED"}', b'{"type":"ADDED","object":{"metadata":'])
def test_a_line_that_is_no_event_breaks_the_stream(line):
    with pytest.raises(BrokenStream, match="is no event"):
        read_event(line)


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b'{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"spec":null}', "a"),
        (b'{"metadata":{"name":1}}', None),
        (b'{"metadata":{}}', None),
        (b"[]", None),
    ],
)
def test_metadata_is_read_or_found_missing(raw, name):
    meta = read_meta(msgspec.Raw(raw))
    assert (meta.name if meta else None) == name


def test_an_error_event_carries_a_status_or_is_itself_broken():
    error = read_error(msgspec.Raw(b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'))
    assert isinstance(error, ApiError)
    assert (error.status, error.reason) == (410, "Expired")
    assert isinstance(read_error(msgspec.Raw(b"7")), BrokenStream)
