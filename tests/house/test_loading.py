"""Workers share the files of tests: together they load all that was asked for, and each file is some worker's."""

from __future__ import annotations

from pathlib import Path

from tests.loading import modules, share


def test_the_shares_of_all_workers_are_everything_once():
    names = [f"tests.test_{number}" for number in range(20)]
    for count in (1, 2, 6, 30):
        given = [name for number in range(count) for name in share(names, number, count)]
        assert sorted(given) == sorted(names)


def test_a_folder_a_file_and_a_test_are_asked_for_by_the_modules_they_are_in():
    here = Path(__file__)
    assert modules([f"{here}::test_nothing[a-b]"]) == ["tests.house.test_loading"]
    found = modules([str(here.parent), str(here)])
    assert found.count("tests.house.test_loading") == 1
    assert "tests.house.test_reach" in found
    assert not [name for name in found if not name.startswith("tests.house.test_")]
