"""A newcomer's path: `python -m bench.newcomer` clones this repository, and does what its README says first.

In a folder of its own and with a home directory that has nothing, `git clone` of what is committed here, then
`make demo KEEP=1` until it tells the address of its pages, which is then asked for. Prints seconds since the beginning
for each step, and how long the page took to answer. What pip fetches comes from where this machine's pip is told to.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
FROM_OUTSIDE = ("PATH", "LANG", "TERM", "PIP_", "SSL_", "REQUESTS_", "HTTP", "http", "NO_PROXY", "no_proxy")
"""What of the environment a newcomer's has as well: where programs are, and how to reach the network."""
ADDRESS = "in a browser"


def newcomers(home: Path) -> dict[str, str]:
    """Return the environment of somebody who has installed nothing."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(FROM_OUTSIDE)}
    return kept | {"HOME": str(home)}


@contextmanager
def running(folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Yield `make demo KEEP=1`; it is ended, with all that it has started, as by Ctrl-C."""
    demo = subprocess.Popen(
        ["make", "demo", "KEEP=1"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield demo
    finally:
        os.killpg(demo.pid, signal.SIGINT)
        demo.communicate(timeout=60)


def walked(folder: Path) -> dict[str, float]:
    """Go the way; return seconds since its beginning, by step."""
    begun = time.monotonic()
    found: dict[str, float] = {}

    def note(step: str) -> None:
        found[step] = round(time.monotonic() - begun, 1)

    home, clone = folder / "home", folder / "tutti"
    home.mkdir()
    environment = newcomers(home)
    subprocess.run(["git", "clone", "--quiet", ROOT.as_uri(), str(clone)], env=environment, check=True)
    note("cloned")
    with running(clone, environment) as demo:
        assert demo.stdout is not None
        said = []
        for line in demo.stdout:
            said.append(line)
            if ADDRESS in line:
                break
        else:
            raise SystemExit(f"the demo ended without telling an address:\n{''.join(said[-20:])}")
        note("told the address")
        asked = time.monotonic()
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(line.split()[-1]) as answer:
            answer.read()
            found["page answered, ms"] = round((time.monotonic() - asked) * 1000, 1)
        note("seen the page")
    return found


def main() -> None:
    """Go the way once, and print what it took as JSON."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))  # and so does all that was started
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="tutti-newcomer-") as folder:
        found = walked(Path(folder))
    sys.stdout.write(json.dumps({"load before": load, **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
