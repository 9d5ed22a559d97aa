"""Replays cases against a server and says what differs from the recording.

As a program: `python -m tests.conformance.replay URL TOKEN [GLOB ...]`.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import secrets
import sys
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.conformance.checks import Mismatch, check, check_all
from tests.conformance.paths import ABSENT, at, fill, flat
from tests.conformance.wire import METHODS, Watch, Wire

CASES = Path(__file__).parent / "cases"
AT_ONCE = 8
LONGEST = 600
PATIENCE = 90
"""Seconds that anything has to come true, at least, where it is waited for no longer than until it has: the times in
cases are those of a machine that has nothing else to do."""


def load() -> dict[str, dict[str, Any]]:
    """All cases by `file/name`."""
    found = {}
    for path in sorted(CASES.glob("*.yaml")):
        for case in yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)["cases"]:
            found[f"{path.stem}/{case['name']}"] = case
    return found


class Replay:
    """One case being replayed."""

    def __init__(self, wire: Wire, case: dict[str, Any], word: str) -> None:
        self._wire = wire
        self._case = case
        self._saved: dict[str, Any] = {"id": f"c{word}", "ns": f"cf-{word}"}
        self._watches: dict[str, Watch] = {}

    async def run(self) -> None:
        """Replay; Mismatch says at which step the answer differs."""
        own = self._case.get("namespace", True)
        try:
            if own:
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._saved["ns"]}}
                answer = await self._wire.send({"body": body}, "POST", "/api/v1/namespaces")
                check("the case's namespace", 201, answer.status)
            for number, step in enumerate(flat(self._case["steps"]), 1):
                try:
                    await self._step(step)
                except (Mismatch, TimeoutError, aiohttp.ClientError, ValueError) as error:
                    raise Mismatch(f"step {number}: {type(error).__name__}: {error}") from error
        finally:
            await self._clean(own=own)

    async def _clean(self, *, own: bool) -> None:
        for watch in self._watches.values():
            await watch.stop()
        paths = [*(self._case.get("cleanup") or []), *(["/api/v1/namespaces/$ns"] if own else [])]
        for path in paths:
            await self._wire.send({}, "DELETE", fill(path, self._saved))

    async def _step(self, raw: dict[str, Any]) -> None:
        """One step, repeated for as long as it may take to come true."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (max(raw["retry_for"], PATIENCE) if "retry_for" in raw else 0)
        while True:
            try:
                await self._attempt(fill(raw, self._saved))
            except Mismatch:
                if loop.time() >= deadline:
                    raise
                await asyncio.sleep(0.1)
            else:
                return

    async def _attempt(self, step: dict[str, Any]) -> None:
        if "sleep" in step:
            await asyncio.sleep(step["sleep"])
        elif "collect" in step:
            await self._judge_watch(self._watches[step["collect"]], step)
        elif "watch" in step:
            await self._watch(step)
        else:
            await self._request(step)

    async def _watch(self, step: dict[str, Any]) -> None:
        watch = Watch(self._wire, step)
        watch.start()
        if step.get("background"):
            self._watches[step["background"]] = watch
            await watch.opened()
            return
        try:
            await self._judge_watch(watch, step)
        finally:
            await watch.stop()

    async def _request(self, step: dict[str, Any]) -> None:
        method = next((one for one in METHODS if one in step), None) or step["method"]
        expect = step.get("expect") or {}
        answer = await self._wire.send(step, method, step.get(method) or step["path"])
        wanted = expect.get("status")
        good = (
            answer.status < 400
            if wanted is None
            else answer.status in (wanted if isinstance(wanted, list) else [wanted])
        )
        if not good:
            raise Mismatch(
                f"{method}: expected status {wanted or 'below 400'}, got {answer.status} {answer.text[:300]}"
            )
        for name, want in (expect.get("headers") or {}).items():
            values = answer.headers.getall(name, [])
            check(f"header {name}", want, ", ".join(values) if values else ABSENT)
        if "text" in expect:
            check("text", expect["text"], answer.text)
        if expect.get("body") or step.get("save"):
            document = json.loads(answer.text)
            check_all(expect.get("body"), document)
            self._save(step, document)

    def _save(self, step: dict[str, Any], document: Any) -> None:
        for name, path in (step.get("save") or {}).items():
            value = at(document, path)
            check(f"saved {name} at {path}", {"absent": False}, value)
            self._saved[name] = value

    async def _judge_watch(self, watch: Watch, step: dict[str, Any]) -> None:
        expect = step.get("expect") or {}
        seconds = float(step.get("timeout", 5))
        if "events" in step or expect.get("closed"):
            seconds = max(seconds, PATIENCE)
        await watch.collect(step.get("events"), seconds, float(step.get("settle", 0)))
        if watch.error is not None or watch.answer is None:
            raise Mismatch(f"the watch broke: {watch.error!r}")
        check("status", expect.get("status", 200), watch.answer.status)
        if "body" in expect:
            check_all(expect["body"], json.loads(watch.answer.text))
        seen = list(watch.events)
        if "types" in expect:
            check("types", {"equals": expect["types"]}, [one.get("type") for one in seen])
        if "names" in expect:
            check("names", {"equals": expect["names"]}, [at(one, "object.metadata.name") for one in seen])
        if "count" in expect:
            check("count", expect["count"], len(seen))
        self._judge_events(expect, seen)
        if "elapsed" in expect:
            took = (watch.ended or asyncio.get_running_loop().time()) - watch.began
            low, high = expect["elapsed"]
            check("elapsed", {"gt": low, "lt": high}, took)
        if "closed" in expect:
            check("closed", expect["closed"], watch.closed)
        self._save(step, seen)

    def _judge_events(self, expect: dict[str, Any], seen: list[dict[str, Any]]) -> None:
        wanted = expect.get("events") or []
        if not expect.get("any_order"):
            check("events", {"min_length": len(wanted)}, seen)
            for number, want in enumerate(wanted):
                judge_event(want, seen[number], f"event {number} ")
            return
        left = list(seen)
        for want in wanted:
            hit = next((one for one in left if _like(want, one)), None)
            if hit is None:
                raise Mismatch(f"no event like {want} among {seen}")
            left.remove(hit)


