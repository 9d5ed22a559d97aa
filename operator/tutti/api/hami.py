"""HAMi's protocol: what its device plugin tells of cards, what pods ask for, and how a pod is given parts of cards.

Names, formats and rules: HAMi 2.9 (pkg/device/devices.go, pkg/device/nvidia/device.go, pkg/util/types.go,
pkg/util/nodelock/nodelock.go, pkg/scheduler/scheduler.go, and the plugin's Allocate in pkg/device-plugin/nvidiadevice).
The plugin writes the cards of its node into an annotation of the node. A scheduler locks the node for one pod, writes
that pod's parts of cards into its annotations and binds it; the plugin finds the pod by the lock when the kubelet asks
it to allocate, says in the pod's annotations whether it could, and opens the lock. All of this is text that others
write: it is bounded before it is read, and what cannot be right is told in `problem`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from tutti.api.cards import (
    ALL_CORES,
    MOST_CARDS,
    MOST_MEMORY,
    WHOLE,
    Card,
    CardDemand,
    CardNeeds,
    CardPart,
    CardWishes,
    NodeCards,
    Parts,
    totals,
)
from tutti.api.core import Container, PodSpec
from tutti.api.messages import escape_controls
from tutti.api.resources import AmountError, Amounts, parse_requests

COUNT: Final = "nvidia.com/gpu"
MEMORY: Final = "nvidia.com/gpumem"
PERCENTAGE: Final = "nvidia.com/gpumem-percentage"
CORES: Final = "nvidia.com/gpucores"
PRIORITY: Final = "nvidia.com/priority"
UNOFFERED: Final = frozenset((MEMORY, PERCENTAGE, CORES, PRIORITY))
"""What pods ask for and no node offers: what there is of it, the cards tell."""
OF_MEMORY: Final = frozenset((MEMORY, PERCENTAGE))
"""The two ways to say how much memory of cards is wanted: quota of either limits those who say the other."""

REGISTER: Final = "hami.io/node-nvidia-register"
LINKS: Final = "hami.io/node-nvidia-score"
CORDON: Final = "hami.io/device-cordon"
LOCK: Final = "hami.io/mutex.lock"
NODE: Final = "hami.io/vgpu-node"
"""Of a pod, as an annotation and as a label: the node that its cards are of. HAMi's monitor finds pods by the label."""
ASSIGNED_AT: Final = "hami.io/vgpu-time"
TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
"""What the plugin has yet to give the containers; it takes off what it has given."""
ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
"""What the containers have, as long as the pod lives."""
BIND_PHASE: Final = "hami.io/bind-phase"
BOUND_AT: Final = "hami.io/bind-time"
ALLOCATING, SUCCESS, FAILED = "allocating", "success", "failed"
VENDOR: Final = "NVIDIA"

LOCK_SECONDS: Final = 300
"""After so long a lock may be taken from a pod that still has it (NodeLockTimeout)."""
USABLE_MODE: Final = "hami-core"
"""The mode of cards of which memory and cores are given out; `mps` is the same to a scheduler."""

_LONGEST: Final = 256 * 1024
"""Bytes: as long as all annotations of an object may be together."""
_LONGEST_ID: Final = 128
_LONGEST_WISH: Final = 4096
_MOST_WISHES: Final = 64
_MOST_CONTAINERS: Final = 256
_MOST_SHARING: Final = 8
"""So many containers of a pod may ask for cards: pods are put on cards container by container."""
_MOST_SLOTS: Final = 1024
_TRUE: Final = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_POLICIES: Final = ("binpack", "spread", "mutex", "topology-aware", "numa")
_SEPARATORS: Final = frozenset(",:;")

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class _Device(msgspec.Struct):
    """A card in the annotation of its node (DeviceInfo)."""

    id: str
    index: _Int32 = 0
    count: _Int32 = 0
    devmem: _Int32 = 0
    devcore: _Int32 = 0
    type: str = ""
    numa: _Int32 = 0
    mode: str = ""
    health: bool = False


class _Linked(msgspec.Struct):
    uuid: str = ""
    score: dict[str, _Int32] = {}


