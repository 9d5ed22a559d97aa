"""Each kind of observation has one handler, which takes records of that kind."""

from __future__ import annotations

import inspect
from typing import Any, get_args, get_type_hints

import pytest

from tutti.engine.ingest.handlers import HANDLERS
from tutti.engine.records import device_observations, observations
from tutti.engine.records.observations import AnyObservation, Observation

KINDS = get_args(AnyObservation)


def test_every_kind_of_observation_is_handled_and_nothing_else():
    assert set(HANDLERS) == set(KINDS)


def test_every_kind_that_is_written_down_is_one_that_journals_are_decoded_to():
    there = [*vars(observations).values(), *vars(device_observations).values()]
    written = [one for one in there if inspect.isclass(one) and issubclass(one, Observation)]
    assert set(KINDS) == set(written) - {Observation}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_handler_takes_what_it_is_the_handler_of(kind: type[Any]):
    handler = HANDLERS[kind]
    _, second = inspect.signature(handler).parameters
    taken = get_type_hints(handler)[second]
    assert kind in (get_args(taken) or (taken,))
