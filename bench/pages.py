"""What pages cost: `python -m bench.pages [NODES WORKLOADS]` makes each of a large cluster, without any API server.

Of each page how long it takes to make, how large it is (as sent, and packed), and how large the message after one pod
has gone is; and what the process holds in memory.
"""

from __future__ import annotations

import gzip
import json
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.cli.views import scene
from tutti.api.configuration import TuttiConfiguration
from tutti.cli.views.configuration import KnownConfiguration
from tutti.cli.views.listing import Listed
from tutti.engine.records.observations import PodSeen
from tutti.web.access import EVERYTHING
from tutti.web.addresses import made_page, page_address
from tutti.web.documents import change_of
from tutti.web.picture import Picture

PAGES = ("/", "/queue/vision", "/workload/vision/gang-0", "/nodes", "/gangs", "/decisions")
PER_RACK, PER_NODE = 20, 8


def objects(nodes: int, workloads: int) -> Iterator[dict[str, Any]]:
    """Yield a cluster of which three quarters are in use by gangs of four, with as many more that wait."""
    for one in scene.objects():
        if one["kind"] in ("Topology", "Namespace", "LocalQueue", "Cohort", "ResourceFlavor"):
            yield one
    yield scene.queue("vision", "research", "a100", nodes * PER_NODE, strict=True)
    for at in range(nodes):
        yield scene.node(f"node-{at}", "NVIDIA-A100", f"rack-{at // PER_RACK:03}")
    running = nodes * 3 // 4
    for at in range(workloads):
        yield scene.group("vision", f"gang-{at}", 1)
    for at in range(workloads):
        placed = {"on": f"node-{at}", "admitted": ("vision", "a100")} if at < running else {}
        yield scene.pod("vision", f"gang-{at}-0", PER_NODE, gang=f"gang-{at}", **placed)  # type: ignore[arg-type]


def timed(make: Any) -> tuple[float, Any]:
    """Return how many milliseconds something takes, and what it returns."""
    begun = time.perf_counter()
    found = make()
    return round((time.perf_counter() - begun) * 1000, 1), found


def main(nodes: int, workloads: int) -> None:
    """Measure, and print it as JSON."""
    seen = list(scene.told(list(objects(nodes, workloads))).listed.seen)
    known = KnownConfiguration(TuttiConfiguration(), {})
    first = Picture(1, Listed(seen), scene.AT, known, ())
    took, _ = timed(lambda: first.open)
    gone = next(at for at, one in enumerate(seen) if isinstance(one, PodSeen))
    second = Picture(2, Listed([*seen[:gone], *seen[gone + 1 :]]), scene.AT, known, ())
    _ = second.open, first.open.untried, second.open.untried
    pages = {}
    for path in PAGES:
        address = page_address(path)
        assert address is not None
        millis, page = timed(lambda address=address: made_page(first, address, EVERYTHING))
        body = msgspec.json.encode(page)
        change = msgspec.json.encode(change_of(page, made_page(second, address, EVERYTHING)))
        pages[path] = {"ms": millis, "bytes": len(body), "packed": len(gzip.compress(body)), "change": len(change)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    figures = {"nodes": nodes, "workloads": workloads, "pictureMs": took, "peakMiB": peak, "pages": pages}
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:3]) if len(sys.argv) > 2 else (5000, 10000))
