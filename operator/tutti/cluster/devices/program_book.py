"""The programs that look for the devices of claims, kept between one question and the next.

Equal claims have one program (`programs.py`), and programs that look at the same of the devices have one projection of
them (`projections.py`). Both are brought up to date when they are asked, by what has changed since.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple

import numpy as np

from tutti.cluster.devices.asks import ClaimAsk, DeviceNeeds
from tutti.cluster.devices.catalog import DeviceCatalog
from tutti.cluster.devices.claims import ClaimBook
from tutti.cluster.devices.columns import Mask, NodeView
from tutti.cluster.devices.expressions import Expressions
from tutti.cluster.devices.extended import extended_claim
from tutti.cluster.devices.programs import DeviceProgram, SearchLength
from tutti.cluster.devices.projections import DeviceProjection
from tutti.cluster.devices.rows import DeviceRows
from tutti.cluster.devices.search_time import SearchTimes
from tutti.cluster.devices.selections import Contents
from tutti.cluster.devices.zones import ZonesAhead

_MOST_PROGRAMS: Final = 1024
_MOST_PROJECTIONS: Final = 64
_MOST_CONTENTS: Final = 1 << 20
AHEAD: Final = 32
"""How many pods one after another a program looks at where nodes share what they ask for."""


class _Asked(NamedTuple):
    """Who was asked last, and when.

    Attributes:
        needs: What for.
        setting: What there was: versions of nodes, of rows and of what drivers publish, how many rows, and what time.
        zones: To which NUMA zones they go.
        stamp: Of the rows: with another one something else is taken.
        asked: The programs that were asked, and where; another list when they have been brought up to date.
    """

    needs: DeviceNeeds
    setting: tuple[float, ...]
    zones: ZonesAhead | None
    stamp: int
    asked: list[tuple[DeviceProgram, Mask]]


class ProgramBook:
    """The programs of all that is asked for, by what they ask.

    Args:
        catalog: What drivers publish.
        claims: Claims and classes.
        rows: What each row of the node table offers.
        expressions: What selectors mean.
    """

    def __init__(self, catalog: DeviceCatalog, claims: ClaimBook, rows: DeviceRows, expressions: Expressions) -> None:
        self._catalog = catalog
        self._claims = claims
        self._rows = rows
        self._expressions = expressions
        self._last: _Asked | None = None
        self._programs: dict[Hashable, DeviceProgram] = {}
        self._projections: dict[tuple[frozenset[str] | None, frozenset[str], int], DeviceProjection] = {}
        self._times = SearchTimes()
        self._contents: dict[frozenset[str] | None, Contents] = {}
        self._numbers = 0

    def asked(self, needs: DeviceNeeds, nodes: NodeView, *, pods: int = 1) -> list[tuple[DeviceProgram, Mask]]:
        """Return the programs of what is asked for, brought up to date, and where each is asked.

        With `pods`, those that tell of so many pods one after another what they find of devices that nodes share.
        """
        count = len(nodes.names)
        self._rows.refresh(nodes.names, nodes.labels, nodes.version)
        time = self._times.of(needs.namespace, self._claims.now)
        setting = (nodes.version, nodes.offered, count, self._rows.version, self._catalog.version, self._claims.now)
        last = self._last
        same = last is not None and last.needs is needs and last.setting == setting and last.zones is nodes.zones
        if last is not None and same and pods == 1:
            if last.stamp != self._rows.stamp:  # only what is taken is another
                for program, _ in last.asked:
                    program.refresh(program.projection, self._rows, count, self._claims.now, time)
                last = self._last = last._replace(stamp=self._rows.stamp, asked=list(last.asked))
            return last.asked
        out: list[tuple[DeviceProgram, Mask]] = []
        for claims, where in _variants(needs, nodes.unoffered, count):
            if claims:
                program = self._program(claims, nodes.zones, tight=needs.tight, pods=pods)
                projection = self._projection(program.reads, program.compares, program.width)
                seen = projection if nodes.zones is None else program.beside(projection, nodes.zones)
                program.refresh(seen, self._rows, count, self._claims.now, time)
                out.append((program, where))
        if pods == 1:
            self._last = _Asked(needs, setting, nodes.zones, self._rows.stamp, out)
        return out

    def length_of_search(self, needs: DeviceNeeds, nodes: NodeView) -> SearchLength:
        """Return how long it took to look for what is asked for, if it was looked for at this moment."""
        variants = [claims for claims, _ in _variants(needs, nodes.unoffered, len(nodes.names))]
        key = nodes.zones.key if nodes.zones is not None else b""
        mine = [self._programs.get((one, needs.tight, pods, key)) for one in variants for pods in (1, AHEAD)]
        lengths = [one.length_at(self._claims.now) for one in mine if one is not None]
        return max(lengths, default=SearchLength.SHORT)

    def _program(
        self, claims: tuple[ClaimAsk, ...], zones: ZonesAhead | None, *, tight: bool, pods: int
    ) -> DeviceProgram:
        key = (claims, tight, pods, zones.key if zones is not None else b"")
        known = self._programs.get(key)
        if known is None:
            if len(self._programs) >= _MOST_PROGRAMS:
                self._programs.clear()
                self._last = None
            zoned = zones is not None
            known = DeviceProgram(claims, self._expressions, tight=tight, pods=pods, zoned=zoned)
            self._programs[key] = known
        return known

    def _projection(self, reads: frozenset[str] | None, compares: frozenset[str], width: int) -> DeviceProjection:
        """Return what those see who look at attributes and capacities of these names, and compare those of others.

        They ask for `width` devices at most; 0: for all there are.
        """
        width = width if self._rows.commons() else 0
        seen = None if reads is None else reads & self._catalog.names
        compared = frozenset() if seen is None else compares & self._catalog.names - seen
        known = self._projections.get((seen, compared, width))
        if known is None:
            if len(self._projections) >= _MOST_PROJECTIONS or sum(map(len, self._contents.values())) > _MOST_CONTENTS:
                self._projections.clear()
                self._contents.clear()
                self._last = None
                self._rows.forget_projections()
            self._numbers += 1
            contents = self._contents.setdefault(seen, Contents())
            known = DeviceProjection(self._numbers, seen, compared, width=width, contents=contents)
            self._projections[seen, compared, width] = known
        return known


def _variants(needs: DeviceNeeds, unoffered: Mapping[str, Mask], count: int) -> list[tuple[tuple[ClaimAsk, ...], Mask]]:
    """Return the claims that ask, and where: nodes that offer an extended resource themselves are not asked for it."""
    if not needs.extended:
        return [(needs.claims, np.ones(count, dtype=np.bool_))]
    code = np.zeros(count, dtype=np.int64)
    for at, one in enumerate(needs.extended):
        code |= (~unoffered[one.resource]).astype(np.int64) << at
    out = []
    for bits in np.unique(code).tolist():
        served = [one.resource for at, one in enumerate(needs.extended) if bits >> at & 1]
        extra = extended_claim(needs.extended, served)
        out.append((needs.claims if extra is None else (*needs.claims, extra), code == bits))
    return out
