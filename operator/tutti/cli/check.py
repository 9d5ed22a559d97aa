"""`tutti check`: read a configuration as `tutti run` will, before it has to.

A running operator has read its file at its start; a mistake in it is met at the next one, which nobody chooses.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from tutti.api.configuration import load_configuration as read
from tutti.api.frameworks import KNOWN_KINDS, FrameworkKind
from tutti.api.problems import ConfigurationError, FieldProblem
from tutti.cli.terminal import echo
from tutti.controller.plugins import load_plugins, unread_policies

_USAGE = 2
"""Exit code of what the caller has to mend, as click's own."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(file: Path, output: str) -> None:
    """Read FILE, a TuttiConfiguration, and say what is wrong with it, as `tutti run --config FILE` would.

    Exits 0 where the operator can be started with it, 2 where it cannot. The plugins that it enables are loaded, so
    they must be installed here as they are there; a learned policy that cannot be used is a warning only. What it says
    is not compared with any cluster. Of kinds that it describes under `frameworks` it says which rights the operator
    needs besides those of its own manifests.
    """
    done = _checked(file)
    if output == "json":
        found = [{"path": one.path, "message": one.message} for one in done.problems]
        said = {"file": str(file), "ok": not done.problems, "problems": found, "rules": done.rules}
        said["warnings"] = list(done.warnings)
        click.echo(json.dumps(said, indent=2))
    elif done.problems:
        echo(f"tutti check: configuration {done.wrong}", err=True)
    else:
        echo(f"configuration {file}: the operator can be started with it; one that runs has to be started anew")
        for warning in done.warnings:
            echo(f"warning: {warning}", err=True)
        for rule in done.rules:
            what = ", ".join(rule["resources"])
            echo(f"frameworks: the operator has to list and watch {what} of {rule['apiGroups'][0]}; give it this rule:")
            echo(f"  {json.dumps(rule)}")
    sys.exit(_USAGE if done.problems else 0)


class _Checked(NamedTuple):
    """What there is to say of a file.

    Attributes:
        wrong: Why an operator would not start with it, in one line; "": it would.
        problems: The same one by one.
        rules: The rules of RBAC that the operator needs for it and that its manifests do not have.
        warnings: What it would do without.
    """

    wrong: str = ""
    problems: Sequence[FieldProblem] = ()
    rules: Sequence[dict[str, list[str]]] = ()
    warnings: Sequence[str] = ()


def _checked(file: Path) -> _Checked:
    try:
        configuration = read(file.read_text("utf-8"), str(file))
        plugins = load_plugins(configuration)
    except ConfigurationError as error:
        return _Checked(str(error), error.problems)
    except OSError as error:
        problem = FieldProblem("", f"cannot be read: {error.strerror}")
        return _Checked(f"{file} cannot be read: {error.strerror}", [problem])
    except UnicodeDecodeError as error:
        return _Checked(f"{file}: {error}", [FieldProblem("", str(error))])
    warnings = [
        f"profile {scheduler}: learnedScore.file: {problem}; pods are placed as without it"
        for scheduler, problem in unread_policies(plugins).items()
    ]
    return _Checked(rules=_rules_beside(configuration.frameworks), warnings=warnings)


def _rules_beside(described: Iterable[FrameworkKind]) -> list[dict[str, list[str]]]:
    """Return the rules that kinds of users need: one for each group, without what the manifests grant already."""
    granted = {(one.group, one.plural) for one in KNOWN_KINDS}
    plurals: dict[str, set[str]] = {}
    for kind in described:
        if (kind.group, kind.plural) not in granted:
            plurals.setdefault(kind.group, set()).add(kind.plural)
    return [
        {"apiGroups": [group], "resources": sorted(names), "verbs": ["list", "watch"]}
        for group, names in sorted(plurals.items())
    ]
