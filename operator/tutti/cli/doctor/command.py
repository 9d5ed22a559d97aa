"""`tutti doctor`: look for what goes wrong when Tutti is installed, and say what would put it right."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType

import click
import msgspec
from rich.console import RenderableType
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

from tutti.cli.doctor.findings import CheckUp, Finding, FindingVerdict, check_up, unknown
from tutti.cli.doctor.installation import kinds_check, operator_check, server_check, webhooks_check
from tutti.cli.doctor.labels import labels_check
from tutti.cli.doctor.reading import Patient
from tutti.cli.doctor.rights import rights_check
from tutti.cli.doctor.shards import shards_check
from tutti.cli.doctor.surroundings import clocks_check, metrics_check, queues_check, schedulers_check
from tutti.cli.terminal import Terminal
from tutti.cli.views.command_line import NO, fail, plain
from tutti.cli.views.configuration import DEPLOYMENT, NAMESPACE
from tutti.cli.views.drawing import BAD, GOOD, QUIET, WAITS
from tutti.controller import logs
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials, CredentialsError
from tutti.kube.errors import ApiError, WireError

DoctorCheck = Callable[[Patient], AsyncIterator[Finding]]
CHECKS: Mapping[str, DoctorCheck] = MappingProxyType(
    {
        "server": server_check,
        "kinds": kinds_check,
        "operator": operator_check,
        "rights": rights_check,
        "webhooks": webhooks_check,
        "clocks": clocks_check,
        "schedulers": schedulers_check,
        "labels": labels_check,
        "metrics": metrics_check,
        "queues": queues_check,
        "shards": shards_check,
    }
)
"""What is looked at, in this order: what others depend on comes first."""
_PATH = click.Path(path_type=Path, dir_okay=False)


async def examined(patient: Patient) -> CheckUp:
    """Look at everything; what may not be read is said to be unknown, and the rest goes on.

    Raises:
        WireError: The server does not answer, or knows nobody by these credentials.
    """
    findings: list[Finding] = []
    for name, check in CHECKS.items():
        try:
            findings += [finding async for finding in check(patient)]
        except ApiError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise
            findings.append(unknown(name, f"it cannot be looked at: {error.message}", "ask somebody who may read it"))
    return check_up(findings)


@click.command("doctor")
@click.option("--kubeconfig", type=_PATH, help="File that says how to reach the cluster.")
@click.option("--context", help="Context of the kubeconfig; its current one if not given.")
@click.option("-n", "--namespace", default=NAMESPACE, show_default=True, help="Where the operator is.")
@click.option("--name", default=DEPLOYMENT, show_default=True, help="The name of its Deployment.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How it is written."
)
def command(*, kubeconfig: Path | None, context: str | None, namespace: str, name: str, output: str) -> None:
    """Look for what goes wrong when Tutti is installed: kinds, rights, webhooks, clocks, other schedulers, figures.

    Each finding has a remedy. Nothing is written: one creation is tried and not kept (dry run). Exits 0 where nothing
    is bad, 1 where something is, 2 where the cluster cannot be asked.
    """
    logs.configure("console", level="error")
    try:
        found = asyncio.run(_examined(kubeconfig, context, namespace, name))
    except CredentialsError as error:
        fail(str(error))
    except WireError as error:
        fail(str(error))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        console = Terminal(highlight=False)
        drawn = draw_findings(found.findings)
        if console.is_terminal:
            console.print(drawn)
        else:
            click.echo(plain(drawn), nl=False)
    click.get_current_context().exit(0 if found.ok else NO)


async def _examined(kubeconfig: Path | None, context: str | None, namespace: str, name: str) -> CheckUp:
    credentials = await Credentials.load(kubeconfig, context)
    async with Client(credentials) as client:
        return await examined(Patient(client, credentials, namespace, name, time.time))


_MARKS: Mapping[FindingVerdict, tuple[str, str]] = MappingProxyType(
    {
        FindingVerdict.GOOD: ("✓", GOOD),
        FindingVerdict.WARNING: ("!", WAITS),
        FindingVerdict.BAD: ("✗", BAD),
        FindingVerdict.UNKNOWN: ("?", QUIET),
    }
)
_READABLE = 120
"""Columns of a line at most: what is found is said in sentences, and those are broken in files, too."""


def draw_findings(findings: Sequence[Finding]) -> RenderableType:
    """Draw findings, each with what would put it right below it, after an arrow."""
    drawn = Table.grid(padding=(0, 1))
    for one in findings:
        mark, style = _MARKS[one.verdict]
        said = Text(one.message, overflow="fold")
        if one.remedy:
            said = Text.assemble(said, "\n", (f"→ {one.remedy}", QUIET), overflow="fold")
        drawn.add_row(Text(mark, style), one.check, said)
    return Constrain(drawn, _READABLE)
