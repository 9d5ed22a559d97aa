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
LARGEST = DeviceContent(
    "gpu.example.com",
    tuple(((f"{domain:02}.example.com", f"a{at:031}"), ("string", "x" * 64)) for domain in range(4) for at in range(8)),
    (),
    False,
)
COMMAS = ",".join("abcdefghijklmnopqrstuvwxyzabcdef")
CARD = DeviceContent(
    "gpu.example.com",
    tuple(
        (("gpu.example.com", name), said)
        for name, said in (
            *((name, ("string", COMMAS)) for name in "abc"),
            ("form", ("string", "%d")),
            ("index", ("int", 3)),
            ("model", ("string", "A100")),
            ("pattern", ("string", "^A+1.*$")),
            ("version", ("version", "1.10.0")),
        )
    ),
    ((("gpu.example.com", "memory"), 40 << 30),),
    False,
)


def numbers(count: int) -> str:
    return f"[{','.join(str(at % 10) for at in range(count))}]"


def models(count: int) -> str:
    return "[" + ",".join(f"'model-{at:04d}'" for at in range(count)) + "]"


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
def test_what_users_write_costs_a_hundredth_of_the_bound_at_most(expression):
    expressions = Expressions()
    assert expressions.problem(expression) == ""
    assert 0 < expressions.cost(expression, LARGEST) <= MOST_COST // 100


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        (f"{numbers(99)}.all(x, {numbers(99)}.exists(y, x == y))", True),
        (f"{numbers(20)}.all(x, {numbers(20)}.all(y, {numbers(20)}.all(z, x + y + z >= 0)))", True),
        (f"{numbers(1600)}.filter(m, m > 3).size() == 960", True),
        (f"{numbers(1600)}.map(m, m + 3).sum() > 0", True),
        (f"{MANY}.transformMap(i, x, x).size() == 1600", True),
        (f"{numbers(700)}.distinct().size() == 10", True),
        (f"{numbers(500)}.sort()[0] == 0", True),
        (f"sets.contains({numbers(999)}, {numbers(999)})", True),
        (f"sets.equivalent({numbers(500)}, {numbers(500)})", True),
        (f"{models(500)}.exists(m, {OWN}.model.matches('^' + m + '.*$'))", False),
        (f"{models(500)}.exists(m, matches({OWN}.model, m))", False),
        (f"{models(500)}.map(m, m.upperAscii()).exists(m, m == {OWN}.model)", False),
        (f"{OWN}.model.matches({OWN}.pattern) && {OWN}.model.find({OWN}.pattern) == 'A100'", True),
        (f"{OWN}.model.findAll('[A-Z' + ']') == ['A']", True),
        (f"{OWN}.model.matches('{'a?' * 2000}')", True),
        (f"'{'a' * 5000}'.findAll('a').size() == 5000", True),
        (f"'{'a,' * 500}'.split(',').map(x, x).size() == 501", True),
        (f"{OWN}.a.split(',').all(x, {OWN}.b.split(',').all(y, x in {OWN}.c.split(',')))", True),
        (f"{OWN}.model.replace('A', {OWN}.b).replace('a', {OWN}.b).size() > 3", True),
        (f"{OWN}.form.format([1]) == '1' && ['%d', '%s'].exists(f, f.format([1]) == '1')", True),
        ("device.attributes.all(d, device.attributes[d].all(k, k.matches('^[a-z]+$')))", True),
        ("device.attributes.map(d, device.attributes[d].map(k, k)).size() == 1", True),
        ("device.attributes.transformList(d, v, v.transformList(k, w, w)).flatten().exists(x, x == 'A100')", True),
        ("device.attributes.transformMap(d, v, v.transformMap(k, w, k)).size() == 1", True),
        ("lists.range(9000).all(x, 'a'.matches('a'))", True),
        ("lists.range(2000).all(x, cidr('10.0.0.0/8').containsIP('10.0.0.1'))", True),
        ("lists.range(2000).all(x, quantity('1Gi').isGreaterThan(quantity('1Mi')))", True),
        ("lists.range(2000).map(x, x * 2).size() == 2000", True),
        ("lists.range(2000).map(x, [x, x]).flatten().size() == 4000", True),
        ("lists.range(90).map(x, lists.range(90).map(y, x * y).sum()).sum() > 0", True),
        (doubled("[1, 2]", "V + V", "V.size() == 65536", times=15), True),
        (doubled('"x"', "V + V", 'V == "y"', times=15), False),
    ],
)
def test_what_is_accepted_by_the_api_server_though_it_is_long_is_evaluated(expression, answer):
    """kube-apiserver 1.36 estimates each of these to take less than its limit, and kube-scheduler answers the same."""
    assert Expressions().holds(expression, CARD) is answer


def test_what_is_long_about_large_devices_alone_is_evaluated_about_others():
    every = "device.attributes.all(D, device.attributes[D].all(K, "
    twice = every.replace("D", "d").replace("K", "k") + every.replace("D", "e").replace("K", "l")
    expression = f"{twice}d.replace(k, l) != ''))))"
    expressions = Expressions()
    assert expressions.problem(expression) == ""
    assert expressions.holds(expression, CARD)
    assert expressions.cost(expression, CARD) < MOST_COST < expressions.cost(expression, LARGEST)
    with pytest.raises(SelectorError, match="CEL runtime error: too complex, exceeds cost limit: it may take"):
        expressions.holds(expression, LARGEST)


@pytest.mark.parametrize(
    "call", ["{0}.matches({1})", "matches({0}, {1})", "{0}.find({1}) == 'x'", "{0}.findAll({1}, 3).size() == 3"]
)
def test_a_pattern_put_together_meanwhile_is_looked_at_before_it_is_made_ready(call):
    r"""`\pL{200}` takes a third of a second, and what a device says may come to that."""
    broad = call.format(f"{OWN}.model", rf"{OWN}.model + r'\pL{{200}}'")
    with pytest.raises(SelectorError, match=r"a pattern that is put together may take [0-9]+ steps, and 2000 is"):
        Expressions().holds(broad, CARD)
    with pytest.raises(SelectorError, match="error parsing regexp"):
        Expressions().holds(call.format(f"{OWN}.model", f"{OWN}.model + '['"), CARD)


def test_loops_that_go_round_too_often_are_told_in_words():
    """The runtime counts those of all loops together, and cannot be told another bound."""
    expression = f"{numbers(110)}.all(x, {numbers(110)}.all(y, x + y >= 0))"
    with pytest.raises(SelectorError, match="its loops go round more than 10000 times together"):
        Expressions().holds(expression, CARD)


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
        f"{NUMBERS}.all(x, 'a'.matches('((a{{30}}){{30}}|b)'))",
        f"'a'.matches('{chr(92) * 2}pL{{200}}')",
        "lists.range(1000000000).size() > 1",
        f"lists.range({OWN}.index).size() > 1",
        f"{MANY}.distinct().size() == 10",
        f"{NUMBERS}.all(i, x, {NUMBERS}.all(j, y, {NUMBERS}.all(k, z, x == z)))",
        f"{NUMBERS}.transformList(i, x, {NUMBERS}.transformList(j, y, {NUMBERS}.transformList(k, z, x)))[0].size() > 1",
        "'xxxxxxxxxx'" + ".replace('x', 'xxxxxxxxxx')" * 9 + ".size() > 3",
        "lists.range(9000).map(x, x).size() > 0",
        f"'{'a,' * 4000}'.split(',').map(x, x).size() > 1",
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
