"""`make fuzz`: shows hostile objects that nobody has thought of to an engine, until the time is over.

python -m tests.hostile.command [--seconds 300] [--seed N] [--operator]

Objects are read as the operator reads them, many at a time beside honest ones. Where one of those is not placed,
something is set aside, or anything is raised, the smallest object that does it is printed, and the exit code is 1.
With --operator the same objects go to a whole operator on an embedded cluster, a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import structlog

from tests.hostile.cases import Case, drawn, fields, shown
from tests.hostile.cases import smaller as less_of
from tests.hostile.kinds import targets
from tests.hostile.tally import Tally
from tests.hostile.ward import Ward, harm, treat
from tests.hostile.whole import fuzz
from tutti.api.configuration import Conventions
from tutti.api.conventions import reading

AT_ONCE = 40
"""Objects that are seen together."""
ROUNDS = 25
"""Of so many objects that one engine sees; the next begins anew."""
MOST_SHRINKING = 200
"""How often a failing object is tried with less of it."""
SLOW_SECONDS = 1.0
"""A turn that takes longer is told of."""
TOLD_SECONDS = 5.0

Harms = Callable[[Sequence[Case]], str]


def batches(seed: int) -> Iterator[list[Case]]:
    """Objects without an end, the same for each seed."""
    draw, number = random.Random(seed), 0
    while True:
        yield [drawn(draw, number + at) for at in range(AT_ONCE)]
        number += AT_ONCE


def culprit(cases: Sequence[Case], harms: Harms) -> tuple[Case, ...]:
    """The fewest of some objects that do harm: one, or as many as it takes."""
    for case in cases:
        if harms([case]):
            return (case,)
    left = list(cases)
    for part in (len(left) // 2, len(left) // 4, len(left) // 8, 1):
        at = 0
        while part and at < len(left):
            rest = left[:at] + left[at + part :]
            if rest and harms(rest):
                left = rest
            else:
                at += part
    return tuple(left)


def smallest(case: Case, harms: Harms) -> Case:
    """The least of an object that does the same kind of harm."""
    sort, tries = _sort(harms([case])), 0
    found = True
    while found and tries < MOST_SHRINKING:
        found = False
        for less in less_of(case):
            tries += 1
            if _sort(harms([less])) == sort:
                case, found = less, True
                break
    return case


def _sort(text: str) -> str:
    """What kind of harm a text tells of: without numbers and names."""
    return text.partition(" at tutti")[0][:60] if text else ""


def report(cases: Sequence[Case], harms: Harms, said: str) -> str:
    """What people are told of objects that do harm."""
    guilty = culprit(cases, harms)
    if len(guilty) == 1:
        guilty = (smallest(guilty[0], harms),)
    lines = [f"  {harms(guilty) or said}"]
    for case in guilty[:10]:
        text = case.text.decode()
        lines += [f"  {case}", f"  {text if len(text) < 2_000 else text[:2_000] + '...'}"]
    return "\n".join(lines)


def in_process(seconds: float, seed: int, tell: Callable[[str], None]) -> Tally:
    """Show objects to engines of this process."""
    tally, ward = Tally(), Ward()
    began = last = time.monotonic()
    for at, cases in enumerate(batches(seed)):
        if time.monotonic() > began + seconds:
            return tally
        if at % ROUNDS == 0:
            ward = Ward()
        try:
            treat(ward, cases)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the objects have done
            said = f"{type(error).__name__}: {error}"
            if _sort(said) not in tally.found:
                tally.found[_sort(said)] = report(cases, harm, said)
                tell(tally.found[_sort(said)])
            ward = Ward()
        tally.count(cases)
        tally.claims.update(ward.claims)
        ward.claims.clear()
        if ward.slowest > max(SLOW_SECONDS, tally.slowest):
            tell(f"  a turn took {ward.slowest:.1f} s, with {max(cases, key=lambda one: len(one.text))}")
        tally.slowest = max(tally.slowest, ward.slowest)
        if time.monotonic() > last + TOLD_SECONDS:
            last = time.monotonic()
            tell(f"{tally.objects} objects in {last - began:.0f} of {seconds:.0f} s, {len(tally.found)} found")
    return tally


def summary(tally: Tally, seed: int) -> str:
    """What was shown and found, for the end."""
    lines = []
    for target in sorted(targets(), key=lambda one: one.name):
        all_of_it = {shown(path) for path, _ in fields(target)}
        lines.append(f"{target.name}: {len(tally.fields.get(target.name, set()))} of {len(all_of_it)} fields")
    on_pods = tally.fields.get("Pod", set())
    for convention, keys in reading.KEYS.items():
        read = {shown(("metadata", part, key)) for key in keys(Conventions()) for part in ("labels", "annotations")}
        lines.append(f"convention {convention}: {len(read & on_pods)} of {len(read)} labels and annotations")
    conventions = ", ".join(f"{name} {times}" for name, times in sorted(tally.claims.items()))
    return "\n".join(
        [
            *lines,
            f"pods by convention: {conventions or 'not counted'}",
            f"{tally.objects} objects, longest {tally.slowest:.2f} s, {len(tally.found)} found; seed {seed}",
        ]
    )


def main(arguments: Sequence[str]) -> int:
    """Fuzz, and return the exit code of the process: 1 where anything was found."""
    options = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    options.add_argument("--seconds", type=float, default=300.0)
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--operator", action="store_true")
    chosen = options.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed

    def tell(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    logging.disable()  # also of the embedded cluster, which is told many things that are no objects
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    tell(f"seed {seed}, for {chosen.seconds:.0f} s")
    if chosen.operator:
        tally = asyncio.run(fuzz(batches(seed), chosen.seconds, tell))
    else:
        tally = in_process(chosen.seconds, seed, tell)
    tell(summary(tally, seed))
    return 1 if tally.found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
