"""The example package: it builds, its own tests pass, and its plugins do in the engine what its README says."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.engine.world import GPU, START, World
from tutti.api.configuration import load_configuration as read
from tutti.api.problems import ConfigurationError
from tutti.cli.replay import command
from tutti.controller.plugins import load_plugins

HERE = Path(__file__).parents[2] / "examples" / "site-plugins"
CONFIGURATION = """
profiles:
- schedulerName: tutti
  userPlugins:
  - name: maintenance
    args: {hoursBefore: 12}
  - name: power
    weight: 2
  - name: deadline
  - name: budget
    args: {mostPerHour: 10}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package as pip would install it: built into a wheel, and unpacked."""
    folder = tmp_path_factory.mktemp("site")
    wheels = tmp_path_factory.mktemp("wheels")
    build = f"import hatchling.build; hatchling.build.build_wheel({str(wheels)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=HERE, check=True, capture_output=True)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def site(installed, monkeypatch):
    monkeypatch.syspath_prepend(str(installed))
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "site_plugins"]:
        del sys.modules[name]


def world(text: str = CONFIGURATION) -> World:
    configuration = read(text)
    return World(plugins=load_plugins(configuration), profiles=configuration.profiles)


def test_its_own_tests_pass(installed):
    path = os.pathsep.join([str(installed), *(one for one in sys.path if one)])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "--rootdir",
        str(HERE),
    ]
    ran = subprocess.run(
        [*command, "-c", str(HERE / "pyproject.toml"), str(HERE / "tests")],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_plugins_of_the_readme_are_enabled_with_their_arguments(site):
    (enabled,) = load_plugins(read(CONFIGURATION)).values()
    assert [(one.name, one.weight) for one in enabled] == [
        ("maintenance", 1),
        ("power", 2),
        ("deadline", 1),
        ("budget", 1),
    ]
    readme = (HERE / "README.md").read_text("utf-8").split("```yaml\n")[1].split("```")[0]
    (enabled,) = load_plugins(read(readme)).values()
    assert len(enabled) == 4


def test_a_day_with_all_four(site):
    here = world()
    window = datetime.fromtimestamp(START + 3600, UTC).strftime("%Y%m%dT%H%M%SZ")
    price = {"example.com/device-price": "2"}
    here.node("leaving", labels={"example.com/maintenance-window": window, **price})
    here.node("hungry", gpus=4, labels={"example.com/watts": "2000", **price})
    here.node("frugal", gpus=4, labels={"example.com/watts": "200", **price})
    here.gang("g", 4)
    here.run()
    assert set(here.where("g").values()) == {"frugal"}
    here.gang("h", 2)
    here.run()
    assert here.reason("PodGroup", "h") == "HeldByPlugin"
    assert f"{GPU} in use would cost 12 an hour, and the budget is 10" in here.why("PodGroup", "h").message
    here.finish("g-0", "g-1")
    here.run()
    assert len(here.where("h")) == 2
    assert here.replay().differences == []


@pytest.mark.parametrize(
    ("use", "path", "said"),
    [
        ("{name: maintenence}", "userPlugins[0].name", "did you mean 'maintenance'?"),
        ("{name: maintenance, args: {hours: 1}}", "userPlugins[0].args", "unknown field `hours`"),
        ("{name: power, args: {watts: many}}", "userPlugins[0].args.watts", "valid integer"),
        ("{name: deadline, args: {soon: 1}}", "userPlugins[0].args", "Deadline() takes no arguments"),
        ("{name: deadline, weight: 2}", "userPlugins[0].weight", "counts only for a plugin that scores"),
        ("{name: budget}", "userPlugins[0].args", "mostPerHour"),
    ],
)
def test_what_cannot_be_enabled_says_where_and_why(site, use, path, said):
    with pytest.raises(ConfigurationError) as error:
        load_plugins(read(f"profiles: [{{userPlugins: [{use}]}}]"))
    (problem,) = error.value.problems
    assert problem.path.startswith(f"profiles[0].{path}")
    assert said in problem.message


def test_profiles_that_sort_differently_are_refused(site):
    text = "profiles: [{schedulerName: a, userPlugins: [{name: deadline}]}, {schedulerName: b}]"
    with pytest.raises(ConfigurationError, match="must be the same, with the same args, in every profile"):
        load_plugins(read(text))
    load_plugins(read(text.replace("{schedulerName: b}", "{schedulerName: b, userPlugins: [{name: deadline}]}")))


def test_a_plugin_of_a_package_that_is_not_there_is_refused():
    with pytest.raises(ConfigurationError, match="no package offers a plugin 'maintenance'"):
        load_plugins(read("profiles: [{userPlugins: [{name: maintenance}]}]"))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nothing_of_the_kind", "cannot be imported"),
        ("class Plugin: pass", "has no method filter, score, policy, sort or permit"),
        ("def Plugin(): raise ValueError('not today')", "not today"),
    ],
)
def test_a_plugin_that_cannot_be_made_is_refused(tmp_path, monkeypatch, code, said):
    name = f"odd_{said.split()[0]}"
    (tmp_path / f"{name}.py").write_text(code)
    info = tmp_path / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[tutti.plugins]\nodd = {name}:Plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match=said):
        load_plugins(read("profiles: [{userPlugins: [{name: odd}]}]"))


def test_two_packages_that_offer_one_name_are_refused(site, tmp_path, monkeypatch):
    info = tmp_path / "rival-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rival\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tutti.plugins]\npower = rival:Power\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match="offered by several packages: rival, tutti-site-plugins"):
        load_plugins(read("profiles: [{userPlugins: [{name: power}]}]"))


def test_a_replay_needs_the_plugins_of_its_configuration(site, installed, tmp_path, monkeypatch):
    here = world()
    here.node("n1")
    here.pod("a")
    here.run()
    journal = tmp_path / "journal"
    journal.write_bytes(here.journal.getvalue())
    found = CliRunner().invoke(command, [str(journal)])
    assert (found.exit_code, found.stdout.split(":")[0]) == (0, "identical"), found.output
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != str(installed)])
    found = CliRunner().invoke(command, [str(journal)])
    assert found.exit_code == 2
    assert "no package offers a plugin 'maintenance'" in found.output
