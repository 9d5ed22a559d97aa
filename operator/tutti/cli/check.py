"""`tutti check`: read a configuration as `tutti run` will, before it has to.

A running operator has read its file at its start; a mistake in it is met at the next one, which nobody chooses.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from tutti.api.configuration import ConfigurationError
from tutti.api.configuration import load_configuration as read
from tutti.api.problems import FieldProblem
from tutti.cli.terminal import echo
from tutti.controller.plugins import load_plugins

_USAGE = 2
"""Exit code of what the caller has to mend, as click's own."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(file: Path, output: str) -> None:
    """Read FILE, a TuttiConfiguration, and say what is wrong with it, as `tutti run --config FILE` would.

    Exits 0 where the operator can be started with it, 2 where it cannot. The plugins that it enables are loaded, so
    they must be installed here as they are there. What it says is not compared with any cluster.
    """
    wrong, problems = _refused(file)
    if output == "json":
        found = [{"path": one.path, "message": one.message} for one in problems]
        click.echo(json.dumps({"file": str(file), "ok": not problems, "problems": found}, indent=2))
    elif problems:
        echo(f"tutti check: configuration {wrong}", err=True)
    else:
        echo(f"configuration {file}: the operator can be started with it; one that runs has to be started anew")
    sys.exit(_USAGE if problems else 0)


def _refused(file: Path) -> tuple[str, list[FieldProblem]]:
    """Return why an operator would not start with a file, in one line and one by one; nothing where it would."""
    try:
        load_plugins(read(file.read_text("utf-8"), str(file)))
    except ConfigurationError as error:
        return str(error), error.problems
    except OSError as error:
        return f"{file} cannot be read: {error.strerror}", [FieldProblem("", f"cannot be read: {error.strerror}")]
    except UnicodeDecodeError as error:
        return f"{file}: {error}", [FieldProblem("", str(error))]
    return "", []
