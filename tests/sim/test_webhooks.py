"""Admission webhooks are asked, obeyed, and passed over when they may be."""

import base64
import json

import pytest
from aiohttp import web

MAPS = "/api/v1/namespaces/default/configmaps"
HOOKS = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture
async def hook():
    """A webhook server whose answer can be set; it remembers what it was asked."""

    class Hook:
        asked: list
        answer: dict
        url: str

    state = Hook()
    state.asked, state.answer = [], {"allowed": True}

    async def handle(request):
        review = await request.json()
        state.asked.append(review["request"])
        body = {"response": {"uid": review["request"]["uid"], **state.answer}}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", **body})

    app = web.Application()
    app.router.add_post("/hook", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    state.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    yield state
    await runner.cleanup()


async def register(api, url, kind="validating", **more):
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
    webhook = {
        "name": "test.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": url},
        "rules": [rule],
        **more,
    }
    await api.create(f"{HOOKS}/{kind}webhookconfigurations", {"metadata": {"name": "test"}, "webhooks": [webhook]})


async def test_a_validating_webhook_sees_creates_updates_and_deletes(api, hook):
    await register(api, hook.url)
    await api.create(MAPS, {"metadata": {"name": "m"}})
    await api.call("PATCH", f"{MAPS}/m", {"data": {"a": "1"}})
    await api.call("DELETE", f"{MAPS}/m")

    assert [one["operation"] for one in hook.asked] == ["CREATE", "UPDATE", "DELETE"]
    assert hook.asked[1]["oldObject"].get("data") is None
    assert hook.asked[1]["object"]["data"] == {"a": "1"}
    assert hook.asked[2]["object"] is None
    assert hook.asked[0]["userInfo"]["username"] == "tutti-admin"


async def test_a_refusal_carries_the_webhook_s_words(api, hook):
    await register(api, hook.url)
    hook.answer = {"allowed": False, "status": {"message": "not today", "code": 422}}

    refused = await api.call("POST", MAPS, {"metadata": {"name": "m"}}, status=422)

    assert refused["message"] == 'admission webhook "test.example.com" denied the request: not today'
    await api.call("GET", f"{MAPS}/m", status=404)


async def test_a_mutating_webhook_changes_the_object(api, hook):
    await register(api, hook.url, "mutating")
    patch = [{"op": "add", "path": "/data", "value": {"added": "1"}}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    hook.answer = {"allowed": True, "patchType": "JSONPatch", "patch": encoded, "warnings": ["careful"]}

    created = await api.create(MAPS, {"metadata": {"name": "m"}})

    assert created["data"] == {"added": "1"}


async def test_a_webhook_that_cannot_be_reached_fails_the_write_unless_it_is_to_be_ignored(api):
    await register(api, "http://127.0.0.1:1/hook")
    refused = await api.call("POST", MAPS, {"metadata": {"name": "m"}}, status=500)
    assert 'failed calling webhook "test.example.com"' in refused["message"]

    await api.call("DELETE", f"{HOOKS}/validatingwebhookconfigurations/test")
    await register(api, "http://127.0.0.1:1/hook", failurePolicy="Ignore")

    await api.create(MAPS, {"metadata": {"name": "m"}})


async def test_selectors_and_conditions_narrow_what_is_asked(api, hook):
    condition = {"name": "c", "expression": "object.metadata.name.startsWith('x')"}
    await register(api, hook.url, objectSelector={"matchLabels": {"ask": "me"}}, matchConditions=[condition])
    for name, labels in (("a", {"ask": "me"}), ("x1", {}), ("x2", {"ask": "me"})):
        await api.create(MAPS, {"metadata": {"name": name, "labels": labels}})

    assert [one["name"] for one in hook.asked] == ["x2"]
