"""The CustomResourceDefinitions, generated from the kinds: `python -m tutti.api.crds crds` writes one file per kind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tutti.api.kinds import KINDS
from tutti.api.model import GROUP, VERSION
from tutti.api.schema import structural_schema

if TYPE_CHECKING:
    from tutti.api.kinds import Object
    from tutti.api.kinds.frame import Column

CATEGORY = "tutti"
_HEADER = "# Generated from operator/tutti/api/kinds by `make crds`. Change the kinds instead.\n"


def crd(kind: type[Object]) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    schema = structural_schema(kind)
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [_column(column) for column in kind.COLUMNS],
    }
    if "status" in schema["properties"]:
        version["subresources"] = {"status": {}}
    names = {
        "kind": kind.KIND,
        "listKind": f"{kind.KIND}List",
        "plural": kind.PLURAL,
        "singular": kind.KIND.lower(),
        "categories": [CATEGORY],
    }
    if kind.SHORT_NAMES:
        names["shortNames"] = list(kind.SHORT_NAMES)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced" if kind.NAMESPACED else "Cluster",
            "versions": [version],
        },
    }


def _column(column: Column) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        entry["description"] = column.description
    return entry | {"priority": column.priority} if column.priority else entry


def file_name(kind: type[Object]) -> str:
    """The file that a kind's definition is written to."""
    return f"{GROUP}_{kind.PLURAL}.yaml"


def to_yaml(kind: type[Object]) -> str:
    """The text of that file."""
    return _HEADER + yaml.dump(crd(kind), Dumper=_NoAliases, sort_keys=False, width=120, allow_unicode=True)


class _NoAliases(yaml.SafeDumper):
    """Writes equal parts out in full: anchors are hard to read in a manifest."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the signature is PyYAML's
        return True


def main(arguments: list[str]) -> int:
    """Write every definition into the directory given."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m tutti.api.crds DIRECTORY\n")
        return 2
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    for kind in KINDS.values():
        (directory / file_name(kind)).write_text(to_yaml(kind), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
