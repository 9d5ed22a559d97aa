"""Probes and metrics, asked over real HTTP."""

from __future__ import annotations

import aiohttp
import pytest

from tutti.controller.health import Check, Health
from tutti.controller.metrics import Metrics
from tutti.controller.serving import application, serving


async def ask(port, path):
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_readiness_says_what_is_missing_until_nothing_is():
    health = Health()
    health.passed("crds")
    health.waiting("informers", "pods not listed yet")

    async with serving(application(health, Metrics().registry), host="127.0.0.1", port=0) as port:
        assert await ask(port, "/readyz") == (503, "[-]informers: pods not listed yet\n[+]crds: ok\nfailed\n")
        health.passed("informers")
        assert await ask(port, "/readyz") == (200, "[+]crds: ok\n[+]informers: ok\nok\n")


async def test_nothing_announced_is_not_ready():
    async with serving(application(Health(), Metrics().registry), host="127.0.0.1", port=0) as port:
        assert (await ask(port, "/readyz"))[0] == 503


@pytest.mark.parametrize("path", ["/healthz", "/livez"])
async def test_liveness_fails_once_a_part_has_died(path):
    health = Health()
    health.alive["engine"] = lambda: Check(ok=True)

    async with serving(application(health, Metrics().registry), host="127.0.0.1", port=0) as port:
        assert (await ask(port, path))[0] == 200
        health.died("engine", "ValueError: broken")
        assert await ask(port, path) == (503, "[-]engine: ValueError: broken\nfailed\n")


async def test_metrics_are_served_in_the_text_format():
    metrics = Metrics()
    metrics.decisions.labels("bind").inc(3)

    async with serving(application(Health(), metrics.registry), host="127.0.0.1", port=0) as port:
        status, text = await ask(port, "/metrics")

    assert status == 200
    assert 'tutti_decisions_total{kind="bind"} 3.0' in text
    assert "tutti_decide_duration_seconds_bucket" in text


async def test_a_check_that_raises_has_failed_and_the_others_are_told():
    health = Health()
    health.passed("crds")
    health.ready["odd"] = lambda: 1 / 0

    async with serving(application(health, Metrics().registry), host="127.0.0.1", port=0) as port:
        status, text = await ask(port, "/readyz")
    assert status == 503
    assert "[-]odd: it cannot be told: ZeroDivisionError" in text
    assert "[+]crds: ok" in text
