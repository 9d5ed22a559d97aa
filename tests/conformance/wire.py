"""Requests and watches over HTTP, as the steps of a case describe them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import aiohttp

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: Any
    text: str


class Wire:
    """Sends requests to one server with one token."""

    def __init__(self, session: aiohttp.ClientSession, base: str, token: str) -> None:
        self.session = session
        self.base = base
        self._token = token

    def options(self, step: dict[str, Any], method: str) -> dict[str, Any]:
        """Arguments of the HTTP client for a step."""
        headers = {"Accept": "application/json"}
        auth = step.get("auth", self._token)
        if auth != "none":
            headers["Authorization"] = f"Bearer {auth}"
        data = None
        if "raw" in step or "body" in step:
            data = step["raw"].encode() if "raw" in step else json.dumps(step["body"]).encode()
            patch = method == "PATCH" and "raw" not in step
            headers["Content-Type"] = "application/merge-patch+json" if patch else "application/json"
        for name, value in (step.get("headers") or {}).items():
            headers = {key: one for key, one in headers.items() if key.lower() != name.lower()}
            if value is not None:
                headers[name] = str(value)
        query = [
            (name, {True: "true", False: "false"}.get(one, str(one)) if isinstance(one, bool) else str(one))
            for name, value in (step.get("query") or {}).items()
            for one in (value if isinstance(value, list) else [value])
        ]
        given = any(name.lower() == "content-type" for name in headers)
        return {
            "data": data,
            "headers": headers,
            "params": query,
            "skip_auto_headers": [] if given else ["Content-Type"],
            "allow_redirects": False,
        }

    async def send(self, step: dict[str, Any], method: str, path: str) -> Answer:
        """Send a request and read the whole answer."""
        timeout = aiohttp.ClientTimeout(total=step.get("timeout", 90))
        async with self.session.request(method, self.base + path, timeout=timeout, **self.options(step, method)) as got:
            return Answer(got.status, got.headers, (await got.read()).decode("utf-8", "replace"))


@dataclass
class Watch:
    """A watch that collects events until it is stopped."""

    wire: Wire
    step: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)
    answer: Answer | None = None
    closed: bool = False
    error: Exception | None = None
    began: float = 0.0
    ended: float | None = None

    def start(self) -> None:
        self._opened, self._changed = asyncio.Event(), asyncio.Event()
        self.began = asyncio.get_running_loop().time()
        self._task = asyncio.create_task(self._pump())

    async def opened(self) -> None:
        async with asyncio.timeout(90):
            await self._opened.wait()

    async def _pump(self) -> None:
        step = {**self.step, "query": {"watch": "true", **(self.step.get("query") or {})}}
        try:
            url = self.wire.base + self.step["watch"]
            async with self.wire.session.get(url, **self.wire.options(step, "GET")) as got:
                self.answer = Answer(got.status, got.headers, "")
                if got.status != 200:
                    self.answer.text = (await got.read()).decode("utf-8", "replace")
                self._opened.set()
                await self._read(got)
                self.closed = True
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self.error = error
        finally:
            self.ended = asyncio.get_running_loop().time()
            self._opened.set()
            self._changed.set()

    async def _read(self, got: aiohttp.ClientResponse) -> None:
        pending = b""
        async for chunk in got.content.iter_any():
            *lines, pending = (pending + chunk).split(b"\n")
            self.events.extend(json.loads(line) for line in lines if line.strip())
            self._changed.set()

    async def collect(self, count: int | None, seconds: float, settle: float) -> None:
        """Until there are so many events or the time is over, and then a little longer to catch events too many."""
        try:
            async with asyncio.timeout(seconds):
                while self.ended is None and (count is None or len(self.events) < count):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        if settle and self.ended is None:
            await asyncio.sleep(settle)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
