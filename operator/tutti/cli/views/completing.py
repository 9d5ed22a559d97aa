"""Names for the shell to complete: objects of the cluster that the command line so far leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from tutti.controller import logs
from tutti.controller.discovery import OUR_RESOURCES
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials, CredentialsError
from tutti.kube.decoding import read_meta
from tutti.kube.errors import WireError
from tutti.kube.fetching import ListScope, fetch_all
from tutti.kube.resources import NODES, APIResource

_PATIENCE_SECONDS = 3.0
"""A shell that waits longer seems to hang."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names(*kinds: str) -> Complete:
    """Return what completes the name of a Node or of an object of ours; with its namespace, where it has one."""
    resources = [NODES if kind == "Node" else OUR_RESOURCES[kind] for kind in kinds]

    def complete(ctx: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
        logs.configure("console", level="critical")
        kubeconfig = ctx.params.get("kubeconfig")
        try:
            found = asyncio.run(_names(kubeconfig, ctx.params.get("context"), resources))
        except (CredentialsError, WireError):
            return []  # the command itself will say what is wrong; a completion has nowhere to
        return [CompletionItem(name) for name in found if name.startswith(begun)]

    return complete


async def _names(kubeconfig: Path | None, context: str | None, resources: Sequence[APIResource]) -> list[str]:
    credentials = await Credentials.load(kubeconfig, context)
    found: list[str] = []
    async with Client(credentials, timeout_seconds=_PATIENCE_SECONDS) as client:
        for resource in resources:
            metas = (read_meta(raw) for raw in await fetch_all(client, ListScope(resource.path())))
            found += [f"{meta.namespace}/{meta.name}".lstrip("/") for meta in metas if meta is not None]
    return sorted(dict.fromkeys(found))
