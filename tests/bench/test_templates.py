"""Templates, as Go's text/template fills them in with the functions of scheduler_perf."""

from __future__ import annotations

import pytest

from tutti_bench.templates import TemplateError, load, parse

ENV = {"Index": 7, "Count": 10, "podsPerGroup": 3, "name": "gang", "ratio": "2.5", "on": True, "none": 0}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("{{.Index}}", "7"),
        ("{{ .Index }} of {{.Count}}", "7 of 10"),
        ("gang-{{DivideInt .Index .podsPerGroup}}", "gang-2"),
        ("{{DivideInt -7 2}}", "-3"),  # Go's int() cuts off
        ("{{DivideFloat .Index 2}}", "3.5"),
        ("{{DivideFloat 8 2}}", "4"),  # a whole float is written without a fraction
        ("{{Mod .Index .podsPerGroup}}", "1"),
        ("{{Mod -7 3}}", "-1"),  # the sign of the dividend
        ("{{AddInt .Index 1 2}}", "10"),
        ("{{AddFloat .ratio 1}}", "3.5"),  # a text that is a number
        ("{{SubtractInt .Count .Index}}", "3"),
        ("{{SubtractFloat 1 0.5}}", "0.5"),
        ("{{MultiplyInt .Index 2.9}}", "20"),
        ("{{MultiplyFloat 0.5 3}}", "1.5"),
        ("{{AddInt (MultiplyInt .Index 10) (Mod .Index 2)}}", "71"),
        ('{{.Index | AddInt 1 | printf "%03d"}}', "008"),
        ('{{printf "%s-%d%%" .name 5}}', "gang-5%"),
        ("{{printf `%v` .on}}", "true"),
        ("{{if eq (Mod .Index 2) 0}}even{{else}}odd{{end}}", "odd"),
        ("{{if lt .Index 5}}a{{else if lt .Index 8}}b{{else}}c{{end}}", "b"),
        ("{{if and .on (not .none)}}yes{{end}}", "yes"),
        ("{{if .none}}yes{{end}}", ""),
        ("{{if .on}}{{if .none}}x{{else}}{{.name}}{{end}}{{end}}", "gang"),
        ("a  {{- .Index -}}  b", "a7b"),
        ("a {{- /* why */ -}} {{.Index}}", "a7"),
        ("a{{/* why */}}b", "ab"),
        ("{{true}}", "true"),
    ],
)  # fmt: skip
def test_what_stands_in_a_template_is_filled_in(text, filled):
    assert parse(text, "t.yaml").text(ENV) == filled


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{.Indes}}", "t.yaml: there is no {{.Indes}}; did you mean 'Index'?"),
        ("{{DivideIn .Index 2}}", "t.yaml: there is no function 'DivideIn'; did you mean 'DivideInt'?"),
        ("{{DivideInt .Index 0}}", "t.yaml: division by zero"),
        ("{{Mod .Index .none}}", "t.yaml: division by zero"),
        ("{{AddInt .name 1}}", "t.yaml: 'gang' is no number"),
        ("{{range .Index}}{{end}}", "t.yaml: {{range}} is not known here"),
        ("{{if .on}}x", "t.yaml: an if without its end"),
        ("x{{end}}", "t.yaml: {{end}} without an if"),
        ("{{(AddInt 1 2}}", "t.yaml: a parenthesis is not closed"),
        ("{{.Index 5}}", "t.yaml: '5' is not expected in {{.Index 5}}"),
        ("{{$x := 1}}", "t.yaml: '$x := 1' is not understood in {{$x := 1}}"),
        ("{{}}", "t.yaml: {{}} is empty"),
    ],
)
def test_what_cannot_be_filled_in_is_told(text, why):
    with pytest.raises(TemplateError) as raised:
        parse(text, "t.yaml").text(ENV)
    assert str(raised.value) == why


def test_a_template_becomes_an_object(tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text("metadata:\n  name: p-{{.Index}}\nspec: {n: {{.podsPerGroup}}}\n")
    assert load(path).object(ENV) == {"metadata": {"name": "p-7"}, "spec": {"n": 3}}


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text", "a: [1"])
def test_what_is_no_object_is_told_with_its_path(tmp_path, text):
    path = tmp_path / "pod.yaml"
    path.write_text(text)
    with pytest.raises(TemplateError, match=r"pod.yaml: (must be one object|no YAML once it is filled in)"):
        load(path).object({})


def test_a_template_that_is_not_there_is_told(tmp_path):
    with pytest.raises(TemplateError, match=r"none.yaml: cannot be read: No such file"):
        load(tmp_path / "none.yaml")
