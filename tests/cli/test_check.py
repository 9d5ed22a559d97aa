"""`tutti check` says of a configuration what `tutti run` would."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tutti.cli.main import cli

BAD = "requireQueue: tru\nbindWindowSecond: 30\nprofiles: [{userPlugins: [{name: a}]}]\n"


def checked(*arguments: object):
    return CliRunner().invoke(cli, ["check", *map(str, arguments)], prog_name="tutti")


@pytest.mark.parametrize("text", ["", "requireQueue: true\nbindWindowSeconds: 30\n"])
def test_what_an_operator_can_be_started_with_is_well(tmp_path, text):
    file = tmp_path / "tutti.yaml"
    file.write_text(text)
    assert checked(file).exit_code == 0
    assert str(file) in checked(file).output
    assert json.loads(checked(file, "-o", "json").output) == {
        "file": str(file),
        "ok": True,
        "problems": [],
        "rules": [],
        "warnings": [],
    }


def test_everything_that_is_wrong_is_said_as_the_operator_says_it(tmp_path):
    file = tmp_path / "tutti.yaml"
    file.write_text(BAD)
    answer = checked(file)
    assert answer.exit_code == 2
    (line,) = answer.stderr.splitlines()
    assert line.startswith(f"tutti check: configuration {file}: requireQueue: input should be a valid boolean")
    assert "bindWindowSecond: there is no such field; did you mean 'bindWindowSeconds'?" in line

    answer = checked(file, "-o", "json")
    assert answer.exit_code == 2
    said = json.loads(answer.output)
    assert (said["file"], said["ok"]) == (str(file), False)
    assert [one["path"] for one in said["problems"]] == ["requireQueue", "bindWindowSecond"]


def test_a_plugin_that_is_not_installed_is_found(tmp_path):
    file = tmp_path / "tutti.yaml"
    file.write_text("profiles: [{userPlugins: [{name: nowhere}]}]\n")
    answer = checked(file)
    assert answer.exit_code == 2
    assert "profiles[0].userPlugins[0].name: no package offers a plugin 'nowhere'" in answer.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read: No such file"), ("{}", "it is no policy"), ("{", "it is no policy: Input data")],
)
def test_a_learned_policy_that_cannot_be_used_is_a_warning(tmp_path, content, said):
    file, policy = tmp_path / "tutti.yaml", tmp_path / "policy.json"
    file.write_text(f"profiles: [{{learnedScore: {{file: {policy}}}}}]\n")
    if content is not None:
        policy.write_text(content)
    answer = checked(file)
    assert answer.exit_code == 0
    assert f"warning: profile tutti: learnedScore.file: {policy}" in answer.stderr
    assert said in answer.stderr
    (warning,) = json.loads(checked(file, "-o", "json").stdout)["warnings"]
    assert said in warning


FRAMEWORKS = """
frameworks:
- {group: hpc.example.com, kind: Solver, plural: solvers, versions: [v1], gang: Transparent}
- {group: hpc.example.com, kind: Mesh, plural: meshes, versions: [v1], gang: Transparent}
- {group: ray.io, kind: RayJob, plural: rayjobs, versions: [v2], gang: Transparent}
"""


def test_rights_that_kinds_of_users_need_are_told_and_those_that_the_manifests_have_are_not(tmp_path):
    file = tmp_path / "tutti.yaml"
    file.write_text(FRAMEWORKS)
    rule = {"apiGroups": ["hpc.example.com"], "resources": ["meshes", "solvers"], "verbs": ["list", "watch"]}

    assert json.loads(checked(file, "-o", "json").output)["rules"] == [rule]
    _, told, written = checked(file).output.splitlines()
    assert "list and watch meshes, solvers of hpc.example.com" in told
    assert json.loads(written) == rule


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_said_to_be_so(tmp_path, content):
    file = tmp_path / "tutti.yaml"
    if content is not None:
        file.write_bytes(content)
    answer = checked(file)
    assert answer.exit_code == 2
    (line,) = answer.stderr.splitlines()
    assert str(file) in line or "decode" in line
    assert not json.loads(checked(file, "-o", "json").output)["ok"]
