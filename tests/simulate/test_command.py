"""`tutti simulate` from outside: its answer, its files, and what it says of mistakes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from tutti.cli.main import cli

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulate"


def simulate(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tutti", "simulate", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=220, check=False)
    assert done.returncode == code, done.stderr
    return done


HELIOS = (EXAMPLES / "helios_cluster_log.csv", "--cluster", EXAMPLES / "gpus.yaml", "--most", 60)


def test_equal_input_gives_equal_bytes_with_pictures_and_jobs(tmp_path: Path):
    outputs = []
    for name in ("a", "b"):
        folder = tmp_path / name
        done = simulate(
            *HELIOS, "--against", EXAMPLES / "packing.yaml", "--pictures", folder, "--jobs", tmp_path / f"{name}.csv",
            "--power", "idle=300,core=3,gpu=350", "-o", "json",
        )  # fmt: skip
        pictures = {one.name: one.read_bytes() for one in sorted(folder.iterdir())}
        outputs.append((done.stdout, pictures, (tmp_path / f"{name}.csv").read_text()))
    assert outputs[0] == outputs[1]
    answer, pictures, jobs = outputs[0]
    found = json.loads(answer)
    assert found["trace"]["jobs"] == 60
    assert set(found["runs"]) == {"first", "second"}
    assert found["runs"]["first"]["energyKwh"] > 0
    assert {one["what"] for one in found["differences"]} > {"wait, mean, s", "preemptions", "energy, kWh"}
    shown = ("fragmentation", "in-use", "power", "preemptions", "queues", "slowdowns", "waiting", "waits")
    assert set(pictures) == {f"{one}.svg" for one in shown}
    for text in pictures.values():
        assert ET.fromstring(text).tag.endswith("svg")
    assert len(jobs.splitlines()) == 121


def test_the_answer_in_words_tells_what_was_left_out_and_taken_for_granted():
    done = simulate(
        EXAMPLES / "philly_cluster_job_log.json",
        "--cluster",
        EXAMPLES / "gpus.yaml",
        "--queue",
        "*=vision",
        "--most",
        30,
    )
    assert done.stdout.startswith("30 jobs of ")
    assert "taken for granted: CPUs unknown: 6 are taken for each GPU" in done.stdout
    assert "left out: 4 entries\n  entry 92: it never ran" in done.stdout
    assert "events per second of the processor" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((HELIOS[0],), "there are no nodes; say by --cluster"),
        ((*HELIOS, "--queue", "vision"), "OF_TRACE=NAME"),
        ((*HELIOS, "--power", "watts=3"), "idle=W"),
        ((*HELIOS, "--queue", "vision=none"), "the cluster no queue none"),
        ((HELIOS[0], "--cluster", HELIOS[0]), "no list of openb's nodes"),
        ((HELIOS[0], "--cluster", EXAMPLES / "campus.swf"), "this is not YAML"),
        ((EXAMPLES / "gpus.yaml", "--cluster", EXAMPLES / "gpus.yaml"), "say it by --format"),
    ],
)
def test_a_mistake_ends_with_one_line_that_says_what_would_be_right(words, said):
    done = CliRunner().invoke(cli, ["simulate", *map(str, words)])
    assert (done.exit_code, said in done.output) == (2, True), done.output
