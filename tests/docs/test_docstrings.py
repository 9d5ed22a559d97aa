"""The check for docstrings, as `make lint` runs it, lets none be missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MANY = 20_000


@pytest.mark.parametrize(("undocumented", "code"), [(0, 0), (1, 1)])
def test_one_missing_docstring_among_many_is_found(tmp_path, undocumented, code):
    documented = [f'def f{n}():\n    """Return nothing."""\n' for n in range(MANY)]
    bare = [f"def g{n}():\n    return\n" for n in range(undocumented)]
    (tmp_path / "one.py").write_text('"""A module."""\n' + "".join([*documented, *bare]), encoding="utf-8")
    command = [sys.executable, "-m", "interrogate", "--quiet", "--config", str(ROOT / "pyproject.toml"), str(tmp_path)]

    assert subprocess.run(command, check=False, capture_output=True).returncode == code
