"""The list of names that several modules may define, each with a word why (`homonyms.txt`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

LIST = Path(__file__).parent / "homonyms.txt"


def listed(text: str) -> dict[str, str]:
    """The names of a list, with why each may stand in several modules.

    A line has a name, a colon and why; blank lines, and those that begin with `#`, say nothing.

    Raises:
        ValueError: a line has no reason, or a name stands there twice.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, why = (part.strip() for part in line.partition(":"))
        if not name or len(why.split()) < 2:
            raise ValueError(f"{line!r}: say why, as in `Workload: the API object, and the record of it`")
        if name in found:
            raise ValueError(f"{name} stands there twice")
        found[name] = why
    return found


def pruned(text: str, homonyms: Mapping[str, object]) -> str:
    """A list without the names that no longer are defined in several modules."""

    def stays(line: str) -> bool:
        name, colon, _ = line.partition(":")
        return line.startswith("#") or not colon or name.strip() in homonyms

    return "".join(f"{line}\n" for line in text.splitlines() if stays(line))
