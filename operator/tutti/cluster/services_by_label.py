"""Services of one namespace by a label that they select pods by: there may be very many, of which few select a pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Label = tuple[str, str]


class ServicesByLabel:
    """The Services of a namespace, each under the one of its labels under which the fewest others are."""

    def __init__(self) -> None:
        self._under: dict[Label, dict[str, Mapping[str, str]]] = {}
        self._label_of: dict[str, Label] = {}
        self._place: dict[str, int] = {}
        self._last = 0

    def put(self, name: str, wanted: Mapping[str, str]) -> None:
        """Add a Service, or change by which labels it selects; without any it selects nobody."""
        self._file_away(name)
        if name not in self._place:
            self._last += 1
            self._place[name] = self._last
        if wanted:
            label = min(wanted.items(), key=lambda one: len(self._under.get(one, ())))
            self._label_of[name] = label
            self._under.setdefault(label, {})[name] = wanted

    def drop(self, name: str) -> None:
        """Forget a Service."""
        self._file_away(name)
        self._place.pop(name, None)

    def selecting(self, labels: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """Yield the labels by which each selects a pod that has these, in the order in which they came."""
        found = {
            name: wanted
            for label in labels.items()
            for name, wanted in self._under.get(label, {}).items()
            if all(labels.get(key) == value for key, value in wanted.items())
        }
        for name in sorted(found, key=self._place.__getitem__):
            yield found[name]

    def _file_away(self, name: str) -> None:
        label = self._label_of.pop(name, None)
        if label is not None:
            del self._under[label][name]
            if not self._under[label]:
                del self._under[label]
