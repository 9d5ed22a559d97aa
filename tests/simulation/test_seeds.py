"""Lives of a cluster, each with faults of its own: nothing that must always hold is ever broken.

`make sim SEEDS=n FIRST_SEED=k` plays others.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.command import failure, main, played
from tests.simulation.run import play
from tests.simulation.scenario import drawn
from tests.simulation.shrink import shrunk
from tutti.cluster.cluster import Cluster

SEEDS = 40
AT_ONCE = 2  # one that takes minutes is waited for by all others in the end


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_nothing_goes_wrong_whatever_does(first):
    failures = [text for seed in range(first, first + AT_ONCE) if (text := failure(seed))]
    assert not failures, "\n\n".join(failures)


def test_a_seed_is_the_same_run_in_every_process():
    """Whatever the hashes are, and whatever was run before."""
    script = "import sys; from tests.simulation.test_seeds import run_of; sys.stdout.write(run_of(7))"
    play(drawn(3))
    paths = os.pathsep.join(filter(None, sys.path))
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        told = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stderr
        assert told.stdout.splitlines() == run_of(7).splitlines()


def run_of(seed: int) -> str:
    """Everything that a run of a seed says of itself."""
    outcome = play(drawn(seed))
    return "\n".join([*outcome.trace, *outcome.violations, f"{outcome.seconds} s, {outcome.turns} turns"])


def test_a_failing_scenario_is_cut_down_to_what_it_needs():
    """As if losing a node were what goes wrong: nothing else is left but the cluster as it is in the beginning."""
    scenario = next(one for one in map(drawn, range(100)) if any(step.do == "lose_node" for step in one.steps))
    least = shrunk(scenario, lambda one: any(step.do == "lose_node" for step in one.steps))
    assert [step.do for step in least.steps if step.at] == ["lose_node"]


def test_a_failing_seed_is_told_as_its_smallest_scenario_and_how_to_replay_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """What is gone keeps its room, made so on purpose: the same thing is wrong with what is left of the seed."""
    monkeypatch.setattr(Cluster, "_uncharge", lambda *_, **__: None)
    whole = play(drawn(5))
    assert main(["1", "5"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert "check_room" in whole.violations[0]
    assert "check_room" in told[0]
    assert sum(line.startswith('{"at":') for line in told) < len(drawn(5).steps) / 2
    assert "replay it whole with: make sim SEEDS=1 FIRST_SEED=5" in told
    assert told[-1] == "1 seeds, 1 violations"


def test_seeds_are_played_in_several_processes_each_once():
    parts = list(played(range(SEEDS, SEEDS + 5), processes=2, at_once=2))
    assert sorted(count for count, _ in parts) == [1, 2, 2]
    assert not [text for _, texts in parts for text in texts]
