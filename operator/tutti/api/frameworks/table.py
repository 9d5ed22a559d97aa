"""The table in which kinds are found: those that are known here, and those that users describe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tutti.api.configuration import Conventions
from tutti.api.conventions import kueue, named_groups
from tutti.api.framework_kind import FrameworkKind
from tutti.api.frameworks.kinds import COMPLETION_INDEX, GANG_ANNOTATION, KNOWN_KINDS, KUEUE_LEAST
from tutti.api.frameworks.projection import RUN_TIME_LABELS


class KindTable:
    """Kinds by group and kind: those that are known here, and those that users describe, which go before them.

    Args:
        described: The kinds of users.
        ignored: Annotations that say nothing, because the convention they belong to is off.

    Attributes:
        pod_keys: The labels and annotations of pods that are read for their gang.
        personal_keys: Those of them by which pods of one owner are in gangs of their own.
        owning_keys: Labels of pods that may own pods in their turn.
    """

    def __init__(self, described: Iterable[FrameworkKind] = (), ignored: Sequence[str] = ()) -> None:
        self._kinds = {(one.group, one.kind): one for one in (*KNOWN_KINDS, *described)}
        self.ignored = frozenset(ignored)
        self.pod_keys = self._pod_keys()
        replicas = {one.replica_groups.label for one in self if one.replica_groups is not None}
        self.personal_keys = frozenset({GANG_ANNOTATION, *replicas})
        self.owning_keys = self.pod_keys - {GANG_ANNOTATION, COMPLETION_INDEX}

    def __iter__(self) -> Iterator[FrameworkKind]:
        return iter(self._kinds.values())

    def get(self, group: str, kind: str) -> FrameworkKind | None:
        """Return the description of a kind; None of one that is unknown."""
        return self._kinds.get((group, kind))

    def _pod_keys(self) -> frozenset[str]:
        keys = {GANG_ANNOTATION, COMPLETION_INDEX}
        for one in self:
            keys.update(one.pod_roles.labels, one.sub_group_labels, one.domain_annotations)
            keys.update(key for key in (one.attempt_label,) if key)
            if one.leader_first is not None:
                keys.add(one.leader_first.label)
            if one.replica_groups is not None:
                keys.add(one.replica_groups.label)
                keys.update(key for key in (one.replica_groups.size_annotation,) if key)
        return frozenset(keys)


def ignored_keys(conventions: Conventions) -> list[str]:
    """Return the labels and annotations that say nothing, because the convention they belong to is off."""
    ignored = [] if conventions.volcano else [named_groups.VOLCANO_MIN_MEMBER]
    if not conventions.kueue:
        ignored += [kueue.QUEUE_NAME, kueue.PRIORITY_CLASS, KUEUE_LEAST, RUN_TIME_LABELS[1]]
    return ignored
