"""A real Prometheus for the time of a scene: it scrapes, and says what expressions came to (`make promtool`)."""

from __future__ import annotations

import math
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml

from e2e.harness.processes import free_port
from tutti_sim.children import Child, Children

FETCHED = Path(__file__).parents[1] / "build" / "prometheus" / "usr" / "bin"
"""Where `make promtool` puts the programs of Debian's package."""


@dataclass(frozen=True)
class Series:
    """What one series was at each second asked for; None where it was not, or was no number."""

    labels: dict[str, str]
    values: tuple[float | None, ...]


def program(name: str) -> str | None:
    """Where `prometheus` or `promtool` is; None if nowhere."""
    return shutil.which(name) or shutil.which(name, path=FETCHED)


@dataclass(frozen=True)
class Prometheus:
    """One that runs."""

    address: str
    session: aiohttp.ClientSession

    async def asked(self, expression: str, start: float, end: float) -> list[Series]:
        """What an expression was at each second from a time to another, Unix seconds."""
        query = {"query": expression, "start": f"{start}", "end": f"{end}", "step": "1"}
        async with self.session.get(f"http://{self.address}/api/v1/query_range", params=query) as answer:
            said = await answer.json()
        if said["status"] != "success":
            raise ValueError(f"{expression}: {said['error']}")
        return [_series(one["metric"], one["values"], start, end) for one in said["data"]["result"]]


def _series(labels: dict[str, str], found: list[tuple[float, str]], start: float, end: float) -> Series:
    values: list[float | None] = [None] * (int(end - start) + 1)
    for at, text in found:
        values[round(at - start)] = None if math.isnan(float(text)) else float(text)
    return Series(labels, tuple(values))


@asynccontextmanager
async def scraping(port: int, directory: Path, children: Children) -> AsyncIterator[Prometheus]:
    """Start one that reads /metrics at a port of this machine once a second.

    Raises:
        FileNotFoundError: There is no prometheus on this machine.
    """
    path = program("prometheus")
    if path is None:
        raise FileNotFoundError("there is no prometheus on this machine: `make promtool` fetches it")
    job = {"job_name": "tutti", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
    told = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [job]}
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    files = (f"--config.file={directory}/prometheus.yaml", f"--storage.tsdb.path={directory}/prometheus")
    child = Child("prometheus", (path, *files, f"--web.listen-address={address}"), directory / "prometheus.log")
    children.adopt(child)
    await child.start()
    async with aiohttp.ClientSession() as session:
        yield Prometheus(address, session)
