"""What docs/ and the README show can be used: manifests, fields, commands, links, and files that are named exist."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
import pytest
import yaml

from handbook.fields import fields
from tutti.api.configuration import KIND, TuttiConfiguration
from tutti.api.kinds import KINDS, parse_object
from tutti.api.kinds.parsing import without_nulls
from tutti.api.model import API_VERSION
from tutti.cli.main import cli
from tutti.cli.views.degraded import DegradedGang, NodeState
from tutti.cli.views.drain.trial import Drain, PodFate
from tutti.cli.views.explain.model import ExplainedWorkload, GateOutcome
from tutti.cli.views.forecast.model import Course, Forecast
from tutti.cli.views.gangs import GangView
from tutti.cli.views.nodes import Top
from tutti.cli.views.queues import QueueDetails
from tutti.cli.views.quota_tree import Branch

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


def paths() -> set[str]:
    """The path of every field of ours, and every part of it that is written without what is before or after."""
    found = set()
    for model in (TuttiConfiguration, *KINDS.values()):
        for field in fields(model.model_json_schema(by_alias=True)):
            parts = field.path.replace("[]", "").split(".")
            ends = range(1, len(parts) + 1)
            found |= {".".join(parts[begin:end]) for end in ends for begin in range(end)}
    return found


def fields_of(*kinds: type[msgspec.Struct]) -> set[str]:
    """The names in JSON of the fields of these answers, and of all that is in them."""
    seen, left = set[Any](), [*kinds]
    while left:
        kind = left.pop()
        seen.add(kind)
        types = {field.type for field in msgspec.structs.fields(kind)}
        parts = {part for one in types for part in (one, *get_args(one))}
        left += [part for part in parts - seen if isinstance(part, type) and issubclass(part, msgspec.Struct)]
    return {field.encode_name for kind in seen for field in msgspec.structs.fields(kind)}


ANSWERS = {
    "what-if.md": (Forecast,),
    "look.md": (Branch, QueueDetails, GangView, Top),
    "why.md": (ExplainedWorkload,),
    "nodes.md": (Drain,),
}
"""What commands answer in JSON, by the page that tells so."""
ELSEWHERE = {"why.md": {*fields_of(DegradedGang)}}
"""Fields that another page tells of, to which a page leads."""


def words_for_programs(page: str) -> set[str]:
    """What a page names in what it says to programs, field by field: `waiting[].startsAt` is startsAt."""
    text = (ROOT / "docs" / "howto" / page).read_text("utf-8").partition("\n## For programs")[2]
    return set(re.findall(r"`(?:\w*(?:\[\])?\.)?(\w+)(?:\[\])?`", text))


@pytest.mark.parametrize("page", ANSWERS)
def test_a_page_tells_programs_of_every_field_of_an_answer(page: str) -> None:
    assert fields_of(*ANSWERS[page]) - ELSEWHERE.get(page, set()) <= words_for_programs(page)


@pytest.mark.parametrize(
    ("page", "words"), [("what-if.md", Course), ("why.md", GateOutcome), ("nodes.md", PodFate), ("look.md", NodeState)]
)
def test_a_page_tells_programs_of_every_word_that_a_field_may_have(page: str, words: type[enum.StrEnum]) -> None:
    assert {word.value for word in words} <= words_for_programs(page)


def test_every_field_that_is_named_is_one_of_ours() -> None:
    known = paths() | {"apiVersion", "failurePolicy", "podManagementPolicy", "preemptionPolicy", "tolerationSeconds"}
    known |= {"backoffLimit", "podFailurePolicy", "topologyKeys"}  # of Jobs and CSINodes
    known |= {"dependsOn", "shutdownAfterJobFinishes"}  # of JobSets and RayJobs
    known |= {"nominatedNodeName", "status.nominatedNodeName", "consolidateAfter"}  # of pods and Karpenter
    known |= {
        "matchAttribute",
        "distinctAttribute",
        "firstAvailable",
        "allocationMode",
        "resourceSliceCount",
        "resourceClaimName",
    }  # devices
    known |= {"renameByDefault", "status.provisioningClassDetails"}  # of KAI, and of ProvisioningRequests
    known |= {"spec.runtimePatches", "status.jobsStatus", "spec.managedBy"}  # of TrainJobs
    known |= {"topologySortingAlgorithm", "minBandwidth", "bandwidthCapacity", "bandwidthAllocated", "maxNetworkCost"}
    known |= {"status.topologyOrder", "workload.namespace"}  # of AppGroups and NetworkTopologies
    known |= set(re.findall(r"(?m)^\| `([\w.]+)` \|", (ROOT / "manifests" / "chart" / "README.md").read_text("utf-8")))
    known |= {"details.passedUpSince"}  # of what a workload waits for
    known |= {"spec.resourceClaims", "knownMigGeometries", "migProfileAllowlist"}  # of pods, and of HAMi
    answers = {*fields_of(*(kind for kinds in ANSWERS.values() for kind in kinds)), "workloads.before"}
    known |= answers | {f"{one}.{field}" for one in answers for field in answers}  # of what commands answer in JSON
    named = r"`([a-z][A-Za-z]*(?:\[\])?(?:\.[a-z][A-Za-z]*(?:\[\])?)+|[a-z]+[A-Z][A-Za-z]*)(?::[^`]*)?`"
    told = ("concepts", "howto", "operations")
    pages = [page for page in MADE_BY_HAND if page.parent.name in told or page.stem in ("fairness", "lifecycle")]
    found = {
        name.replace("[]", "")
        for page in pages
        for name in re.findall(
            named, re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        )
        if not name.endswith((".yaml", ".json", ".py"))
    }
    assert len(found) > 30
    assert found <= known


def test_every_command_that_is_named_is_one_that_there_is() -> None:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        shown = [*re.findall(r"`tutti ([^`\n]+)`", text), *re.findall(r"^(?: {4})?tutti ([^\n]+)$", text, re.MULTILINE)]
        found += [(page.name, line, *unknown(line)) for line in shown]
    assert len(found) > 20
    assert not [one for one in found if len(one) > 2]


def unknown(line: str) -> list[str]:
    """The words of a command line that are no command or option of ours."""
    words = re.split(r"[\s|>&]+", line.partition("#")[0])
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words and (inner := command.get_command(context, words[0])) is not None:
        command, words = inner, words[1:]
    if command is cli:
        return [] if words[0] in ("--version", "--help", "...") else words[:1]
    if isinstance(command, click.Group):  # `tutti bench FILE` is short for `tutti bench run FILE`
        command = command.get_command(context, "run") or command
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in {*options, "--help"}]


@pytest.mark.parametrize("page", MADE_BY_HAND, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
    assert not [target for target in links if not (page.parent / target).exists()]
    named = re.findall(r"`((?:[\w-]+/)+[\w.-]*\w/?)`", text)
    named = [name for name in named if name.split("/")[0] in PLACES]
    assert not [name for name in named if not any((base / name).exists() for base in (ROOT, PACKAGE))]
