"""Compares recorded decisions of other schedulers with ours: `python -m tests.differential FILE...`.

A file's name says which module reads it; each has `compare(path)`, which yields for each case its id and what is
different, or None. Where cases can be chosen, it takes `only` and `skip_tag` and says so in `OPTIONS`; `remarks(path)`
may add lines, `asks(path)` says what each case asks, and `KNOWN` holds the cases that are known to differ (`known.py`).
Prints one line per difference, counts by what was asked, and a closing count; exits 1 where anything differs that is
not known to, or nothing that is.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType

MODULES = {"quota-": "tests.differential.quota_topics", "kube-scheduler-": "tests.differential.scheduler"}
"""How a file's name starts -> the module that compares it."""

PASSED, IS_KNOWN, FAILED = "passed", "known to differ", "failed"


def main(arguments: list[str] | None = None) -> int:
    """Compare each file named, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--only", metavar="FAMILY", help="only the cases of this family")
    parser.add_argument("--skip-tag", metavar="TAG", help="leave out the cases with this tag")
    parser.add_argument("-v", "--verbose", action="store_true", help="name the cases that pass, too")
    options = parser.parse_args(arguments)
    chosen = {name: value for name in ("only", "skip_tag") if (value := getattr(options, name)) is not None}
    counts: dict[str, Counter[str]] = {}
    for path in options.files:
        module = _module_of(path, parser)
        if chosen.keys() - getattr(module, "OPTIONS", set()):
            parser.error(f"{path.name}: its cases have neither families nor tags to choose by")
        known = getattr(module, "KNOWN", {})
        asked = module.asks(path) if hasattr(module, "asks") else {}
        for case, difference in module.compare(path, **chosen):
            outcome = _outcome(difference, is_known=case in known)
            counts.setdefault(asked.get(case, path.name.split(".")[0]), Counter())[outcome] += 1
            if outcome != PASSED or options.verbose:
                why = f" ({known[case][1]})" if case in known else ""
                sys.stdout.write(f"{case}: {outcome}: {difference or 'as recorded'}{why}\n")
        for line in getattr(module, "remarks", lambda _: ())(path):
            sys.stdout.write(f"{line}\n")
    for what, one in sorted(counts.items()):
        sys.stdout.write(f"{what}: {_counted(one)}\n")
    total = sum(counts.values(), Counter[str]())
    sys.stdout.write(f"{_counted(total)}\n")
    return 1 if total[FAILED] else 0


def _outcome(difference: str | None, *, is_known: bool) -> str:
    """What came of a case; one that is known to differ fails where it does not."""
    if is_known:
        return FAILED if difference is None else IS_KNOWN
    return PASSED if difference is None else FAILED


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in (PASSED, IS_KNOWN, FAILED))


def _module_of(path: Path, parser: argparse.ArgumentParser) -> ModuleType:
    name = next((module for start, module in MODULES.items() if path.name.startswith(start)), None)
    if name is None:
        parser.error(f"{path.name}: the name must start with one of {', '.join(MODULES)}")
    return import_module(name)


if __name__ == "__main__":
    sys.exit(main())
