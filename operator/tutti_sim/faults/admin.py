"""The admin endpoint, for those who hold the administrator's token.

    GET, PUT, DELETE /_tutti/faults               all faults; a PUT replaces them, and starts their clock and counts
    GET, PUT, DELETE /_tutti/faults/rules/NAME    one rule
    GET              /_tutti/faults/counts        how many requests each rule has matched and struck
    POST             /_tutti/restart              restart the server, `{"downSeconds": 1}`

Documents are YAML or JSON, as `tutti_sim.faults.rules` has them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tutti.api.configuration import ConfigurationError
from tutti_sim.faults.book import FaultBook
from tutti_sim.faults.rules import Faults, Restart, Rule
from tutti_sim.http import render
from tutti_sim.meta import yamlfile
from tutti_sim.meta.errors import ApiError, method_not_allowed, not_found, unauthorized

PREFIX = "/_tutti/"


class Admin:
    """Answers requests about faults."""

    def __init__(self, book: FaultBook, restart: Callable[[Restart], None], token: str) -> None:
        self._book = book
        self._restart = restart
        self._token = token

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        try:
            self._authorize(http)
            parts = http.rel_url.raw_path.removeprefix(PREFIX).strip("/").split("/")
            return await self._route(http, parts)
        except ApiError as error:
            return render.failure(error)
        except ConfigurationError as error:
            return render.failure(ApiError(422, "Invalid", str(error)))

    def _authorize(self, http: web.BaseRequest) -> None:
        kind, _, token = http.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secrets.compare_digest(token.strip().encode(), self._token.encode()):
            raise unauthorized()

    async def _route(self, http: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        match (http.method, parts):
            case ("GET", ["faults"]):
                pass
            case ("PUT", ["faults"]):
                self._book.put(yamlfile.read(await http.text(), Faults, "faults"))
            case ("DELETE", ["faults"]):
                self._book.put(Faults())
            case ("GET", ["faults", "counts"]):
                counts = {name: {"seen": one.seen, "struck": one.struck} for name, one in self._book.tallies.items()}
                return _json(counts)
            case (method, ["faults", "rules", name]):
                return await self._rule(http, method, name)
            case ("POST", ["restart"]):
                return await self._restarts(http)
            case (_, ["faults"] | ["faults", "counts"] | ["restart"]):
                raise method_not_allowed()
            case _:
                raise not_found("path", "", "/".join(parts))
        return _json(_shown(self._book.faults))

    async def _rule(self, http: web.BaseRequest, method: str, name: str) -> web.StreamResponse:
        if method == "PUT":
            document = await http.text()
            rule = yamlfile.read(document, Rule, f"rule {name}")
            if rule.name != name:
                raise ApiError(422, "Invalid", f"the rule is called {rule.name!r}, but the path says {name!r}")
            self._book.put_rule(rule)
            return _json(_shown(rule))
        found = next((one for one in self._book.faults.rules if one.name == name), None)
        if found is None:
            raise not_found("rules", "", name)
        if method == "DELETE":
            self._book.drop_rule(name)
        elif method != "GET":
            raise method_not_allowed()
        return _json(_shown(found))

    async def _restarts(self, http: web.BaseRequest) -> web.StreamResponse:
        wanted = yamlfile.read(await http.text(), Restart, "restart")
        response = _json(_shown(wanted), status=202)
        # The answer is on its way before the connection that it goes over is broken.
        await response.prepare(http)
        await response.write_eof()
        self._restart(wanted)
        return response


def _shown(model: Faults | Rule | Restart) -> Any:
    return model.model_dump(by_alias=True, exclude_defaults=True, mode="json")


def _json(document: Any, *, status: int = 200) -> web.Response:
    return web.Response(body=render.encode(document), status=status, content_type="application/json")
