"""Every view called as users call it, on an embedded cluster that has the scene on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.views.golden import FOLDER, VIEWS
from tests.cli.views.staging import called, staged


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("stage") / "kubeconfig"
    with staged(path):
        yield path


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
