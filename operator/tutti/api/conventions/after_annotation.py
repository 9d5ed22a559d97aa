"""An annotation that names the workloads which have to end before a pod starts, on pods and on what owns them.

    scheduling.tutti.dev/after: prepare,load:Finished

It says what `spec.after` of a Workload says, for those who write none: names with commas between them, each with when
it is waited for no longer, if that is not that it has succeeded.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from tutti.api.conventions.membership import ConventionError, existing_name, quoted
from tutti.api.kinds.after import MOST_AFTER
from tutti.api.model import GROUP

AFTER: Final = f"{GROUP}/after"
"""The annotation."""
LONGEST_AFTER: Final = 8192
"""Characters of it: as many as the longest names and times that may stand in it have."""

AfterName = tuple[str, Literal["Succeeded", "Finished"]]
"""Whom to wait for, and until when."""


def read_after(text: str, where: str) -> tuple[AfterName, ...]:
    """Return whom an annotation names, each once; nothing where it is empty.

    Raises:
        ConventionError: It cannot be read; `where` says which annotation it is.
    """
    if len(text) > LONGEST_AFTER:
        raise ConventionError(
            f"it has more than {LONGEST_AFTER} characters: name at most {MOST_AFTER} workloads", where
        )
    found: dict[str, AfterName] = {}
    for part in text.split(","):
        name, _, when = (piece.strip() for piece in part.partition(":"))
        if not name and not when:
            continue
        if not name or when not in ("", "Succeeded", "Finished"):
            right = "write names with commas between them, each maybe with ':Succeeded' or ':Finished' behind it"
            raise ConventionError(f"{quoted(part.strip())} cannot be read: {right}", where)
        found[existing_name(name, where)] = (name, "Finished" if when == "Finished" else "Succeeded")
    if len(found) > MOST_AFTER:
        raise ConventionError(f"it names {len(found)} workloads: name at most {MOST_AFTER}", where)
    return tuple(found.values())


def bounded_after(text: Any) -> str:
    """Return what an annotation says, and no more of it than shows that it is too long."""
    return text[: LONGEST_AFTER + 1] if isinstance(text, str) else ""
