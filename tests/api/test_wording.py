from __future__ import annotations

import pytest

from tutti.api.messages import HAS, agreeing, all_of, counted


@pytest.mark.parametrize(("number", "said"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods"), (21, "21 pods")])
def test_a_noun_is_in_the_plural_but_for_one(number: int, said: str):
    assert counted(number, "pod") == said


@pytest.mark.parametrize(("number", "said"), [(0, "0 pods have"), (1, "1 pod has"), (2, "2 pods have")])
def test_a_verb_agrees_with_its_number(number: int, said: str):
    assert counted(number, "pod", verb=HAS) == said
    assert agreeing(number, HAS) == said.rpartition(" ")[2]


@pytest.mark.parametrize(("number", "said"), [(1, "the pod"), (2, "all 2 pods")])
def test_one_alone_is_not_all(number: int, said: str):
    assert all_of(number, "pod") == said
