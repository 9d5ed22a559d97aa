"""Says of manifests on pages which pods start together: `python -m handbook.frameworks PAGE...` writes it into them.

Each `yaml` block with a `text` block right after it is read as the operator reads objects: pods are made of it with the
labels and owners that its project's controller writes, and the rules on owners are asked about each. A block with
`frameworks` describes kinds for those that come after it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tutti.api.configuration import load_configuration
from tutti.api.frameworks import (
    FrameworkKind,
    InheritedTerms,
    KindTable,
    OwnedGang,
    OwnerChain,
    PlacedAlone,
    PodMarks,
    ProjectedOwner,
    gang_of,
    inherited_terms,
    projected,
)
from tutti.api.frameworks.kinds import COMPLETION_INDEX
from tutti.api.frameworks.roles import placed_roles

SCHEDULERS = ("tutti",)
_LINES = r"(?:(?!```).*\n)*"
_BLOCK = re.compile(rf"^```yaml\n(?P<manifest>{_LINES})```\n\n```text\n(?P<told>{_LINES})```\n", re.MULTILINE)
_YAML = re.compile(rf"^```yaml\n({_LINES})```\n", re.MULTILINE)
_ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"

Json = dict[str, Any]


class Block(NamedTuple):
    """A manifest on a page, and what the page says of it."""

    manifest: str
    told: str


def blocks(page: str) -> list[Block]:
    """The manifests of a page of which it says what starts together."""
    return [Block(found["manifest"], found["told"]) for found in _BLOCK.finditer(page)]


def rewritten(page: str) -> str:
    """The page with what the rules say of each manifest, in place of what it says."""
    kinds = table(page)
    return _BLOCK.sub(
        lambda found: f"```yaml\n{found['manifest']}```\n\n```text\n{told(found['manifest'], kinds)}```\n", page
    )


def table(page: str) -> KindTable:
    """The kinds that are known, and those that a page describes.

    Raises:
        ConfigurationError: A description cannot be used.
    """
    return KindTable(described(page))


def described(page: str) -> list[FrameworkKind]:
    """The kinds that a page describes.

    Raises:
        ConfigurationError: A description cannot be used.
    """
    found: list[FrameworkKind] = []
    for text in _YAML.findall(page):
        for one in yaml.safe_load_all(text):
            if isinstance(one, dict) and "frameworks" in one:
                found += load_configuration(yaml.safe_dump({"frameworks": one["frameworks"]}), "this page").frameworks
    return found


def told(manifest: str, kinds: KindTable) -> str:
    """What starts together of the objects in a manifest, in lines."""
    documents = [one for one in yaml.safe_load_all(manifest) if isinstance(one, dict)]
    lines: list[str] = []
    for one in documents:
        kind = kinds.get(_group(one), str(one.get("kind")))
        if kind is not None:
            lines += _said_of(one, kind, documents, kinds)
    return "".join(f"{line}\n" for line in lines)


def _said_of(raw: Json, kind: FrameworkKind, documents: list[Json], kinds: KindTable) -> Iterator[str]:
    """Yield what is said of one object, each of its gangs once."""
    told_of: set[str] = set()
    for marks, chain in _pods(raw, kind, documents, kinds):
        answer = gang_of(marks, chain, kinds, SCHEDULERS)
        terms = inherited_terms(chain)
        if isinstance(answer, OwnedGang):
            if answer.group_name not in told_of and not answer.joins_later:
                yield from _said_of_gang(answer, terms)
                told_of |= {answer.group_name, *(role.group for role in answer.later)}
        elif isinstance(answer, PlacedAlone) and "" not in told_of:
            told_of.add("")
            note = f" ({answer.note})" if answer.note else ""
            yield f"{_title(raw)}{_in_queue(terms)}: each pod starts by itself{note}"


def _said_of_gang(gang: OwnedGang, terms: InheritedTerms) -> Iterator[str]:
    more = f", when there is room for {gang.room}" if gang.room > gang.minimum else ""
    whichever = "any " if not any(part.minimum for part in gang.parts) else ""
    pods = "1 pod starts" if gang.minimum == 1 else f"{whichever}{gang.minimum} pods start together"
    yield f"{gang.owner}{_in_queue(terms)}: {pods}{more}"
    for part in gang.parts:
        least = f"{part.minimum} of " if 0 < part.minimum < part.count else ""
        yield f"  {part.role}: {least}{part.count}"
    for role in gang.later:
        when = "made later" if not role.group else "made when these are ready"
        if not role.beside:
            when = "a gang of their own, made when these have succeeded"
        yield f"  {role.role}: {role.count}, {when}{'; room is kept' if role.keeps_room else ''}"
    if gang.most is not None:
        yield f"  may grow to {gang.most}"
    yield from (f"  {note}" for note in gang.notes)


def _in_queue(terms: InheritedTerms) -> str:
    return f" in queue {terms.queue}" if terms.queue else ""


def _pods(
    raw: Json, kind: FrameworkKind, documents: list[Json], kinds: KindTable
) -> Iterator[tuple[PodMarks, OwnerChain]]:
    """Yield a pod of each role of an object, and its owners."""
    whole = {**raw, "metadata": {"uid": "uid", "name": raw["metadata"].get("generateName"), **raw["metadata"]}}
    child = made_of(raw, kind, documents)
    if child is not None and kind.current is not None:
        whole["status"] = {kind.current.rpartition(".")[2]: child["metadata"]["name"]}
    owner = projected(whole, kind)
    below: list[ProjectedOwner] = []
    counting, counting_kind = whole, kind
    if child is not None and kind.numbers_of is not None:
        group, _, name = kind.numbers_of.partition("/")
        found = kinds.get(group, name)
        assert found is not None, kind.numbers_of
        counting, counting_kind = child, found
        below = [projected(child, found)]
    placed = [(role, below) for role, _ in placed_roles(counting, counting_kind)[0]]
    known = {role.name for role, _ in placed}
    placed += [(role, []) for role, _ in placed_roles(whole, kind)[0] if role.name not in known]
    for role, between in placed:
        if role.scheduler in SCHEDULERS:
            yield _marks(whole, role.name, counting_kind), OwnerChain((*_made_by(kind, role.name), *between, owner))


def _made_by(kind: FrameworkKind, role: str) -> list[ProjectedOwner]:
    """What stands between a pod of a role and the object, where that tells the role or the replica."""
    leader = kind.replica_groups.led_by if kind.replica_groups is not None else None
    if leader is not None and role != leader:
        return [ProjectedOwner("", "Pod", "", leader, f"uid-{leader}")]
    of = next((one for one, named in kind.pod_roles.by_owner.items() if named == role), "")
    group, _, name = of.partition("/")
    return [ProjectedOwner(group, name, "", f"{role}-job", f"uid-{role}-job")] if of else []


def _marks(raw: Json, role: str, kind: FrameworkKind) -> PodMarks:
    """A pod of a role, with the labels by which it is known."""
    labels = {COMPLETION_INDEX: "0"}
    said = {named: value for value, named in kind.pod_roles.names.items()}
    if kind.pod_roles.labels:
        labels[kind.pod_roles.labels[0]] = said.get(role, "1" if role == kind.pod_roles.rest else role)
    if kind.replica_groups is not None:
        labels[kind.replica_groups.label] = "first"
    return PodMarks(
        "ml", f"{raw['metadata'].get('name', 'made')}-{role}", f"uid-{role}", scheduler="tutti", labels=labels
    )


def made_of(raw: Json, kind: FrameworkKind, documents: list[Json]) -> Json | None:
    """The object below that says how many pods there are, as its controller makes it; None where there is none."""
    metadata = {"name": raw["metadata"].get("name", "made"), "uid": f"uid-of-{kind.kind}"}
    if kind.kind in ("RayJob", "RayService"):
        at = "rayClusterSpec" if kind.kind == "RayJob" else "rayClusterConfig"
        return {"metadata": metadata, "spec": raw["spec"][at]}
    if kind.kind == "TrainJob":
        runtime = raw["spec"]["runtimeRef"]["name"]
        found = next(one for one in documents if one["metadata"]["name"] == runtime and one is not raw)
        spec = found["spec"]["template"]["spec"]
        return {"metadata": metadata, "spec": {**spec, "replicatedJobs": _trained(spec["replicatedJobs"], raw)}}
    return None


def _trained(jobs: list[Json], raw: Json) -> list[Json]:
    """The jobs of a runtime with the number of nodes that a TrainJob asks for (Trainer, runtime/framework/plugins)."""
    nodes = raw["spec"].get("trainer", {}).get("numNodes")
    return [_with_nodes(one, nodes) if nodes is not None and _is_trainer(one) else one for one in jobs]


def _is_trainer(job: Mapping[str, Any]) -> bool:
    labels = job["template"].get("metadata", {}).get("labels", {})
    return bool(labels.get(_ANCESTOR) == "trainer")


def _with_nodes(job: Json, nodes: int) -> Json:
    spec = {**job["template"]["spec"], "parallelism": nodes, "completions": nodes}
    return {**job, "template": {**job["template"], "spec": spec}}


def _group(raw: Json) -> str:
    return str(raw.get("apiVersion", "")).rpartition("/")[0]


def _title(raw: Json) -> str:
    metadata = raw["metadata"]
    return f"{raw['kind']} {metadata.get('name') or metadata.get('generateName', '')}"


def main() -> None:
    """Read the pages that are named, and write what the rules say into them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", type=Path, nargs="+")
    for page in parser.parse_args().pages:
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
