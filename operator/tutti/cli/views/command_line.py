"""What all views share on the command line: how to reach the cluster, how to write the answer, and how errors end.

And names of objects of the cluster that the command line so far leads to, for the shell to complete.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem
from rich.console import Console, RenderableType

from tutti.api.messages import listed
from tutti.api.problems import ConfigurationError
from tutti.cli.run import GC_THRESHOLDS
from tutti.cli.terminal import Terminal, echo
from tutti.cli.views.configuration import KnownConfiguration, configuration_in, given_configuration
from tutti.cli.views.drawing import WIDE, PageWidth
from tutti.cli.views.listing import list_cluster
from tutti.cli.views.what_if import ObservedCluster
from tutti.controller import logs
from tutti.controller.discovery import OUR_RESOURCES
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials, CredentialsError
from tutti.kube.decoding import read_meta
from tutti.kube.errors import ApiError, WireError
from tutti.kube.fetching import ListScope, fetch_all
from tutti.kube.resources import NODES, APIResource

_PATIENCE_SECONDS = 3.0
"""A shell that waits longer seems to hang."""
_NAMED = 20
"""How many names an error has of those that there are."""

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


F = TypeVar("F", bound=Callable[..., Any])

NO = 1
"""Exit code of an answer that is no: there is no such thing, or it would not go well."""
USAGE = 2
"""Exit code of what the caller has to mend, as click's own."""
_PATH = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """How to reach the cluster and how to answer, as the command line says.

    Whoever calls a command may give it a Console to draw on, as the object of click's context.
    """

    kubeconfig: Path | None
    context: str | None
    config: Path | None
    output: str

    def ask(self, namespace: str | None = None) -> ObservedCluster:
        """List the cluster; ends the process with one line where that cannot be done.

        Where the caller may not list a kind in all namespaces, it is listed in this one, or that of the context.
        """
        ((_, found),) = self.ask_each((self.context,), namespace)
        if isinstance(found, str):
            fail(found)
        for one in found.listed.unreadable:
            echo(f"left out, as it cannot be read: {one}", err=True)
        return found

    def ask_each(
        self, contexts: Sequence[str | None], namespace: str | None = None
    ) -> list[tuple[str, ObservedCluster | str]]:
        """List the clusters of several contexts at once; of one of which that cannot be done, say why.

        Args:
            contexts: Their names; None: the current one.
            namespace: As with `ask`.
        """
        logs.configure("console", level="error")
        given = None if self.config is None else read_configuration(self.config)

        async def observed(context: str | None) -> ObservedCluster | str:
            """List one cluster; returns why that cannot be done."""
            try:
                known = given or await self._known(context)
                found = await list_cluster(self.kubeconfig, context, known.configuration, namespace)
            except (CredentialsError, WireError) as error:
                return error.message if isinstance(error, ApiError) else str(error)
            if not found.missing:
                return ObservedCluster(found, time.time(), known.configuration, known.plugins, known.assumed)
            unknown = "any of Tutti's kinds" if len(found.missing) == len(OUR_RESOURCES) else ", ".join(found.missing)
            return f"the server does not know {unknown}: install Tutti's CRDs (kubectl apply -k crds)"

        async def all_observed() -> list[ObservedCluster | str]:
            """List all of them at once."""
            return await asyncio.gather(*map(observed, contexts))

        answers = asyncio.run(all_observed())
        return [(context or "", one) for context, one in zip(contexts, answers, strict=True)]

    async def _known(self, context: str | None) -> KnownConfiguration:
        """Return by which configuration the operator of a context's cluster decides, as far as that can be read."""
        async with Client(await Credentials.load(self.kubeconfig, context)) as client:
            return await configuration_in(client)

    def lacks(self, asked: ObservedCluster) -> str:
        """Return why no answer can be worked out, or "": what could not be listed without which it would be wrong."""
        refused = asked.listed.refused
        needed = ("pods", "nodes", *(resource.label for resource in OUR_RESOURCES.values()))
        wanting = [label for label in needed if label in refused]
        if not wanting:
            return ""
        return f"you may not list {', '.join(wanting)} in all namespaces ({refused[wanting[0]]})"

    def require(self, asked: ObservedCluster) -> None:
        """End the process where what could be listed gives no answer; tell what else is missing from it."""
        lacking = self.lacks(asked)
        if lacking:
            fail(f"{lacking}; an administrator can let you: see manifests/viewer.yaml")
        for label, message in asked.listed.refused.items():
            echo(f"left out, as it may not be listed: {label} ({message})", err=True)

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """Say on a terminal, as long as this takes, what is being done; next to the answer, not in it."""
        with (
            Terminal(stderr=True, highlight=False).status(doing, spinner="dots")
            if sys.stderr.isatty()
            else nullcontext()
        ):
            yield

    def show(self, answer: msgspec.Struct | list[Any], drawn: Callable[[PageWidth], RenderableType]) -> None:
        """Write an answer: as JSON, or drawn for a terminal, or the same as plain text where there is none."""
        if self.output == "json":
            click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
            return
        console = click.get_current_context().find_object(Console) or Terminal(highlight=False)
        if console.is_terminal:
            console.print(drawn(PageWidth(console.width)))
        else:
            click.echo(plain(drawn(WIDE)), nl=False)


def view(function: F) -> F:
    """Give a command the options that say how to reach the cluster and how to answer, handed over as `ViewOptions`."""

    @click.option("--kubeconfig", type=_PATH, help="File that says how to reach the cluster.")
    @click.option("--context", help="Context of the kubeconfig; its current one if not given.")
    @click.option(
        "--config", type=_PATH, help="The operator's TuttiConfiguration; that of its Deployment if not given."
    )
    @click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How the answer is written; in JSON cpu is in milli-cores and memory in bytes.",
    )
    @wraps(function)
    def wrapped(
        *, kubeconfig: Path | None, context: str | None, config: Path | None, output: str, **options: Any
    ) -> Any:
        gc.set_threshold(*GC_THRESHOLDS)  # what is read lives until the answer is there
        return function(ViewOptions(kubeconfig, context, config, output), **options)

    return wrapped  # type: ignore[return-value]  # click replaces the first parameter


def plain(drawn: RenderableType) -> str:
    """Return what is drawn as text without colours; no line is cut, and none ends in spaces."""
    console = Terminal(width=WIDE.width, color_system=None, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def fail(message: str, code: int = USAGE) -> NoReturn:
    """End with one line that says what is wrong."""
    context = click.get_current_context()
    echo(f"{context.command_path}: {message}", err=True)
    context.exit(code)


def there_are(known: Collection[str]) -> str:
    """Return what there is of which something else was asked for: the first by name, and how many more."""
    return listed(sorted(known), len(known), _NAMED) or "none"


def read_manifest(filename: str) -> str:
    """Return the text of a file that is named on the command line, or of stdin (-); ends where it cannot be read."""
    try:
        with click.open_file(filename, encoding="utf-8") as stream:
            text: str = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{filename} cannot be read: {error}")
    return text


def read_configuration(file: Path) -> KnownConfiguration:
    """Return the configuration that a file holds; ends with one line where it holds none, or cannot be read."""
    try:
        return given_configuration(file.read_text("utf-8"), str(file))
    except ConfigurationError as error:
        fail(f"configuration {error}")
    except OSError as error:
        fail(f"configuration {file} cannot be read: {error.strerror}")
