"""Golden journals: what the engine decides now, kept so that a change which must not change that can be held against it.

python -m tests.goldens record DIR     writes journals of 200 random histories, drains, the demo, parts of the week, tests
python -m tests.goldens check DIR      replays them through the engine of this working tree, and compares every decision

Neither is part of `make test`. Keep the folder outside the repository.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.goldens.checking import check
from tests.goldens.recording import jobs, record

SHOWN = 5
"""Of how many journals the first difference is printed."""


def main(arguments: list[str] | None = None) -> int:
    """Record or check, and return the exit code: 1 where anything differs, 2 where that cannot be said."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.goldens", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["record", "check"])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument(
        "--kind", action="append", help="record only these: engine, simulation, demo, test_gangs, ... (repeat)"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        if options.what == "record":
            todo = [job for job in jobs() if options.kind is None or job.kind in options.kind]
            files = record(todo, options.folder, options.processes, lambda done: _show(done, len(todo), began))
            sys.stdout.write(f"{files} journals in {options.folder}\n")
            return 0
        return _checked(options.folder, options.processes, began)
    except (FileExistsError, FileNotFoundError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _checked(folder: Path, processes: int, began: float) -> int:
    found = check(folder, processes, lambda done, whole: _show(done, whole, began))
    bad = [one for one in found if one.first]
    sys.stdout.write("".join(f"{one.first}\n" for one in bad[:SHOWN]))
    if len(bad) > SHOWN:
        sys.stdout.write(
            f"... and {len(bad) - SHOWN} more journals: {', '.join(one.path.name for one in bad[SHOWN:])}\n"
        )
    turns, decisions = sum(one.turns for one in found), sum(one.decisions for one in found)
    verdict = f"{len(bad)} differ" if bad else "all equal"
    sys.stdout.write(f"{len(found)} journals, {turns:,} turns, {decisions:,} decisions: {verdict}\n")
    return 1 if bad else 0


def _show(done: int, whole: int, began: float) -> None:
    if done * 100 // whole > (done - 1) * 100 // whole:
        end = "\n" if done == whole else ""
        sys.stderr.write(f"\r{done} of {whole}, {time.monotonic() - began:.0f} s{end}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
