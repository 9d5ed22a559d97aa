"""Objects are read the same, in one pass or bit by bit; what is wrong with one is told, and of which."""

import json

import msgspec
import pytest

from tutti.api.core import ObjectMeta, Pod
from tutti.kube.decoding import Bookmark, BrokenStream, Meta, Reader
from tutti.kube.errors import ApiError


class Whole(msgspec.Struct):
    """Shows what it is, so that one pass is enough."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0


class Part(msgspec.Struct):
    """Does not show what it is."""

    value: int = 0


VIEWS = [Whole, Part, dict]
META = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}
NAMED = ("a", "n", "u", "7")
VALUE = {Whole: lambda obj: obj.value, Part: lambda obj: obj.value, dict: lambda obj: obj["value"]}


def line(kind, obj):
    return json.dumps({"type": kind, "object": obj}).encode()


def named(meta):
    return (meta.name, meta.namespace, meta.uid, meta.resource_version)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_object_is_read_with_what_it_is(view, kind):
    reader = Reader(view)
    told, item = reader.event(line(kind, {"metadata": META, "value": 3}))
    assert (told, named(item[0])) == (kind, NAMED)
    assert VALUE[view](reader.read(item)) == 3
    item = reader.item(msgspec.Raw(json.dumps({"metadata": META, "value": 3}).encode()))
    assert named(item[0]) == NAMED
    assert VALUE[view](reader.read(item)) == 3


@pytest.mark.parametrize("view", [Whole, Part])
def test_an_object_that_is_not_as_it_should_be_is_known_all_the_same(view):
    reader = Reader(view)
    bad = {"metadata": META, "value": "text"}
    for item in (reader.event(line("ADDED", bad))[1], reader.item(msgspec.Raw(json.dumps(bad).encode()))):
        assert named(item[0]) == NAMED
        with pytest.raises(ValueError, match=r"Expected `int`, got `str` - at `\$.value`"):
            reader.read(item)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("meta", [{}, {"name": ""}, {"name": 1}, None, 7])
def test_an_object_without_a_name_is_found_to_have_none(view, meta):
    reader = Reader(view)
    assert reader.event(line("ADDED", {"metadata": meta, "value": 1}))[1][0] is None
    assert reader.item(msgspec.Raw(json.dumps({"metadata": meta, "value": 1}).encode()))[0] is None


@pytest.mark.parametrize("view", [*VIEWS, Pod])
def test_what_is_about_no_object_is_never_taken_for_one(view):
    reader = Reader(view)
    mark = {"kind": "Pod", "metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
    told, about = reader.event(line("BOOKMARK", mark))
    assert (told, about) == ("BOOKMARK", Bookmark("9", {"k8s.io/initial-events-end": "true"}))
    assert about.ends_list
    status = {"kind": "Status", "metadata": META, "code": 410, "reason": "Expired", "message": "too old"}
    with pytest.raises(ApiError, match="too old"):
        reader.event(line("ERROR", status))
    with pytest.raises(BrokenStream, match="'RENAMED', which is no type of an event"):
        reader.event(line("RENAMED", {"metadata": META}))
    with pytest.raises(BrokenStream, match="is no event"):
        reader.event(b"<html>")


def test_the_metadata_of_the_view_itself_is_what_is_shown():
    _, (meta, found) = Reader(Pod).event(line("ADDED", {"metadata": META}))
    assert isinstance(found, Pod)
    assert meta is found.metadata
    assert not isinstance(meta, Meta)
