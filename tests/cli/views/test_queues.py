"""The tree of queues as a model, and its bars."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from tests.cli.views import scene
from tutti.cli.views.drawing import ago, bar
from tutti.cli.views.queues import queue_details
from tutti.cli.views.quota_tree import Branch, FlavorUse, accelerators, draw_forest, forest

FLEET = [scene.node(f"n{index}", "m", "r") for index in range(4)]
FLAVOR = scene.ours("ResourceFlavor", "a100", {})


def roots(*made: scene.Json) -> tuple[Branch, ...]:
    return forest(scene.told([*FLEET, FLAVOR, *made]).stock().state)


def gpus(branch: Branch) -> FlavorUse:
    return next(use for use in branch.uses if use.resource == scene.GPU)


def limited(name: str, nominal: int, **limits: int) -> scene.Json:
    made = scene.queue(name, "both", "a100", nominal)
    made["spec"]["resourceGroups"][0]["flavors"][0]["resources"][2] |= limits
    return made


@pytest.mark.parametrize(
    ("used", "lender", "borrower"),
    [
        (4, {"used": 0, "lent": 0, "free": 12}, {"used": 4, "borrowed": 0, "free": 12}),
        (8, {"used": 0, "lent": 0, "free": 8}, {"used": 8, "borrowed": 0, "free": 8}),
        (12, {"used": 0, "lent": 4, "free": 4}, {"used": 12, "borrowed": 4, "free": 4}),
    ],
)
def test_what_a_queue_borrows_is_lent_by_the_other(used: int, lender: dict, borrower: dict):
    """Kueue, keps/79-hierarchical-cohorts: what is not used of a nominal quota may be borrowed in the cohort."""
    asked = [scene.pod("b", f"g-{n}", 4, gang="g", on=f"n{n}", admitted=("b", "a100")) for n in range(used // 4)]
    made = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}},
        scene.ours("LocalQueue", "main", {"clusterQueue": "b"}, "b"),
        scene.group("b", "g", 1),
        *asked,
    ]
    both = roots(scene.queue("a", "both", "a100", 8), scene.queue("b", "both", "a100", 8), *made)[0]
    a, b = (gpus(child) for child in both.children)

    assert {name: getattr(a, name) for name in lender} == lender
    assert {name: getattr(b, name) for name in borrower} == borrower
    assert (gpus(both).used, gpus(both).own, gpus(both).most) == (used, 16, 16)


def test_a_borrowing_limit_ends_what_a_queue_can_have():
    both = roots(limited("a", 8, borrowingLimit=2), scene.queue("b", "both", "a100", 8))[0]

    assert [gpus(child).most for child in both.children] == [10, 16]


def test_what_is_never_lent_counts_for_the_cohort_and_is_nobody_elses():
    both = roots(limited("a", 8, lendingLimit=2), scene.queue("b", "both", "a100", 8))[0]

    assert gpus(both).own == 16
    assert [gpus(child).most for child in both.children] == [16, 10]


def test_cohorts_come_first_and_a_queue_without_one_stands_by_itself():
    alone = scene.queue("alone", "", "a100", 1)
    found = roots(alone, scene.queue("z", "zoo", "a100", 1))

    assert [(one.kind, one.name) for one in found] == [("Cohort", "zoo"), ("ClusterQueue", "alone")]
    assert accelerators(found) == [scene.GPU]


def test_a_queue_tells_what_is_special_about_it():
    held = scene.queue("held", "", "a100", 1, strict=True)
    held["spec"]["stopPolicy"] = "Hold"
    broken = scene.queue("broken", "", "missing", 1)
    found = {one.name: one.notes for one in roots(held, broken)}

    assert found["held"] == ("on hold", "strict")
    assert found["broken"][0].startswith("inactive: ")
    assert "missing" in found["broken"][0]


def test_a_queue_tells_which_window_is_on_and_which_is_next():
    night, later = (
        {"flavors": [{"name": "a100", "resources": [{"name": scene.GPU, "nominalQuota": n}]}]} for n in (4, 2)
    )
    queue = scene.queue("nightly", "", "a100", 1)
    queue["spec"]["temporaryQuotas"] = [
        {"name": "night", "begin": "1970-01-01T00:00:00Z", "end": "9999-01-01T00:00:00Z", **night},
        {"name": "later", "begin": "9998-01-01T00:00:00Z", **later},
    ]
    (found,) = (one for one in roots(queue) if one.name == "nightly")

    assert next(use.own for use in found.uses if use.resource == scene.GPU) == 4
    assert "window night is on until 9999-01-01T00:00:00Z; window later begins at 9998-01-01T00:00:00Z" in found.windows
    console = Console(file=StringIO(), width=300)
    console.print(draw_forest([found], [scene.GPU]))
    assert found.windows in console.file.getvalue()


def test_a_cohort_tells_of_its_windows_too():
    cohort = scene.ours("Cohort", "research", {"parentName": "company"})
    quotas = [{"name": "a100", "resources": [{"name": scene.GPU, "nominalQuota": 4}]}]
    groups = scene.queue("x", "", "a100", 2)["spec"]["resourceGroups"]
    windows = [{"name": "night", "begin": "1970-01-01T00:00:00Z", "flavors": quotas}]
    cohort["spec"] |= {"resourceGroups": groups, "temporaryQuotas": windows}
    (company,) = roots(cohort)
    (found,) = (one for one in company.children if one.name == "research")

    assert found.windows == "window night is on"
    assert company.windows == ""


def test_a_queue_is_told_with_who_runs_and_who_waits_in_order():
    asked = scene.told()
    engine = asked.stock()
    engine.decide(asked.at)
    found = queue_details(engine.state, "vision")

    assert found is not None
    assert [(one.name, one.holds[2].used) for one in found.running] == [("train-1", 8)]
    assert [(one.position, one.name, one.gate) for one in found.waiting] == [
        (1, "train-2", "Quota"),
        (2, "warmup", "Gather"),
    ]
    assert queue_details(engine.state, "nobody") is None


@pytest.mark.parametrize(
    ("amount", "whole", "mark", "drawn"),
    [
        (0, 8, None, "········"),
        (8, 8, None, "████████"),
        (1, 800, None, "█·······"),
        (4, 16, 8, "██··│····"),
        (12, 16, 8, "████│██··"),
        (20, 16, 8, "████│████"),
        (0, 0, None, "········"),
        (3, 0, 0, "········│"),
    ],
)
def test_a_bar_is_as_full_as_it_is(amount: int, whole: int, mark: int | None, drawn: str):
    assert bar([("█", "", amount)], whole=whole, cells=8, mark=mark).plain == drawn


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0s"), (59.9, "59s"), (119, "119s"), (120, "2m"), (10799, "179m"), (10800, "3h"), (172800, "2d")],
)
def test_ages_are_told_in_one_unit(seconds: float, text: str):
    assert ago(seconds) == text
