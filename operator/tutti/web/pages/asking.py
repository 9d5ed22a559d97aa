"""What a page is asked: of which picture, by whom, and with which words in its address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from tutti.api.resources import PODS
from tutti.cli.views.drawing import amount
from tutti.cli.views.what_if import Effort
from tutti.web.access import Viewer
from tutti.web.documents import BarPart, Cells, PageCell, said
from tutti.web.picture import Picture
from tutti.web.standing import Answers


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One page for one kind of viewer.

    Attributes:
        names: What the path says, such as a namespace and a name.
        query: What the rest of the address says.
        effort: How far the answer is, where it is one that takes its time.
    """

    picture: Picture
    viewer: Viewer
    names: Mapping[str, str]
    query: Mapping[str, str]
    effort: Effort = field(default_factory=Effort)

    @property
    def answers(self) -> Answers:
        """What an engine says that tells this viewer no more than he may know."""
        return self.picture.open if self.viewer.sees_all else self.picture.discreet

    def problems(self) -> tuple[str, ...]:
        """What is missing from any page, or may be old."""
        listed, assumed = self.picture.listed, self.picture.known.assumed
        found = [f"left out, as it may not be listed: {label} ({why})" for label, why in listed.refused.items()]
        found += [f"may be old, as it is not told at the moment: {one}" for one in self.picture.interruptions]
        if self.viewer.sees_all:
            found += [f"left out, as it cannot be read: {one}" for one in listed.unreadable[:_MOST]]
        return (*found, *([assumed] if assumed else []))


_MOST = 20


class NotShown(Exception):  # noqa: N818 - it says what happened
    """There is no such thing, as far as this viewer may know; the text says so, and what there is."""


def queue_link(name: str) -> str:
    """Return the address of a queue."""
    return f"/queue/{quote(name, safe='')}"


def workload_link(kind: str, namespace: str, name: str) -> str:
    """Return the address of a workload; of a pod by itself, and where names are equal, its kind is said."""
    path = f"/workload/{quote(namespace, safe='')}/{quote(name, safe='')}"
    return path if kind != "Pod" else f"{path}?kind=Pod"


def amounts(of: Mapping[str, int]) -> str:
    """Return amounts by resource, as people write them."""
    return ", ".join(
        f"{amount(resource, units)} {resource}" for resource, units in of.items() if units and resource != PODS
    )


def share(part: int, whole: int) -> float:
    """Return how much of a whole a part is, in percent, at most all."""
    return round(min(100.0, 100.0 * part / whole), 2) if whole > 0 else 0.0


def use_bar(parts: list[tuple[str, int]], whole: int, words: str, mark: int | None = None) -> Cells:
    """Return a bar that says in words what it shows."""
    drawn = tuple(BarPart(kind, share(part, whole)) for kind, part in parts if part > 0)  # type: ignore[arg-type]
    return (PageCell(words, bar=drawn, mark=None if mark is None or mark >= whole else share(mark, whole)),)


def number_cell(number: int, tone: str = "") -> Cells:
    """Return a number; nothing is quiet."""
    return said(number, tone if number else "quiet")  # type: ignore[arg-type]
