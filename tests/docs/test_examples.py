"""What docs/ and the README show can be used: manifests are valid, links lead to files, and code that is named exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tutti.api.configuration import KIND, TuttiConfiguration
from tutti.api.kinds import KINDS, parse_object
from tutti.api.kinds.parsing import without_nulls
from tutti.api.model import API_VERSION

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MADE_BY_HAND = [page for page in PAGES if "<!-- Generated" not in page.read_text(encoding="utf-8")]
PACKAGE = ROOT / "operator" / "tutti"
PLACES = {path.name for base in (ROOT, PACKAGE) for path in base.iterdir() if path.is_dir()} - {"build"}


def manifests() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every YAML block with an object of ours, by page."""
    for page in PAGES:
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            yield from ((page, one) for one in yaml.safe_load_all(block) if isinstance(one, dict))


def test_every_manifest_of_ours_is_one_that_the_operator_takes() -> None:
    ours = [(page, one) for page, one in manifests() if one.get("apiVersion") == API_VERSION and one["kind"] in KINDS]
    assert len(ours) > 5
    for _, one in ours:
        parse_object(one["kind"], one)


def test_every_configuration_is_one_that_the_operator_takes() -> None:
    known = {field.alias for field in TuttiConfiguration.model_fields.values()}
    found = [(page, one) for page, one in manifests() if one.get("kind") == KIND or (set(one) <= known and one)]
    assert len(found) > 2
    for _, one in found:
        TuttiConfiguration.model_validate(without_nulls(one))


@pytest.mark.parametrize("page", MADE_BY_HAND, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
    assert not [target for target in links if not (page.parent / target).exists()]
    named = re.findall(r"`((?:[\w-]+/)+[\w.-]*\w/?)`", text)
    named = [name for name in named if name.split("/")[0] in PLACES]
    assert not [name for name in named if not any((base / name).exists() for base in (ROOT, PACKAGE))]
