"""What would become of whom at a later moment, by another priority, or in the past that a journal tells of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.views.scene import AT, GPU, Json, group, pod
from tests.cli.views.test_forecast import HOUR, cluster, foretold, limited, of
from tests.engine.world import START, World
from tutti.cli.main import cli
from tutti.cli.views.forecast.changes import ChangeError, priority_change, quota_change
from tutti.cli.views.forecast.model import Course
from tutti.cli.views.forecast.moment import MomentError, later, read_moment, recorded
from tutti.engine.records.observations import PodSeen


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-24T18:00:00Z", 1_795_543_200.0),
        ("2026-11-24T19:00:00+01:00", 1_795_543_200.0),
        ("2026-11-24T18:00:00", 1_795_543_200.0),
        ("+90m", AT + 5400),
        ("+2h", AT + 7200),
        ("+1d", AT + 86_400),
        ("+0s", AT),
    ],
)
def test_a_moment_is_a_time_or_so_long_from_now(text, moment):
    assert read_moment(text, AT) == moment


@pytest.mark.parametrize("text", ["soon", "2h", "+h", "+1w", "-2h", "", "2026-13-01T00:00:00Z", "9" * 4000])
def test_what_is_no_moment_says_how_one_is_written(text):
    with pytest.raises(MomentError, match="--at is written"):
        read_moment(text, AT)


def test_at_a_later_moment_what_ends_before_has_ended_and_what_came_before_runs():
    first = limited("first", 2, 3600, on=("n0", "n1"))
    second = limited("second", 2, 7200)
    asked = cluster(*first, *second)
    at = later(asked, AT + 1.5 * HOUR, None)
    assert at.at == AT + 1.5 * HOUR
    phases = {
        one.pod.metadata.name: (one.pod.spec.node_name, one.pod.status.phase)
        for one in at.listed.seen
        if isinstance(one, PodSeen)
    }
    assert phases["first-0"] == ("n0", "Succeeded")
    assert {phases[f"second-{n}"][0] for n in range(2)} == {"n0", "n1"}
    third = cluster(*first, *second, *limited("third", 2, 60))
    usual = foretold(third, quota_change(f"cq:{GPU}=16", third.listed.seen))
    assert usual.summary == ("nobody would fare otherwise",)
    then = later(third, AT + 1.5 * HOUR, None)
    found = foretold(then, quota_change(f"cq:{GPU}=32", then.listed.seen))
    assert found.at == AT + 1.5 * HOUR
    assert found.summary == ("nobody would fare otherwise",)  # there are no nodes for it


def test_work_of_which_nobody_knows_when_it_ends_runs_on_or_as_long_as_is_said():
    endless = [group("vision", "old", 1), pod("vision", "old-0", 8, gang="old", on="n0", admitted=("cq", "a"))]
    asked = cluster(*endless, nodes=1)

    def phase(run: float | None) -> str:
        seen = later(asked, AT + 2 * HOUR, run).listed.seen
        return next(one.pod.status.phase for one in seen if isinstance(one, PodSeen))

    assert phase(None) != "Succeeded"
    assert phase(HOUR) == "Succeeded"


@pytest.mark.parametrize("at", [AT - 1, AT + 400 * 86_400])
def test_a_moment_that_nobody_knows_of_is_refused(at):
    with pytest.raises(MomentError, match="must lie between now and 366 days ahead; the past is in a journal"):
        later(cluster(), at, None)


def classes(**values: int) -> list[Json]:
    return [{"kind": "PriorityClass", "metadata": {"name": name}, "value": value} for name, value in values.items()]


def test_another_priority_lets_work_take_its_turn_before_others():
    waiting = [
        *(one for name in ("a", "b") for one in (group("vision", name, 2), *(
            pod("vision", f"{name}-{n}", 8, gang=name) for n in range(2)
        ))),
    ]  # fmt: skip
    runs = limited("busy", 2, 3600, on=("n0", "n1"))
    asked = cluster(*classes(high=1000), *runs, *waiting)
    change = priority_change("vision/b=high", asked)
    assert change.what == "vision/b has the priority class high (1000)"
    found = foretold(asked, change)
    assert (of(found, "b").before.course, of(found, "b").after.course) == (Course.WAITS, Course.LATER)
    assert (of(found, "a").before.course, of(found, "a").after.course) == (Course.LATER, Course.WAITS)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("vision/b", "is written NAMESPACE/NAME=PRIORITYCLASS"),
        ("b=high", "is written NAMESPACE/NAME=PRIORITYCLASS"),
        ("vision/b=none", "there is no PriorityClass none; there are high"),
        ("vision/nobody=high", "there is no Workload, PodGroup or single pod vision/nobody"),
    ],
)
def test_a_priority_that_cannot_be_given_says_why(asked, said):
    there = cluster(*classes(high=1000), group("vision", "b", 1), pod("vision", "b-0", 8, gang="b"))
    with pytest.raises(ChangeError, match=said.replace("|", r"\|")):
        priority_change(asked, there)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A gang runs from the beginning, is done after an hour, and another comes."""
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n1", gpus=4)
    world.node("n2", gpus=4)
    world.gang("first", 2, queue="queue", gpus=2)
    world.until(HOUR)
    world.finish("first-0", "first-1")
    world.gang("second", 2, queue="queue", gpus=2)
    world.until(HOUR)
    path = tmp_path / "journal"
    path.write_bytes(world.journal.getvalue())
    return path


def test_a_journal_tells_what_there_was_at_a_moment(journal):
    then, end = recorded([journal], START + HOUR / 2), recorded([journal], None)
    names = [{one.pod.metadata.name for one in found.listed.seen if isinstance(one, PodSeen)} for found in (then, end)]
    assert names[0] == {"first-0", "first-1"}
    assert {"second-0", "second-1"} <= names[1]
    workloads = then.stock().state.workloads
    assert [key[2] for key, one in workloads.items() if one.phase.value.lower() == "scheduled"] == ["first"]


def test_the_past_is_asked_about_from_the_command_line(journal):
    words = [
        "what-if",
        "--journal",
        str(journal),
        "--at",
        "1970-01-12T14:16:40Z",
        "--quota",
        f"cq:{GPU}=0",
        "-o",
        "json",
    ]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["at"] == START + 1800
    assert found["summary"] == ["nobody would fare otherwise"]
    early = CliRunner().invoke(cli, [*words[:4], "1969-01-01T00:00:00Z", *words[5:]])
    assert early.exit_code == 2
    assert "it begins at 1970-01-12T13:46:40" in early.stderr
    broken = journal.with_name("broken")
    broken.write_bytes(journal.read_bytes()[20:])
    assert "line 1 is no line of a journal" in CliRunner().invoke(cli, [*words[:2], str(broken), *words[3:]]).stderr
