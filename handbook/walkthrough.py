"""A page whose shell blocks can be run: each `sh` block, and the `text` block right after it that says what it prints.

All blocks of a page run in one shell, one after the other, so that what one sets or starts is there for the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PATIENCE_SECONDS = 600
_END_OF_GROUP = """
cat > /dev/null  # nothing is written: it ends when the other end of its pipe is closed, or whoever held that is gone
kill -TERM -- "-$1" || exit 0
for _ in {1..50}; do
  kill -0 -- "-$1" || exit 0
  sleep 0.1  # a group has no event that tells of its end
done
kill -KILL -- "-$1"
"""
"""What ends all processes of the group `$1` once its standard input ends, and by force those that do not within 5 s."""
_BLOCK = re.compile(r"^```sh\n(?P<command>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
_CHANGING = (
    (re.compile(r"\b\d+(?:\.\d+)?(?:s|m|m\d+s)(?![\w/])"), "<age>"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "<time>"),
    (re.compile(r"(?<=\d)-[a-z0-9]{5}\b"), "-<random>"),
    (re.compile(r"[ \t]+"), " "),
)


class StepFailed(Exception):  # noqa: N818 - it is what happened
    """A block that ended with another code than 0, or not at all."""


@dataclass(frozen=True, slots=True)
class Step:
    """A block to run, and what the page says that it prints; None where the page says nothing."""

    command: str
    output: str | None


def steps(page: str) -> list[Step]:
    """The shell blocks of a page, in order."""
    return [Step(found["command"], found["output"]) for found in _BLOCK.finditer(page)]


def rewritten(page: str, outputs: list[str]) -> str:
    """The page with what was printed in place of what it says; blocks that say nothing stay silent."""
    printed = iter(outputs)

    def put(found: re.Match[str]) -> str:
        new = next(printed)
        if found["output"] is None or timeless(new) == timeless(found["output"]):
            return found[0]
        return f"```sh\n{found['command']}```\n\n```text\n{new}```\n"

    return _BLOCK.sub(put, page)


def timeless(text: str) -> str:
    """The text without what differs from run to run: ages, times, ends of names, and the widths they cause."""
    for pattern, instead in _CHANGING:
        text = pattern.sub(instead, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


class Shell:
    """A bash that is given one block after the other, and ends a block at its first command that fails."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def run(self, command: str) -> str:
        """What a block has printed, on both channels.

        Raises:
            StepFailed: A command failed, or the block did not end in time.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        end = secrets.token_hex(8)
        self._process.stdin.write(f"{command}\nprintf '{end}\\n'\n".encode())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                said = await self._process.stdout.readuntil(f"{end}\n".encode())
        except asyncio.IncompleteReadError as error:
            raise StepFailed(f"failed:\n{command}\nit said:\n{error.partial.decode()}") from None
        except TimeoutError:
            raise StepFailed(f"did not end within {PATIENCE_SECONDS} seconds:\n{command}") from None
        return said.decode().removesuffix(f"{end}\n")


@contextlib.asynccontextmanager
async def shell(folder: Path, environment: Mapping[str, str]) -> AsyncIterator[Shell]:
    """A shell in a folder, with variables beside ours; whatever it has started ends with it, or with us.

    A block may wait in a loop, or have started a cluster. A process beside it ends all that, as soon as we let go of a
    pipe; so it also does where we are killed and can end nothing.
    """
    process = await asyncio.create_subprocess_exec(
        "bash", "--noprofile", "--norc", "-euo", "pipefail",
        cwd=folder, env={**os.environ, **environment}, start_new_session=True, limit=2**20,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    ending = await asyncio.create_subprocess_exec(
        "bash", "-c", _END_OF_GROUP, "bash", str(process.pid), start_new_session=True,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert ending.stdin is not None
    try:
        yield Shell(process)
    finally:
        ending.stdin.close()
        await asyncio.gather(ending.wait(), process.wait())
