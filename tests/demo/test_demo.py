"""The demo from end to end: three processes, real HTTP, and a verdict."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tutti_sim.children import tail

ROOT = Path(__file__).parents[2]
DEMO = "from tutti.cli.main import main; main()"


@asynccontextmanager
async def demo_with(*arguments: str, directory: Path) -> AsyncIterator[Process]:
    """A running demo, which is asked to end if a test fails before it has."""
    environment = {**os.environ, "TMPDIR": str(directory), "COLUMNS": "80", "HTTPS_PROXY": "http://127.0.0.1:9"}
    demo = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DEMO, "demo", "--limit", "600", *arguments, stdout=PIPE, stderr=PIPE, env=environment
    )
    try:
        yield demo
    finally:
        if demo.returncode is None:
            demo.terminate()
            await demo.communicate()


async def test_a_play_that_is_ended_before_all_is_done_says_so(tmp_path):
    """Time that the start takes is none of it: on a busy machine nothing of the play would be left."""
    async with demo_with("--plain", "--limit", "1", directory=tmp_path) as demo:
        out, err = await demo.communicate()
    said = out.decode()
    assert "Act 1" in said, f"{err.decode()}\n{said}"
    assert "The play was ended after 1 s, before all was done (--limit gives it longer)" in said
    assert demo.returncode


async def line_with(text: bytes, demo: Process) -> bytes:
    """Read what the demo prints up to a line with this text, and return it."""
    assert demo.stdout is not None
    assert demo.stderr is not None
    async for line in demo.stdout:
        if text in line:
            return line
    pytest.fail(f"the demo ended without {text!r}: {(await demo.stderr.read()).decode()}")


async def summary_of(*arguments: str, directory: Path) -> dict[str, Any]:
    async with demo_with(*arguments, "-o", "json", directory=directory) as demo:
        out, err = await demo.communicate()
    assert demo.returncode == 0, "\n".join((err.decode(), out.decode(), *logs_in(directory)))
    summary: dict[str, Any] = json.loads(out)
    return summary


def by_name(summary: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in summary["gangs"]}


@pytest.mark.parametrize(
    ("arguments", "restarts"), [((), 0), (("--seed", "3", "--kill-operator-at", "0.7"), 1)], ids=["calm", "killed"]
)
async def test_the_demo_finishes_everything_and_keeps_every_promise(
    tmp_path: Path, arguments: tuple[str, ...], restarts: int
):
    summary = await summary_of("--speed", "8", *arguments, directory=tmp_path)

    assert (summary["ok"], summary["problems"], summary["operatorRestarts"]) == (True, [], restarts)
    for row in summary["gangs"] + summary["singles"]:
        assert (row["state"], row["bound"]) == ("finished", row["members"]), row
    gangs = by_name(summary)
    first, second = sorted((gangs["tango"], gangs["waltz"]), key=lambda gang: gang["placedAtSeconds"])
    # The demo watches several streams, and what one tells may overtake what another tells a moment before.
    assert first["finishedAtSeconds"] <= second["placedAtSeconds"] + 0.1
    assert left_in(tmp_path) == []


async def test_the_pages_of_a_demo_are_there_while_it_runs_and_its_last_line_says_how_to_keep_them(tmp_path: Path):
    async with demo_with("--plain", "--speed", "20", directory=tmp_path) as demo:
        address = (await line_with(b"See it in a browser", demo)).decode().partition("runs: ")[2].strip()
        async with aiohttp.ClientSession() as session, session.get(address, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
        out, _ = await demo.communicate()

    last = out.decode().splitlines()[-1]
    assert address in last
    assert "make demo KEEP=1 keeps both" in last
    assert processes_of(tmp_path) == []


async def test_an_interrupted_demo_takes_everything_down(tmp_path: Path):
    async with demo_with("--speed", "5", directory=tmp_path) as demo:
        await line_with(b"Act 1", demo)
        assert processes_of(tmp_path)
        demo.send_signal(signal.SIGINT)
        await demo.communicate()

    assert demo.returncode == 130
    assert processes_of(tmp_path) == []
    assert left_in(tmp_path) == []


async def test_a_demo_that_is_kept_goes_on_until_it_is_interrupted(tmp_path: Path):
    async with demo_with("--speed", "20", "--keep", directory=tmp_path) as demo:
        await line_with(b"The cluster goes on", demo)
        said = (await line_with(b"Work of your own: ", demo)).decode().partition(": ")[2]
        await starts(said.partition(";")[0].split())
        address = (await line_with(b"Its pages: ", demo)).decode().partition("Its pages: ")[2].strip()
        async with aiohttp.ClientSession() as session, session.get(address, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert len(processes_of(tmp_path)) == 3
        demo.send_signal(signal.SIGTERM)
        await demo.communicate()

    assert demo.returncode == 0
    assert processes_of(tmp_path) == []


async def starts(command: list[str]) -> None:
    """The gang that a command makes, as it is printed, gets its nodes."""
    if shutil.which(command[0]) is None:
        return
    wait = ["wait", "-n", "team-a", "podgroup/trio", "--for=condition=Scheduled", "--timeout=300s"]
    for one in (command, [*command[: command.index("apply")], *wait]):
        process = await asyncio.create_subprocess_exec(*one, cwd=ROOT, stdout=PIPE, stderr=STDOUT)
        out, _ = await process.communicate()
        assert process.returncode == 0, out.decode()


def logs_in(directory: Path) -> list[str]:
    return [f"{log.name}:\n{tail(log, 60)}" for log in directory.glob("*/*.log")]


def left_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def processes_of(directory: Path) -> list[str]:
    """The processes that were given a path in this directory, by /proc."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has just ended
        if str(directory) in line:
            lines.append(line)
    return lines
