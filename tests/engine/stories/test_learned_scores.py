"""A profile goes by a learned policy; a file that cannot be used is told of, and changes nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.world import GPU, World
from tutti.api.configuration import TuttiConfiguration
from tutti.controller.plugins import load_plugins, unread_policies
from tutti.engine.journal import JournalError, replay
from tutti.engine.records.decisions import NotePluginFault
from tutti.placement.policy_file import PolicyFile, write_policy

FULLEST = PolicyFile(features=("devicesFree", "begun"), output=(-6.0, 2.0), trained={"by": "hand"})


def world(path: Path, **more: object) -> World:
    profiles = [{"schedulerName": "tutti", "learnedScore": {"file": str(path), "weight": 20}}]
    settings = TuttiConfiguration(profiles=profiles)
    found = World(plugins=load_plugins(settings), profiles=profiles, **more)
    for name in ("n1", "n2", "n3"):
        found.node(name, gpus=4)
    found.pod("first", gpus=1)
    found.until(1.0)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "policy.json"
    found.write_bytes(write_policy(FULLEST))
    return found


def where_three_go(found: World) -> list[str]:
    for name in ("a", "b", "c"):
        found.pod(name, gpus=1)
        found.until(1.0)
    return [found.where()[name] for name in ("a", "b", "c")]


def test_pods_go_by_what_was_learned_and_as_usual_without_it(path, tmp_path):
    learned = world(path)
    (first,) = learned.where().values()
    assert where_three_go(learned) == [first] * 3
    assert learned.replay().differences == []
    usual = World()
    for name in ("n1", "n2", "n3"):
        usual.node(name, gpus=4)
    usual.pod("first", gpus=1)
    usual.until(1.0)
    assert len(set(where_three_go(usual))) > 1


def test_a_gang_that_does_not_fit_on_the_fullest_node_goes_on_the_next(path):
    found = world(path)
    found.gang("g", 5, gpus=1)
    found.until(1.0)
    places = [found.where()[f"g-{number}"] for number in range(5)]
    (first,) = {found.where()["first"]}
    assert sorted(map(places.count, set(places))) == [2, 3]
    assert places.count(first) == 3


@pytest.mark.parametrize("content", [None, b"", b"{}", write_policy(FULLEST).replace(b"-6.0", b"-5.0")])
def test_a_file_that_cannot_be_used_is_told_and_everything_goes_on_as_without_it(path, content):
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    found = world(path)
    usual = World()
    for name in ("n1", "n2", "n3"):
        usual.node(name, gpus=4)
    usual.pod("first", gpus=1)
    usual.until(1.0)
    assert where_three_go(found) == where_three_go(usual)
    faults = [one for one in found.log if isinstance(one, NotePluginFault)]
    assert {(one.plugin, one.point) for one in faults} == {("learnedScore", "policy")}
    assert all(str(path) in one.message for one in faults)
    assert list(unread_policies(found.plugins)) == ["tutti"]
    assert found.replay().differences == []


def test_a_replay_with_another_policy_is_refused_and_says_which(path):
    found = world(path)
    where_three_go(found)
    recorded = found.journal.getvalue().splitlines(keepends=True)
    assert replay(recorded, load_plugins).differences == []
    path.write_bytes(write_policy(PolicyFile(features=("devicesFree",), output=(6.0,))))
    with pytest.raises(JournalError, match=r"the profile tutti had the learned policy sha256:\w+, and there is sha256"):
        replay(recorded, load_plugins)
    path.unlink()
    with pytest.raises(JournalError, match="there is none that can be used: put the file of then there"):
        replay(recorded, load_plugins)


def test_nothing_else_is_asked_of_a_policy_than_which_node(path):
    """It cannot have a pod go where it does not fit, however much it likes the node."""
    path.write_bytes(write_policy(PolicyFile(features=("devicesFree",), output=(-1e4,))))
    found = world(path)
    found.pod("large", gpus=4)
    found.until(1.0)
    assert found.where()["large"] != found.where()["first"]
    nodes = found.engine.state.cluster.nodes
    column = nodes.resource_index.column(GPU)
    assert (nodes.requested[:, column] <= nodes.allocatable[:, column]).all()
