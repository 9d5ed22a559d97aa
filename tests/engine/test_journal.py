"""A journal replays to the same decisions, and what was changed in it is found."""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.world import World
from tutti.engine.journal import JournalError, replay


def history() -> World:
    world = World()
    world.flavor()
    world.queue("cq", 4)
    world.node("n1", gpus=3)
    world.outcomes["g-1"] = ["Failed"]
    world.gang("g", 3, queue="queue")
    world.gang("h", 2, queue="queue")
    world.until(30.0)
    world.finish("g-0", "g-1", "g-2")
    world.until(30.0)
    return world


def lines(world: World) -> list[bytes]:
    return world.journal.getvalue().splitlines(keepends=True)


def test_a_replay_of_what_happened_finds_no_difference():
    world = history()
    found = world.replay()
    assert found.differences == []
    assert found.decisions == len(world.log)
    assert found.calls > 0
    assert found.observations > 0


def test_asking_when_to_decide_again_changes_no_decision():
    """The shell asks as often as it likes, and a replay does not ask at all."""
    world = history()
    world.outcomes["p"] = ["Failed"]
    world.pod("p")
    world.until(5.0)
    before = list(world.engine.state.timers)
    for _ in range(3):
        world.engine.wakeup()
    assert list(world.engine.state.timers) == before


def test_a_decision_that_was_changed_is_reported_with_its_line():
    text = lines(history())
    number = next(i for i, line in enumerate(text) if b'"do":"bind"' in line)
    text[number] = text[number].replace(b'"node":"n1"', b'"node":"n2"')
    (difference,) = replay(text).differences
    assert difference.line == number + 1
    assert difference.recorded != difference.replayed
    assert {d.node for d in difference.replayed if type(d).__name__ == "Bind"} == {"n1"}


def test_an_observation_that_was_changed_leads_to_other_decisions():
    text = lines(history())
    changed = [line.replace(b'"nvidia.com/gpu":"3"', b'"nvidia.com/gpu":"1"') for line in text]
    assert changed != text
    assert replay(changed).differences


def test_a_configuration_that_was_changed_leads_to_other_decisions():
    text = lines(history())
    header = msgspec.json.decode(text[0])
    header["configuration"] = header["configuration"].replace('"requireQueue":false', '"requireQueue":true')
    pod = World()
    pod.node("n1")
    pod.pod("p")
    pod.run()
    assert replay(lines(pod)).differences == []
    assert replay([msgspec.json.encode(header) + b"\n", *lines(pod)[1:]]).differences


def test_a_last_line_that_was_cut_off_is_left_out():
    text = lines(history())
    assert replay([*text[:-1], text[-1][:10]]).differences == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda text: text[1:], "line 1 is not the header of a journal"),
        (lambda text: [], "line 1 is not the header of a journal"),
        (lambda text: [text[0], text[0], *text[1:]], "line 2 is a second header"),
        (lambda text: [text[0], b"{\n", *text[1:]], "line 2 is no line of a journal"),
        (lambda text: [b"{\n"], "line 1 is no header of a journal"),
    ],
)
def test_a_journal_that_cannot_be_read_says_which_line(spoil, said):
    with pytest.raises(JournalError, match=said):
        replay(spoil(lines(history())))
