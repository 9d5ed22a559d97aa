"""docs/ is built into a site in strict mode: no link leads nowhere, no page is forgotten, nothing comes from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"|<link[^>]*rel="(?:stylesheet|icon)"[^>]*href="([^"]+)"'
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    # Not --quiet: what is not told is not counted as a warning either, and nothing would be refused.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(made)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_every_page_is_built(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix("")
        place = place.parent if place.name == "index" else place
        assert (site / place / "index.html").exists(), page


def test_a_reader_asks_no_other_host_for_anything(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loaded = {one or other for one, other in LOADED.findall(page.read_text(encoding="utf-8"))}
        assert loaded
        assert not [address for address in loaded if "//" in address], page
