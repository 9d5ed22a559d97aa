"""Puts a table into the description of a pull request: in the place of the one before, or at the end."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

BEGIN, END = "<!-- benchmark: begin -->", "<!-- benchmark: end -->"
_PLACE = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)


def with_table(body: str, table: str, title: str) -> str:
    """Return a description with a table in it; what people wrote around it stays as it is."""
    part = f"{BEGIN}\n## Benchmark\n\n{title}\n\n{table.strip()}\n{END}"
    if _PLACE.search(body):
        return _PLACE.sub(lambda _: part, body, count=1)
    return f"{body.rstrip()}\n\n{part}\n".lstrip()


def main() -> None:
    """Print the description in one file with the table in the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("body", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    body, table = (path.read_text(encoding="utf-8") for path in (options.body, options.table))
    print(with_table(body, table, options.title), end="")  # noqa: T201


if __name__ == "__main__":
    main()
