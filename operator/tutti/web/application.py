"""The application: who may come in, which files there are, and the streams that pages are told by.

Everything is a GET that changes nothing, but for signing in and out. What comes from a browser is believed as little as
possible: the name of the host (DNS rebinding), the origin, the length of everything. No answer may run anything but the
files that are served here (Content-Security-Policy), and no text becomes markup (Trusted Types).
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from importlib import resources
from typing import Final
from urllib.parse import quote, urlencode

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from tutti.controller.connections import GuestLimits
from tutti.web.access import LONGEST_COOKIE, LONGEST_TOKEN, Doorkeeper, Refused, Viewer
from tutti.web.addresses import page_address
from tutti.web.hub import PageHub, Subscription
from tutti.web.pages.asking import PageRequest
from tutti.web.trials import SEES_ALL, TrialKey

log = structlog.get_logger(__name__)

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "tutti",
}
"""On every answer."""
_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_MOST_BODY: Final = 32 * 1024
_MOST_FORMS: Final = 32
"""So many are read at once: whoever sends one slowly takes a place for half a minute."""
_BEAT_SECONDS: Final = 15.0
"""How often a silent stream says that it is there, and finds out whether anybody hears."""
_RIGHTS_SECONDS: Final = 60.0
"""How often it is asked again whether somebody who looks still may."""
_SLOWEST_SECONDS: Final = 30.0
"""Whoever takes longer to read a message, or to send a form, is not waited for."""
GUESTS: Final = GuestLimits(longest_header=LONGEST_TOKEN + 1_024, headers={**HEADERS, "Cache-Control": "no-store"})
"""What connections may take; a proxy may send a token as long as one may be."""


@dataclass(frozen=True, slots=True)
class WebSettings:
    """How the application is served.

    Attributes:
        hosts: The names that browsers may call it by, with ports; none: any.
        cookie: The name of the cookie that has the token.
        secure: Whether it is served over HTTPS.
    """

    hosts: Sequence[str]
    cookie: str
    secure: bool


def web_application(hub: PageHub, doorkeeper: Doorkeeper, settings: WebSettings) -> web.Application:
    """Return the application."""
    return _Application(hub, doorkeeper, settings).made()


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    packed: bytes
    kind: str
    tag: str


def _files() -> dict[str, _File]:
    """Read what is served, once: it is less than a hundred kilobytes."""
    found = {}
    for one in resources.files("tutti.web").joinpath("static").iterdir():
        kind = _TYPES.get(one.name.rpartition(".")[2])
        if kind is not None:
            content = one.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            found[one.name] = _File(content, gzip.compress(content, mtime=0), kind, tag)
    return found


class _Application:
    """Answers requests."""

    def __init__(self, hub: PageHub, doorkeeper: Doorkeeper, settings: WebSettings) -> None:
        self._hub = hub
        self._doorkeeper = doorkeeper
        self._settings = settings
        self._files = _files()
        self._forms = 0

    def made(self) -> web.Application:
        """Return it with its routes."""
        app = web.Application(middlewares=[self._guarded], client_max_size=_MOST_BODY)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/static/{name}", self._static)
        app.router.add_get("/favicon.ico", self._icon)
        app.router.add_get("/stream", self._stream)
        app.router.add_get("/try", self._kept_trial)
        app.router.add_post("/try", self._try)
        if self._doorkeeper.signs_in:
            app.router.add_get("/login", self._login_page)
            app.router.add_post("/login", self._login)
            app.router.add_post("/logout", self._logout)
        app.router.add_get("/{path:.*}", self._page)
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what does not come from one of our own pages, and put the headers on each answer."""
        problem = self._suspicious(request)
        answer: web.StreamResponse
        if problem:
            answer = _plain(HTTPStatus.FORBIDDEN, problem)
        else:
            try:
                answer = await handler(request)
            except Refused as error:
                answer = _plain(error.status, str(error))
            except web.HTTPException as error:
                answer = _plain(HTTPStatus(error.status), error.reason)
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    def _suspicious(self, request: web.Request) -> str:
        """Return why a request is not believed, or ""."""
        host = request.headers.get("Host", "").lower()
        if self._settings.hosts and host not in self._settings.hosts:
            return f"this is not served as that host; it is as {self._settings.hosts[0]}"
        origin = request.headers.get("Origin")
        scheme = "https" if self._settings.secure else "http"
        if origin is not None and origin.lower() != f"{scheme}://{host}":
            return "another page may not ask for this one"
        reads_only = request.method in ("GET", "HEAD") and request.path not in ("/stream", "/try")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") and not reads_only:
            return "another page may not ask for this one"
        return ""

    def _token(self, request: web.Request) -> str:
        """Return the token of a request: of its header, which a proxy may set, or of its cookie."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return token.strip()
        return request.cookies.get(self._settings.cookie, "")

    async def _viewer(self, token: str) -> Viewer:
        if not token:
            return await self._doorkeeper.viewer(token, ())
        namespaces = await self._hub.namespaces() if self._doorkeeper.signs_in else frozenset[str]()
        return await self._doorkeeper.viewer(token, namespaces)

    async def _healthz(self, _: web.Request) -> web.Response:
        """Whether it answers."""
        return web.Response(text="ok\n")

    async def _static(self, request: web.Request) -> web.Response:
        """One of the files; they say nothing of any cluster."""
        return self._file(request, request.match_info["name"])

    async def _icon(self, request: web.Request) -> web.Response:
        """What browsers ask for beside answers that name no icon, such as refusals."""
        return self._file(request, "icon.svg")

    def _file(self, request: web.Request, name: str, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
        file = self._files.get(name)
        if file is None:
            return _plain(HTTPStatus.NOT_FOUND, "there is no such file")
        headers = {"Cache-Control": "no-cache", "ETag": file.tag, "Vary": "Accept-Encoding"}
        if status == HTTPStatus.OK and request.headers.get("If-None-Match") == file.tag:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        body = file.content
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"], body = "gzip", file.packed
        return web.Response(body=body, status=status, headers=headers, content_type=file.kind, charset="utf-8")

    async def _page(self, request: web.Request) -> web.StreamResponse:
        """A page without anything in it yet: its stream fills it."""
        if page_address(request.path_qs) is None:
            return _plain(HTTPStatus.NOT_FOUND, "there is no such page")
        if "token" in request.query and not self._doorkeeper.signs_in:
            await self._viewer(request.query["token"])
            rest = [(name, value) for name, value in request.query.items() if name != "token"]
            path = request.rel_url.raw_path
            answer = _to(f"{path}?{urlencode(rest)}" if rest else path)
            self._remember(answer, request.query["token"])
            return answer
        try:
            await self._viewer(self._token(request))
        except Refused as error:
            if error.status == HTTPStatus.UNAUTHORIZED and self._doorkeeper.signs_in:
                return _to(f"/login?next={quote(request.path_qs, safe='')}")
            raise
        return self._file(request, "index.html")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """All that there is to say of a page, as it comes."""
        address = page_address(request.query.get("page", ""))
        if address is None:
            return _plain(HTTPStatus.NOT_FOUND, "there is no such page")
        token = self._token(request)
        viewer = await self._viewer(token)
        with self._hub.subscribed(address, viewer) as subscription:
            headers = {
                **HEADERS,
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
            answer = web.StreamResponse(headers=headers)
            await answer.prepare(request)
            await self._send(answer, b"retry: 1000\n\n")
            await self._tell(request, answer, subscription, token, viewer)
        return answer

    async def _tell(
        self,
        request: web.Request,
        answer: web.StreamResponse,
        subscription: Subscription,
        token: str,
        viewer: Viewer,
    ) -> None:
        """Send what comes until nobody hears it, or he may not any more."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        async with aclosing(subscription.messages()) as messages:
            coming = asyncio.ensure_future(anext(messages))
            try:
                while True:
                    done, _ = await asyncio.wait({coming}, timeout=_BEAT_SECONDS)
                    await self._send(answer, coming.result() if done else b": still there\n\n")
                    if done:
                        coming = asyncio.ensure_future(anext(messages))
                    if loop.time() >= asked + _RIGHTS_SECONDS:
                        asked = loop.time()
                        if not await self._still(token, viewer):
                            await self._send(answer, b"event: over\ndata: {}\n\n")
                            return
            except ConnectionError:
                return  # whoever looked has gone
            except TimeoutError:  # he does not read: what was written for him would lie there for ever
                if request.transport is not None:
                    request.transport.abort()
                return
            finally:
                coming.cancel()
                await asyncio.wait({coming})

    async def _still(self, token: str, viewer: Viewer) -> bool:
        """Whether somebody may see the same as before; where nobody can tell at the moment, he may."""
        try:
            return (await self._viewer(token)).scope == viewer.scope
        except Refused as error:
            return error.status not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

    @staticmethod
    async def _send(answer: web.StreamResponse, message: bytes) -> None:
        async with asyncio.timeout(_SLOWEST_SECONDS):
            await answer.write(message)

    async def _trial_of(self, request: web.Request) -> tuple[TrialKey, Viewer]:
        """Return of which workload it is asked what would help, and by whom.

        Raises:
            Refused: He may not see everybody whom an answer may name.
        """
        viewer = await self._viewer(self._token(request))
        if not viewer.sees_all:
            raise Refused(HTTPStatus.FORBIDDEN, SEES_ALL)
        kind, namespace, name = (request.query.get(one, "")[:320] for one in ("kind", "namespace", "name"))
        return (kind, namespace, name), viewer

    async def _kept_trial(self, request: web.Request) -> web.Response:
        """What would have a workload placed, where that was tried out of late: nothing is begun by opening a link."""
        key, _ = await self._trial_of(request)
        body = msgspec.json.encode(self._hub.trials.kept(key))
        return web.Response(body=body, content_type="application/json", headers={"Cache-Control": "no-store"})

    async def _try(self, request: web.Request) -> web.StreamResponse:
        """What would have a workload placed, tried out now: lines of JSON that say how far it is; the last answers."""
        key, viewer = await self._trial_of(request)
        kind, namespace, name = key
        picture = await self._hub.picture()
        asked = PageRequest(picture, viewer, {"namespace": namespace, "name": name}, {"kind": kind})
        async with aclosing(self._hub.trials.follow(key, asked)) as told:
            first = await anext(told)  # which raises where he is refused, before anything is said
            headers = {**HEADERS, "Content-Type": "application/x-ndjson", "Cache-Control": "no-store"}
            answer = web.StreamResponse(headers=headers | {"X-Accel-Buffering": "no"})
            await answer.prepare(request)
            try:
                await self._send(answer, msgspec.json.encode(first) + b"\n")
                async for news in told:
                    await self._send(answer, msgspec.json.encode(news) + b"\n")
            except (ConnectionError, TimeoutError):
                return answer  # whoever asked has gone
        return answer

    async def _login_page(self, request: web.Request) -> web.Response:
        """Where a token is given."""
        return self._file(request, "login.html")

    async def _login(self, request: web.Request) -> web.Response:
        """Take a token, if it may see anything."""
        if self._forms >= _MOST_FORMS:
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too many sign in at once: try again in a moment")
        self._forms += 1
        try:
            async with asyncio.timeout(_SLOWEST_SECONDS):
                form = await request.post()
        except TimeoutError:
            return _plain(HTTPStatus.REQUEST_TIMEOUT, "the form did not come to its end")
        except (LookupError, ValueError) as error:  # of a charset that is none, or parts without a boundary
            return _plain(HTTPStatus.BAD_REQUEST, f"this is no form: {error}")
        finally:
            self._forms -= 1
        given = form.get("token", "")
        token = given.strip() if isinstance(given, str) else ""
        onward = _onward(request.query.get("next", "/"))
        if len(token) > LONGEST_COOKIE:
            text = f"this token has {len(token)} characters, and browsers keep {LONGEST_COOKIE}"
            text += ": come through a proxy that sends it"
            return _plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
        try:
            viewer = await self._viewer(token)
        except Refused as error:
            return _to(f"/login?{urlencode({'next': onward, 'problem': str(error)})}")
        log.info("signed_in", user=viewer.name)
        answer = _to(onward)
        self._remember(answer, token)
        return answer

    async def _logout(self, _: web.Request) -> web.Response:
        """Forget the token."""
        answer = _to("/login")
        answer.del_cookie(self._settings.cookie, path="/", secure=self._settings.secure, httponly=True, samesite="Lax")
        return answer

    def _remember(self, answer: web.Response, token: str) -> None:
        # Lax: a link in a chat leads here with it. Nothing else does from elsewhere, and a GET changes nothing.
        answer.set_cookie(
            self._settings.cookie, token, path="/", secure=self._settings.secure, httponly=True, samesite="Lax"
        )


def _plain(status: HTTPStatus, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n", headers={"Cache-Control": "no-store"})


def _to(where: str) -> web.Response:
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": where, "Cache-Control": "no-store"})


def _onward(where: str) -> str:
    """Return where to go after signing in: a page of ours, and nowhere else."""
    if page_address(where) is None or where.startswith(("//", "/\\")):
        return "/"
    return quote(where, safe="/%?&=+,:;@!$'()*~-._")
