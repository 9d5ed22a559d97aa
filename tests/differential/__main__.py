"""Compares recorded decisions of other schedulers with ours: `python -m tests.differential FILE...`.

A file's name says which module reads it; each has `compare(path)`, which yields for each case its id and what is
different, or None. Where cases can be chosen, it takes `only` and `skip_tag` and says so in `OPTIONS`; `remarks(path)`
may add lines. Prints one line per difference and a closing count; exits 1 where there is any difference.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

MODULES = {"quota-": "tests.differential.quota_topics", "kube-scheduler-": "tests.differential.scheduler"}
"""How a file's name starts -> the module that compares it."""


def main(arguments: list[str] | None = None) -> int:
    """Compare each file named, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--only", metavar="FAMILY", help="only the cases of this family")
    parser.add_argument("--skip-tag", metavar="TAG", help="leave out the cases with this tag")
    parser.add_argument("-v", "--verbose", action="store_true", help="name the cases that pass, too")
    options = parser.parse_args(arguments)
    chosen = {name: value for name in ("only", "skip_tag") if (value := getattr(options, name)) is not None}
    passed = failed = 0
    for path in options.files:
        module = _module_of(path, parser)
        if chosen.keys() - getattr(module, "OPTIONS", set()):
            parser.error(f"{path.name}: its cases have neither families nor tags to choose by")
        for case, difference in module.compare(path, **chosen):
            passed += difference is None
            failed += difference is not None
            if difference is not None or options.verbose:
                sys.stdout.write(f"{case}: {difference or 'as recorded'}\n")
        for line in getattr(module, "remarks", lambda _: ())(path):
            sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{passed} passed, {failed} failed\n")
    return 1 if failed else 0


def _module_of(path: Path, parser: argparse.ArgumentParser) -> ModuleType:
    name = next((module for start, module in MODULES.items() if path.name.startswith(start)), None)
    if name is None:
        parser.error(f"{path.name}: the name must start with one of {', '.join(MODULES)}")
    return import_module(name)


if __name__ == "__main__":
    sys.exit(main())
