"""Two tenants and an administrator sign in beside the operator: each sees what he may list."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.browser.test_pages import expect
from tests.web.roles import make_roles, person
from tests.web.serving import Loop
from tutti.controller.web_view import WebViewTask
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.web.beside import pages_beside

SETTINGS = {"ui": {"bindAddress": "127.0.0.1:0"}}


@pytest.fixture(scope="module")
def tokens(loop: Loop, scene: Path) -> dict[str, str]:
    async def made() -> dict[str, str]:
        async with Client(await Credentials.load(scene)) as client:
            await make_roles(client)
            return {
                "admin": await person(client, "admin", everywhere=True),
                "vision": await person(client, "vision", in_=("vision",)),
                "speech": await person(client, "speech", in_=("speech",)),
                "nobody": await person(client, "nobody"),
            }

    return loop.run(made())


@pytest.fixture(scope="module")
def beside(loop: Loop, scene: Path) -> Iterator[str]:
    with loop.holding(pages_beside(WebViewTask(str(scene), "", SETTINGS))) as (port, _):
        yield f"https://127.0.0.1:{port}"


def signed_in(window: Any, beside: str, token: str, path: str = "/") -> Any:
    page = window(ignore_https_errors=True)
    page.goto(f"{beside}{path}")
    expect(page, "h1", "Sign in")
    page.fill("#token", token)
    page.click("button")
    return page


def test_two_tenants_see_their_own_and_an_administrator_all(window, beside, tokens, axe):
    link = "/workload/vision/train-2"
    admin = signed_in(window, beside, tokens["admin"], link)
    expect(admin, "h1", "PodGroup vision/train-2")  # the link that led to the door leads on
    admin.goto(f"{beside}/")
    for name in ("research", "vision", "speech", "serving"):
        expect(admin, "#queues", name)

    vision = signed_in(window, beside, tokens["vision"], link)
    expect(vision, ".gate-Waits", "needs 8 nvidia.com/gpu in a100; 0 free now")
    assert vision.locator("#try").count() == 0
    vision.goto(f"{beside}/gangs")
    expect(vision, "#gangs", "train-2")
    assert "tune" not in vision.inner_text("main")

    speech = signed_in(window, beside, tokens["speech"], link)
    expect(speech, "main", "there is no Workload, pod group or pod vision/train-2 that you may see")
    speech.goto(f"{beside}/gangs")
    expect(speech, "#gangs", "tune")
    assert "train" not in speech.inner_text("main")
    speech.goto(f"{beside}/nodes")
    expect(speech, "main", "you may not list nodes")


def test_the_token_is_out_of_reach_of_scripts_and_addresses(window, beside, tokens):
    page = signed_in(window, beside, tokens["vision"], "/gangs")
    expect(page, "h1", "Gangs")

    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (
        "__Host-tutti",
        True,
        True,
        "Lax",
    )
    assert page.evaluate("document.cookie") == ""
    assert tokens["vision"] not in page.url
    page.click("text=Sign out")
    expect(page, "h1", "Sign in")
    assert page.context.cookies() == []


@pytest.mark.parametrize(
    ("who", "said"), [("nobody", "the role view, bound in a namespace"), ("", "does not know this token")]
)
def test_who_may_see_nothing_is_told_why(window, beside, tokens, who, said, axe):
    page = signed_in(window, beside, tokens.get(who, "unknown<b>"))
    expect(page, "#problem", said)
    page.evaluate(axe)
    assert page.evaluate("async () => (await axe.run(document)).violations.map(one => one.id)") == []
