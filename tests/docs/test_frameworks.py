"""The pages on job frameworks: what they say of each manifest is what the rules on owners say of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from handbook.frameworks import Block, blocks, described, made_of, rewritten, table, told
from tests.cli.views.scene import node
from tests.cli.views.scene import told as told_of
from tutti.api.configuration import TuttiConfiguration
from tutti.api.frameworks import KNOWN_KINDS, KindTable
from tutti.api.model import API_VERSION
from tutti.cli.views.explain.elsewhere import StartOutcome, compare_clusters

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


Json = dict[str, Any]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def tutorials_cluster() -> list[Json]:
    """The nodes, queues and flavors of the tutorial, before anything runs there."""
    nodes, gpus, per_rack = map(int, re.findall(r"--nodes (\d+) --gpus (\d+) --nodes-per-rack (\d+)", TUTORIAL)[0])
    made: list[Json] = []
    for number in range(nodes):
        one = node(f"node-{number}", "NVIDIA-A100-SXM4-80GB", "")
        one["metadata"]["labels"]["topology.tutti.dev/rack"] = f"rack-{number // per_rack}"
        assert one["status"]["allocatable"]["nvidia.com/gpu"] == str(gpus)
        made.append(one)
    made += [{"apiVersion": "v1", "kind": "Namespace", "metadata": _named(team)} for team in ("vision", "language")]
    for text in re.findall(r"<<'?END'?\n(.*?)\nEND\n", TUTORIAL.split("## 3.")[0], re.DOTALL):
        for team in ("vision", "language") if "$team" in text else ("",):
            made += yaml.safe_load_all(text.replace("$team", team))
    return made


def _named(name: str) -> Json:
    return {"name": name, "labels": {"kubernetes.io/metadata.name": name}}


def queues_of(page: str) -> list[Json]:
    """The queues and flavors that a page has people make."""
    found = [
        one
        for text in re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
        for one in yaml.safe_load_all(text)
    ]
    return [one for one in found if one.get("kind") in ("ResourceFlavor", "ClusterQueue", "LocalQueue")]


def as_made(manifest: str, kinds: KindTable) -> str:
    """What of a manifest makes pods: itself, or what its controller makes of it."""
    documents = list(yaml.safe_load_all(manifest))
    raw = documents[0]
    kind = kinds.get(raw["apiVersion"].rpartition("/")[0], raw["kind"])
    assert kind is not None
    if kind.kind == "SparkApplication":
        return yaml.safe_dump(driver_of(raw))
    made = made_of(raw, kind, documents)
    if made is None or kind.numbers_of is None:
        return manifest
    group, _, name = kind.numbers_of.partition("/")
    meta = raw["metadata"] | {"name": "made"}
    return yaml.safe_dump({"apiVersion": f"{group}/v1", "kind": name, "metadata": meta, "spec": made["spec"]})


def driver_of(raw: Json) -> Json:
    """The driver that Spark makes of a SparkApplication: nothing of it is a pod template."""
    driver, meta = raw["spec"]["driver"], raw["metadata"]
    asks = {"cpu": driver["coreRequest"], "memory": "1408Mi"}  # memory and 384 MiB: Spark 4, memoryOverheadFactor
    container = {"name": "spark", "image": raw["spec"]["image"], "resources": {"requests": asks}}
    spec = {"schedulerName": driver["schedulerName"], "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


EXAMPLES = [
    pytest.param(page, block, id=f"{page.stem}-{number}")
    for page in SHOWN
    for number, block in enumerate(blocks(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("page", "block"), EXAMPLES)
def test_what_a_page_shows_starts_in_the_queues_of_the_tutorial(page: Path, block: Block) -> None:
    text = page.read_text(encoding="utf-8")
    own = TuttiConfiguration(frameworks=described(text))
    asked = replace(told_of([*tutorials_cluster(), *queues_of(text)]), configuration=own)
    found = compare_clusters([("tutorial", asked)], "vision", "", as_made(block.manifest, table(text)))
    assert [(one.outcome, one.message) for one in found.clusters] == [(StartOutcome.NOW, "")]


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
