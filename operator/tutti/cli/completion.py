"""`tutti completion`: what a shell needs to complete the command line, and the same for `kubectl tutti`.

click makes the scripts and the completions. kubectl asks for those of a plugin by calling `kubectl_complete-<plugin>`
with what has been typed so far, and reads one completion per line, then a colon and a number (Kubernetes 1.36,
kubectl/pkg/cmd/plugin.go; the numbers are cobra's ShellCompDirective).
"""

from __future__ import annotations

import importlib
import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

_VARIABLE = "_TUTTI_COMPLETE"
_NO_FILES = 4
_FILES = 0


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script by which SHELL completes `tutti`.

    Put `source <(tutti completion bash)` into ~/.bashrc, the same for zsh into ~/.zshrc, or
    `tutti completion fish | source` into ~/.config/fish/config.fish.

    With kubectl_complete-tutti on the PATH, kubectl's own completion completes `kubectl tutti` as well.
    """
    made = get_completion_class(shell)
    assert made is not None  # click has all of these
    click.echo(made(_cli(), {}, "tutti", _VARIABLE).source())


def kubectl() -> None:
    """Answer kubectl's question how `kubectl tutti ...` goes on; the last argument is what has been begun."""
    click.echo(completed(sys.argv[1:]))


def completed(words: list[str]) -> str:
    """Return the completions of what was typed after `kubectl tutti`, as kubectl reads them."""
    *before, begun = words or [""]
    found = ShellComplete(_cli(), {}, "kubectl tutti", _VARIABLE).get_completions(before, begun)
    plain = [one for one in found if one.type == "plain"]
    lines = [f"{one.value}\t{one.help}" if one.help else str(one.value) for one in plain]
    return "\n".join([*lines, f":{_NO_FILES if len(plain) == len(found) else _FILES}"])


def _cli() -> click.Command:
    """Return the whole command, of which this one is a part."""
    command: click.Command = importlib.import_module("tutti.cli.main").cli
    return command