class NodeLock(NamedTuple):
    """Who has locked a node for himself, and since when; without a pod where HAMi before 2.4 has.

    Attributes:
        text: As it stands in the annotation.
        since: Unix seconds.
    """

    text: str
    since: float
    namespace: str = ""
    name: str = ""


class _AnnotationError(ValueError):
    """What in an annotation cannot be right; the message says what would be."""


def read_cards(annotations: Mapping[str, str]) -> NodeCards | None:
    """Read what a node tells of its cards; None where it tells of none. Whatever stands there, nothing is raised."""
    text = annotations.get(REGISTER)
    if text is None:
        return None
    cordoned = {one.strip() for one in annotations.get(CORDON, "")[:_LONGEST].split(",")}
    try:
        cards = tuple(_card(one, cordoned) for one in _devices(text))
        _check(cards)
    except _AnnotationError as error:
        return NodeCards(problem=f"annotation {REGISTER}: {error}")
    return NodeCards(cards, _links(annotations.get(LINKS, ""), {one.id for one in cards}))


def _devices(text: str) -> list[_Device]:
    if len(text) > _LONGEST:
        raise _AnnotationError(f"is longer than {_LONGEST} characters")
    try:
        if text.lstrip().startswith(("[", "null")):
            return msgspec.json.decode(text, type=list[_Device] | None) or []
        return [_from_fields(part) for part in text.split(":") if part]
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _AnnotationError(f"cannot be read: {escape_controls(str(error)[:_LONGEST_ID])}") from error


def _from_fields(part: str) -> _Device:
    """Read a card as HAMi before 2.5 writes it: id,count,memory,cores,model,numa,health and perhaps index,mode."""
    fields = part.split(",")
    if len(fields) not in (7, 9):
        raise _AnnotationError(f"has {len(fields)} fields for a card; 7 or 9 are right")
    index, mode = (fields[7], fields[8]) if len(fields) > 7 else ("0", USABLE_MODE)  # noqa: PLR2004
    said = {
        "id": fields[0], "count": fields[1], "devmem": fields[2], "devcore": fields[3],
        "type": fields[4], "numa": fields[5], "health": fields[6].lower(), "index": index, "mode": mode,
    }  # fmt: skip
    return msgspec.convert(said, _Device, strict=False)


def _card(found: _Device, cordoned: set[str]) -> Card:
    if not 0 < len(found.id) <= _LONGEST_ID or not found.id.isprintable() or _SEPARATORS & set(found.id):
        shown = escape_controls(repr(found.id[:_LONGEST_ID]))
        raise _AnnotationError(
            f"has {shown} for the id of a card; 1 to {_LONGEST_ID} characters without , : ; are right"
        )
    if not 0 <= found.count <= _MOST_SLOTS:
        raise _AnnotationError(f"has count {found.count} for card {found.id}; 0 to {_MOST_SLOTS} are right")
    if found.devmem < 0 or found.devcore < 0:
        raise _AnnotationError(f"has less than no memory or cores for card {found.id}")
    closed = "" if found.health else "unhealthy"
    if not closed and found.mode == "mig":
        closed = "in mode mig"
    if not closed and found.id in cordoned:
        closed = "cordoned"
    model = found.type[:_LONGEST_ID]
    mode = found.mode[:_LONGEST_ID] or USABLE_MODE
    return Card(found.id, found.index, found.devmem, found.devcore, found.count, model, found.numa, mode, closed)


def _check(cards: tuple[Card, ...]) -> None:
    if len(cards) > MOST_CARDS:
        raise _AnnotationError(f"has {len(cards)} cards, and {MOST_CARDS} is the most that is read")
    if len({one.id for one in cards}) < len(cards):
        raise _AnnotationError("has two cards of one id")


def _links(text: str, known: set[str]) -> dict[str, dict[str, int]]:
    """Read how well cards are linked: what cannot be read orders nothing, and is no reason not to use them."""
    if not text or len(text) > _LONGEST:
        return {}
    try:
        said = msgspec.json.decode(text, type=list[_Linked] | None) or []
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {
        one.uuid: {other: score for other, score in one.score.items() if other in known}
        for one in said
        if one.uuid in known
    }


