"""Every module of the operator is reachable from a command: there is no code for tests alone."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.house.counting import within
from tests.house.reach import entries, reached, unreached
from tests.house.source import loaded, parsed

pytestmark = pytest.mark.xdist_group("house")  # the source is read once for all of them

ROOT = Path(__file__).parents[2]
BESIDE_COMMANDS = {"tutti.__main__", "tutti.plugins", "tutti.api.crds"}
"""What else is begun in: `python -m tutti`, what authors of plugins import, and `make crds`."""


def test_every_module_of_the_operator_is_reachable_from_a_command():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tree = loaded(ROOT / "operator")
    left = unreached(tree, entries(project) | BESIDE_COMMANDS)
    assert not left, f"no command reaches {', '.join(left)}: whatever only tests use is to be deleted"


def test_every_module_of_the_operator_is_reachable_without_what_is_installed_beside_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tree = within(loaded(ROOT / "operator"), "tutti")
    left = unreached(tree, entries(project) | BESIDE_COMMANDS)
    assert not left, f"only the embedded cluster, the bench or the demo use {', '.join(left)}: it belongs to them"


def test_commands_are_read_from_the_project():
    project = {"project": {"scripts": {"a": "p.main:main", "b": "p.other:run"}, "gui-scripts": {"c": "p.window"}}}
    assert entries(project) == {"p.main", "p.other", "p.window"}
    assert entries({"project": {}}) == set()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import p.one", "p.one"),
        ("import p.one as one", "p.one"),
        ("from p import one", "p.one"),
        ("from p.one import thing", "p.one"),
        ("from . import one", "p.one"),
        ("from .one import thing", "p.one"),
        ("def late():\n    from p.one import thing", "p.one"),
        ("if TYPE_CHECKING:\n    import p.one", "p.one"),
        ("COMMANDS = {'one': 'p.one'}", "p.one"),
        ("load('p.one:thing')", "p.one"),
        ("import p.deep.er", "p.deep"),
        ("from p import deep", "p.deep"),
        ("from .deep.er import thing", "p.deep.er"),
    ],
)
def test_a_module_is_reached_by_whoever_names_it(text: str, name: str):
    tree = parsed(
        {"p/__init__.py": "", "p/main.py": text, "p/one.py": "", "p/deep/__init__.py": "", "p/deep/er.py": ""}
    )
    assert name in reached(tree, ["p.main"])


def test_what_only_others_that_are_not_reached_import_is_not_reached():
    tree = parsed(
        {
            "p/__init__.py": "",
            "p/main.py": "from p import used  # and 'p.island' in a comment",
            "p/used.py": '"""Unlike p.island, this is used."""',
            "p/island.py": "import p.other",
            "p/other.py": "import p.island",
            "p/alone/__init__.py": "",
            "p/alone/one.py": "from . import two",
            "p/alone/two.py": "import p.used",
        }
    )
    assert unreached(tree, ["p.main"]) == [
        "p/alone/__init__.py",
        "p/alone/one.py",
        "p/alone/two.py",
        "p/island.py",
        "p/other.py",
    ]


def test_a_relative_import_of_a_package_is_counted_from_the_package_itself():
    tree = parsed({"p/__init__.py": "from .one import x", "p/one.py": "from ..p import two", "p/two.py": ""})
    assert reached(tree, ["p"]) == {"p", "p.one", "p.two"}


def test_a_command_that_begins_nowhere_is_an_error():
    with pytest.raises(KeyError):
        reached(parsed({"p/__init__.py": ""}), ["p.gone"])
