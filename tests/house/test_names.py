"""A public name means one thing: those that several modules define stand in a list, which only grows shorter."""

from __future__ import annotations

from pathlib import Path

import pytest

import tutti
from tests.house.__main__ import main
from tests.house.counting import homonyms, within
from tests.house.figures import PACKAGE
from tests.house.names import LIST, listed, pruned
from tests.house.source import loaded

pytestmark = pytest.mark.xdist_group("house")  # the source is read once for all of them


def found() -> dict[str, list[str]]:
    """The names that several modules of the operator define, each with these modules."""
    return homonyms(within(loaded(Path(tutti.__file__).parents[1]), PACKAGE))


def test_a_name_that_several_modules_define_is_in_the_list_with_a_reason():
    new = {name: paths for name, paths in found().items() if name not in listed(LIST.read_text(encoding="utf-8"))}
    assert not new, "another name for one of them, please; or, where both are the field's, a line in homonyms.txt"


def test_a_name_that_only_one_module_defines_is_not_in_the_list():
    old = set(listed(LIST.read_text(encoding="utf-8"))) - set(found())
    assert not old, "`python -m tests.house --prune` takes them out"


@pytest.mark.parametrize("text", ["Room", "Room:", "Room: old", ": a reason", "A: one thing\nA: another thing"])
def test_a_line_without_a_reason_is_refused_and_so_is_a_name_that_stands_there_twice(text: str):
    with pytest.raises(ValueError, match=r"twice|say why"):
        listed(text)


def test_a_list_is_pruned_of_what_no_homonym_is_any_more_and_nothing_else():
    text = "# why\n\nRoom: capacity, and a place\nrun: of tests, and of the operator\n"
    assert pruned(text, {"run": []}) == "# why\n\nrun: of tests, and of the operator\n"
    assert listed(text) == {"Room": "capacity, and a place", "run": "of tests, and of the operator"}


def test_the_list_can_be_pruned_by_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    mine = tmp_path / "homonyms.txt"
    mine.write_text("nobody_defines_this: a thing, and another\n" + LIST.read_text(encoding="utf-8"), encoding="utf-8")
    main(["--prune", str(mine)])
    assert set(listed(mine.read_text(encoding="utf-8"))) == set(found())
    assert capsys.readouterr().out == "nobody_defines_this\n"
