"""`tutti cluster` says what is wrong with what it is given, before anything listens."""

import pytest
from click.testing import CliRunner

from tutti_sim.command import command


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--shapes", "nodes: [{name: n, count: many, resources: {cpu: 1}}]", "nodes[0].count: "),
        ("--shapes", "nodes: []", "nodes: "),
        ("--faults", "rules: [{name: r}]", "rule 'r' does nothing"),
    ],
)
def test_a_file_with_a_mistake_is_refused_by_its_name_and_place(tmp_path, option, text, message):
    path = tmp_path / "file.yaml"
    path.write_text(text)

    result = CliRunner().invoke(command, [option, str(path)])

    assert result.exit_code == 1
    assert f"Error: {path}: " in result.output
    assert message in result.output


@pytest.mark.parametrize("options", [("--without", "jobs"), ("--controllers", "jobs,namespace")])
def test_an_unknown_controller_is_refused_with_the_nearest(options):
    result = CliRunner().invoke(command, options)

    assert result.exit_code == 1
    assert "there is no controller 'jobs'; did you mean 'job'?" in result.output
