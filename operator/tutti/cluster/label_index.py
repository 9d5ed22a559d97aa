"""The label index: how many pods of which signature each node holds, as columns; and what selectors read besides.

A selector is answered once per signature (`matching`), and the answer is kept and only extended for signatures that
are new. One that asks for some label's value looks only at signatures that have it; which these are is noted from when
a selector has first asked for any value of that label. What it costs to count over a topology depends on the number of
distinct (signature, node) pairs; pods without inter-pod constraints cost nothing here, and so do labels that no
selector reads. Besides the labels of pods, selectors read those of namespaces, and Services and owners select pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from tutti.api.owners import SERVICE, Owner
from tutti.api.selectors import LabelSelector
from tutti.cluster.codes_by_disk import CodesByDisk
from tutti.cluster.codes_by_label import CodesByLabel
from tutti.cluster.services_by_label import ServicesByLabel
from tutti.cluster.signatures import NO_LABELS, UNCONSTRAINED, Anchor, OwnTerm, PodQuery, PodSignature, selector_keys


class PodSelecting(msgspec.Struct, frozen=True):
    """An object that selects pods by label: a Service, or an owner of pods (`tutti.api.owners`)."""

    kind: str
    namespace: str
    name: str
    selector: LabelSelector


class NamespaceIndex:
    """Namespaces, Services, and owners of pods.

    Attributes:
        version: Grows whenever a namespace changes.
        selecting_version: Grows whenever something selects pods otherwise than before.
        services: By namespace and name; a namespace that has had some stays, even if it has none any more.
    """

    def __init__(self) -> None:
        self.version = 0
        self.selecting_version = 0
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._asked_in_vain: set[str] = set()
        self.services: dict[str, dict[str, PodSelecting]] = {}
        self._services: dict[str, ServicesByLabel] = {}
        self._owners: dict[tuple[str, Owner], LabelSelector] = {}

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> bool:
        """Add a namespace or change its labels; returns whether somebody was told other ones before."""
        before = self._namespaces.get(name)
        if before == labels:
            return False
        self._namespaces[name] = labels
        self.version += 1
        was_asked = name in self._asked_in_vain
        self._asked_in_vain.discard(name)
        return was_asked or before is not None

    def drop_namespace(self, name: str) -> None:
        """Forget a namespace."""
        if self._namespaces.pop(name, None) is not None:
            self._asked_in_vain.add(name)
            self.version += 1

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace; none where it is not known."""
        found = self._namespaces.get(name)
        if found is None:
            self._asked_in_vain.add(name)
            return NO_LABELS
        return found

    def put_selecting(self, found: PodSelecting) -> bool:
        """Add or change an object that selects pods; returns whether that changed anything."""
        if found.kind == SERVICE:
            here = self.services.setdefault(found.namespace, {})
            changed = here.get(found.name) != found
            here[found.name] = found
            self._services.setdefault(found.namespace, ServicesByLabel()).put(found.name, found.selector.match_labels)
        else:
            key = (found.namespace, (found.kind, found.name))
            changed = self._owners.get(key) != found.selector
            self._owners[key] = found.selector
        self.selecting_version += changed
        return changed

    def drop_selecting(self, kind: str, namespace: str, name: str) -> bool:
        """Forget an object that selected pods; returns whether it was known."""
        found: object
        if kind == SERVICE:
            found = self.services.get(namespace, {}).pop(name, None)
            if found is not None:
                self._services[namespace].drop(name)
        else:
            found = self._owners.pop((namespace, (kind, name)), None)
        self.selecting_version += found is not None
        return found is not None

    def keys_read(self) -> Iterator[str]:
        """Yield the label keys that Services and owners select pods by."""
        for here in self.services.values():
            for service in here.values():
                yield from selector_keys(service.selector)
        for selector in self._owners.values():
            yield from selector_keys(selector)

    def services_of(self, namespace: str, labels: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """Yield the labels by which Services of a namespace select a pod with these; an empty selector selects none."""
        here = self._services.get(namespace)
        return iter(()) if here is None else here.selecting(labels)

    def selector_of(self, namespace: str, owner: Owner) -> LabelSelector | None:
        """Return the selector of an owner of pods; None where it is not known."""
        return self._owners.get((namespace, owner))


Codes = NDArray[np.bool_]
"""bool[codes]: which signatures."""

_MOST_ANSWERS = 512
_KEYS_OF_A_QUERY = 4
"""So many of the labels that a query asks for are looked up: to note who has one takes a look at every signature."""
_ROW_BITS = 32
_FEW_ROWS = 24
"""So many pods are counted sooner one by one than as columns."""


@dataclass(slots=True)
class _Answer:
    """What a query says of each code; `seen` is how far in the list of changed codes it has been answered."""

    says: Codes
    seen: int
    around: int


class LabelIndex:
    """Pods on nodes, by signature and whether they are leaving.

    Attributes:
        version: Grows whenever anybody comes, goes or is labelled anew.
        leaving: bool[codes], which codes stand for pods that are being deleted.
        by_label: Which codes have a value of a label.
        with_terms: The codes whose pods have affinity or anti-affinity terms of their own.
        with_ports: Those whose pods take ports of their node.
        by_disk: Which codes are of pods that name a disk.
    """

    def __init__(self) -> None:
        self.version = 0
        self._signatures: list[PodSignature | None] = []
        self._totals: list[int] = []
        self._free_codes: list[int] = []
        self._changed: list[int] = []
        self.by_label = CodesByLabel(self._signatures)
        self.with_terms: dict[int, PodSignature] = {}
        self._by_anchor: dict[Anchor, dict[int, PodSignature]] = {}  # of those with terms
        self.with_ports: dict[int, PodSignature] = {}
        self.by_disk = CodesByDisk()
        self._answers: dict[PodQuery, _Answer] = {}
        self._slot_of: dict[int, int] = {}
        self._free_slots: list[int] = []
        self._used = 0
        self._leaving = np.zeros(64, dtype=np.bool_)
        self._code = np.zeros(256, dtype=np.int32)
        self._row = np.zeros(256, dtype=np.int32)
        self._count = np.zeros(256, dtype=np.int64)

    @property
    def codes(self) -> int:
        """How many codes there are; weights and choices have one entry each."""
        return len(self._signatures)

    @property
    def leaving(self) -> Codes:
        """Which codes stand for pods that are being deleted: bool[codes], a view."""
        return self._leaving[: len(self._signatures)]

    def add(self, pod_signature: PodSignature, row: int, *, leaving: bool = False, count: int = 1) -> None:
        """Count pods of a signature on a row; a negative count takes them away."""
        code = pod_signature.leaving_code if leaving else pod_signature.code
        if code < 0:
            code = self._born(pod_signature, leaving)
        place = code << _ROW_BITS | row
        slot = self._slot_of.get(place)
        if slot is None:
            slot = self._new_slot(place, code, row)
        self._count[slot] += count
        self._totals[code] += count
        self.version += 1
        if not self._count[slot]:
            del self._slot_of[place]
            self._free_slots.append(slot)
        if not self._totals[code]:
            self._died(code, pod_signature, leaving)

    def add_all(self, pod_signature: PodSignature, rows: Sequence[int], *, leaving: bool = False) -> None:
        """Count one pod of a signature on each of some rows, which may repeat."""
        if len(rows) == 1:
            self.add(pod_signature, rows[0], leaving=leaving)
            return
        if len(rows) <= _FEW_ROWS:
            for row, count in sorted(Counter(rows).items()):
                self.add(pod_signature, row, leaving=leaving, count=count)
            return
        self.add_counted(pod_signature, *np.unique(np.array(rows, dtype=np.int64), return_counts=True), leaving=leaving)

    def add_counted(
        self,
        pod_signature: PodSignature,
        rows: NDArray[np.int64],
        counts: NDArray[np.int64],
        *,
        leaving: bool = False,
    ) -> None:
        """Count `counts[i]` pods of a signature on row `rows[i]`, or take so many away where all counts are negative.

        Args:
            pod_signature: Theirs.
            rows: int64[k], distinct rows.
            counts: int64[k], all above 0, or all below.
            leaving: Whether they are being deleted.
        """
        if len(rows) <= _FEW_ROWS:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                self.add(pod_signature, row, leaving=leaving, count=count)
            return
        code = pod_signature.leaving_code if leaving else pod_signature.code
        if code < 0:
            code = self._born(pod_signature, leaving)
        places = (code << _ROW_BITS | rows).tolist()
        if not self._totals[code]:  # they are the first: no row has a slot for them
            slots = self._new_slots(code, rows)
            self._slot_of.update(zip(places, slots.tolist(), strict=True))
        else:
            slots = np.array([self._slot_of.get(place, -1) for place in places], dtype=np.int64)
            new = np.flatnonzero(slots < 0)
            if len(new):
                slots[new] = made = self._new_slots(code, rows[new])
                self._slot_of.update(zip([places[i] for i in new.tolist()], made.tolist(), strict=True))
        self._count[slots] += counts
        self._totals[code] += int(counts.sum())
        self.version += 1
        for at in np.flatnonzero(self._count[slots] == 0).tolist() if counts[0] < 0 else ():
            del self._slot_of[places[at]]
            self._free_slots.append(int(slots[at]))
        if not self._totals[code]:
            self._died(code, pod_signature, leaving)

    def relabel(self, pod_signature: PodSignature, labels: Mapping[str, str]) -> None:
        """Have the pods of a signature seen with other labels, wherever they are."""
        before, pod_signature.labels = pod_signature.labels, labels
        self.version += 1
        for code in (pod_signature.code, pod_signature.leaving_code):
            if code >= 0:
                self.by_label.remove(before, code)
                self.by_label.add(labels, code)
                self._ask_anew(code)

    def terms_about(self, namespace: str, labels: Mapping[str, str]) -> Iterator[tuple[int, Sequence[OwnTerm]]]:
        """Yield terms of pods on nodes that may mean a pod of a namespace with these labels, and the code of each.

        One that asks for a label that the pod does not have is not looked at: there may be very many of those.
        """
        anchors: list[Anchor] = [None]
        for label in labels.items():
            anchors += (label, (label[0], None))
        for anchor in anchors:
            for code, pod_signature in self._by_anchor.get(anchor, {}).items():
                if pod_signature.reach is None or namespace in pod_signature.reach:
                    yield code, pod_signature.anchored[anchor]

    def matching(self, query: PodQuery, around: NamespaceIndex) -> Codes:
        """Return bool[codes]: which codes a query means."""
        answer = self._answers.get(query)
        if answer is not None and answer.around == around.version:
            asked: Iterable[int] = self._changed[answer.seen :]
        else:
            asked = self._worth_asking(query)
            answer = self._answers[query] = _Answer(np.zeros(len(self._leaving), dtype=np.bool_), 0, around.version)
            if len(self._answers) > _MOST_ANSWERS:
                del self._answers[next(iter(self._answers))]
        if len(answer.says) < len(self._signatures):
            longer = np.zeros(len(self._leaving), dtype=np.bool_)
            longer[: len(answer.says)] = answer.says
            answer.says = longer
        for code in asked:
            pod_signature = self._signatures[code]
            answer.says[code] = pod_signature is not None and query.matches(
                pod_signature.namespace, around.namespace_labels(pod_signature.namespace), pod_signature.labels
            )
        answer.seen = len(self._changed)
        return answer.says[: len(self._signatures)]

    def _worth_asking(self, query: PodQuery) -> Iterable[int]:
        """Return the codes that a query may mean: those with one of the label values that it asks for, if any."""
        if query.selector is None:
            return ()
        asked = [
            *((key, [value]) for key, value in query.selector.match_labels.items()),
            *((one.key, one.values) for one in query.selector.match_expressions if one.operator == "In"),
        ]
        if not asked:
            return self._alive()
        return min((self.by_label.having(key, values) for key, values in asked[:_KEYS_OF_A_QUERY]), key=len)

    def _alive(self) -> list[int]:
        """Return the codes that stand for somebody."""
        return [code for code, signature in enumerate(self._signatures) if signature is not None]

    def where(self, chosen: Codes) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
        """Return where pods of the chosen codes are: rows int32[m], how many int64[m], codes int32[m]."""
        if not chosen.any():
            return self._row[:0], self._count[:0], self._code[:0]
        code, count = self._code[: self._used], self._count[: self._used]
        hit = np.flatnonzero(chosen[code] & (count > 0))
        return self._row[hit], count[hit], code[hit]

    def snapshot(self) -> dict[tuple[PodSignature, bool, int], int]:
        """Return how many pods of which signature, leaving or not, are on which row; for tests and recounts."""
        out: dict[tuple[PodSignature, bool, int], int] = {}
        for place, slot in self._slot_of.items():
            code = place >> _ROW_BITS
            pod_signature = self._signatures[code]
            assert pod_signature is not None  # a code that is counted somewhere stands for somebody
            out[pod_signature, bool(self._leaving[code]), place & ((1 << _ROW_BITS) - 1)] = int(self._count[slot])
        return out

    def _born(self, pod_signature: PodSignature, leaving: bool) -> int:
        if self._free_codes:
            code = self._free_codes.pop()
            self._signatures[code] = pod_signature
        else:
            code = len(self._signatures)
            self._signatures.append(pod_signature)
            self._totals.append(0)
            if code == len(self._leaving):
                self._leaving = np.concatenate((self._leaving, np.zeros_like(self._leaving)))
        self._leaving[code] = leaving
        if leaving:
            pod_signature.leaving_code = code
        else:
            pod_signature.code = code
        self.by_label.add(pod_signature.labels, code)
        self._ask_anew(code)
        if pod_signature.inter_pod is not UNCONSTRAINED and any(True for _ in pod_signature.inter_pod.terms):
            self.with_terms[code] = pod_signature
            for anchor in pod_signature.anchored:
                self._by_anchor.setdefault(anchor, {})[code] = pod_signature
        if pod_signature.inter_pod.ports:
            self.with_ports[code] = pod_signature
        if pod_signature.inter_pod.disks:
            self.by_disk.add(code, pod_signature.inter_pod.disks)
        return code

    def _died(self, code: int, pod_signature: PodSignature, leaving: bool) -> None:
        if leaving:
            pod_signature.leaving_code = -1
        else:
            pod_signature.code = -1
        self._signatures[code] = None
        self._ask_anew(code)
        self._free_codes.append(code)
        self.by_label.remove(pod_signature.labels, code)
        for anchor in pod_signature.anchored if self.with_terms.pop(code, None) is not None else ():
            here = self._by_anchor[anchor]
            del here[code]
            if not here:
                del self._by_anchor[anchor]
        self.with_ports.pop(code, None)
        if pod_signature.inter_pod.disks:
            self.by_disk.remove(code, pod_signature.inter_pod.disks)

    def _ask_anew(self, code: int) -> None:
        """Have every query asked of a code once more; when the list gets long, all of them are asked of all codes."""
        if not self._answers:
            return
        self._changed.append(code)
        if len(self._changed) > 1024 + 4 * len(self._signatures):
            self._changed.clear()
            self._answers.clear()

    def _new_slot(self, place: int, code: int, row: int) -> int:
        if self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot = self._used
            self._make_room(1)
        self._slot_of[place] = slot
        self._code[slot], self._row[slot], self._count[slot] = code, row, 0
        return slot

    def _new_slots(self, code: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return an empty slot for each of these rows."""
        again = [self._free_slots.pop() for _ in range(min(len(rows), len(self._free_slots)))]
        first = self._used
        self._make_room(len(rows) - len(again))
        slots = np.concatenate((np.array(again, dtype=np.int64), np.arange(first, self._used)))
        self._code[slots], self._row[slots], self._count[slots] = code, rows, 0
        return slots

    def _make_room(self, more: int) -> None:
        """Take so many slots into use."""
        self._used += more
        while self._used > len(self._code):
            self._code = np.concatenate((self._code, np.zeros_like(self._code)))
            self._row = np.concatenate((self._row, np.zeros_like(self._row)))
            self._count = np.concatenate((self._count, np.zeros_like(self._count)))