def judge_event(want: dict[str, Any], event: dict[str, Any], prefix: str) -> None:
    """Mismatch unless an event is of the wanted type and its object as wanted."""
    if "type" in want:
        check(prefix + "type", want["type"], event.get("type"))
    check_all({path: one for path, one in want.items() if path != "type"}, event.get("object", {}), prefix)


def _like(want: dict[str, Any], event: dict[str, Any]) -> bool:
    try:
        judge_event(want, event, "")
    except Mismatch:
        return False
    return True


async def replay_all(url: str, token: str, cases: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Replay cases, several at once; the result says for each what differs, or nothing."""
    run = secrets.token_hex(2)
    gate = asyncio.Semaphore(AT_ONCE)
    faults: dict[str, str] = {}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=False)) as session:
        wire = Wire(session, url.rstrip("/"), token)

        async def one(number: int, name: str) -> None:
            async with gate:
                try:
                    async with asyncio.timeout(LONGEST):
                        await Replay(wire, cases[name], f"{run}{number}").run()
                    faults[name] = ""
                except (Mismatch, TimeoutError) as error:
                    faults[name] = str(error) or "took too long"

        numbered = list(enumerate(cases))
        await asyncio.gather(*(one(number, name) for number, name in numbered if not cases[name].get("serial")))
        for number, name in numbered:
            if cases[name].get("serial"):
                await one(number, name)
    return faults


def main() -> None:
    """Replay against the server that the command line names."""
    url, token, *globs = sys.argv[1:]
    cases = {
        name: case for name, case in load().items() if not globs or any(fnmatch.fnmatch(name, one) for one in globs)
    }
    faults = asyncio.run(replay_all(url, token, cases))
    for name, fault in faults.items():
        if fault:
            sys.stdout.write(f"FAIL {name}: {' '.join(fault.split())}\n")
    failed = sum(1 for fault in faults.values() if fault)
    sys.stdout.write(f"{len(faults) - failed} passed, {failed} failed\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
