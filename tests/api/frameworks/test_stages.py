"""In which stages roles start: what is made at the same moment is one stage (JobSet 08dfbdfd, pkg/controllers)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tutti.api.frameworks.records import OwnerRole
from tutti.api.frameworks.stages import start_stages

NAMES = ["a", "b", "c", "d", "e"]


def roles(**after: list[str]) -> list[OwnerRole]:
    """Roles by name; what each waits for as `b` (Complete) or `b+` (Ready)."""
    return [
        OwnerRole(name, after=tuple((one.rstrip("+"), "Ready" if one.endswith("+") else "Complete") for one in waits))
        for name, waits in after.items()
    ]


def stages(*, in_order: bool = False, **after: list[str]) -> list[tuple[str, ...]]:
    return [stage.roles for stage in start_stages(roles(**after), in_order=in_order)]


def test_what_waits_for_nothing_starts_together():
    assert stages(a=[], b=[]) == [("a", "b")]


def test_what_waits_for_the_same_starts_together():
    assert stages(a=[], b=["a"], c=["a"]) == [("a",), ("b", "c")]


def test_what_might_start_together_does_not_have_to():
    """If b and e were one gang, and a only completes when e runs, nothing would ever go on."""
    assert stages(a=[], b=["a"], c=[], e=["c+"]) == [("a", "c"), ("b",), ("e",)]


def test_ready_and_complete_are_not_the_same_moment():
    assert stages(a=[], b=["a"], c=["a+"]) == [("a",), ("b",), ("c",)]


def test_in_order_each_is_a_stage():
    found = start_stages(roles(a=[], b=[], c=[]), in_order=True)
    assert [stage.roles for stage in found] == [("a",), ("b",), ("c",)]
    assert [stage.waits_for for stage in found] == [(), (0,), (0, 1)]
    assert [stage.finished for stage in found] == [(), (), ()]


def test_a_stage_has_finished_when_all_of_it_was_waited_for_to_complete():
    found = start_stages(roles(a=[], b=["a"], c=["b+"]), in_order=False)
    assert [stage.waits_for for stage in found] == [(), (0,), (0, 1)]
    assert [stage.finished for stage in found] == [(), (0,), (0,)]
    half = start_stages(roles(a=[], b=[], c=["a"]), in_order=False)
    assert half[1].waits_for == (0,)
    assert half[1].finished == ()


def test_roles_in_a_ring_or_that_wait_for_nobody_known_are_stages_still():
    assert stages(a=["b"], b=["a"], c=["gone"]) == [("a",), ("b",), ("c",)]


DEPENDENCIES = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from([*NAMES, *(f"{name}+" for name in NAMES)]), max_size=4)
)


@given(after=DEPENDENCIES, in_order=st.booleans())
def test_each_role_is_in_exactly_one_stage_and_finished_ones_were_waited_for(after, in_order):
    found = start_stages(roles(**after), in_order=in_order)
    assert sorted(name for stage in found for name in stage.roles) == sorted(after)
    for index, stage in enumerate(found):
        assert stage.roles
        assert index not in stage.waits_for
        assert set(stage.finished) <= set(stage.waits_for) <= set(range(len(found)))


@given(after=DEPENDENCIES)
def test_of_two_stages_that_do_not_form_a_ring_one_waits_for_the_other_or_none(after):
    found = start_stages(
        roles(**{name: [one for one in waits if one.rstrip("+") < name] for name, waits in after.items()}),
        in_order=False,
    )
    for index, stage in enumerate(found):
        assert all(index not in found[other].waits_for for other in stage.waits_for)
