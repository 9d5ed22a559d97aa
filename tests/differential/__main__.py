"""Compares recorded decisions of other schedulers with ours: `python -m tests.differential FILE...`.

A file's name says which module reads it; each has `compare(path)`, which yields for each case its id and what is
different, or None. Where cases can be chosen, it takes `only` and `skip_tag` and says so in `OPTIONS`; `remarks(path)`
may add lines; `asked(path)` says of each case what answers it, where that is not the whole engine; `excuses(path)` what
some cases may differ in.

Prints one line per difference, what is counted by what answers it, and a closing count; exits 1 where anything is
different that `known.py` does not name, or is as recorded although it does.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType

from tests.differential.known import Known, known

MODULES = {
    "quota-": "tests.differential.quota_topics",
    "kube-scheduler-": "tests.differential.scheduler",
    "dra-": "tests.differential.devices",
    "numa": "tests.differential.numa",
    "throttles": "tests.differential.throttles",
    "load": "tests.differential.load",
    "network": "tests.differential.network",
}
"""How a file's name starts -> the module that compares it."""
ENGINE = "Engine"
OUTCOMES = ("passed", "known", "failed")


def main(arguments: list[str] | None = None) -> int:
    """Compare each file named, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--only", metavar="FAMILY", help="only the cases of this family")
    parser.add_argument("--skip-tag", metavar="TAG", help="leave out the cases with this tag")
    parser.add_argument("-v", "--verbose", action="store_true", help="name the cases that pass, too")
    options = parser.parse_args(arguments)
    chosen = {name: value for name in ("only", "skip_tag") if (value := getattr(options, name)) is not None}
    counted: Counter[tuple[str, str]] = Counter()
    for path in options.files:
        module = _module_of(path, parser)
        if chosen.keys() - getattr(module, "OPTIONS", set()):
            parser.error(f"{path.name}: its cases have neither families nor tags to choose by")
        asked = getattr(module, "asked", lambda _: {})(path)
        excuses = getattr(module, "excuses", lambda _: {})(path)
        for case, difference in module.compare(path, **chosen):
            outcome, text = judged(case, difference, excuses.get(case))
            counted[asked.get(case, ENGINE), outcome] += 1
            if difference is not None or outcome == "failed" or options.verbose:
                sys.stdout.write(f"{case}: {text}\n")
        for line in getattr(module, "remarks", lambda _: ())(path):
            sys.stdout.write(f"{line}\n")
    for what in sorted({what for what, _ in counted}, key=lambda what: (what != ENGINE, what)):
        sys.stdout.write(f"{what}: {_told({one: counted[what, one] for one in OUTCOMES})}\n")
    total = {one: sum(count for (_, outcome), count in counted.items() if outcome == one) for one in OUTCOMES}
    sys.stdout.write(f"{_told(total)}\n")
    return 1 if total["failed"] else 0


def judged(case: str, difference: str | None, excuse: Known | None = None) -> tuple[str, str]:
    """Return what became of a case, one of OUTCOMES, and what there is to say of it; `excuse`: what it may differ in."""
    why = known().get(case, excuse if difference is not None else None)
    if difference is None:
        return ("passed", "as recorded") if why is None else ("failed", "as recorded by now; take it out of known.py")
    return ("failed", difference) if why is None else ("known", f"{why.what}: {why.why}")


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count or outcome != "known")


def _module_of(path: Path, parser: argparse.ArgumentParser) -> ModuleType:
    name = next((module for start, module in MODULES.items() if path.name.startswith(start)), None)
    if name is None:
        parser.error(f"{path.name}: the name must start with one of {', '.join(MODULES)}")
    return import_module(name)


if __name__ == "__main__":
    sys.exit(main())
