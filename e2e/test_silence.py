"""A watch that falls silent, and that nobody closes: what is between has lost the server, and keeps the connection."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from e2e.harness.doorway import Doorway
from e2e.harness.story import Story

LATEST = 90
"""Seconds: a watch is open for a minute at most, and a quarter of one more is waited for its end."""


@pytest.mark.parametrize("kind", ["pods", "podgroups", "nodes"])
def test_what_comes_while_a_watch_is_silent_is_bound_soon_all_the_same(
    story: Story, doorway: Doorway, kind: str, record_property: Callable[[str, object], None]
) -> None:
    doorway.open()
    story.queue(story.namespace, 8)
    story.start_operator()
    story.gang("before", 2, queue=story.namespace)
    story.wait(lambda: len(story.where("before")) == 2, "a gang to be bound")
    where, began = story.where("before"), time.monotonic()

    doorway.hush(kind)

    story.gang("after", 2, queue=story.namespace)
    story.wait(lambda: len(story.where("after")) == 2, "the next gang to be bound", seconds=LATEST)
    record_property("seconds", round(time.monotonic() - began, 1))
    assert story.where("before") == where
