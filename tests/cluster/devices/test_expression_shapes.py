"""Expressions that differ in what they compare with are compiled once, and answer as if each had been by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.cluster.devices.expression_shapes import expression_shape
from tutti.cluster.devices.expression_values import SelectorError
from tutti.cluster.devices.expressions import DeviceContent, Expressions

DRIVER = "gpu.example.com"
FORMS = (
    'device.attributes["gpu.example.com"].model == {}',
    "device.driver != {}",
    'device.attributes["gpu.example.com"].model == {} || device.driver == "gpu.example.com"',
    '!(device.attributes["gpu.example.com"].missing != {})',
    'device.attributes["gpu.example.com"].index == {}',
    'device.attributes["gpu.example.com"].exists(k, k == {})',
    "device.driver == {} && device.driver.matches({})",
    'cel.bind(x, device.driver, x == {} || x == "other")',
    'device.attributes["gpu.example.com"].exists(compared_with_0, device.driver == {} && compared_with_0 == "model")',
    "{} == device.driver",
    "device.driver == {} // and that is all",
    "device.nothing == {}",
    "device.driver == {}.lowerAscii()",
)
TEXTS = st.one_of(
    st.sampled_from(["", "h100", DRIVER, "H100", "model", "it's", "a\\tb", "{", "ü", "\r", "bind", "("]),
    st.text(max_size=12),
)


def _quoted(text: str) -> str:
    return f'"{text}"'


def _device(model: str) -> DeviceContent:
    said = (((DRIVER, "index"), ("int", 3)), ((DRIVER, "model"), ("string", model)))
    return DeviceContent(DRIVER, said, (), False)


def _told(expressions: Expressions, expression: str, device: DeviceContent) -> bool | str:
    """Return the answer, or why there is none."""
    try:
        return expressions.holds(expression, device)
    except SelectorError as error:
        return str(error)


@given(form=st.sampled_from(FORMS), texts=st.lists(TEXTS, min_size=2, max_size=5), model=TEXTS)
def test_each_answers_and_costs_as_if_no_other_of_its_shape_had_been_there(
    form: str, texts: list[str], model: str
) -> None:
    together, device = Expressions(), _device(model)
    for text in texts:
        expression, alone = form.replace("{}", _quoted(text)), Expressions()
        assert _told(together, expression, device) == _told(alone, expression, device)
        assert together.problem(expression) == alone.problem(expression)
        assert together.cost(expression, device) == alone.cost(expression, device)


@pytest.mark.parametrize(("model", "held"), [("h100", 'model == "h100"'), ("a100", 'model == "a100"')])
def test_one_holds_for_the_device_that_has_what_it_compares_with(model: str, held: str) -> None:
    expressions, device = Expressions(), _device(model)
    for wanted in ("h100", "a100", "h200"):
        expression = f'device.attributes["{DRIVER}"].model == "{wanted}"'
        assert expressions.holds(expression, device) is expression.endswith(held)


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("device.driver == \"a\" && device.driver != 'b'", ("a", "b")),
        ('device.attributes["d"].model == "a"', ("a",)),
        ('"a" == device.driver', ()),
        ('device.driver == "a" + "b"', ()),
        ('device.driver == r"a"', ()),
        ('device.driver == "a\\n"', ()),
        ('device.driver == """a"""', ()),
        ('device.driver.matches("a")', ()),
        ('device.driver == "compared_with_0"', ()),
        ('cel.bind(x, device.driver, x == "a")', ()),
    ],
)
def test_only_what_stands_right_of_an_equation_as_it_is_written_is_left_out(
    expression: str, values: tuple[str, ...]
) -> None:
    assert tuple(expression_shape(expression).values.values()) == values


def test_a_name_by_which_such_a_text_is_handed_over_is_nobody_elses() -> None:
    assert "undeclared reference" in Expressions().problem('device.driver == "a" && compared_with_0 == "b"')


def test_more_texts_than_there_are_names_for_stay_where_they_are() -> None:
    many = " || ".join(f'device.driver == "d{at}"' for at in range(12))
    expressions = Expressions()
    assert expressions.holds(f'{many} || device.driver == "{DRIVER}"', _device("h100"))
    assert not expressions.holds(f'{many} || device.driver == "gpu.example.net"', _device("h100"))
