"""Objects as text of a Go template: a dump with holes, into which expressions and whole blocks are put."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

NAMESPACE = "tutti-system"
"""The namespace of the manifests; a release has its own."""
RELEASE_NAMESPACE = "{{ .Release.Namespace }}"
_TOKEN = re.compile(r"hole(\d+)hole")


class Drawing:
    """Objects with holes."""

    def __init__(self) -> None:
        self._holes: list[str] = []

    def hole(self, expression: str) -> str:
        """A value that an expression gives: `.Values.replicas`, without braces."""
        return self._token(f"{{{{ {expression} }}}}")

    def block(self, text: str) -> str:
        """A key (of None), or an item, in whose line's place the text goes, indented as that line is."""
        return self._token(text)

    def _token(self, text: str) -> str:
        self._holes.append(text)
        return f"hole{len(self._holes) - 1}hole"

    def text(self, obj: Any) -> str:
        """An object with its holes filled.

        What looks like a template in it is written such that it comes out as it is, and the namespace is the release's.
        """
        dumped = yaml.dump(obj, sort_keys=False, width=10_000, allow_unicode=True, Dumper=_Dumper)
        plain = re.sub(r"\{\{|\}\}", lambda found: f'{{{{ "{found[0]}" }}}}', dumped)
        plain = re.sub(rf"(?m)(?<=[:-] ){NAMESPACE}$", "{{ .Release.Namespace | quote }}", plain)
        plain = plain.replace(NAMESPACE, RELEASE_NAMESPACE)
        return "".join(self._filled(line) for line in plain.splitlines(keepends=True))

    def _filled(self, line: str) -> str:
        whole = re.fullmatch(r"( *)(?:- )?hole(\d+)hole(?:: null)?\n", line)
        if whole and "\n" in self._holes[int(whole[2])]:
            return indented(self._holes[int(whole[2])], len(whole[1]))
        return _TOKEN.sub(lambda found: self._holes[int(found[1])], line)


class _Dumper(yaml.CSafeDumper):
    """Writes lists below their keys without more indentation, and nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - it is yaml that calls it
        return True


def indented(text: str, by: int) -> str:
    """A block of lines further to the right; what only directs the template stays at the left."""
    lines = text.strip("\n").splitlines()
    return "".join(f"{line}\n" if line.startswith("{{-") or not line else f"{' ' * by}{line}\n" for line in lines)


def when(condition: str, text: str) -> str:
    """A text that is there where a condition holds."""
    return f"{{{{- if {condition} }}}}\n{text.strip(chr(10))}\n{{{{- end }}}}\n"


def from_values(value: str, key: str, at: int) -> str:
    """The lines of a key whose value people give as they like, and of nothing where it is empty."""
    return f"{{{{- with .Values.{value} }}}}\n{key}:\n{{{{- toYaml . | nindent {at} }}}}\n{{{{- end }}}}\n"


def items_of(value: str, at: int) -> str:
    """Further items of a list that people give as they like."""
    return f"{{{{- with .Values.{value} }}}}\n{{{{- toYaml . | nindent {at} }}}}\n{{{{- end }}}}\n"


def documents(texts: Iterable[str]) -> str:
    """Several objects in one file."""
    return "".join(f"---\n{text}" for text in texts)