def read_lock(annotations: Mapping[str, str]) -> NodeLock | None:
    """Read who has locked a node; None where nobody has. One that cannot be read is as old as can be.

    HAMi refuses every bind on a node whose lock it cannot read, until somebody takes it off; nobody means it so.
    """
    text = annotations.get(LOCK)
    if text is None:
        return None
    when, _, who = text[:_LONGEST].partition(",")
    namespace, _, name = who.partition(",")
    try:
        since = datetime.fromisoformat(when)
    except ValueError:
        return NodeLock(text, 0.0)
    if since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    return NodeLock(text, since.timestamp(), namespace, name)


def lock_text(now: float, namespace: str, name: str) -> str:
    """Return the lock of a node for a pod."""
    return f"{datetime.fromtimestamp(int(now), UTC):%Y-%m-%dT%H:%M:%SZ},{namespace},{name}"


def read_needs(spec: PodSpec, annotations: Mapping[str, str]) -> CardNeeds:
    """Return what a pod asks of cards, as HAMi's scheduler reads it after its webhook.

    The webhook looks at pods of HAMi's own scheduler only. What it fills in there is filled in here: whoever asks for
    whole cards has their compute for himself. A count it cannot fill in: the kubelet goes by what the pod says.
    """
    containers = (*spec.init_containers, *spec.containers)
    try:
        asked = tuple(map(_demand, containers))
    except _AnnotationError as error:
        return CardNeeds(problem=str(error))
    sharing = sum(one is not None for one in asked)
    if not sharing:
        return CardNeeds()
    needs = CardNeeds(asked, len(spec.init_containers))
    # What such pods ask for is kept: others may have bound them, and then they have it.
    if len(containers) > _MOST_CONTAINERS:
        return replace(needs, problem=f"a pod that shares cards may have {_MOST_CONTAINERS} containers")
    if sharing > _MOST_SHARING:
        return replace(
            needs,
            problem=f"{sharing} containers of the pod ask for {COUNT}, and {_MOST_SHARING} is the most that is placed, "
            f"init containers included: have fewer of them ask for it",
        )
    try:
        return replace(needs, wishes=_wishes(annotations))
    except _AnnotationError as error:
        return replace(needs, problem=str(error))


def counted_requests(requests: Amounts, needs: CardNeeds) -> Amounts:
    """Return what pods ask for as quota counts it: memory and cores of all cards together, and not of each.

    A pod that says nothing of memory asks for all of it: 100 percent of each card.
    """
    total = totals(needs)
    kept = {name: amount for name, amount in requests.items() if name not in UNOFFERED}
    added = {MEMORY: total["memory"], PERCENTAGE: total["percent"], CORES: total["cores"]}
    return {**kept, **{name: amount for name, amount in added.items() if amount}}


def _demand(container: Container) -> CardDemand | None:
    said = {**container.resources.requests, **container.resources.limits}
    if all(name not in said for name in (COUNT, MEMORY, PERCENTAGE, CORES)):
        return None
    try:
        amounts = parse_requests({name: said[name] for name in (COUNT, *UNOFFERED) if name in said})
    except AmountError as error:
        raise _AnnotationError(str(error)) from error
    count, memory = amounts.get(COUNT, 0), amounts.get(MEMORY, 0)
    percent, cores = amounts.get(PERCENTAGE, 0), amounts.get(CORES, 0)
    if not count:
        if not (memory or percent or cores):
            return None
        raise _AnnotationError(
            f"container {container.name or 'of the pod'} asks for memory or cores of GPUs and for no {COUNT}: "
            f"HAMi's webhook adds it to pods of its own scheduler only; write {COUNT}: 1"
        )
    if count > MOST_CARDS:
        raise _AnnotationError(
            f"{COUNT}: a container asks for {count} cards, and {MOST_CARDS} is the most that is read"
        )
    if memory > MOST_MEMORY:
        raise _AnnotationError(f"{MEMORY}: {memory} MiB are more than any card has; it is written in MiB")
    if percent > WHOLE:
        raise _AnnotationError(f"{PERCENTAGE}: {percent} is no part of a card; write 1 to {WHOLE}")
    if memory:
        percent = 0
    elif not percent:
        percent = WHOLE
    if CORES not in said and percent == WHOLE and MEMORY not in said:
        cores = ALL_CORES
    return CardDemand(count, memory, percent, min(cores, ALL_CORES))


