"""Whoever follows the tutorial or another page sees what it says: its commands are run on an embedded cluster."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from handbook.tutorial import COMMANDS, TUTORIAL, beginning, outputs
from handbook.walkthrough import StepFailed, rewritten, shell, steps, timeless
from tests.docs.forked_commands import forked_commands

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "```sh\n" in path.read_text(encoding="utf-8")
]
AS_INSTALLED = (ROOT / "README.md", TUTORIAL)
"""Pages that are run with the command itself; on the others it is forked off a process that has loaded it."""


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with forked_commands(tmp_path_factory.mktemp("forks")) as folder:
        yield folder


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_each_command_of_a_page_prints_what_the_page_says(page: Path, forked: Path) -> None:
    found = steps(page.read_text(encoding="utf-8"))
    for tool in ("kubectl", "curl", "jq"):
        if shutil.which(tool) is None and any(tool in step.command for step in (*beginning(), *found)):
            pytest.skip(f"{tool} is not installed")
    printed = outputs(page, commands=COMMANDS if page in AS_INSTALLED else forked)
    said = [(step.command, timeless(text)) for step, text in zip(found, printed, strict=True) if step.output]
    assert said == [(step.command, timeless(step.output)) for step in found if step.output]
    assert said


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_no_shell_block_is_left_out(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(steps(text)) == text.count("```sh\n")
    assert "```bash" not in text


async def test_a_block_ends_at_its_first_command_that_fails(tmp_path: Path) -> None:
    async with shell(tmp_path, {}) as running:
        with pytest.raises(StepFailed, match="before"):
            await running.run("echo before\nfalse\necho after > there")
    assert not (tmp_path / "there").exists()


async def test_blocks_share_one_shell(tmp_path: Path) -> None:
    async with shell(tmp_path, {"GREETING": "hello"}) as running:
        await running.run("name=world")
        assert await running.run('echo "$GREETING $name"; echo again >&2') == "hello world\nagain\n"


WAITS = """
import asyncio
import signal
from pathlib import Path
from handbook.walkthrough import shell

signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored

async def wait():
    async with shell(Path(), {}) as running:
        print(await running.run("sleep 1000 & echo $$ $!"), end="", flush=True)
        await running.run("until false; do sleep 0.1; done")

asyncio.run(wait())
"""


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_a_page_has_started_ends_with_whoever_runs_the_page(ended_by: signal.Signals) -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", WAITS], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as us,
        contextlib.ExitStack() as opened,
    ):
        assert us.stdout is not None
        started = [os.pidfd_open(int(pid)) for pid in us.stdout.readline().split()]
        for one in started:
            opened.callback(os.close, one)
        us.send_signal(ended_by)
        for one in started:
            assert select.select([one], [], [], 120)[0]
    assert len(started) == 2


async def test_what_does_not_end_when_asked_is_made_to(tmp_path: Path) -> None:
    async with shell(tmp_path, {}) as running:
        deaf = int(await running.run("(trap '' TERM; exec sleep 1000) & echo $!"))
        ended = os.pidfd_open(deaf)
    assert select.select([ended], [], [], 120)[0]
    os.close(ended)


def test_what_is_printed_replaces_what_the_page_said_and_nothing_else() -> None:
    page = "a\n```sh\nls\n```\n\n```text\nold\n```\nb\n```sh\ntrue\n```\n\nc\n"
    assert rewritten(page, ["new\n", "silent\n"]) == page.replace("old", "new")


def test_ages_and_times_make_no_difference() -> None:
    page = "```sh\nget\n```\n\n```text\nNAME  AGE\nx-0-ab1cd  2m3s\n```\n"
    assert rewritten(page, ["NAME        AGE\nx-0-zz9zz    5s\n"]) == page
