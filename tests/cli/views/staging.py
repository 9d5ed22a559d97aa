"""The scene on an embedded cluster in a thread of its own, so that commands can be called as users call them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner, Result
from rich.console import Console

from tests.cli.views import scene
from tutti.api.crds import crd
from tutti.api.kinds import KINDS
from tutti.cli.main import cli
from tutti.controller.crds import CRDS
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti_sim.cluster import EmbeddedCluster
from tutti_sim.faults.rules import Faults
from tutti_sim.meta.clock import skewed

AGE_SECONDS = 5.5 * 3600
"""How old everything in the scene is; such ages are told in hours, so it looks the same for half an hour."""


@contextmanager
def staged(
    kubeconfig: Path, made: list[scene.Json] | None = None, *, kinds: bool = True, faults: Faults | None = None
) -> Iterator[None]:
    """Run a cluster with the scene, or with other objects, on it, and write its kubeconfig.

    Args:
        kubeconfig: The file to write.
        made: What is on it; the scene if not given.
        kinds: Whether the server knows our kinds.
        faults: What goes wrong once all is there.
    """
    ready = False
    up = threading.Event()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def play() -> None:
        nonlocal ready
        with skewed(-AGE_SECONDS):
            async with EmbeddedCluster(nodes=0, controllers=False, seed=1) as cluster:
                await _create(cluster, scene.objects() if made is None else made, kinds=kinds, faults=faults)
                cluster.write_kubeconfig(kubeconfig)
                ready = True
                up.set()
                await over.wait()

    def run() -> None:
        try:
            loop.run_until_complete(play())
        finally:
            up.set()
            loop.close()

    thread = threading.Thread(target=run, name="stage")
    thread.start()
    up.wait()
    try:
        assert ready, "the cluster did not come up"
        yield
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(over.set)
        thread.join()


async def _create(cluster: EmbeddedCluster, made: list[scene.Json], *, kinds: bool, faults: Faults | None) -> None:
    access = Access(cluster.url, headers={"Authorization": f"Bearer {cluster.token}"})
    async with Client(Credentials.fixed(access)) as client:
        for kind in KINDS.values() if kinds else ():
            await client.request("POST", CRDS.path(), body=json.dumps(crd(kind)).encode())
        for one in made:
            await scene.create(client, one)
        if faults is not None:
            body = faults.model_dump_json(by_alias=True, exclude_defaults=True).encode()
            await client.request("PUT", "/_tutti/faults", body=body)


def called(kubeconfig: Path, *arguments: str) -> Result:
    """Call `tutti` with arguments and the scene's kubeconfig, where there is no terminal."""
    given = [*arguments, "--kubeconfig", str(kubeconfig)]
    return CliRunner().invoke(cli, given, catch_exceptions=False, prog_name="tutti")


def on(console: Console, kubeconfig: Path, *arguments: str) -> None:
    """Call `tutti` with arguments and the scene's kubeconfig, on some terminal."""
    cli.main([*arguments, "--kubeconfig", str(kubeconfig)], prog_name="tutti", standalone_mode=False, obj=console)
