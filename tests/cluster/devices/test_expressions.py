"""Expressions over devices: what Kubernetes adds to CEL, how errors are worded, and what an expression may cost."""

from __future__ import annotations

import pytest

from tutti.cluster.devices.expression_functions import SelectorError
from tutti.cluster.devices.expressions import DeviceContent, Expressions, names_read, with_empty_domains

GPU = DeviceContent(
    "gpu.example.com",
    (
        (("gpu.example.com", "healthy"), ("bool", True)),
        (("gpu.example.com", "index"), ("int", 3)),
        (("gpu.example.com", "model"), ("string", "a100")),
        (("gpu.example.com", "version"), ("version", "1.10.0+b7")),
    ),
    ((("gpu.example.com", "memory"), 40 * 2**30 * 1000),),
    False,
)
OWN = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'


def holds(expression: str) -> bool:
    return Expressions().holds(expression, GPU)


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com" && !device.allowMultipleAllocations',
        f"{OWN}.index in [1, 3] && {OWN}.healthy",
        f'{OWN}.version.isGreaterThan(semver("1.9.0")) && {OWN}.version == semver("1.10.0+other")',
        f'{OWN}.version.isLessThan(semver("v1.11", true)) && {OWN}.version.minor() == 10',
        'semver("1.0.0-rc.2").isLessThan(semver("1.0.0-rc.10")) && semver("1.0.0-rc.1").isLessThan(semver("1.0.0"))',
        f'{MEMORY}.compareTo(quantity("40Gi")) == 0 && {MEMORY}.isGreaterThan(quantity("40G"))',
        f'{MEMORY}.add(quantity("1")).sub(1) == quantity("40960Mi") && sign({MEMORY}) == 1',
        f'!("nothing" in {OWN}) && !has({OWN}.nothing) && {OWN}.?nothing.orValue(5) == 5',
        'device.attributes["unknown.example.org"].x == 1 || true',
        '!("unknown.example.org" in device.attributes) && size(device.attributes) == 1',
        'device.attributes["unknown.example.org"].?x.orValue("none").endsWith("one")',
        f"cel.bind(d, {OWN}, d.index > 0) && cel.bind(d, device, d.attributes['nowhere'].?x.orValue(true))",
        f'{OWN}.model.matches("^[ah]100$") && {OWN}.model.find("[0-9]+") == "100"',
        '"a1b22".findAll("[0-9]+") == ["1", "22"] && sets.contains([1, 2], [2]) && [1, 2].sum() == 3',
        f'dyn({OWN}.index) != "3"',
        f'{OWN}.model.substring(0, 4) == "a100" && {OWN}.model.substring(1) == "100" && "s.substring(" != "x"',
        "[3, 1, 2].sort().slice(1, 3) == [2, 3] && [1, 1, true].distinct() == [1, true] && !sets.contains([1], [true])",
    ],
)
def test_what_kubernetes_documents_holds(expression):
    assert holds(expression)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"{OWN}.nothing == 1", "CEL runtime error: no such key: nothing"),
        ('device.attributes["unknown.example.org"].x == 1', "CEL runtime error: no such key: x"),
        (f'{OWN}.index < "x"', "CEL runtime error: no such overload"),
        (f'{OWN}.model.compareTo(quantity("1")) == 0', "CEL runtime error: no such overload"),
        (
            f"{OWN}.model",
            "could not be converted to bool: unsupported native conversion from string to 'bool'",
        ),
        (
            f"{OWN}.index",
            "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool",
        ),
        (
            f"{OWN}.version",
            "type kubernetes.Semver could not be converted to bool: type conversion error from 'Semver' to 'bool'",
        ),
        (f'{OWN}[?"model"]', "CEL result of type optional_type could not be converted to bool"),
        (f"6 / ({OWN}.index - 3) > 0", "CEL runtime error: division by zero"),
        (f"6 % ({OWN}.index - 3) > 0", "CEL runtime error: modulus by zero"),
        (f'{OWN}.model.substring(0, 5) == ""', "CEL runtime error: index out of range: 5"),
        (f'[{OWN}.index, "a"].sort() == []', "CEL runtime error: no such overload"),
        ('quantity("much") == quantity("1")', "'much' is not a quantity"),
        ('semver("1") == semver("1.0.0")', "'1' is no semantic version"),
        ("device.driver ==", "CEL compile error: "),
        ("who == 1", "undeclared reference to 'who'"),
    ],
)
def test_what_goes_wrong_is_said_in_the_words_of_kubernetes(expression, message):
    with pytest.raises(SelectorError) as caught:
        holds(expression)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 4000 + "true" + ")" * 4000,
        "[" * 5000,
        "!" * 9999 + "true",
        "1+" * 4000 + "1 > 0",
        " || ".join(["device.driver == 'x'"] * 400),
        "[{0}].all(a, [{0}].all(b, [{0}].all(c, a + b + c >= 0)))".format(",".join(map(str, range(200)))),
        f'"{"a" * 5000}".matches("(a*)*b")',
        '"' + "x" * 20000 + '" == ""',
        "device.attributes[" * 500,
        '"\\ud800" == "\x00"',
        "device.attributes." * 900,
        f"{OWN}.index + 9223372036854775807 > 0",
    ],
)
def test_a_costly_expression_is_answered_or_refused_at_once(expression):
    try:
        answer: object = holds(expression)
    except SelectorError as error:
        answer = str(error)

    assert isinstance(answer, bool | str)


@pytest.mark.parametrize(
    ("expression", "compiled"),
    [
        ('device.attributes["d"].x', 'device.attributes[?"d"].orValue(dyn({})).x'),
        ("device.capacity.d.x == 1", "device.capacity.?d.orValue(dyn({})).x == 1"),
        ("has(device.attributes.d)", "has(device.attributes.d)"),
        ("has(device.attributes.d.x)", "has(device.attributes.?d.orValue(dyn({})).x)"),
        ('device.attributes[?"d"].hasValue()', 'device.attributes[?"d"].hasValue()'),
        ('"a.attributes[" == device.driver', '"a.attributes[" == device.driver'),
        ("device.attributes.all(k, true)", "device.attributes.all(k, true)"),
        ('device.attributes["]"].x', 'device.attributes[?"]"].orValue(dyn({})).x'),
    ],
)
def test_an_unknown_domain_is_an_empty_map(expression, compiled):
    assert with_empty_domains(expression) == compiled


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (f'{OWN}.model == "a100"', {"model"}),
        (f'"profile" in {OWN} && {OWN}.?numa.orValue(0) == 0', {"profile", "numa"}),
        (f'{OWN}["model"] == "x"', {"model"}),
        (f'{MEMORY}.compareTo(quantity("1Gi")) >= 0', {"memory"}),
    ],
)
def test_an_expression_looks_at_what_it_names(expression, names):
    read = names_read(expression)

    assert read is not None
    assert names <= read


@pytest.mark.parametrize(
    "expression",
    [
        f"{OWN}.all(k, k != 'x')",
        f"size({OWN}) == 3",
        f'{OWN}["mo" + "del"] == "x"',
        f'{OWN} == device.attributes["other"]',
        f"cel.bind(d, {OWN}, d.index == 1)",
        "device.attributes.exists(d, true)",
    ],
)
def test_what_an_expression_may_look_at_beyond_is_everything(expression):
    assert names_read(expression) is None
