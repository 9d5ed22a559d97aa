"""`make pictures`: runs what the pages show again, and writes the pictures and tables."""

from __future__ import annotations

import argparse
import sys

from handbook.pictures.simulated import PLAYED, play
from handbook.pictures.topics import QUICK, put, slow_topics


def main() -> None:
    """Run the topics that are named, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help=", ".join([*QUICK, *PLAYED]))
    asked = parser.parse_args().topics or [*QUICK, *PLAYED]
    unknown = sorted({*asked} - {*QUICK, *PLAYED})
    if unknown:
        parser.error(f"there is no topic {unknown[0]}; there are {', '.join([*QUICK, *PLAYED])}")
    for name in asked:
        if name in QUICK:
            put(name, QUICK[name]())
        else:
            for done in play([name]):
                put(done, slow_topics()[done])
        sys.stderr.write(f"{name}\n")


if __name__ == "__main__":
    main()
