"""Which rendering of an answer the client wants: JSON or YAML; the object, its metadata, or a table of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tutti_sim.meta.errors import not_acceptable

OFFERED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
META = "meta.k8s.io"


@dataclass(frozen=True, slots=True)
class Rendering:
    """A rendering: media is `json` or `yaml`, form `object`, `table` or `partial`."""

    media: str = "json"
    form: str = "object"
    version: str = "v1"

    @property
    def content_type(self) -> str:
        """The Content-Type of a body in this rendering."""
        return f"application/{self.media}"


PLAIN = Rendering()


@dataclass(frozen=True, slots=True)
class Range:
    """One entry of an Accept header."""

    media: str
    params: dict[str, str]


@lru_cache(maxsize=256)
def ranges(accept: str) -> tuple[Range, ...]:
    """The entries of an Accept header in the order given; weights are not looked at, as clients order them."""
    found = []
    for entry in accept.split(","):
        media, *rest = (part.strip() for part in entry.split(";"))
        if media:
            params = {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in rest)}
            found.append(Range(media.lower(), params))
    return tuple(found)


@lru_cache(maxsize=256)
def rendering(accept: str) -> Rendering:
    """The first rendering of an Accept header that can be had; ApiError 406 when none can."""
    entries = ranges(accept)
    if not entries:
        return PLAIN
    for entry in entries:
        media = {"application/json": "json", "*/*": "json", "application/*": "json", "application/yaml": "yaml"}.get(
            entry.media
        )
        if media is None:
            continue
        form = entry.params.get("as")
        if form is None:
            return Rendering(media)
        known = entry.params.get("g") == META and entry.params.get("v") in ("v1", "v1beta1")
        if known and form in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"):
            return Rendering(media, "table" if form == "Table" else "partial", entry.params["v"])
    raise not_acceptable(OFFERED)
