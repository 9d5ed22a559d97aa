"""The process beside the operator: started, kept up and ended by it; and `tutti ui`, as somebody calls it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
from contextlib import asynccontextmanager

import aiohttp
from click.testing import CliRunner

from tests.cli.views import scene
from tests.controller.process import PATIENCE, operator
from tutti.api.configuration import TuttiConfiguration, load_configuration
from tutti.api.crds import crd
from tutti.api.kinds import KINDS
from tutti.cli.main import cli
from tutti.controller.discovery import CRDS
from tutti.controller.web_view import web_view
from tutti.kube.client import Client
from tutti.kube.credentials import Access, Credentials
from tutti_sim.cluster import EmbeddedCluster


@asynccontextmanager
async def cluster(path):
    async with EmbeddedCluster(nodes=1, controllers=False) as one:
        async with Client(
            Credentials.fixed(Access(one.url, headers={"Authorization": f"Bearer {one.token}"}))
        ) as client:
            for kind in KINDS.values():
                await client.request("POST", CRDS.path(), body=json.dumps(crd(kind)).encode())
            for made in scene.objects():
                await scene.create(client, made)
        one.write_kubeconfig(path)
        yield one


async def test_the_operator_serves_pages_and_begins_anew_where_their_process_ends(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with cluster(kubeconfig) as one, aiohttp.ClientSession() as session:
        async with operator(kubeconfig, tmp_path, ui={"bindAddress": "127.0.0.1:0"}) as running:
            port = (await running.says("serving_pages"))["port"]
            bearer = {"Authorization": f"Bearer {one.token}"}
            async with session.get(f"https://127.0.0.1:{port}/nodes", ssl=trusting, headers=bearer) as answer:
                assert (answer.status, "Skip to the page" in await answer.text()) == (200, True)
            async with session.get(f"https://127.0.0.1:{port}/nodes", ssl=trusting, allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, "/login?next=%2Fnodes")

            (child,) = _children(running.process.pid)
            os.kill(child, signal.SIGKILL)
            said = await running.says("part_failed", part="web view")
            assert "exit code -9" in said["error"]
            async with asyncio.timeout(PATIENCE):
                while len(running.said("serving_pages")) < 2:  # noqa: ASYNC110 - another process writes its log
                    await asyncio.sleep(0.05)
            (again,) = _children(running.process.pid)
            assert (await running.ask("/readyz"))[0] == 200
            running.process.kill()
            await running.ends()
        async with asyncio.timeout(PATIENCE):
            while _is_there(again):  # noqa: ASYNC110 - it is nobody's child any more
                await asyncio.sleep(0.05)

        assert one.token not in str(running.lines)


def _children(of: int) -> list[int]:
    with open(f"/proc/{of}/task/{of}/children") as found:  # noqa: PTH123
        return [int(word) for word in found.read().split()]


def _is_there(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as found:  # noqa: PTH123
            return found.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_the_first_line_of_tutti_ui_is_the_address(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    # Without a name, as here, a jar keeps cookies only if it is told to.
    async with cluster(kubeconfig), aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        command = ["-m", "tutti", "ui", "--kubeconfig", str(kubeconfig), "--no-browser"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        address = (await process.stdout.readline()).decode().strip()
        assert address.startswith("http://127.0.0.1:")
        async with session.get(address) as answer:
            assert answer.status == 200
            assert str(answer.url).endswith("/")
        async with session.get(f"{address.partition('?')[0]}stream?page=/queue/vision") as answer:
            line = b""
            while not line.startswith(b"data: "):
                line = await answer.content.readline()
        assert json.loads(line[6:])["title"] == "Queue vision"
        process.send_signal(signal.SIGINT)
        rest, errors = await process.communicate()

    assert (process.returncode, rest, errors) == (0, b"", b"")


def test_tutti_ui_says_why_it_cannot(tmp_path):
    answer = CliRunner().invoke(cli, ["ui", "--kubeconfig", str(tmp_path / "none"), "--no-browser"], prog_name="tutti")

    assert answer.exit_code == 2
    assert answer.output.startswith("tutti ui: ")
    assert answer.output.count("\n") == 1


def test_the_process_is_told_the_whole_configuration():
    given = load_configuration("requireQueue: true\nui: {hosts: [tutti.example]}\nprofiles: [{schedulerName: ours}]\n")
    part = web_view(given, None, None)
    said = given.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    assert part.name == "web view"
    assert TuttiConfiguration.model_validate(said) == given
