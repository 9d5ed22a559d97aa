"""Whose disks are in conflict with some is found by their names, as if each were held against each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tutti.cluster.codes_by_disk import CodesByDisk
from tutti.cluster.signatures import Disk

DISKS = st.lists(
    st.builds(
        Disk,
        kind=st.sampled_from(["gce", "rbd"]),
        name=st.sampled_from(["a", "b"]),
        read_only=st.booleans(),
        monitors=st.frozensets(st.sampled_from(["m", "n"])),
    ),
    max_size=3,
)


@given(st.lists(st.tuples(st.integers(0, 4), DISKS), max_size=12), DISKS)
def test_those_are_found_of_which_a_disk_conflicts_with_one_that_is_wanted(
    changes: list[tuple[int, list[Disk]]], wanted: list[Disk]
) -> None:
    found, there = CodesByDisk(), dict[int, list[Disk]]()
    for code, disks in changes:
        if code in there:
            found.remove(code, there.pop(code))
        else:
            found.add(code, disks)
            there[code] = disks
        plain = {c for c, theirs in there.items() if any(one.conflicts(mine) for one in theirs for mine in wanted)}
        assert set(found.in_conflict(wanted)) == plain
