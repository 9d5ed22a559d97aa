"""Keeps up the process that serves the web view beside the operator, where that is configured.

It is a process of its own: what pages cost, in processor time, memory or faults, is not the scheduler's. It ends with
this one, for its stdin ends then.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from tutti.api.configuration import TuttiConfiguration
from tutti.controller.supervision import Restartable

_MODULE: Final = "tutti.web.beside"
_GRACE_SECONDS: Final = 5.0


class WebViewTask(msgspec.Struct, frozen=True):
    """What that process is told, on its stdin.

    Attributes:
        kubeconfig, context: As the operator was started with; "" for neither.
        configuration: The operator's.
    """

    kubeconfig: str
    context: str
    configuration: dict[str, Any]
    log_format: Literal["json", "console"] = "json"
    log_level: str = "info"


def web_view(configuration: TuttiConfiguration, kubeconfig: Path | None, context: str | None) -> Restartable:
    """Return the part that serves pages; without it, everything else goes on."""
    task = WebViewTask(
        str(kubeconfig) if kubeconfig else "",
        context or "",
        configuration.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        configuration.logging.format,
        configuration.logging.level,
    )

    async def work() -> None:
        """Start the process, and wait for its end."""
        # It loads nothing that stands beside the script, and logs where this process does.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", _MODULE, stdin=asyncio.subprocess.PIPE, env=dict(os.environ)
        )
        assert process.stdin is not None  # it was started with a pipe
        try:
            process.stdin.write(msgspec.json.encode(task) + b"\n")
            await process.stdin.drain()
            code = await process.wait()
            raise WebViewEnded(f"the process that serves pages has ended with exit code {code}; its log lines say why")
        finally:
            process.stdin.close()
            if process.returncode is None:
                process.terminate()
                try:
                    async with asyncio.timeout(_GRACE_SECONDS):
                        await process.wait()
                except TimeoutError:
                    process.kill()

    return Restartable("web view", work)


class WebViewEnded(Exception):  # noqa: N818 - it says what has happened
    """The process has ended though nobody asked it to."""
