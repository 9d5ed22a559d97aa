"""All resources that are served at the moment, by group, version and plural."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tutti_sim.kinds.resource import Resource


class Registry:
    """Resources in the order they are announced. `changes` counts what discovery has to follow."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._preferred: dict[str, tuple[str, ...]] = {}
        self.changes = 0
        for resource in resources:
            self.add(resource)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_path.values())

    def add(self, resource: Resource) -> None:
        """Serve a resource, in place of the one that had its path."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        self.changes += 1

    def remove(self, resource: Resource) -> None:
        """Serve a resource no longer."""
        self._by_path.pop((resource.group, resource.version, resource.plural), None)
        self.changes += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at that path."""
        return self._by_path.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource whose objects have that apiVersion and kind; of another version of the group, failing that."""
        group, _, version = api_version.rpartition("/")
        same_group = [res for res in self._by_path.values() if res.group == group and res.kind == kind]
        for resource in same_group:
            if resource.version == version:
                return resource
        return same_group[0] if same_group else None

    def groups(self) -> dict[str, list[str]]:
        """Group -> its versions, preferred first (v2 before v1 before v1beta1 before v1alpha1)."""
        found: dict[str, list[str]] = {}
        for group, version, _ in self._by_path:
            versions = found.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        for versions in found.values():
            versions.sort(key=version_order)
        return found

    def within(self, group: str, version: str) -> list[Resource]:
        """The resources of one group version, by name."""
        found = [res for (grp, ver, _), res in self._by_path.items() if (grp, ver) == (group, version)]
        return sorted(found, key=lambda resource: resource.plural)


def version_order(version: str) -> tuple[int, int, int, str]:
    """A sort key that puts the most stable and newest version first (apimachinery/pkg/version)."""
    body = version.removeprefix("v")
    for rank, mark in enumerate(("", "beta", "alpha")):
        major, found, minor = body.partition(mark) if mark else (body, "", "0")
        if major.isdigit() and (not mark or found) and minor.isdigit():
            return (rank, -int(major), -int(minor), "")
    return (3, 0, 0, version)
