"""What is told of all devices in columns is what CEL tells of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.api.devices import AttributeValue
from tutti.cluster.devices.asks import WayAsk
from tutti.cluster.devices.expressions import DeviceContent, Expressions
from tutti.cluster.devices.selections import NOT_ASKED, Contents, told

DRIVER = "gpu.example.com"
EXPRESSIONS = Expressions()

VALUES: st.SearchStrategy[AttributeValue] = st.one_of(
    st.tuples(st.just("int"), st.sampled_from([-7, 0, 1, 7, 8, (1 << 63) - 1, -(1 << 63)])),
    st.tuples(st.just("string"), st.sampled_from(["", "h100", "7", "a b"])),
    st.tuples(st.just("version"), st.just("1.2.3")),
    st.tuples(st.just("bool"), st.booleans()),
)
DEVICES = st.builds(
    lambda driver, said: DeviceContent(driver, tuple(sorted(said.items())), (), multiple=False),
    st.sampled_from([DRIVER, "nic.example.com"]),
    st.dictionaries(st.tuples(st.sampled_from([DRIVER, "other.com"]), st.sampled_from(["index", "model"])), VALUES),
)
LEFT = [f'device.attributes["{DRIVER}"].index', f"device.attributes['{DRIVER}'].model", "device.driver"]
LEFT += ['device.attributes["none.com"].index', f'device.attributes["{DRIVER}"].in']
RIGHT = ["7", "-7", "0", "07", "999999999999999999", "9223372036854775808", "7u", "7.0", "'h100'", '"7"', '""', "true"]
COMPARISONS = st.builds(
    " ".join,
    st.tuples(st.sampled_from(LEFT), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), st.sampled_from(RIGHT)),
)
SELECTORS = st.lists(st.lists(COMPARISONS, min_size=1, max_size=3).map(" && ".join), max_size=2).map(tuple)


@given(st.lists(DEVICES, max_size=5), st.lists(DEVICES, max_size=5), SELECTORS, SELECTORS)
def test_it_is_told_as_cel_tells_it_and_no_less_of_what_comes_later(
    first: list[DeviceContent], later: list[DeviceContent], of_class: tuple[str, ...], own: tuple[str, ...]
) -> None:
    way = WayAsk(name="r", device_class="gpu", class_selectors=of_class, selectors=own, count=1)
    contents = Contents()
    answers = contents.answers(way)
    for devices in (first, later):
        numbers = [contents.number(one) for one in devices]
        contents.fill(way, answers, EXPRESSIONS)
        for number, device in zip(numbers, devices, strict=True):
            code, text = told(way, device, EXPRESSIONS)
            if answers.known(number) is not None:
                assert (answers.codes[number], text) == (code, "")


@pytest.mark.parametrize(
    ("own", "is_told"),
    [
        ('device.attributes["gpu.example.com"].index >= 3', True),
        (
            'device.attributes["gpu.example.com"].model == "h100" && device.attributes["gpu.example.com"].index != 2',
            True,
        ),
        ('device.attributes["gpu.example.com"].model.startsWith("h")', False),
        ('device.attributes["gpu.example.com"].none == 3', False),
        ('device.attributes["gpu.example.com"].model >= "h100"', False),
        ('!(device.attributes["gpu.example.com"].index >= 3)', False),
    ],
)
def test_what_only_compares_is_told_at_once_and_nothing_else(own: str, *, is_told: bool) -> None:
    said: tuple[tuple[tuple[str, str], AttributeValue], ...] = (
        ((DRIVER, "index"), ("int", 3)),
        ((DRIVER, "model"), ("string", "h100")),
    )
    contents, way = Contents(), WayAsk("r", "gpu", (f'device.driver == "{DRIVER}"',), (own,), 1)
    number, answers = contents.number(DeviceContent(DRIVER, said, (), multiple=False)), contents.answers(way)
    contents.fill(way, answers, EXPRESSIONS)
    assert (answers.of(np.array([number]))[0] != NOT_ASKED) == is_told
