"""Expressions over devices: what Kubernetes adds to CEL, how errors are worded, and what an expression may cost."""

from __future__ import annotations

import pytest

from tutti.cluster.devices import expressions
from tutti.cluster.devices.expression_reads import names_read
from tutti.cluster.devices.expression_texts import as_evaluated
from tutti.cluster.devices.expression_values import SelectorError
from tutti.cluster.devices.expressions import DeviceContent, Expressions

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
        '!semver("1.0.0").isGreaterThan(semver("1.0.0+b")) && !semver("1.0.0").isLessThan(semver("1.0.0+b"))',
        '!quantity("1Ki").isGreaterThan(quantity("1024")) && !quantity("1Ki").isLessThan(quantity("1024"))',
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
        "[3, 1, 2].sort().slice(1, 3) == [2, 3] && [1, 1, 2].distinct() == [1, 2] && !sets.contains([1], [2])",
        # Numbers of different types are compared by size; versions are unlike all else.
        f'1 < 1.5 && 2u >= 2.0 && {OWN}.index < 3.5 && "1.10.0" != {OWN}.version && {OWN}.version != "1.10.0"',
        # Loops of two variables: of a list its places, of a map its keys.
        "[1, 2].all(i, v, i < v) && [1, 2].exists(i, v, i == 1 && v == 2) && {'a': 1}.existsOne(k, v, v == 1)",
        "[1, 2].exists_one(i, v, i == v - 1 && v == 2) && [1, 1].exists_one(x, x == 1) == false",
        "[4, 5].transformList(i, v, i * v) == [0, 5] && [4, 5].transformList(i, v, i > 0, v) == [5]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && [7, 8].transformMap(i, v, v > 7, v) == {1: 8}",
        "['x', 'y'].transformMapEntry(i, v, {v: i}) == {'x': 0, 'y': 1}",
        f'{OWN}.exists(k, v, k == "model" && v == "a100")',
        # A loop that ends early leaves nothing behind for what is bound after it.
        "[1, 2].exists(v, v == 1) && cel.bind(d, 5, d == 5) && [1, 2].exists(i, v, v == 1) && cel.bind(d, 6, d == 6)",
        f"cel.bind(d, {OWN}.nothing, true) && !cel.bind(d, {OWN}.nothing, false && d == 1)",
        "cel.bind(x, [1], cel.bind(y, x + [2], y.exists(x, x == 2) && x.size() == 1))",
        'cel.bind(d, device.attributes, !has(d["unknown.example.org"].x))',
        "[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && ['a'].indexOf('b') == -1",
        '"abcabc".indexOf("c") == 2 && "abcabc".indexOf("a", 1) == 3 && "abcabc".lastIndexOf("b", 3) == 1',
        '"abc".lastIndexOf("b", 9) == -1 && "abc".indexOf("b", 9) == -1 && "abc".lastIndexOf("", 2) == 2',
        "lists.range(3) == [0, 1, 2] && [[1], [2]].flatten() == [1, 2] && [1, 2].reverse() == [2, 1]",
        "['bb', 'a'].sortBy(x, x.size()) == ['a', 'bb'] && [1, 2].first().value() == 1 && [1].last().hasValue()",
        "'%s is %d'.format(['a', 1]) == 'a is 1' && strings.quote('a') == '\"a\"'",
        "optional.of(1).optMap(x, x + 1).value() == 2 && !optional.none().hasValue()",
        # Addresses, as Go's net/netip reads them.
        'isIP("::1") && !isIP("1.2.3") && !isIP("01.2.3.4") && !isIP("::ffff:1.2.3.4") && !isIP("fe80::1%eth0")',
        'ip("10.0.0.1").family() == 4 && ip("2001:DB8::1") == ip("2001:db8:0::1") && string(ip("::01")) == "::1"',
        'ip.isCanonical("2001:db8::1") && !ip.isCanonical("2001:DB8::1")',
        'ip("127.0.0.1").isLoopback() && ip("0.0.0.0").isUnspecified() && ip("169.254.1.1").isLinkLocalUnicast()',
        'ip("224.0.0.5").isLinkLocalMulticast() && ip("ff02::1").isLinkLocalMulticast()',
        '!ip("224.0.1.5").isLinkLocalMulticast() && !ip("255.255.255.255").isGlobalUnicast()',
        'ip("10.0.0.1").isGlobalUnicast() && !ip("fe80::1").isGlobalUnicast()',
        'cidr("10.0.0.0/8").containsIP("10.9.9.9") && !cidr("10.0.0.0/8").containsIP(ip("11.0.0.1"))',
        'cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && !cidr("10.1.0.0/16").containsCIDR(cidr("10.0.0.0/8"))',
        'cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8") && cidr("10.1.2.3/8").ip() == ip("10.1.2.3")',
        'string(cidr("2001:db8::1/32").masked()) == "2001:db8::/32" && cidr("::1/128").prefixLength() == 128',
        'isCIDR("0.0.0.0/0") && !isCIDR("10.0.0.0/33") && !isCIDR("10.0.0.0") && !isCIDR("::ffff:1.2.3.4/96")',
        # URLs, as Go's net/url reads them.
        'url("https://u:p@Example.com:80/a%20b?k=1&k=2&x#f").getHost() == "Example.com:80"',
        'url("HTTPS://[::1]:80/").getHostname() == "::1" && url("HTTPS://[::1]:80/").getScheme() == "https"',
        'url("https://h:8080/x y/%41").getPort() == "8080" && url("https://h/x y/").getEscapedPath() == "/x%20y/"',
        'url("http://h/a%2Fb?k=1&k=2&x").getQuery() == {"k": ["1", "2"], "x": [""]}',
        'isURL("/path") && isURL("mailto:a@b") && !isURL("../a") && !isURL("https://a:b:c/") && !isURL("http://[::1")',
        'url("/a") == url("/a") && url("http://h/a%2Fb").getEscapedPath() == "/a%2Fb" && !isURL("http://h/%zz")',
        # Formats.
        'format.named("nothing") == optional.none() && format.named("uuid").hasValue()',
        '!format.dns1123Label().validate("a-b").hasValue() && format.dns1123Label().validate("a.b").hasValue()',
        '!format.dns1123Subdomain().validate("a.b").hasValue() && format.dns1035Label().validate("1a").hasValue()',
        '!format.dns1123LabelPrefix().validate("a-").hasValue() && format.dns1123Label().validate("a-").hasValue()',
        '!format.qualifiedName().validate("a.b/C_d").hasValue() && format.qualifiedName().validate("/C").hasValue()',
        '!format.labelValue().validate("").hasValue() && format.labelValue().validate("-a").hasValue()',
        '!format.uuid().validate("123E4567-e89b-12d3-a456-426614174000").hasValue() && format.uuid().validate("1").hasValue()',
        '!format.byte().validate("aGVsbG8=").hasValue() && format.byte().validate("a").value() == ["invalid base64"]',
        '!format.date().validate("2024-02-29").hasValue() && format.date().validate("2023-02-29").hasValue()',
        '!format.datetime().validate("2021-01-01T00:00:00.5+01:00").hasValue()',
        'format.datetime().validate("2021-01-01t25:00:00z").orValue([]).size() == 1',
        '!format.uri().validate("http://h/").hasValue() && format.uri().validate("x").hasValue()',
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
        (f'{OWN}[?"model"]', "CEL compile error: must evaluate to bool or the unknown type, not optional_type"),
        ("size(device.driver)", "CEL compile error: must evaluate to bool or the unknown type, not int"),
        ('semver("1.2.3") == "1.2.3"', "CEL compile error: "),
        (f'{MEMORY} == "40Gi"', "CEL compile error: "),
        (f"{MEMORY} == 5", "CEL compile error: "),
        ('quantity("1") == semver("1.0.0")', "CEL compile error: "),
        ("device.driver == 1", "CEL compile error: "),
        ("device.model == 1", "CEL compile error: undefined field 'model'"),
        ('"ab".placeOf("a") == 0', "CEL compile error: undeclared reference to 'placeOf'"),
        ("same(1, 1)", "CEL compile error: undeclared reference to 'same'"),
        (f'{OWN}.version == "1.10.0"', "CEL runtime error: no such overload"),
        ('ip("1.2.3") == ip("1.2.3.4")', 'IP Address "1.2.3" parse error during conversion from string'),
        ('ip("fe80::1%eth0").family() == 6', 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ('ip("::ffff:1.2.3.4").family() == 4', 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ('cidr("10.0.0.0/08").prefixLength() == 8', "network address parse error during conversion from string"),
        ('cidr("10.0.0.0/8").containsIP("10.0.0")', "CEL runtime error: no such overload"),
        ('url("../a").getHost() == ""', "URL parse error during conversion from string"),
        ('[1, 2].transformMapEntry(i, v, {"k": v}).size() == 1', "insert failed: key 'k' already exists"),
        ("[].map(x, 1).min() == 0", "min called on empty list"),
        ("[1].exists(v, true) && optional.of(1).optMap(x, x).hasValue()", "optMap cannot be told beside exists"),
        (f"6 / ({OWN}.index - 3) > 0", "CEL runtime error: division by zero"),
        (f"6 % ({OWN}.index - 3) > 0", "CEL runtime error: modulus by zero"),
        (f'{OWN}.model.substring(0, 5) == ""', "CEL runtime error: index out of range: 5"),
        (f'[{OWN}.index, "a"].sort() == []', "CEL runtime error: sort(): list elements must have the same type"),
        (f'[{OWN}.index, "a"].isSorted()', "CEL runtime error: no such overload"),
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


# Asked of Kubernetes 1.36 (k8s.io/dynamic-resource-allocation/cel) about a device of the same attributes.
@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f'{OWN}.version.lowerAscii() == "a"', "no such overload: lowerAscii(kubernetes.Semver)"),
        (f'{OWN}.index.substring(1, 2) == "a"', "no such overload: substring(int, int, int)"),
        (f'{OWN}.healthy.indexOf("a") == 1', "no such overload: indexOf(bool, string)"),
        (f'{OWN}.index.lastIndexOf("a") == 1', "no such overload: lastIndexOf(int, string)"),
        (f"{OWN}.model.major() == 1", "no such overload: major(string)"),
        (f'quantity({OWN}.index) == quantity("1")', "no such overload: quantity(int)"),
        (f"size({OWN}.index) == 1", "no such overload: size"),
        (f'{OWN}.index.startsWith("a")', "no such overload"),
        (f'{OWN}.index.find("a") == "a"', "no such overload"),
        (f"{OWN}.version < 1", "no such overload: _<_"),
        (f"{OWN}.healthy + 1 == 2", "no such overload: _+_"),
        (f"{OWN}.model - 1 == 2", "no such overload"),
        (f'{OWN}.index + "a" == "b"', "no such overload"),
        (f"-{OWN}.version == 1", "no such overload: -_"),
        (f'semver("1.0.0") == {OWN}.model', "no such overload"),
        (f"int({OWN}.model) == 1", "type conversion error from 'string' to 'int'"),
        (f"bool({OWN}.model)", "type conversion error from 'string' to 'bool'"),
        (
            f'duration({OWN}.model) == duration("1s")',
            "type conversion error from 'string' to 'google.protobuf.Duration'",
        ),
        ("[1][1] == 1", "index out of bounds: 1"),
    ],
)
def test_a_call_that_does_not_suit_is_told_word_for_word(expression, message):
    with pytest.raises(SelectorError) as caught:
        holds(expression)

    assert str(caught.value) == f"CEL runtime error: {message}"


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
    assert as_evaluated(expression) == compiled


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


def test_an_expression_is_compiled_once_and_evaluated_once_about_devices_that_are_alike(monkeypatch):
    compiled: list[str] = []
    evaluated: list[str] = []
    compile_one, evaluate = expressions._compiled, Expressions._evaluated
    monkeypatch.setattr(expressions, "_compiled", lambda text, shape: compiled.append(text) or compile_one(text, shape))
    monkeypatch.setattr(
        Expressions, "_evaluated", lambda self, text, one: evaluated.append(text) or evaluate(self, text, one)
    )
    known, model = Expressions(), f'{OWN}.model == "a100"'
    for _ in range(3):
        alike = DeviceContent(GPU.driver, tuple(GPU.attributes), tuple(GPU.capacity), GPU.multiple)
        other = DeviceContent(GPU.driver, GPU.attributes[:3], GPU.capacity, GPU.multiple)
        assert [known.holds(model, one) for one in (GPU, alike, other)] == [True] * 3
        with pytest.raises(SelectorError):
            known.holds(f"{OWN}.missing", alike)

    assert sorted(compiled) == sorted([model, f"{OWN}.missing"])
    assert evaluated.count(model) == 2
    assert evaluated.count(f"{OWN}.missing") == 1
