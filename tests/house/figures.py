"""The figures of the house, each with what it is to come to."""

from __future__ import annotations

from dataclasses import dataclass

from tests.house.counting import assigners, fields, homonyms, seen, takers, within
from tests.house.rooms import arrows, pairs, rooms, upward
from tests.house.source import Tree
from tests.house.walk import Walk

PACKAGE = "tutti"
ENGINE = "tutti.engine"
STATE = ("tutti.engine.cycle.state", "State")
BESIDE = ("tutti_sim", "tutti_bench", "tutti_demo", "tutti_simulate")
"""The packages of the distribution beside the operator's: the embedded cluster, the bench and the demo."""
SHORT = 40


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        key: What programs know it by.
        title: What people do.
        aim: What it is to be at most; None where there is no aim.
        least: What it is to be at least.
    """

    key: str
    title: str
    now: int
    aim: int | None = None
    least: int = 0

    @property
    def reached(self) -> bool | None:
        """Whether the aim is; None where there is none."""
        return None if self.aim is None else self.least <= self.now <= self.aim


def figures(tree: Tree, walk: Walk) -> list[Figure]:
    """All figures of a source tree with the package in it, and of a walk through it."""
    return [*_of_rooms(tree), *_of_writers(tree), *_of_walk(walk), *_of_names(tree), *_of_files(tree)]


def distributions(tree: Tree) -> tuple[Tree, Tree]:
    """The modules of the operator, and those of what is installed beside it: a name means one thing in each."""
    return within(tree, PACKAGE), {name: one for package in BESIDE for name, one in within(tree, package).items()}


def _of_rooms(tree: Tree) -> list[Figure]:
    between = arrows(tree, ENGINE)
    count = len(rooms(tree, ENGINE))
    possible = count * (count - 1) // 2
    return [
        Figure("arrows", f"arrows between the {count} rooms of engine/ ({possible} pairs)", len(between), 50),
        Figure("upward", "of these, running up in whichever order of rooms", upward(between), 0),
        Figure("mutual", "pairs of rooms that import each other", pairs(between), 0),
    ]


def _of_writers(tree: Tree) -> list[Figure]:
    engine = within(tree, ENGINE)
    module, name = STATE
    return [
        Figure("state_files", "files that take State whole", len(takers(tree, module, name)), 15),
        Figure("state_fields", "fields of State", len(fields(tree, module, name))),
        Figure(
            "state_seen", "... that a file sees which takes a part of it, on average", _mean(seen(tree, module, name))
        ),
        Figure("phase_files", "files of engine/ that assign `phase`", len(assigners(engine, "phase")), 1),
        Figure("explanation_files", "... `explanation`", len(assigners(engine, "explanation")), 1),
    ]


def _mean(numbers: list[int]) -> int:
    return round(sum(numbers) / max(1, len(numbers)))


def _of_walk(walk: Walk) -> list[Figure]:
    return [
        Figure("pod_calls", "calls to decide one queued pod", walk.calls.total(), 350),
        Figure("pod_functions", "... functions", walk.functions, 120),
        Figure("pod_files", "... files", len(walk.files), 35),
    ]


def _of_names(tree: Tree) -> list[Figure]:
    own, beside = (len(homonyms(tree)) for tree in distributions(tree))
    return [
        Figure("homonyms", "public names that several modules of the operator define", own, 39),
        Figure("homonyms_beside", "... of sim, bench and demo together", beside),
    ]


def _of_files(tree: Tree) -> list[Figure]:
    own = within(tree, PACKAGE)
    lines = {module.path: module.lines for module in own.values()}
    whole = sum(lines.values())
    longest = max(lines, key=lambda path: lines[path])
    return [
        Figure("files", "Python files without sim, bench and demo", len(own), 320),
        Figure("lines", "... lines", whole, 46_000),
        Figure("mean_file", "... of a file on average", round(whole / len(own)), 160, least=130),
        Figure("longest_file", f"... of the longest, {longest}", lines[longest], 450),
        Figure("short_files", f"... files of fewer than {SHORT}", sum(count < SHORT for count in lines.values())),
    ]
