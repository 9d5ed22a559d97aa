"""The pages on job frameworks: what they say of each manifest is what the rules on owners say of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from handbook.frameworks import blocks, rewritten, table, told
from tutti.api.frameworks import KNOWN_KINDS, KindTable
from tutti.api.model import API_VERSION

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "frameworks").glob("*.md"))
SHOWN = [page for page in PAGES if blocks(page.read_text(encoding="utf-8"))]
AT_LEAST_NAMED = {"CronJob", "Workflow", "AppWrapper", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob"}
"""Kinds of which a page tells without a manifest: they are like another one, or make no gang."""
LEFT_OUT = {"DaemonSet", "ReplicaSet"}
"""Kinds that nobody submits to have a gang."""


@pytest.mark.parametrize("page", SHOWN, ids=lambda path: path.stem)
def test_what_a_page_says_of_a_manifest_is_what_the_rules_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    kinds = table(text)
    for block in blocks(text):
        assert block.told == told(block.manifest, kinds)
        assert block.told


def test_every_known_kind_is_on_a_page() -> None:
    whole = {page: page.read_text(encoding="utf-8") for page in PAGES}
    shown = {
        (str(one["apiVersion"]).rpartition("/")[0], one["kind"])
        for text in whole.values()
        for block in blocks(text)
        for one in yaml.safe_load_all(block.manifest)
    }
    named = "".join(whole.values())
    for kind in KNOWN_KINDS:
        if (kind.group, kind.kind) not in shown and kind.kind not in LEFT_OUT:
            assert kind.kind in AT_LEAST_NAMED | {"Job"}, f"{kind.id} is on no page"
            assert kind.kind in named


@pytest.mark.parametrize("page", SHOWN, ids=lambda path: path.stem)
def test_every_template_on_a_page_names_the_scheduler_but_where_that_is_the_point(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        assert "schedulerName: tutti" in block.manifest
        assert f"{API_VERSION.partition('/')[0]}/queue-name" in block.manifest


PAGE = """a
```yaml
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec: {completionMode: Indexed, parallelism: 2, completions: COUNT, template: {spec: {schedulerName: tutti}}}
```

```text
old
```

```yaml
kind: Other
```
b
"""


def test_what_is_said_replaces_what_the_page_said_and_nothing_else() -> None:
    gang = "Job train: 2 pods start together\n  main: 2\n"
    page = PAGE.replace("COUNT", "2")
    assert rewritten(page) == page.replace("old\n", gang)


def test_pods_that_start_one_by_one_are_told_once() -> None:
    [block] = blocks(PAGE.replace("COUNT", "9"))
    assert told(block.manifest, KindTable()) == "Job train: each pod starts by itself\n"


def test_a_page_whose_description_cannot_be_used_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[0\]"):
        table("```yaml\nframeworks: [{kind: Solver}]\n```\n")
