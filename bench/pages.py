"""What pages cost: `python -m bench.pages [NODES WORKLOADS]` makes each of a large cluster, without any API server.

Of each page how long it takes to make, how large it is (as sent, and packed), and how large the message after one pod
has gone is; how long pictures take that are carried on from one to the next, the first and those after a change, while
everybody is tried beside and after that; what the process holds in memory; and how long it takes to try out what would
help one gang.
"""

from __future__ import annotations

import gc
import gzip
import itertools
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tests.cli.views import scene
from tutti.api.configuration import TuttiConfiguration
from tutti.cli.run import GC_THRESHOLDS
from tutti.cli.views.configuration import KnownConfiguration
from tutti.cli.views.listing import Listed
from tutti.engine.records.observations import AnyObservation, PodGone, PodSeen
from tutti.web.access import EVERYTHING
from tutti.web.addresses import made_page, page_address
from tutti.web.documents import PageDocument, change_of
from tutti.web.pages.asking import PageRequest
from tutti.web.pages.workload import remedies_document
from tutti.web.picture import Picture
from tutti.web.standing import KeptAnswers

PAGES = ("/", "/queue/vision", "/workload/vision/gang-0", "/nodes", "/gangs", "/decisions")
PER_RACK, PER_NODE = 20, 8
AFTER = 12
"""So many pictures are taken once everybody has been tried."""
REST_SECONDS = 0.5


def objects(nodes: int, workloads: int) -> Iterator[dict[str, Any]]:
    """Yield a cluster of which three quarters are in use by gangs of four, with as many more that wait."""
    for one in scene.objects():
        if one["kind"] in ("Topology", "Namespace", "LocalQueue", "Cohort", "ResourceFlavor"):
            yield one
    yield scene.queue("vision", "research", "a100", nodes * PER_NODE)
    for at in range(nodes):
        yield scene.node(f"node-{at}", "NVIDIA-A100", f"rack-{at // PER_RACK:03}")
    running = nodes * 3 // 4
    for at in range(workloads):
        yield scene.group("vision", f"gang-{at}", 1)
    for at in range(workloads):
        placed = {"on": f"node-{at}", "admitted": ("vision", "a100")} if at < running else {}
        gpus = PER_NODE if placed else 1 + at % PER_NODE
        yield scene.pod("vision", f"gang-{at}-0", gpus, gang=f"gang-{at}", **placed)  # type: ignore[arg-type]


def timed(make: Any) -> tuple[float, Any]:
    """Return how many milliseconds of processor time something takes in its thread, and what it returns."""
    begun = time.thread_time()
    found = make()
    return round((time.thread_time() - begun) * 1000, 1), found


class Pictures:
    """Pictures of a cluster that changes, each carried on from the one before, as the pages' process takes them."""

    def __init__(self, known: KnownConfiguration) -> None:
        self._known = known
        self._kept = KeptAnswers()
        self._taken = 0

    def next(self, seen: Sequence[AnyObservation], changes: Sequence[AnyObservation] | None) -> tuple[float, bool]:
        """Take one; return how many milliseconds it took, and whether everybody has been tried by now."""
        self._taken += 1
        at = scene.AT + self._taken
        self._kept.follow(at, changes)
        one = Picture(self._taken, Listed(seen), at, self._known, (), (), self._kept)
        took, answers = timed(lambda: one.open)
        return took, answers.decided is not None

    def close(self) -> None:
        """End its threads."""
        self._kept.close()


def carried_on(known: KnownConfiguration, seen: Sequence[AnyObservation], lost: PodSeen) -> dict[str, float]:
    """Measure pictures after one another, in each of which a pod comes or goes."""
    meta = lost.pod.metadata
    without = [one for one in seen if one is not lost]
    comes_and_goes: Sequence[tuple[Sequence[AnyObservation], Sequence[AnyObservation]]] = (
        (without, [PodGone(meta.namespace, meta.name, meta.uid)]),
        (seen, [lost]),
    )
    steps = itertools.cycle(comes_and_goes)
    pictures = Pictures(known)
    first, _ = pictures.next(seen, None)
    beside: list[float] = []
    after: list[float] = []
    while len(after) < AFTER:
        took, tried = pictures.next(*next(steps))
        (after if tried else beside).append(took)
        time.sleep(REST_SECONDS)
    pictures.close()
    found = {"first": first, "changed": statistics.median(after), "slowest": max(after)}
    return found | ({"whileTried": statistics.median(beside)} if beside else {})


def tried_out(picture: Picture, name: str) -> tuple[float, PageDocument]:
    """Return how long it takes to try what would help a gang that waits, and what is told of it.

    Memory is walked as seldom as in the process of pages.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    names = {"namespace": "vision", "name": name}
    found: tuple[float, PageDocument] = timed(lambda: remedies_document(PageRequest(picture, EVERYTHING, names, {})))
    return found


def main(nodes: int, workloads: int) -> None:
    """Measure, and print it as JSON."""
    seen = list(scene.told(list(objects(nodes, workloads))).listed.seen)
    known = KnownConfiguration(TuttiConfiguration(), {})
    lost = next(one for one in seen if isinstance(one, PodSeen))
    times = carried_on(known, seen, lost)
    first, second = (
        Picture(at, Listed(one), scene.AT, known, ())
        for at, one in enumerate((seen, [one for one in seen if one is not lost]))
    )
    times["tried"], _ = timed(lambda: first.open)
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
    millis, found = tried_out(first, f"gang-{workloads * 9 // 10}")
    remedies = {"ms": millis, "told": found.summary}
    figures = {"nodes": nodes, "workloads": workloads, "load": os.getloadavg()[0], "pictureMs": times}
    figures |= {"peakMiB": peak, "pages": pages, "remedies": remedies}
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:3]) if len(sys.argv) > 2 else (5000, 10000))
