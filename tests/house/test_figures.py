"""The figures of `make house`, on source trees small enough to count by hand."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tutti
from tests.house.__main__ import aim_of, main, text
from tests.house.counting import assigners, defined, fields, homonyms, seen, takers, within
from tests.house.figures import Figure, distributions, figures
from tests.house.rooms import arrows, knots, pairs, rooms, upward
from tests.house.source import loaded, parsed
from tests.house.walk import Walk, queued_pod, walked
from tutti.engine.cycle.state import State

pytestmark = pytest.mark.xdist_group("house")  # the source is read once for all of them

HOUSE = parsed(
    {
        "p/__init__.py": "",
        "p/top.py": "from p.a.one import x\nimport p.b",
        "p/a/__init__.py": "",
        "p/a/one.py": "from p.a import two\nfrom p.low import y",
        "p/a/two.py": "def late():\n    import p.b.three",
        "p/b/__init__.py": "from q import other",
        "p/b/three.py": "from p.a import one, two",
        "p/low.py": "import os",
        "q.py": "import p.low",
    }
)


def test_a_room_is_a_folder_or_a_module_in_none():
    assert rooms(HOUSE, "p") == ["a", "b", "low", "top"]


def test_arrows_between_rooms_are_counted_once_and_not_within_them():
    assert arrows(HOUSE, "p") == {("top", "a"), ("top", "b"), ("a", "low"), ("a", "b"), ("b", "a")}
    assert pairs(arrows(HOUSE, "p")) == 1
    assert upward(arrows(HOUSE, "p")) == 1


@pytest.mark.parametrize(
    ("between", "least"),
    [
        ([], 0),
        (["ab", "bc", "ac"], 0),
        (["ab", "ba"], 1),
        (["ab", "bc", "ca"], 1),
        (["ab", "bc", "ca", "ac", "ba", "cb"], 3),
        (["ab", "ba", "cd", "dc", "ac"], 2),  # two knots
        (["ab", "bc", "cd", "da", "ac", "bd"], 1),  # da alone closes every round
    ],
)
def test_as_few_arrows_run_up_as_the_best_order_of_rooms_allows(between: list[str], least: int):
    assert upward([(one[0], one[1]) for one in between]) == least


@given(st.sets(st.sampled_from([(one, other) for one in "abcde" for other in "abcde" if one != other])))
def test_no_order_of_rooms_has_fewer_arrows_up_and_one_has_as_few(between: set[tuple[str, str]]):
    up = [sum(order.index(one) < order.index(other) for one, other in between) for order in permutations("abcde")]
    assert upward(between) == min(up)
    assert bool(knots(between)) == bool(min(up))


TAKERS = [
    ("def f(state: State): ...", True),
    ("def f(*, state: State): ...", True),
    ("def f(state: State, /): ...", True),
    ("class A:\n    def f(self, told: State | None): ...", True),
    ("def f(state: engine.State): ...", True),
    ("class A:\n    state: State", True),
    ("def f(states: list[State]): ...", False),
    ("def f(make: Callable[[], State]): ...", False),
    ("def f(state: StateOfOne): ...", False),
    ("def f() -> State: ...", False),
]


@pytest.mark.parametrize(("text", "takes"), TAKERS)
def test_who_takes_a_class_whole_is_found_by_annotations(text: str, takes: bool):
    tree = parsed({"engine/state.py": "class State: ...", "m.py": f"from engine.state import State\n{text}"})
    assert takers(tree, "engine.state", "State") == (["m.py"] if takes else [])


def test_another_class_of_the_same_name_is_not_meant():
    text = "def f(state: State): ..."
    tree = parsed({"engine/state.py": f"class State: ...\n{text}", "m.py": f"class State: ...\n{text}"})
    assert takers(tree, "engine.state", "State") == ["engine/state.py"]


def test_fields_of_a_class_are_declared_or_first_assigned_to_itself_there_or_in_what_it_extends():
    tree = parsed(
        {
            "low.py": "class Part:\n    zero: int\n",
            "m.py": "from low import Part\n"
            "class Beside:\n    one: int\n"
            "class State(Part, Beside, Exception):\n"
            "    two: int = 2\n"
            "    def __init__(self):\n"
            "        self.two = 3\n"
            "        self.three = other.four = 4\n",
        }
    )
    assert fields(tree, "m", "State") == {"zero", "one", "two", "three"}
    assert fields(tree, "low", "Part") == {"zero"}
    with pytest.raises(LookupError, match=r"m\.py defines no class Gone"):
        fields(tree, "m", "Gone")


def test_a_file_sees_the_fields_of_the_largest_class_that_it_takes():
    tree = parsed(
        {
            "low.py": "class Part:\n    zero: int\ndef f(state: Part): ...",
            "m.py": "from low import Part\nclass State(Part):\n    one: int\n    two: int",
            "a.py": "from low import Part\nfrom m import State\ndef f(state: State, part: Part): ...",
            "b.py": "def f(state: State): ...",
        }
    )
    assert sorted(seen(tree, "m", "State")) == [1, 3]


@pytest.mark.parametrize(
    ("text", "assigns"),
    [
        ("a.phase = 1", True),
        ("a.b.phase: int = 1", True),
        ("a.phase, b = 1, 2", True),
        ("a.phase += 1", True),
        ("for a.phase in b: ...", True),
        ("b = a.phase", False),
        ("phase = 1", False),
        ("a.phase.name = 1", False),
    ],
)
def test_who_assigns_an_attribute_is_found_however_it_is_done(text: str, assigns: bool):
    assert assigners(parsed({"m.py": text}), "phase") == (["m.py"] if assigns else [])


def test_a_homonym_is_a_public_name_that_several_modules_define():
    tree = parsed(
        {
            "a.py": "class Room: ...\ndef read(): ...\ndef _own(): ...\nLIMIT = 1\ndef once(): ...",
            "b.py": "class Room: ...\nasync def read(): ...\ndef _own(): ...\nLIMIT = 2\nfrom a import once",
            "c.py": "def read(): ...\nclass A:\n    def once(self): ...",
            "d.py": "@overload\ndef twice(): ...\ndef twice(): ...",
        }
    )
    assert homonyms(tree) == {"read": ["a.py", "b.py", "c.py"], "Room": ["a.py", "b.py"]}
    assert len(defined(tree)) == 5


def test_a_package_of_which_only_the_name_begins_alike_is_another():
    tree = parsed({"p/__init__.py": "", "p/a/__init__.py": "", "p/a/b.py": "", "p_a/__init__.py": "", "q.py": ""})
    assert set(within(tree, "p")) == {"p", "p.a", "p.a.b"}


def test_a_name_may_mean_another_thing_in_another_distribution():
    tree = parsed(
        {
            "tutti/a.py": "class Room: ...\ndef read(): ...",
            "tutti/b.py": "def read(): ...",
            "tutti_sim/a.py": "class Room: ...\ndef write(): ...",
            "tutti_bench/a.py": "def write(): ...\ndef read(): ...",
        }
    )
    own, beside = distributions(tree)
    assert homonyms(own) == {"read": ["tutti/a.py", "tutti/b.py"]}
    assert homonyms(beside) == {"write": ["tutti_sim/a.py", "tutti_bench/a.py"]}


def test_figures_of_a_small_house():
    tree = parsed(
        {
            "tutti/engine/cycle/state.py": "class State:\n    now: float = 0.0\n",
            "tutti/engine/a/one.py": "from tutti.engine.cycle.state import State\nfrom tutti.engine.b import two\ndef f(state: State):\n    state.phase = 1\n"
            + "#\n" * 36,
            "tutti/engine/b/two.py": "from tutti.engine.a import one\ndef f(w):\n    w.explanation = None\n",
            "tutti_sim/pods.py": "def f(pod):\n    pod.phase = 1\n",
        }
    )
    found = figures(tree, Walk(Counter({("a.py", "f"): 3, ("a.py", "g"): 1, ("b.py", "f"): 1})))
    assert {one.key: one.now for one in found} == {
        "arrows": 3,
        "upward": 1,
        "mutual": 1,
        "state_files": 1,
        "state_fields": 1,
        "state_seen": 1,
        "phase_files": 1,
        "explanation_files": 1,
        "pod_calls": 5,
        "pod_functions": 3,
        "pod_files": 2,
        "homonyms": 1,
        "homonyms_beside": 0,
        "files": 3,
        "lines": 45,
        "mean_file": 15,
        "longest_file": 40,
        "short_files": 2,
    }


@pytest.mark.parametrize(
    ("figure", "reached", "aim"),
    [
        (Figure("a", "A", 3, 3), True, "<= 3"),
        (Figure("a", "A", 4, 3), False, "<= 3"),
        (Figure("a", "A", 0, 0), True, "0"),
        (Figure("a", "A", 4), None, ""),
        (Figure("a", "A", 129, 160, least=130), False, "130-160"),
        (Figure("a", "A", 130, 160, least=130), True, "130-160"),
    ],
)
def test_a_figure_says_whether_it_has_come_to_its_aim(figure: Figure, reached: bool | None, aim: str):
    assert (figure.reached, aim_of(figure)) == (reached, aim)
    assert text([figure]).splitlines()[1].split() == ["A", f"{figure.now:,}", *aim.split()]


def test_a_walk_counts_calls_into_a_folder_and_gives_back_what_profiled_before():
    here = f"{Path(__file__).parent}/"

    def outer() -> None:
        inner()
        inner()
        json.dumps([1])
        assert [one + 1 for one in (1, 2)]

    def inner() -> None:
        sorted([2, 1], key=lambda one: -one)

    walk = walked(outer, here)
    assert walk.calls == {("test_figures.py", "outer"): 1, ("test_figures.py", "inner"): 2}
    assert (walk.functions, walk.files) == (2, ["test_figures.py"])


def test_deciding_a_queued_pod_goes_through_the_engine_of_users():
    walk = queued_pod()
    assert walk.calls["engine/cycle/engine.py", "decide"] == 1
    assert walk.files[0] == "engine/cycle/engine.py"
    assert {path.split("/")[0] for path in walk.files} >= {"cluster", "placement", "quota", "engine"}
    assert queued_pod().calls == queued_pod().calls, "what has been read once is remembered; else all is the same"


def test_what_is_printed_is_counted_on_this_source_tree(capsys: pytest.CaptureFixture[str]):
    main(["-o", "json", "--names"])
    said = json.loads(capsys.readouterr().out)
    by_key = {one["key"]: one for one in said["figures"]}
    source = Path(tutti.__file__).parent
    own = list(source.rglob("*.py"))
    assert by_key["files"]["now"] == len(own)
    assert by_key["lines"]["now"] == sum(path.read_bytes().count(b"\n") for path in own)
    assert by_key["homonyms"]["now"] == len(said["names"])
    assert by_key["homonyms_beside"]["now"] == len(said["names_beside"])
    assert by_key["state_fields"]["now"] == len(dataclasses.fields(State))
    figures_again = [Figure(**{key: one[key] for key in one if key != "reached"}) for one in said["figures"]]
    assert [one.reached for one in figures_again] == [one["reached"] for one in said["figures"]]
    assert loaded(source.parent)["tutti.engine.cycle.engine"].path == "tutti/engine/cycle/engine.py"


def test_the_map_of_a_room_says_of_each_of_its_modules_what_it_is_for(capsys: pytest.CaptureFixture[str]):
    main(["--map", "engine/backfill/"])
    lines = capsys.readouterr().out.splitlines()
    room = Path(tutti.__file__).parent / "engine" / "backfill"
    assert [line.split()[0] for line in lines] == [
        f"tutti/engine/backfill/{one.name}" for one in sorted(room.glob("*.py"))
    ]
    assert all(line.endswith(".") for line in lines)
