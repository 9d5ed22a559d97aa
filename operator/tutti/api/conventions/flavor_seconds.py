"""An annotation that says how long a workload takes in which flavor, on pods, on PodGroups and Workloads, on owners.

    scheduling.tutti.dev/expected-seconds-by-flavor: a100=3600,t4=9000,cpu=60000

By it a ClusterQueue with `flavorFungibility.preference: EarliestFinish` chooses.
"""

from __future__ import annotations

import re
from typing import Final

from tutti.api.conventions.membership import MOST_SECONDS, ConventionError, existing_name, quoted
from tutti.api.model import GROUP

FLAVOR_SECONDS: Final = f"{GROUP}/expected-seconds-by-flavor"
"""The annotation."""
LONGEST_TEXT: Final = 8192
"""Characters of it."""
MOST_FLAVORS: Final = 64
"""As many as are looked at in one text; a ClusterQueue has no more of them in a group."""

FlavorSeconds = tuple[tuple[str, int], ...]
"""Flavors by name, each with how many seconds a workload is expected to take in it."""

_SECONDS = re.compile(r"[0-9]{1,10}", re.ASCII)


def read_flavor_seconds(text: str, where: str) -> FlavorSeconds:
    """Return what an annotation says, each flavor once; nothing where it is empty.

    Raises:
        ConventionError: It cannot be read; `where` says which annotation it is.
    """
    if len(text) > LONGEST_TEXT:
        raise ConventionError(f"it has more than {LONGEST_TEXT} characters: name at most {MOST_FLAVORS} flavors", where)
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, seconds = (piece.strip() for piece in part.partition("="))
        if not name and not seconds:
            continue
        if not name or not _SECONDS.fullmatch(seconds) or not 1 <= int(seconds) <= MOST_SECONDS:
            right = "write flavors with commas between them, each with its whole seconds, such as a100=3600,t4=9000"
            raise ConventionError(f"{quoted(part.strip())} cannot be read: {right}", where)
        found[existing_name(name, where)] = int(seconds)
    if len(found) > MOST_FLAVORS:
        raise ConventionError(f"it names {len(found)} flavors: name at most {MOST_FLAVORS}", where)
    return tuple(sorted(found.items()))
