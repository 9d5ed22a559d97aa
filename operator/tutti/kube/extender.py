"""The wire to kube-scheduler's HTTP extenders: what is sent to them, and what they answer.

Format: kube-scheduler 1.36, staging/src/k8s.io/kube-scheduler/extender/v1/types.go. Its fields have no names of their
own in JSON, so Go writes them as `NodeNames` and reads them in any case; so does this. An answer with another code
than 200, or one that cannot be read, is a failure of the extender.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import msgspec

from tutti.api.extensions import Extender, ExtenderTls

_MOST_POINTS: Final = 10
"""MaxExtenderPriority of extender/v1/types.go."""


class ExtenderError(Exception):
    """An extender did not answer, or not as it must; says what it did."""


@dataclass(frozen=True, slots=True)
class ExtenderArgs:
    """The nodes that an extender is asked about, and the pod, as the API server has them.

    Attributes:
        pod: The pod in JSON.
        names: Of the nodes.
        objects: The nodes in JSON; needed only for an extender that is not nodeCacheCapable.
    """

    pod: bytes
    names: Sequence[str]
    objects: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    """What an extender has left of the candidates, and why not the others."""

    nodes: list[str]
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: dict[str, str] = field(default_factory=dict)


class ExtenderClient:
    """Talks to one extender; to be used as an async context manager, in one loop."""

    def __init__(self, extender: Extender) -> None:
        self.extender = extender
        self._tls = _context(extender)
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=self.extender.timeout_seconds)
        session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        self._session = await self._stack.enter_async_context(session)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def filter(self, candidates: ExtenderArgs) -> ExtenderFilterResult:
        """Ask which of the candidates the pod may go to.

        Raises:
            ExtenderError: There is no usable answer.
        """
        answer = await self._ask(self.extender.filter_verb, candidates)
        if not isinstance(answer, dict):
            raise ExtenderError(f"{self._url(self.extender.filter_verb)} answered with something else than an object")
        said = _folded(answer)
        if said.get("error"):
            raise ExtenderError(str(said["error"]))
        try:
            return ExtenderFilterResult(
                _left(said),
                msgspec.convert(said.get("failednodes") or {}, dict[str, str]),
                msgspec.convert(said.get("failedandunresolvablenodes") or {}, dict[str, str]),
            )
        except msgspec.ValidationError as error:
            raise ExtenderError(f"{self._url(self.extender.filter_verb)} answered wrongly: {error}") from error

    async def prioritize(self, candidates: ExtenderArgs) -> dict[str, int]:
        """Ask how good each of the candidates is; returns 0 to 10 by name.

        Raises:
            ExtenderError: There is no usable answer.
        """
        answer = await self._ask(self.extender.prioritize_verb, candidates)
        try:
            entries = msgspec.convert(answer or [], list[dict[str, str | int]])
            found = [_folded(entry) for entry in entries]
            scores = {str(one["host"]): msgspec.convert(one.get("score", 0), int) for one in found}
        except (msgspec.ValidationError, KeyError) as error:
            raise ExtenderError(f"{self._url(self.extender.prioritize_verb)} answered wrongly: {error}") from error
        for host, score in scores.items():
            if not 0 <= score <= _MOST_POINTS:
                raise ExtenderError(f"{self.extender.url_prefix} gave {host} the score {score}; it must be 0 to 10")
        return scores

    async def _ask(self, verb: str, candidates: ExtenderArgs) -> Any:
        if self._session is None:
            raise RuntimeError("the client is not open: use it within `async with`")
        url = self._url(verb)
        try:
            async with self._session.post(
                url,
                data=_arguments(candidates, names_only=self.extender.node_cache_capable),
                headers={"Content-Type": "application/json"},
                ssl=self._tls,
                server_hostname=self.extender.tls_config.server_name or None,
                allow_redirects=False,
            ) as response:
                if response.status != HTTPStatus.OK:
                    raise ExtenderError(f"{url} answered with code {response.status}")
                return msgspec.json.decode(await response.read())
        except TimeoutError as error:
            raise ExtenderError(f"{url} did not answer within {self.extender.http_timeout}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ExtenderError(f"{url} cannot be asked: {error}") from error
        except msgspec.MsgspecError as error:
            raise ExtenderError(f"{url} answered with something else than JSON: {error}") from error

    def _url(self, verb: str) -> str:
        return f"{self.extender.url_prefix.rstrip('/')}/{verb}"


def _arguments(candidates: ExtenderArgs, *, names_only: bool) -> bytes:
    """Return ExtenderArgs."""
    nodes = None if names_only else {"metadata": {}, "items": [msgspec.Raw(one) for one in candidates.objects]}
    names = list(candidates.names) if names_only else None
    return msgspec.json.encode({"Pod": msgspec.Raw(candidates.pod), "Nodes": nodes, "NodeNames": names})


def _left(said: dict[str, Any]) -> list[str]:
    """Return the names of the nodes that passed: NodeNames where they are given, else those in Nodes; else none."""
    if said.get("nodenames") is not None:
        return msgspec.convert(said["nodenames"], list[str])
    items = _folded(msgspec.convert(said.get("nodes") or {}, dict[str, Any])).get("items") or []
    return [msgspec.convert(item, _Named).metadata.name for item in items]


class _Meta(msgspec.Struct, frozen=True):
    name: str


class _Named(msgspec.Struct, frozen=True):
    metadata: _Meta


def _folded(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with its keys in lower case, since Go reads them in any."""
    return {key.lower(): value for key, value in document.items()}


def _context(extender: Extender) -> ssl.SSLContext | bool:
    """Return how the extender is trusted.

    As upstream, `enableHTTPS` without a certificate authority trusts any certificate (extender.go, makeTransport).

    Raises:
        ValueError: A certificate, key or authority cannot be read.
    """
    tls = extender.tls_config
    insecure = tls.insecure or (extender.enable_https and not (tls.ca_file or tls.ca_data))
    if not (insecure or tls.ca_file or tls.ca_data or tls.cert_file or tls.cert_data):
        return True
    try:
        context = ssl.create_default_context(cafile=tls.ca_file or None, cadata=_text(tls.ca_data) or None)
        _identify(context, tls)
    except (OSError, ValueError, binascii.Error) as error:
        raise ValueError(f"tlsConfig of extender {extender.url_prefix} cannot be used: {error}") from error
    if insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _identify(context: ssl.SSLContext, tls: ExtenderTls) -> None:
    """Load our certificate and key; the standard library takes them only as files."""
    if not (tls.cert_file or tls.cert_data):
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, file, data in (("cert", tls.cert_file, tls.cert_data), ("key", tls.key_file, tls.key_data)):
            path = Path(file) if file else Path(folder, name)
            if not file:
                path.write_text(_text(data), "utf-8")
            paths.append(path)
        context.load_cert_chain(str(paths[0]), str(paths[1]))


def _text(data: str) -> str:
    return base64.b64decode(data, validate=True).decode("ascii")
