"""The pages of docs/reference say what the models say, and leave nothing unsaid."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"
pytestmark = pytest.mark.xdist_group("reference")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages as `make reference` makes them: in a process of its own, for a command keeps how it was called first."""
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([sys.executable, "-m", "handbook.reference", str(folder)], cwd=ROOT, check=True)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_the_pages_are_those_that_the_models_give(made: dict[str, str], name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == made[name], "run `make reference`"


def test_there_is_every_page(made: dict[str, str]) -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(made)


@pytest.mark.parametrize("name", ["kinds.md", "configuration.md"])
def test_every_field_has_a_meaning(made: dict[str, str], name: str) -> None:
    rows = re.findall(r"^\| `(.+?)` \|.*\| *(.*?) \|$", made[name], re.MULTILINE)
    assert len(rows) > 50
    assert not [path for path, meaning in rows if not meaning]
