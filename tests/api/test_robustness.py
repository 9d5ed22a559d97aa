"""Whatever users write, reading it ends in an answer or in the one error that says what is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.api.manifests import RIGHT, manifest
from tests.drawing import examples
from tutti.api.configuration import Conventions, TuttiConfiguration, load_configuration
from tutti.api.conventions import ConventionError, GangMembership, annotated_gangs, kueue, membership_of, named_groups
from tutti.api.conventions.membership import is_name
from tutti.api.core import Pod
from tutti.api.kinds import KINDS, ObjectError, parse_object
from tutti.api.problems import ConfigurationError
from tutti.api.quantity import QuantityError, parse_quantity

WORDS = [
    "",
    "a",
    "A_b",
    "-1",
    "0",
    "1",
    "2",
    "1e9",
    "64Gi",
    "None",
    "Never",
    "root.",
    "root.a",
    "[]",
    '["x"]',
    "[1]",
    "{}",
]
TEXTS = st.sampled_from(WORDS) | st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
MANIFESTS = [(kind, manifest(kind, spec)) for kind, spec in RIGHT.values()]
KEYS = [
    *(
        named_groups.QUEUE_NAME,
        named_groups.POD_GROUP,
        named_groups.WORKLOAD,
        kueue.QUEUE_NAME,
        kueue.GROUP_NAME,
        kueue.TOTAL_COUNT,
    ),
    *(
        named_groups.VOLCANO_MIN_MEMBER,
        named_groups.VOLCANO_QUEUE_NAME,
        *named_groups.VOLCANO_GROUP_NAMES,
        annotated_gangs.GANG_NAME,
        annotated_gangs.MIN_AVAILABLE,
    ),
    *(
        annotated_gangs.WAITING_TIME,
        annotated_gangs.GANG_GROUPS,
        annotated_gangs.GANG_MODE,
        annotated_gangs.TOTAL_NUMBER,
    ),
    *(
        annotated_gangs.TASK_GROUP_NAME,
        annotated_gangs.TASK_GROUPS,
        annotated_gangs.PARAMETERS,
        *annotated_gangs.APPLICATION_IDS,
        *annotated_gangs.QUEUES,
    ),
    *(f"{Conventions().pfnet_prefix}-{suffix}" for suffix in ("name", "size", "schedule-timeout-seconds")),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*path, index))
    return found


def replaced(raw: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    raw = copy.deepcopy(raw)
    target: Any = raw
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = value
    return raw


def answer_of(read: Callable[..., Any], *arguments: Any, error: type[Exception]) -> Any:
    """What reading gives: the answer, or the one error it may raise."""
    try:
        return read(*arguments)
    except error as caught:
        return caught


@examples(300)
@given(st.data())
def test_an_object_with_anything_anywhere_is_read_or_refused(data):
    kind, raw = data.draw(st.sampled_from(MANIFESTS))
    path = data.draw(st.sampled_from([place for place in places(raw) if place]))
    answer = answer_of(parse_object, kind, replaced(raw, path, data.draw(JSON)), error=ObjectError)

    assert isinstance(answer, KINDS[kind]) or answer.problems
    assert isinstance(answer, KINDS[kind]) or all(problem.message for problem in answer.problems)


@examples(300)
@given(st.dictionaries(st.sampled_from(KEYS), TEXTS), st.dictionaries(st.sampled_from(KEYS), TEXTS))
def test_a_pod_that_says_anything_gives_a_claim_or_an_error_that_says_where(labels, annotations):
    raw = {"metadata": {"name": "p", "namespace": "ml", "uid": "u", "labels": labels, "annotations": annotations}}
    claim = answer_of(membership_of, msgspec.convert(raw, Pod), Conventions(), error=ConventionError)
    if isinstance(claim, ConventionError):
        assert claim.where.startswith("metadata.")
        return
    assert all(not name or is_name(name) for name in (claim.group, claim.queue, claim.workload, claim.priority_class))
    assert claim.min_count is None or claim.min_count >= 1
    assert not claim.implicit or (claim.group and claim.min_count)
    assert msgspec.json.decode(msgspec.json.encode(claim), type=GangMembership) == claim


@examples(200)
@given(st.data())
def test_a_configuration_with_anything_anywhere_is_read_or_refused(data):
    raw = TuttiConfiguration().model_dump(by_alias=True)
    path = data.draw(st.sampled_from([place for place in places(raw) if place]))
    text = msgspec.json.encode(replaced(raw, path, data.draw(JSON))).decode()
    answer = answer_of(load_configuration, text, error=ConfigurationError)

    assert isinstance(answer, TuttiConfiguration) or answer.problems


@given(st.text(max_size=60))
def test_any_text_is_a_configuration_or_refused(text):
    answer = answer_of(load_configuration, text, error=ConfigurationError)
    assert isinstance(answer, TuttiConfiguration) or answer.problems


@given(JSON)
def test_anything_is_a_quantity_or_refused(value):
    answer = answer_of(parse_quantity, value, error=QuantityError)
    assert isinstance(answer, int) or "64Gi" in str(answer)
