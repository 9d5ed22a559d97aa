"""`tutti migrate`: manifests of other schedulers, rewritten for this one."""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import click

from tutti.cli.grouping import CommandGroup
from tutti.cli.migrate.kueue.jobs import Run
from tutti.cli.migrate.kueue.rewriting import rewrite
from tutti.cli.migrate.report import ReportEntry, losses, report_json, report_text
from tutti.cli.migrate.streams import documents, migrate

STDIN = "-"


@click.group(name="migrate", cls=CommandGroup)
def command() -> None:
    """Rewrite manifests of other schedulers for this one."""


@command.command(name="kueue")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "-d", "--directory", type=click.Path(path_type=Path, file_okay=False), help="Write each file there, not to stdout."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How the report looks.")
@click.option("--strict", is_flag=True, help="Exit with 1 where anything is lost or changes its meaning.")
@click.option("--scheduler-name", default="tutti", show_default=True, help="The schedulerName that pods are given.")
def kueue(files: tuple[str, ...], directory: Path | None, output: str, *, strict: bool, scheduler_name: str) -> None:
    """Rewrite Kueue's manifests in FILES (- for stdin): queues, flavors, and the jobs that wait in them.

    Comments and order are kept. The report on stderr says of each field what is lost or means something else, and what
    to do. Migrating what has been migrated changes nothing.
    """
    targets = _targets(files, directory)
    run = Run(scheduler=scheduler_name)
    entries: list[ReportEntry] = []
    passed: list[str] = []
    texts = []
    given = [_read(file) for file in files]
    for one in (one for text in given for one in documents(text)):
        run.queues.add(one)
        run.provisioning.add(one)
    for file, text in zip(files, given, strict=True):
        done = migrate(text, file, partial(rewrite, run=run))
        texts.append(done.text)
        entries += done.entries
        passed += done.passed
    if targets:
        for target, text in zip(targets, texts, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    else:
        click.echo(_joined(texts), nl=False)
    if output == "json":
        click.echo(json.dumps(report_json(entries, passed), indent=2), err=True)
    else:
        click.echo("\n".join(report_text(entries, passed)), err=True)
    sys.exit(1 if strict and losses(entries) else 0)


def _targets(files: tuple[str, ...], directory: Path | None) -> list[Path]:
    """Where each file is written; none for stdout.

    Raises:
        click.BadParameter: Two files would be written to one.
    """
    if directory is None:
        return []
    names = ["stdin.yaml" if file == STDIN else Path(file).name for file in files]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise click.BadParameter(f"more than one file is called {', '.join(twice)}: migrate them one by one")
    return [directory / name for name in names]


def _read(file: str) -> str:
    """The text of a file.

    Raises:
        click.ClickException: It is no text.
    """
    try:
        with click.open_file(file, encoding="utf-8") as stream:
            text: str = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file} cannot be read: {error}") from None
    return text


def _joined(texts: list[str]) -> str:
    """Several streams as one."""
    out = ""
    for text in texts:
        if out and not out.endswith("\n"):
            out += "\n"
        out += ("---\n" if out and text.strip() and not text.lstrip().startswith("---") else "") + text
    return out
