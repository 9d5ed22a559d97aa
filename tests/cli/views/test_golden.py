"""Every view called as users call it, on an embedded cluster that has the scene on it."""

from __future__ import annotations

import json

import pytest

from tests.cli.views.golden import FOLDER, VIEWS
from tests.cli.views.staging import called
from tutti.cli.views.command_line import there_are


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_says_of_the_scene_what_it_is_known_to(kubeconfig, name: str):
    assert called(kubeconfig, *VIEWS[name].split()).output == (FOLDER / f"{name}.txt").read_text()


def test_nothing_else_is_kept_as_known():
    assert {path.stem for path in FOLDER.iterdir()} == set(VIEWS)


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_answers_programs_with_the_same(kubeconfig, name: str):
    answer = called(kubeconfig, *VIEWS[name].split(), "-o", "json")

    assert json.loads(answer.output)


def test_a_queue_that_is_not_there_is_told_with_those_that_are(kubeconfig):
    answer = called(kubeconfig, "queue", "visoin")

    assert answer.exit_code == 1
    assert answer.output == "tutti queue: there is no ClusterQueue visoin; there are: serving, speech, vision\n"


def test_a_resource_that_no_queue_has_is_told(kubeconfig):
    answer = called(kubeconfig, "queue", "--resource", "nvidia.com/gqu")

    assert answer.exit_code == 1
    assert answer.output == "tutti queue: no queue has quota of nvidia.com/gqu; there is: cpu, memory, nvidia.com/gpu\n"


def test_a_resource_that_no_node_offers_is_told(kubeconfig):
    answer = called(kubeconfig, "top", "nodes", "--resource", "nvidia.com/gpu", "--resource", "nvidia.com/gqu")

    assert answer.exit_code == 1
    assert (
        answer.output == "tutti top nodes: no node offers nvidia.com/gqu; there is: cpu, memory, nvidia.com/gpu, pods\n"
    )


def test_of_many_that_there_are_the_first_are_told():
    assert there_are({f"r{number:03d}" for number in range(300)}).endswith(", r018, r019 and 280 more")
    assert there_are([]) == "none"


def test_where_models_alone_are_wanted_programs_are_told_no_nodes_either(kubeconfig):
    both, alone = (
        json.loads(called(kubeconfig, "top", "nodes", *more, "-o", "json").output) for more in ([], ["--models"])
    )

    assert both["nodes"]
    assert alone == {**both, "nodes": [], "cards": []}


def test_a_node_that_can_be_drained_is_told_apart_by_the_exit_code(kubeconfig):
    assert [called(kubeconfig, "drain-check", node).exit_code for node in ("a100-2", "a100-4", "none")] == [0, 1, 1]


def test_an_operators_configuration_counts(kubeconfig, tmp_path):
    """With another schedulerName in it, nobody waits for this one."""
    file = tmp_path / "tutti.yaml"
    file.write_text(
        "apiVersion: scheduling.tutti.dev/v1alpha1\nkind: TuttiConfiguration\nprofiles: [{schedulerName: other}]\n"
    )
    answer = called(kubeconfig, "gangs", "--waiting", "--config", str(file), "-o", "json")

    assert {one["gate"] for one in json.loads(answer.output)} == {"Gather", "Queue"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--config", "{folder}/none.yaml"],
            "configuration {folder}/none.yaml cannot be read: No such file or directory",
        ),
        (["--context", "other"], "kubeconfig {kubeconfig} has no context 'other'; it has: tutti"),
    ],
)
def test_what_the_caller_has_to_mend_is_told_in_one_line(kubeconfig, tmp_path, arguments: list[str], said: str):
    given = [one.format(folder=tmp_path) for one in arguments]
    answer = called(kubeconfig, "gangs", *given)

    assert answer.exit_code == 2
    assert answer.output == f"tutti gangs: {said.format(folder=tmp_path, kubeconfig=kubeconfig)}\n"
