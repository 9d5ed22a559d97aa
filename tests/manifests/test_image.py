"""The image without Docker: what its Dockerfile says, and whether what it would install runs."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import re
import shlex
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from prometheus_client import CollectorRegistry

import tutti
from e2e.harness.processes import free_port
from tests.controller.process import Cluster, operator
from tests.manifests.check import ROOT
from tutti.controller.health import Health
from tutti.controller.serving import application, serving
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti_sim.cluster import EmbeddedCluster

DOCKERFILE = ROOT / "Dockerfile"


def instructions():
    """The instructions of the Dockerfile: keyword and the rest, each in one line."""
    joined = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", DOCKERFILE.read_text()))
    for line in filter(str.strip, joined.splitlines()):
        keyword, _, rest = line.strip().partition(" ")
        yield keyword, rest.strip()


def stages():
    """The instructions of each stage; what stands before the first is left out."""
    found = []
    for keyword, rest in instructions():
        if keyword == "FROM":
            found.append([])
        if found:
            found[-1].append((keyword, rest))
    return found


def of(stage, keyword):
    return [rest for one, rest in stage if one == keyword]


def pinned(lock):
    """Names and versions of a lock file."""
    return dict(re.findall(r"(?m)^([\w.-]+)==([^ ;\\]+)", (ROOT / lock).read_text()))


def test_what_it_runs_on_is_pinned_by_digest_and_both_stages_run_on_the_same():
    [base] = [rest for keyword, rest in instructions() if (keyword, rest.partition("=")[0]) == ("ARG", "PYTHON")]
    assert re.fullmatch(r"PYTHON=3\.11-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert [of(stage, "FROM")[0].split(" ")[0] for stage in stages()] == ["python:${PYTHON}"] * 2


def test_the_image_ships_the_environment_alone_and_runs_as_nobody_who_can_do_anything():
    final = stages()[-1]

    assert of(final, "COPY") == ["--from=build /opt/tutti /opt/tutti"]
    assert of(final, "USER") == ["65532:65532"]
    assert not any(keyword in ("COPY", "RUN", "ADD") for keyword, _ in final[final.index(("USER", "65532:65532")) :])
    assert [json.loads(rest) for rest in of(final, "ENTRYPOINT")] == [["tutti"]]


def test_everything_from_a_registry_is_installed_by_hash():
    installs = [command for rest in of(stages()[0], "RUN") for command in rest.split("&&") if "pip install" in command]
    assert len(installs) == 3
    for command in installs:
        assert "--require-hashes" in command or "--no-deps /wheel/" in command


def test_what_makes_the_wheel_is_all_that_is_taken_of_the_developers_lock():
    (names,) = re.findall(r"\^\(([\w|-]+)\)==", DOCKERFILE.read_text())
    needed, todo = set(), ["hatchling"]
    while todo:
        name = todo.pop().lower()
        if name not in needed:
            needed.add(name)
            requires = [Requirement(one) for one in importlib.metadata.requires(name) or ()]
            todo += [one.name for one in requires if one.marker is None or one.marker.evaluate({"extra": ""})]
    assert set(names.split("|")) == needed
    assert needed <= pinned("requirements.lock").keys()


def test_every_source_is_there_and_sent_to_the_builder_and_nothing_else_is():
    copied = [word for rest in of(stages()[0], "COPY") for word in shlex.split(rest)[:-1]]
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]

    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert ignored[0] == "*"
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == {
        name.removeprefix("./") for name in copied
    }


@pytest.mark.parametrize("alive", [True, False])
async def test_the_health_check_is_the_answer_of_healthz(alive, tmp_path):
    (check,) = of(stages()[-1], "HEALTHCHECK")
    python, flag, code = json.loads(check.partition(" CMD ")[2])
    health = Health()
    if not alive:
        health.died("engine", "it ended")
    async with serving(application(health, CollectorRegistry()), host="127.0.0.1", port=0) as port:
        assert ":8080/" in code
        process = await asyncio.create_subprocess_exec(
            sys.executable, flag, code.replace(":8080/", f":{port}/"), stderr=asyncio.subprocess.DEVNULL
        )
        ended = await process.wait()
    assert python == "python"
    assert (ended == 0) == alive


# Tells of every file that is opened for writing, and of every folder that is made.
WATCHES = """
import os, sys
told = os.open({told!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
def hook(event, arguments):
    if event == "os.mkdir" or (event == "open" and isinstance(arguments[2], int) and arguments[2] & writing):
        os.write(told, (os.fsdecode(arguments[0]) if isinstance(arguments[0], (str, bytes)) else "").encode() + b"\\n")
sys.addaudithook(hook)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> Path:
    """An environment of just what the image has: the locked packages without what it leaves out, and our wheel."""
    folder = tmp_path_factory.mktemp("image")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    for name in pinned("requirements-runtime.lock"):
        try:
            files = importlib.metadata.files(name) or ()
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform or Python, as its marker says
        for file in files:
            if ".." not in file.parts and "tests" not in file.parts and file.parts[:2] != ("kubernetes", "aio"):
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                (site / file).symlink_to(Path(file.locate()))
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True,
        capture_output=True,
    )  # fmt: skip
    assert built.returncode == 0
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    # Not sitecustomize: some distributions of Python have one of their own, which comes first.
    (site / "told_of_writes.py").write_text(WATCHES.format(told=str(folder / "written")))
    (site / "told_of_writes.pth").write_text("import told_of_writes\n")
    return folder


def test_the_image_has_the_operator_and_neither_embedded_cluster_nor_demo_nor_bench(environment):
    (wheel,) = environment.glob("*.whl")
    assert {Path(name).parts[0] for name in zipfile.ZipFile(wheel).namelist()} == {
        "tutti",
        f"tutti-{tutti.__version__}.dist-info",
    }


@pytest.mark.parametrize("words", ["demo", "cluster --nodes 3", "bench run a.yaml"])
def test_who_calls_what_the_image_does_not_have_is_told_what_to_install(environment, words, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python = environment / "env" / "bin" / "python"
    answer = subprocess.run(
        [python, "-m", "tutti", *words.split()], cwd=environment, capture_output=True, text=True, check=False
    )
    name = words.split()[0]
    assert answer.returncode == 2
    assert answer.stderr.splitlines()[-1] == (
        f"Error: `tutti {name}` comes with tutti-dev, which is not installed here: see `make setup` in a clone"
    )
    listed = subprocess.run(
        [python, "-m", "tutti", "--help"], cwd=environment, capture_output=True, text=True, check=True
    )
    assert " run " in listed.stdout
    assert f"\n  {name}" not in listed.stdout


def test_what_is_built_beside_the_operator_is_a_distribution_of_the_same_version(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT / "operator",
        check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    own = f"tutti_dev-{tutti.__version__}.dist-info"
    assert {Path(name).parts[0] for name in names} == {"tutti_sim", "tutti_bench", "tutti_simulate", "tutti_demo", own}
    assert {"tutti_sim/kinds/types.json", f"{own}/licenses/LICENSE"} <= set(names)
    said = zipfile.ZipFile(wheel).read(f"{own}/METADATA").decode()
    assert f"Requires-Dist: tutti=={tutti.__version__}\n" in said


def test_the_versions_that_are_tested_are_the_ones_that_are_shipped():
    developed = pinned("requirements.lock")
    assert {
        name: version for name, version in pinned("requirements-runtime.lock").items() if developed[name] != version
    } == {}


@pytest.mark.parametrize("webhook", [{}, {"enabled": True, "selfSigned": {}}], ids=["plain", "self-signed webhooks"])
async def test_the_operator_runs_with_what_the_image_has_and_writes_nothing_but_temporary_files(
    environment, tmp_path, monkeypatch, webhook
):
    webhook = {**webhook, "port": free_port()}
    monkeypatch.delenv("PYTHONPATH", raising=False)  # the wheel, not the sources
    async with EmbeddedCluster(nodes=1, gpus=1, tls=True) as cluster:
        kubeconfig = tmp_path / "kubeconfig"
        cluster.write_kubeconfig(kubeconfig)
        async with Client(await Credentials.load(kubeconfig)) as client:
            await Cluster(client).install_crds()
        python = str(environment / "env" / "bin" / "python")
        async with operator(kubeconfig, tmp_path, python=python, webhook=webhook) as running:
            await running.says("deciding")
            status, _ = await running.ask("/readyz")
            assert await running.stop() == 0

    assert status == 200
    written = {Path(line) for line in (environment / "written").read_text().splitlines() if line}
    temporary = {path for path in written if path.is_relative_to(tempfile.gettempdir())}
    assert temporary  # the authority of the cluster, which the official client writes to a file
    assert written - temporary <= {Path("/dev/null")}
