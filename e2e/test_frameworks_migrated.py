"""What `tutti migrate kueue` writes of each job framework's object starts, as Kueue would have admitted it.

The objects of `e2e.harness.plays` as users of Kueue have them: Kueue's label, no scheduler of ours, held back.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import yaml

from e2e.harness.frameworks import QUEUE, Made, Player
from e2e.harness.plays import PLAYS, Play
from e2e.harness.story import Story
from tutti.cli.migrate.kueue.jobs import Run
from tutti.cli.migrate.kueue.layouts import HOLDERS
from tutti.cli.migrate.kueue.rewriting import rewrite
from tutti.cli.migrate.report import NoteLevel
from tutti.cli.migrate.streams import documents, migrate

SCHEDULER_OF_ITS_RUNTIME = {"TrainJob"}
"""Kinds that cannot say who schedules their pods, which is told."""


class Migrating(Player):
    """Makes of each object that somebody submits what is written for it when it comes from Kueue."""

    def make(self, manifest: str | Made, owner: Made | None = None, *, status: Made | None = None) -> Made:
        body: Made = yaml.safe_load(manifest) if isinstance(manifest, str) else manifest
        return super().make(body if owner is not None else _migrated(_as_with_kueue(body)), owner, status=status)


def _as_with_kueue(body: Made) -> Made:
    group, _, _ = body["apiVersion"].rpartition("/")
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": QUEUE}
    held = body if HOLDERS[group, body["kind"]] else None
    for step in HOLDERS[group, body["kind"]].split(".") if held is not None else ():
        assert held is not None
        held = held.setdefault(step, {})
    if held is not None:
        held["suspend"] = True
    return dict(_without_scheduler(body))


def _without_scheduler(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_scheduler(part) for key, part in value.items() if key != "schedulerName"}
    return [_without_scheduler(part) for part in value] if isinstance(value, list) else value


def _migrated(body: Made) -> Made:
    done = migrate(yaml.safe_dump(body, sort_keys=False), "submitted.yaml", partial(rewrite, run=Run()))
    lost = [str(one.note) for one in done.entries if one.note.level in (NoteLevel.LOST, NoteLevel.INVALID)]
    assert bool(lost) == (body["kind"] in SCHEDULER_OF_ITS_RUNTIME), lost
    assert "kueue" not in done.text
    assert "suspend" not in done.text
    [one] = documents(done.text)
    return one


@pytest.mark.parametrize("play", PLAYS, ids=str)
def test_a_migrated_object_starts_with_just_the_room_and_quota_that_it_needs(story: Story, play: Play) -> None:
    player = Migrating(story, *play.kinds)
    needed = max(play.room, play.most)
    story.queue(QUEUE, needed)
    player.fill(needed)
    story.start_operator()
    for expected in play.acts(player):
        if expected is not None:  # those that come later may still take their places
            player.wait_bound(expected)
    player.wait_used(len(player.bound()))
