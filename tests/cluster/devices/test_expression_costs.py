"""What an expression can cost at most: what users write is far below the bound, and bombs are refused unevaluated."""

from __future__ import annotations

import pytest

from tutti.cluster.devices.expression_costs import MOST_COST
from tutti.cluster.devices.expression_texts import without_bindings
from tutti.cluster.devices.expression_values import SelectorError
from tutti.cluster.devices.expressions import DeviceContent, Expressions

OWN = 'device.attributes["gpu.example.com"]'
MODELS = "[" + ", ".join(f"'NVIDIA-A{number}'" for number in range(30)) + "]"
NUMBERS = "[" + ", ".join(str(number % 10) for number in range(90)) + "]"
MANY = "[" + ", ".join(str(number % 10) for number in range(1600)) + "]"
NONE = DeviceContent("gpu.example.com", (), (), False)


def doubled(first: str, then: str, last: str, times: int = 28) -> str:
    """An expression with a value that is put together of two of itself so many times."""
    out = last.replace("V", f"v{times}")
    for number in range(times, 0, -1):
        out = f"cel.bind(v{number}, {then.replace('V', f'v{number - 1}')}, {out})"
    return f"cel.bind(v0, {first}, {out})"


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com"',
        f"{OWN}.model in {MODELS}",
        f"{MODELS}.exists(one, {OWN}.model == one)",
        f'{OWN}.model.lowerAscii().matches("^.*a100.*$") && {OWN}.uuid.matches("^[0-9a-f]{{8}}-[0-9a-f]{{4}}$")',
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
        'cel.bind(mine, device.attributes["gpu.example.com"], mine.model == "a100" && mine.uuid != "x")',
        f'{OWN}.version.isGreaterThan(semver("1.9.0")) && {OWN}.model.startsWith("A" + "100")',
        'device.attributes.exists(d, device.attributes[d].exists(k, k == "model"))',
        f"{MODELS}.exists(i, one, {OWN}.model == one && i < 20) && lists.range(8).all(i, i < {OWN}.index)",
        f"{NUMBERS}.distinct().size() == 10",
        f'format.dns1123Label().validate({OWN}.model).hasValue() || "%s-%d".format([{OWN}.model, 1]) == "a100-1"',
        f'cidr("10.0.0.0/8").containsIP({OWN}.address) && url({OWN}.link).getQuery().size() < 5',
        f'{OWN}.model.replace("-", "") == "A100" || [{OWN}.model, {OWN}.index].size() == 2',
    ],
)
def test_what_users_write_costs_a_tenth_of_the_bound_at_most(expression):
    expressions = Expressions()
    assert expressions.problem(expression) == ""
    assert 0 < expressions.cost(expression) <= MOST_COST // 10


@pytest.mark.parametrize(
    "expression",
    [
        doubled("[1, 2]", "V + V", "V.size() > 1"),
        doubled('"x"', "V + V", 'V == "y"'),
        doubled("dyn([1])", "dyn([V, V])", "V == [V]"),
        doubled("dyn([1])", 'dyn({"a": V, "b": V})', "V == [V]"),
        doubled('"xx"', 'V.replace("x", V)', 'V == "y"', times=6),
        "[[1]]" + ".map(one, one + one)" * 20 + "[0].size() > 1",
        f"{NUMBERS}.all(x, {NUMBERS}.all(y, !(77 in {MANY})))",
        f"{NUMBERS}.all(x, {NUMBERS}.all(y, {NUMBERS}.all(z, x == z)))",
        f"sets.contains({MANY}, {MANY})",
        f"{NUMBERS}.all(x, 'a'.matches('((a{{30}}){{30}}|b)'))",
        f"{NUMBERS}.all(x, 'a'.matches('((a{{30}}){{30}}|b)' + string(x)))",
        f"'a'.matches('{chr(92) * 2}pL{{200}}')",
        "lists.range(1000000000).size() > 1",
        f"lists.range({OWN}.index).size() > 1",
        f"{MANY}.distinct().size() == 10",
        f"{NUMBERS}.all(i, x, {NUMBERS}.all(j, y, {NUMBERS}.all(k, z, x == z)))",
        f"{NUMBERS}.transformList(i, x, {NUMBERS}.transformList(j, y, {NUMBERS}.transformList(k, z, x)))[0].size() > 1",
        f"{OWN}.form.format([1.5]) == 'x'",
        f"cel.bind(a, lists.range(4000).sort(), {' && '.join(['a.size() > 1'] * 60)})",
        "'xxxxxxxxxx'" + ".replace('x', 'xxxxxxxxxx')" * 9 + ".size() > 3",
        "lists.range(9000).map(x, x).size() > 0",
        f"{MANY}.filter(x, x >= 0).size() > 0",
        f"{MANY}.transformMap(i, x, x).size() > 0",
        f"'{'a,' * 4000}'.split(',').map(x, x).size() > 1",
        f"'a'.matches('{'a?' * 4000}')",
        f"'{'a' * 5000}'.findAll('a?').size() > 1",
    ],
)
def test_what_would_take_all_memory_or_minutes_is_not_begun(expression):
    """Each of these is a fraction of the 10 KiB that an expression may have; the API server takes some of them."""
    assert "too complex, exceeds cost limit" in Expressions().problem(expression)
    with pytest.raises(SelectorError, match=r"too complex, exceeds cost limit: it may take [0-9]+ steps"):
        Expressions().holds(expression, NONE)


def test_names_that_are_bound_often_do_not_make_an_expression_longer_than_it_may_be():
    """Each use is replaced by what it stands for; beyond 16 KiB a name is that of a list of one entry."""
    value = f"[{','.join(['1'] * 240)}].size()"
    often = "&&".join([f"cel.bind(a, {value}, {'||'.join(['a == 240'] * 60)})"] * 8)
    nested = (
        "".join(f"cel.bind(v{at}, {at} + {f'v{at - 1}' if at else 0}, " for at in range(12)) + "v11 == 66" + ")" * 12
    )
    for expression in (often, nested):
        assert Expressions().holds(expression, NONE)
        assert len(without_bindings(expression)) < 20 * 1024