def _wishes(annotations: Mapping[str, str]) -> CardWishes:
    policy = annotations.get("hami.io/gpu-scheduler-policy", "")
    mode = annotations.get("nvidia.com/vgpu-mode", "")
    return CardWishes(
        models=tuple(one.upper() for one in _listed(annotations, "nvidia.com/use-gputype")),
        other_models=tuple(one.upper() for one in _listed(annotations, "nvidia.com/nouse-gputype")),
        ids=_listed(annotations, "nvidia.com/use-gpuuuid"),
        other_ids=_listed(annotations, "nvidia.com/nouse-gpuuuid"),
        mode=mode if len(mode) <= _LONGEST_ID else mode[:_LONGEST_ID],
        one_numa_node=annotations.get("nvidia.com/numa-bind", "") in _TRUE,
        policies=tuple(one for one in map(str.strip, policy[:_LONGEST_ID].split(",")) if one in _POLICIES),
        spread_nodes=annotations.get("hami.io/node-scheduler-policy", "") == "spread",
    )


def _listed(annotations: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return what an annotation lists, each once, in order; an empty one asks for nothing."""
    text = annotations.get(key, "")
    found = tuple(sorted({one.strip() for one in text[: _LONGEST_WISH + 1].split(",")} - {""}))
    if len(text) > _LONGEST_WISH or len(found) > _MOST_WISHES:
        raise _AnnotationError(
            f"annotation {key} lists more than {_MOST_WISHES} names, or is longer than {_LONGEST_WISH}"
        )
    return found


def write_parts(parts: Parts) -> str:
    """Return parts as annotations have them: `id,vendor,memory,cores:` for each card, `;` after each container."""
    written = ("".join(f"{one.card},{VENDOR},{one.memory},{one.cores}:" for one in mine) for mine in parts)
    return "".join(f"{mine};" for mine in written)


def read_parts(annotations: Mapping[str, str], containers: int) -> Parts:
    """Read what a pod of so many containers has; nothing where it cannot be read, as HAMi does."""
    text = annotations.get(ALLOCATED, "")
    if not text or len(text) > _LONGEST:
        return ()
    try:
        return tuple(tuple(_parts(mine)) for mine in text.split(";")[: min(containers, _MOST_CONTAINERS)])
    except _AnnotationError:
        return ()


def _parts(text: str) -> Iterator[CardPart]:
    for said in text.split(":")[:MOST_CARDS]:
        if "," not in said:
            continue
        fields = said.split(",")
        if len(fields) < 4 or not (fields[2].isascii() and fields[2].isdigit() and fields[3].isdigit()):  # noqa: PLR2004
            raise _AnnotationError("a card has four fields: id,vendor,memory,cores")
        if max(len(fields[2]), len(fields[3])) > 10:  # noqa: PLR2004 - digits of 2**31
            raise _AnnotationError("memory and cores have 32 bits")
        yield CardPart(fields[0][:_LONGEST_ID], min(int(fields[2]), MOST_MEMORY), min(int(fields[3]), MOST_MEMORY))


def read_seconds(text: str) -> float:
    """Return a time as annotations have it, Unix seconds; 0 where it cannot be read."""
    return float(text) if text.isascii() and text.isdigit() and len(text) <= len(str(MOST_MEMORY)) + 1 else 0.0


def binding_annotations(node: str, parts: Parts, now: float) -> dict[str, str]:
    """Return what a pod says when it is bound, so that the plugin finds what to give its containers."""
    written, seconds = write_parts(parts), str(int(now))
    return {
        NODE: node,
        ASSIGNED_AT: seconds,
        TO_ALLOCATE: written,
        ALLOCATED: written,
        BIND_PHASE: ALLOCATING,
        BOUND_AT: seconds,
    }
