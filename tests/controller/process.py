"""The operator as a user runs it: a process of its own, known by what it logs, serves and ends with."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

from e2e.harness.replica import OperatorProcess
from tutti.kube.client import MERGE_PATCH, Client
from tutti.kube.errors import ApiError
from tutti.kube.resources import APIResource
from tutti.kube.retry import retrying

ROOT = Path(__file__).parents[2]
API = "scheduling.tutti.dev/v1alpha1"
PATIENCE = 300
LONGEST_LINE = 1 << 20
CRDS = APIResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
# Elections that a test can wait for, and that nobody loses who has to wait for a busy machine.
ELECTION = {"leaseDurationSeconds": 8, "renewDeadlineSeconds": 6, "retryPeriodSeconds": 1}


class Forked:
    """An operator that was forked off a process which has loaded it, as asyncio has processes.

    Attributes:
        stderr: What it says.
    """

    def __init__(self, process: OperatorProcess, stderr: asyncio.StreamReader) -> None:
        self._process, self.stderr = process, stderr

    @classmethod
    async def start(cls, command: Sequence[str]) -> Self:
        """Start one by what follows `python -m tutti`."""
        reading, writing = multiprocessing.Pipe(duplex=False)
        process = OperatorProcess(command, writing)
        stderr = asyncio.StreamReader(limit=LONGEST_LINE)
        with reading:
            pipe = os.fdopen(os.dup(reading.fileno()), "rb")
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stderr), pipe)
        return cls(process, stderr)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()

    def block(self) -> None:
        """Have this loop stand still, with all that runs in it, until the process has ended."""
        self._process.wait()

    async def wait(self) -> int:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        return self._process.wait()


class Operator:
    """A running operator; `lines` is its log so far."""

    def __init__(self, process: Forked | asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._heard = asyncio.Condition()
        self._reader = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for raw in self.process.stderr:
            text = raw.decode()
            line = json.loads(text) if text.startswith("{") else {"event": "", "text": text}
            async with self._heard:
                self.lines.append(line)
                self._heard.notify_all()
        async with self._heard:
            self.lines.append({"event": "ended"})
            self._heard.notify_all()

    def said(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event and fields.items() <= line.items()]

    async def says(self, event: str, **fields: Any) -> dict[str, Any]:
        """Wait for a line of the log."""
        async with asyncio.timeout(PATIENCE), self._heard:
            await self._heard.wait_for(lambda: self.said(event, **fields) or self.said("ended"))
        assert self.said(event, **fields), f"the operator ended without saying {event}: {self.lines[-5:]}"
        return self.said(event, **fields)[0]

    async def ask(self, path: str) -> tuple[int, str]:
        port = (await self.says("started"))["port"]
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, await answer.text()

    async def ends(self) -> int:
        """Wait for the end of the process and return its exit code."""
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
            await self._reader
        return code

    async def stop(self) -> int:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return await self.ends()


@asynccontextmanager
async def operator(kubeconfig: Path, folder: Path, *options: str, python: str = "", **configuration: Any):
    """Run an operator until the block ends; forked, or by a Python, which sees the environment as it is now."""
    file = folder / "configuration.yaml"
    document = {"leaderElection": ELECTION, "metrics": {"bindAddress": "127.0.0.1:0"}, **configuration}
    file.write_text(yaml.safe_dump({"apiVersion": API, "kind": "TuttiConfiguration", **document}))
    command = ["run", "--kubeconfig", str(kubeconfig), "--config", str(file), "--log-format", "json", *options]
    process: Forked | asyncio.subprocess.Process
    if python:
        process = await asyncio.create_subprocess_exec(
            python, "-m", "tutti", *command, stderr=asyncio.subprocess.PIPE, limit=LONGEST_LINE
        )
    else:
        process = await Forked.start(command)
    running = Operator(process)
    try:
        yield running
    except BaseException:
        sys.stderr.write("".join(f"{line}\n" for line in running.lines[-20:]))  # pytest shows it with the failure
        raise
    finally:
        if process.returncode is None:
            process.kill()
        await running.ends()


async def until(condition) -> Any:
    """Ask again and again until the answer is true, and return it; a server has no event for "the status is right"."""
    async with asyncio.timeout(PATIENCE):
        while not (found := await condition()):  # noqa: ASYNC110 - another process decides when
            await asyncio.sleep(0.05)
    return found


class Cluster:
    """Words for what a test does with a cluster."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, resource: APIResource, document: dict[str, Any]) -> dict[str, Any]:
        namespace = document["metadata"].get("namespace")
        body = json.dumps({"apiVersion": resource.api_version, **document}).encode()
        return json.loads(await self.client.request("POST", resource.path(namespace), body=body))

    async def get(self, resource: APIResource, name: str, namespace: str = "") -> dict[str, Any] | None:
        try:
            return json.loads(await self._read(resource.path(namespace, name)))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def list(self, resource: APIResource) -> list[dict[str, Any]]:
        return json.loads(await self._read(resource.path()))["items"]

    async def _read(self, path: str) -> bytes:
        """Read, once more where there was no answer: the server is in this loop, and may get no turn for long."""
        return await retrying(lambda: self.client.request("GET", path))

    async def delete(self, resource: APIResource, name: str, namespace: str = "", **options: Any) -> None:
        body = json.dumps({"apiVersion": "v1", "kind": "DeleteOptions", **options}).encode()
        await self.client.request("DELETE", resource.path(namespace, name), body=body)

    async def patch(self, resource: APIResource, name: str, namespace: str = "", **fields: Any) -> None:
        body = json.dumps(fields).encode()
        path = resource.path(namespace, name)
        await self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def install_crds(self) -> None:
        for file in sorted((ROOT / "crds").glob("scheduling.*.yaml")):
            document = yaml.safe_load(file.read_text())
            await self.create(CRDS, document)

    async def condition(
        self, resource: APIResource, name: str, namespace: str = "", kind: str = "Active"
    ) -> dict[str, Any]:
        found = await self.get(resource, name, namespace) or {}
        conditions = found.get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), {})
