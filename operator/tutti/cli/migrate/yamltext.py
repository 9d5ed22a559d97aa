"""YAML as Kubernetes reads it: timestamps stay text, and one document dumped is one document read."""

from __future__ import annotations

from typing import Any

import yaml

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class Loader(yaml.SafeLoader):
    """Reads as the API server does, which knows no type for times."""


class Dumper(yaml.SafeDumper):
    """Writes what `Loader` reads, without anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Say that nothing is written by reference: a manifest is read by people."""
        return True


for _one in (Loader, Dumper):
    _one.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag != _TIMESTAMP]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def dump(value: Any) -> str:
    """A value as block YAML, keys in their order, ended by a line break."""
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text.removesuffix("...\n")


def dump_inline(value: Any) -> str:
    """A value as YAML on one line."""
    text: str = yaml.dump(
        value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**30, default_flow_style=True
    )
    return text.removesuffix("...\n").rstrip("\n")


def compose(text: str) -> yaml.Node | None:
    """The node of the one document in a text, None where it says nothing.

    Raises:
        yaml.YAMLError: It is not YAML, or more than one document.
    """
    node: yaml.Node | None = yaml.compose(text, Loader=Loader)
    return node


def construct(node: yaml.Node) -> Any:
    """The value of a node, aliases followed and merge keys applied."""
    constructor = Loader("")
    try:
        return constructor.construct_document(node)
    finally:
        constructor.dispose()
