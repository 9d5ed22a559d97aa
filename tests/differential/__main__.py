"""Compares recorded decisions of other schedulers with ours: `python -m tests.differential FILE...`.

A file's name says which module reads it; each has `compare(path)`, which yields for each case its id and what is
different, or None. Prints one line per difference and a closing count; exits 1 where there is any difference.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

MODULES = {"quota-": "tests.differential.quota_topics"}
"""How a file's name starts -> the module that compares it."""


def main(arguments: list[str] | None = None) -> int:
    """Compare each file named, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    passed = failed = 0
    for path in parser.parse_args(arguments).files:
        module = next((module for start, module in MODULES.items() if path.name.startswith(start)), None)
        if module is None:
            parser.error(f"{path.name}: the name must start with one of {', '.join(MODULES)}")
        for case, difference in import_module(module).compare(path):
            if difference is None:
                passed += 1
            else:
                failed += 1
                sys.stdout.write(f"{case}: {difference}\n")
    sys.stdout.write(f"{passed} passed, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
