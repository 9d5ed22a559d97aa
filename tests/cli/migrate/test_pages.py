"""What `tutti migrate kueue` writes of each manifest on the pages about frameworks starts as the page says.

The manifests as users of Kueue have them: Kueue's label and no scheduler of ours, where the kind can say one.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from handbook.frameworks import blocks, table, told
from tutti.api.frameworks import KNOWN_KINDS
from tutti.cli.migrate.kueue.jobs import Run
from tutti.cli.migrate.kueue.layouts import HOLDERS
from tutti.cli.migrate.kueue.rewriting import rewrite
from tutti.cli.migrate.streams import migrate

PAGES = sorted((Path(__file__).parents[3] / "docs" / "frameworks").glob("*.md"))
OURS, KUEUES = "scheduling.tutti.dev/queue-name", "kueue.x-k8s.io/queue-name"
RUNTIMES = {"ClusterTrainingRuntime", "TrainingRuntime"}
"""Kinds whose templates say who schedules: whoever migrates writes it there, as is told."""

Json = dict[str, Any]


def manifests():
    """Each manifest of a page, with the page."""
    return [
        pytest.param(page, block, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, block in enumerate(blocks(page.read_text(encoding="utf-8")))
    ]


def with_kueue(one: Json) -> Json:
    """A document as a user of Kueue has it."""
    return one if one["kind"] in RUNTIMES else _changed(one)


def _changed(value: Any) -> Any:
    if isinstance(value, dict):
        return {KUEUES if key == OURS else key: _changed(part) for key, part in value.items() if key != "schedulerName"}
    return [_changed(part) for part in value] if isinstance(value, list) else value


def known(one: Json) -> bool:
    """Whether Kueue knows the kind of a document."""
    return (str(one["apiVersion"]).rpartition("/")[0], one["kind"]) in HOLDERS


@pytest.mark.parametrize(("page", "block"), manifests())
def test_a_migrated_manifest_starts_as_its_page_says(page: Path, block: Any) -> None:
    documents = [one for one in yaml.safe_load_all(block.manifest) if isinstance(one, dict)]
    if not any(map(known, documents)):
        pytest.skip("Kueue knows no such kind")
    if "the default scheduler places it" in block.told:
        pytest.skip("Kueue counts what another scheduler places, and so all of it is placed here then")
    text = yaml.safe_dump_all([with_kueue(one) for one in documents], sort_keys=False)
    done = migrate(text, "submitted.yaml", partial(rewrite, run=Run()))

    assert KUEUES not in done.text
    assert told(done.text, table(page.read_text(encoding="utf-8"))) == block.told


def test_every_kind_that_kueue_knows_and_has_a_page_is_migrated() -> None:
    shown = {
        (str(one["apiVersion"]).rpartition("/")[0], one["kind"])
        for page in PAGES
        for block in blocks(page.read_text(encoding="utf-8"))
        for one in yaml.safe_load_all(block.manifest)
    }
    assert not {(one.group, one.kind) for one in KNOWN_KINDS} & shown - set(HOLDERS)
