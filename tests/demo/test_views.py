"""The views, rendered to text as a terminal of some size would show them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.demo import observed
from tutti_demo.panels import quota_bar, seconds, short_names
from tutti_demo.picture import NodeView, Picture, QueueView, Why
from tutti_demo.scenario import Team, compose
from tutti_demo.shows import LiveShow, PlainShow, Teller, render, show_on, summary_table, verdict_line
from tutti_demo.summary import summarize

SIZES = [(80, 24), (120, 40), (80, 22), (200, 60)]


def console(width: int = 120, height: int = 40) -> Console:
    return Console(file=io.StringIO(), width=width, height=height, highlight=False)


def text_of(on: Console) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


def second_act() -> Picture:
    """The moment in which train-3 waits for quota, as a demo has shown it."""
    picture = Picture(compose())
    for index in range(20):
        name = f"node-{index:04d}"
        picture.see_node(NodeView(name, f"rack-{index // 4:03d}", name, 8))
    picture.see_queue(QueueView("vision", active=True, pending=1, admitted=3, used=80, borrowed=16))
    picture.see_queue(QueueView("speech", active=True, used=0))
    picture.begin(picture.scenario.acts[1], at=109.0)
    running = {"train-1": 0, "train-2": 4, "tune": 8}
    for job in picture.scenario.acts[1].gangs:
        if job.name in running:
            for index in range(job.members):
                node = f"node-{running[job.name] + index:04d}"
                picture.see_pod(observed.pod(job, index, node=node, phase="Running"), at=110.0)
        elif job.name == "train-3":
            observed.arrive(picture, job, at=111.0)
    message = (
        "ClusterQueue vision: needs 32 nvidia.com/gpu in a100-sxm; 16 free now (0 of its own 64, 16 of 16 to borrow)"
    )
    picture.see_why("vision", "train-3", Why("Quota", "WaitingForQuota", message), at=112.0)
    return picture


def screen(picture: Picture, width: int, height: int, pages: str = "") -> list[str]:
    on = console(width, height)
    on.print(render(picture, at=115.0, started_at=100.0, width=width, height=height, pages=pages), height=height)
    return text_of(on).splitlines()


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_screen_fits_its_terminal(width: int, height: int):
    lines = screen(second_act(), width, height)

    assert len(lines) <= height
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_screen_shows_the_act_the_nodes_the_queues_and_the_gangs(width: int, height: int):
    shown = "\n".join(screen(second_act(), width, height))

    assert "Act 2: a queue at its limit waits its turn" in shown
    assert "15 s" in shown
    assert "80 of 160 GPUs in use" in shown
    for word in (
        "rack-000",
        "rack-004",
        "vision/train-1",
        "●●●●",
        "○○○○",
        "running",
        "waiting",
        "needs 32 GPUs",
        "single pods",
    ):
        assert word in shown


@pytest.mark.parametrize(("width", "bar"), [(80, "████████ "), (112, "████████ "), (120, "████████████████ ")])
def test_racks_stand_side_by_side_with_bars_as_wide_as_there_is_room_for(width: int, bar: str):
    lines = screen(second_act(), width, 24)
    heading = next(line for line in lines if "rack-000" in line)
    first = lines[lines.index(heading) + 1]

    assert "rack-004" in heading
    assert f" 00 {bar}" in first


def test_a_large_screen_shows_all_gangs_and_what_has_happened():
    shown = "\n".join(screen(second_act(), 120, 40))

    assert "vision/tango" in shown
    assert "speech/pretrain" in shown
    assert "64 of 64 + 16 borrowed" in shown
    assert "quota: needs 32 GPUs; 16 free now (0 of its own 64, 16 of 16 to borrow)" in shown
    assert "arrived   4 pods of 8 GPUs, all or none" in shown


def test_a_small_screen_shows_the_gangs_of_the_act_only():
    shown = "\n".join(screen(second_act(), 80, 24))

    assert "vision/tango" not in shown
    assert "speech/pretrain" not in shown
    assert "64/64 +16" in shown


def test_nodes_that_the_act_is_about_are_marked():
    picture = second_act()
    picture.begin(picture.scenario.acts[0], at=100.0)
    shown = "\n".join(screen(picture, 120, 40))

    assert "▸00 " in shown
    assert "▸01 " in shown
    assert "▸02 " not in shown


def test_for_a_while_the_header_tells_what_was_done_to_the_operator():
    picture = second_act()
    picture.operator("killed", at=112.0)
    shown = [screen_at(picture, at) for at in (115.0, 116.5)]

    assert ["The operator was killed" in one for one in shown] == [True, False]
    assert [picture.scenario.acts[1].hint[:40] in one for one in shown] == [False, True]


def screen_at(picture: Picture, at: float) -> str:
    on = console(120, 24)
    on.print(render(picture, at=at, started_at=100.0, width=120, height=24), height=24)
    return text_of(on)


@pytest.mark.parametrize(("width", "before"), [(80, " "), (120, " In a browser: ")])
def test_the_screen_has_the_whole_address_of_its_pages_on_one_line(width: int, before: str):
    address = f"http://127.0.0.1:65535/?token={'x' * 43}"

    assert screen(second_act(), width, 24, address)[3].rstrip() == before + address


def test_a_screen_can_be_drawn_before_anything_has_been_seen():
    shown = "\n".join(screen(Picture(compose()), 80, 24))

    assert "The stage is being set" in shown
    assert "0 of 0 GPUs in use" in shown


@pytest.mark.parametrize(
    ("used", "bar"),
    [(0, "····|··  "), (32, "██··|··  "), (64, "████|··  "), (80, "████|█·  "), (96, "████|██  ")],
)
def test_a_bar_shows_where_a_queues_own_quota_ends(used: int, bar: str):
    team = Team("vision", nominal=64, borrowing_limit=32)
    drawn = quota_bar(team, QueueView("vision", used=used), cells=8, scale=128).plain

    assert drawn == bar.replace("|", "│")


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (("node-0000", "node-0019"), ["00", "19"]),
        (("node-a",), ["a"]),
        (("a", "ab"), ["a", "b"]),
        ((), []),
    ],
)
def test_nodes_are_named_by_what_tells_them_apart(names: tuple[str, ...], short: list[str]):
    assert list(short_names(names).values()) == short


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "< 1 ms"), (0.0004, "< 1 ms"), (0.0345, "34 ms"), (0.0996, "0.1 s"), (5.26, "5.3 s")],
)
def test_durations_are_shown_as_people_say_them(value: float | None, text: str):
    assert seconds(value) == text


def test_lines_tell_each_thing_once_and_leave_out_arrivals_of_single_pods():
    gang, solo = observed.job(), observed.job("solo", 1)
    picture, on = observed.picture(observed.act(gang, solo)), console(80)
    teller = Teller(on, picture, started_at=100.0)
    picture.begin(picture.scenario.acts[0], at=100.0)
    observed.arrive(picture, gang, at=100.5)
    observed.arrive(picture, solo, at=100.5)
    teller.catch_up()
    observed.bind(picture, gang, at=101.25)
    picture.operator("killed", at=102.0)
    teller.catch_up()
    teller.catch_up()

    assert text_of(on).splitlines() == [
        "   0.0s  Act 1: an act",
        "   0.5s  vision/tango      arrived   3 pods of 4 GPUs, all or none",
        "   1.2s  vision/tango      placed    on node-0",
        "   2.0s  operator          killed",
    ]


def test_the_table_has_a_row_per_gang_within_80_columns():
    picture = second_act()
    on = console(80)
    on.print(summary_table(summarize(picture, at=130.0, started_at=100.0, partly_bound_limit=5.0)))
    lines = text_of(on).splitlines()

    assert lines[0].split() == ["act", "gang", "bound", "placed", "at", "waited", "spread", "waited", "for", "outcome"]
    assert len(lines) == 1 + sum(len(act.gangs) for act in picture.scenario.acts)
    train = next(line for line in lines if "train-3" in line)
    assert train.split() == ["2", "vision/train-3", "0", "of", "4", "-", "-", "-", "quota", "waiting"]


def test_the_verdict_names_every_broken_promise():
    summary = summarize(second_act(), at=130.0, started_at=100.0, partly_bound_limit=5.0)
    said = verdict_line(summary).plain.splitlines()

    assert said[1:] == [f"Promise broken: {problem}" for problem in summary.problems]


def test_the_verdict_of_a_good_play_says_so():
    gang = observed.job()
    picture = observed.picture(observed.act(gang), gpus=100)
    observed.arrive(picture, gang, at=101.0)
    observed.bind(picture, gang, at=102.0)
    observed.finish(picture, gang, at=103.0)
    said = verdict_line(summarize(picture, at=110.0, started_at=100.0, partly_bound_limit=5.0)).plain

    assert "All work finished in 10 s, and no gang was left partly bound" in said


@pytest.mark.parametrize(
    ("terminal", "width", "plain", "kind"),
    [
        (True, 80, False, LiveShow),
        (True, 79, False, PlainShow),
        (True, 120, True, PlainShow),
        (False, 120, False, PlainShow),
    ],
)
def test_a_terminal_of_some_size_gets_the_live_view(terminal: bool, width: int, plain: bool, kind: type):
    on = Console(file=io.StringIO(), force_terminal=terminal, width=width, height=24, _environ={"TERM": "xterm"})

    assert isinstance(show_on(on, plain=plain), kind)
