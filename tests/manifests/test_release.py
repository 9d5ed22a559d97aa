"""What a release is made of: everything from outside by its hash, wheels, kubectl-tutti as one file, and krew's manifest."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
import yaml

from release.krew import SELECTORS, manifest, packed
from release.sbom import wheel_bill
from release.standalone.__main__ import PYTHONS, WHEELS, archive
from tests.manifests.check import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LARGEST_WHEEL = 1_900_000
"""Bytes; docs/operations/upgrade.md says how much it is."""
HERE = "cp{}{}".format(*sys.version_info[:2])
PLATFORM = "linux-x86_64"


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_every_action_is_named_by_its_commit_and_by_the_version_that_this_was(file):
    used = re.findall(r"uses: *(.+)", file.read_text())
    assert used
    wrong = [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)]
    assert wrong == []


def test_one_version_of_an_action_is_used_everywhere():
    used = {one for file in WORKFLOWS for one in re.findall(r"uses: *(.+)", file.read_text())}
    assert len(used) == len({one.partition("@")[0] for one in used})


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_every_workflow_asks_for_the_rights_that_it_needs_and_every_target_is_there(file):
    text = file.read_text()
    assert yaml.safe_load(text)["permissions"]["contents"] == "read"
    targets = set(re.findall(r"(?m)^([\w-]+):(?! *=)", (ROOT / "Makefile").read_text()))
    asked = {word for line in re.findall(r"(?m)(?:^ +|run: )make((?: [a-z][\w-]*)+)", text) for word in line.split()}
    assert asked <= targets


def test_the_suite_is_run_on_every_python_that_the_wheel_says_it_runs_on():
    matrix = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yaml").read_text())["jobs"]["suite"]["strategy"]
    said = {one.rpartition(" ")[2] for one in PROJECT["classifiers"] if "Python :: 3." in one}
    assert set(matrix["matrix"]["python"]) == said == set(PYTHONS)


def test_every_platform_of_kubectl_tutti_is_one_of_krews():
    assert SELECTORS.keys() == WHEELS.keys()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [file] = folder.glob("*.whl")
    return file


def test_the_wheel_is_small_and_gives_the_commands(wheel):
    assert wheel.stat().st_size < LARGEST_WHEEL
    packed_wheel = zipfile.ZipFile(wheel)
    [entries] = [name for name in packed_wheel.namelist() if name.endswith("entry_points.txt")]
    assert "kubectl-tutti = tutti.cli.main:main" in packed_wheel.read(entries).decode()
    assert not any(name.startswith(("tutti_sim", "tutti_bench", "tutti_demo")) for name in packed_wheel.namelist())


def test_the_bill_of_the_wheel_is_of_this_wheel_and_names_what_it_asks_for(wheel):
    bill = wheel_bill(wheel)
    component = bill["metadata"]["component"]
    assert component["purl"] == f"pkg:pypi/tutti@{PROJECT['version']}"
    assert component["hashes"][0]["content"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    asked = {re.match(r"[\w-]+", one)[0] for one in PROJECT["dependencies"]}
    assert {one["name"] for one in bill["components"]} == asked
    [root, *others] = bill["dependencies"]
    assert set(root["dependsOn"]) == {one["ref"] for one in others}


def environments(folder):
    """Two environments: what is the same in both, what is not, and what is wanted in neither."""
    made = {}
    for python in (HERE, "cp399"):
        files = {
            "tutti/__init__.py": "",
            "tutti/cli/__init__.py": "",
            "tutti/cli/main.py": "import sys, compiled\ndef main(): print(compiled.FOR, sys.argv[1:])\n",
            "compiled.py": f"FOR = {python!r}\n",
            "numpy/tests/test_much.py": "x = 1\n",
            "kubernetes/aio/much.py": "x = 1\n",
        }
        made[python] = folder / python
        for path, text in files.items():
            file = folder / python / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    return made


@pytest.fixture
def standalone(tmp_path):
    file = tmp_path / "kubectl-tutti"
    archive(environments(tmp_path / "environments"), PLATFORM, file)
    return file


def run(file, cache):
    return subprocess.run(
        [sys.executable, str(file), "queue", "a"], env={"XDG_CACHE_HOME": str(cache)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="the archive of the test is for Linux")
def test_one_file_runs_and_is_unpacked_once_with_what_this_python_needs(standalone, tmp_path):
    names = zipfile.ZipFile(standalone).namelist()
    assert {name for name in names if "compiled" in name} == {f"{HERE}/compiled.py", "cp399/compiled.py"}
    assert "shared/tutti/cli/main.py" in names
    assert not any("tests" in name or "aio" in name for name in names)
    cache = tmp_path / "cache"

    first = run(standalone, cache)

    assert (first.stdout, first.stderr) == (f"{HERE} ['queue', 'a']\n", "")
    [folder] = (cache / "kubectl-tutti").iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    (folder / "compiled.py").write_text("FOR = 'what was unpacked before'\n")
    assert run(standalone, cache).stdout == "what was unpacked before ['queue', 'a']\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the archive of the test is for Linux")
@pytest.mark.parametrize(
    ("platform", "pythons", "told"),
    [(PLATFORM, ["cp399"], "for Python 3.99 on linux-x86_64"), ("darwin-arm64", [HERE, "cp399"], "on darwin-arm64")],
)
def test_another_python_or_machine_is_told_so_and_what_else_it_can_do(tmp_path, platform, pythons, told):
    made = environments(tmp_path / "environments")
    archive({one: made[one] for one in pythons}, platform, tmp_path / "kubectl-tutti")
    answer = run(tmp_path / "kubectl-tutti", tmp_path / "cache")
    assert answer.returncode == 1
    assert told in answer.stderr
    assert "pipx install tutti" in answer.stderr
    assert not (tmp_path / "cache").exists()


def test_the_same_files_give_the_same_archive(tmp_path):
    made = environments(tmp_path / "environments")
    files = [tmp_path / "one", tmp_path / "two"]
    for file in files:
        archive(made, PLATFORM, file)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_krew_is_told_where_the_archive_is_and_what_is_in_it(standalone, tmp_path):
    digest = packed(standalone, tmp_path / "archive.tar.gz")
    made = manifest({PLATFORM: ("https://example.com/archive.tar.gz", digest)}, "https://example.com")
    assert made["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2"
    spec = made["spec"]
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert len(spec["shortDescription"]) <= 50  # krew's index refuses more
    [platform] = spec["platforms"]
    assert platform["sha256"] == hashlib.sha256((tmp_path / "archive.tar.gz").read_bytes()).hexdigest()
    (tmp_path / "krew").mkdir()
    subprocess.run(["tar", "-xzf", str(tmp_path / "archive.tar.gz"), "-C", str(tmp_path / "krew")], check=True)
    assert {one["from"] for one in platform["files"]} == {file.name for file in (tmp_path / "krew").iterdir()}
    installed = tmp_path / "krew" / platform["bin"]
    assert installed.stat().st_mode & 0o111
    assert run(installed, tmp_path / "cache").stdout.endswith("['queue', 'a']\n")
    assert json.loads(json.dumps(made)) == made
