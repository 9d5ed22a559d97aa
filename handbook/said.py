"""Examples for the page of reasons: messages that engines have written in tests, each with the test that has it said.

`python -m handbook.said` runs the engine's tests that are not random, and keeps for each reason one message in
reasons-said.yaml; given tests, it runs these and keeps the other examples. Whenever such a test runs after that, it is
looked whether its engine still says so (tests/engine/conftest.py): an example that is no longer true fails the test
that it comes from.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
SAID = Path(__file__).with_name("reasons-said.yaml")
WRITTEN_TO = "TUTTI_SAID"
"""The environment variable that names a file, to which tests append what was said."""
_HEAD = (
    "# Written by `python -m handbook.said`: for each gate and reason what an engine says in a test, and in which.\n"
)
_LENGTH = 100
"""Of messages that show what they have to say and are quick to read, in characters."""

Reason = tuple[str, str]
"""Gate and reason."""


class Example(NamedTuple):
    """A message, and which test has it said."""

    message: str
    test: str


def examples() -> dict[Reason, Example]:
    """Return the examples that are kept."""
    kept = yaml.safe_load(SAID.read_text(encoding="utf-8"))
    return {
        (gate, reason): Example(one["message"], one["test"])
        for gate, those in kept.items()
        for reason, one in those.items()
    }


def chosen(said: Iterable[tuple[Reason, Example]]) -> dict[Reason, Example]:
    """Return one example for each reason: of a length that is quick to read, and always the same of the same."""
    found: dict[Reason, Example] = {}
    for reason, one in said:
        before = found.get(reason)
        if before is None or _order(one) < _order(before):
            found[reason] = one
    return found


def _order(one: Example) -> tuple[bool, int, str, str]:
    in_words_of_pods = "(s)" in one.message  # kube-scheduler's
    return in_words_of_pods, abs(len(one.message) - _LENGTH), one.message, one.test


def written(found: Mapping[Reason, Example]) -> str:
    """Return the file of examples."""
    told: dict[str, dict[str, dict[str, str]]] = {}
    for (gate, reason), one in sorted(found.items()):
        told.setdefault(gate, {})[reason] = one._asdict()
    return _HEAD + yaml.safe_dump(told, sort_keys=False, width=1_000, allow_unicode=True)


def _told(lines: Iterable[Mapping[str, str]]) -> Iterator[tuple[Reason, Example]]:
    """Yield what was said of reasons; what pods are told has no gate, which is found where only one has the reason."""
    from handbook.reasons import waiting  # noqa: PLC0415 - which shows what is kept here

    known = waiting()
    for one in lines:
        gates = [one["gate"]] if one["gate"] else [gate for gate, reason in known if reason == one["reason"]]
        if len(gates) == 1 and (gates[0], one["reason"]) in known:
            yield (gates[0], one["reason"]), Example(one["message"], one["test"])


def main(arguments: list[str]) -> None:
    """Run tests, and keep an example of each reason."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "said"
        file.touch()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not hypothesis",
            *(arguments or ["tests/engine"]),
        ]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, WRITTEN_TO: str(file)}, check=False)
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    found = chosen(list(_told(lines)))
    kept = examples() if arguments else {}  # of tests that were not run
    SAID.write_text(written({**kept, **found}), encoding="utf-8")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
