"""The annotation that says how long work runs in each flavor."""

from __future__ import annotations

import re

import pytest

from tutti.api.conventions import ConventionError
from tutti.api.conventions.flavor_seconds import read_flavor_seconds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("a100=3600", (("a100", 3600),)),
        (" t4=9000 , a100=3600,", (("a100", 3600), ("t4", 9000))),
        ("a=1,a=2", (("a", 2),)),
    ],
)
def test_seconds_by_flavor_are_read(text: str, found: tuple[tuple[str, int], ...]):
    assert read_flavor_seconds(text, "here") == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a100", "'a100' cannot be read: write flavors"),
        ("a100=1.5", "each with its whole seconds"),
        ("a100=0", "cannot be read"),
        ("a100=99999999999", "cannot be read"),
        ("=5", "cannot be read"),
        ("A!=5", "cannot be the name of an object"),
        (",".join(f"f{number}=1" for number in range(65)), "it names 65 flavors: name at most 64"),
        ("a" * 8193, "it has more than 8192 characters"),
    ],
)
def test_seconds_by_flavor_that_cannot_be_read_say_what_would_be_right(text: str, said: str):
    with pytest.raises(ConventionError, match=re.escape(said)):
        read_flavor_seconds(text, "here")
