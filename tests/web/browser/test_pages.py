"""Every page in a real browser, on a live embedded cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from e2e.harness.processes import free_port
from tests.cli.views import scene
from tests.engine.devices import resource_slice
from tests.engine.hami_world import card
from tests.web.browser.conftest import PATIENCE_MS, TOKEN
from tests.web.serving import Loop, MadeUpMirror
from tutti.api.configuration import TuttiConfiguration
from tutti.api.hami import REGISTER
from tutti.cli.views.configuration import KnownConfiguration
from tutti.controller.connections import Guests
from tutti.controller.serving import serving
from tutti.engine.records.device_observations import SliceSeen
from tutti.kube.client import Client
from tutti.kube.credentials import Credentials
from tutti.web.access import AddressToken
from tutti.web.application import GUESTS, WebSettings, web_application
from tutti.web.home import HomeOptions, pages_at_home, serving_pages

PAGES = {
    "/": "Queues",
    "/queue/vision": "Queue vision",
    "/workload/vision/train-2": "PodGroup vision/train-2",
    "/workload/speech/tune": "PodGroup speech/tune",
    "/nodes": "Nodes",
    "/gangs": "Gangs",
    "/decisions": "Decisions",
    "/queue/nothing": "Not here",
}
RULES = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
CONTRAST = "async () => (await axe.run(document, {runOnly: ['color-contrast']})).violations"


def expect(page: Any, selector: str, text: str | re.Pattern[str]) -> None:
    from playwright.sync_api import expect as expecting

    expecting(page.locator(selector).first).to_contain_text(text, timeout=PATIENCE_MS)


@pytest.mark.parametrize("path", PAGES)
def test_everybody_can_use_a_page(window, address, axe, path):
    """Axe finds nothing, by day and by night; and nothing is wider than a telephone."""
    page = window()
    page.goto(f"{address}{path}?token={TOKEN}")
    expect(page, "h1", PAGES[path])
    assert page.title() == f"{PAGES[path]} - Tutti"
    page.evaluate(axe)
    found = page.evaluate(RULES)
    page.emulate_media(color_scheme="dark")
    found += page.evaluate(CONTRAST)
    page.set_viewport_size({"width": 320, "height": 640})  # where rows are cards
    found += page.evaluate(RULES)

    assert [(one["id"], one["help"], one["nodes"][0]["html"]) for one in found] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_no_short_word_is_broken_in_two(page, address):
    """A state, a gate or a name stands on one line, however much is said beside it."""
    for path, words in {
        "/gangs": ("Scheduled", "Placement", "serving", "warmup"),
        "/queue/vision": ("Quota", "Gather"),
    }.items():
        page.goto(f"{address}{path}")
        for word in words:
            cell = page.locator("main td").get_by_text(word, exact=True).first
            cell.wait_for()
            heights = cell.evaluate(
                "one => [one.getBoundingClientRect().height, parseFloat(getComputedStyle(one).lineHeight)]"
            )
            assert heights[0] < 1.9 * heights[1], (path, word)


def test_a_bar_says_in_words_what_it_shows(page):
    bar = page.locator("tr", has_text="speech").locator("svg.bar").first
    assert bar.get_attribute("aria-label") == "all of its own 16 used, and 8 borrowed"


def test_from_the_queues_to_why_it_waits_by_keyboard(page):
    """Tab by tab, with nothing but links and buttons: no mouse is needed, and nobody is caught anywhere."""
    expect(page, "td", "company")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    _tab_to(page, "vision")
    page.keyboard.press("Enter")
    expect(page, "h1", "Queue vision")
    _tab_to(page, "vision/train-2")
    page.keyboard.press("Enter")
    expect(page, "h1", "PodGroup vision/train-2")
    expect(page, ".gate-Waits", "needs 8 nvidia.com/gpu in a100; 0 free now")
    _tab_to(page, "Try what would help")
    page.keyboard.press("Enter")
    expect(page, "#try", "4 changes tried, of which 4 would do")
    expect(page, "#remedies tbody", "if vision/train-1 (8 nvidia.com/gpu) ends")
    assert "And then" not in page.inner_text("#remedies")  # nothing has to follow any of them


def test_a_link_begins_no_trial_and_one_that_is_begun_can_be_stopped(page, address):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.method) if "/try" in request.url else None)
    page.goto(f"{address}/workload/serving/llm?open=try")
    page.wait_for_selector("#try button")
    page.wait_for_function("performance.getEntriesByType('resource').some((one) => one.name.includes('/try'))")
    assert asked == ["GET"]
    assert page.locator("#try table").count() == 0
    page.route("**/try?*", lambda route: None)  # an answer that does not come
    page.click("text=Try what would help")
    expect(page, "#try", "trying ...")
    page.click("#try >> text=Stop")
    expect(page, "#try", "stopped")
    assert page.is_enabled("text=Try what would help")


def _tab_to(page: Any, text: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == text:
            return
    raise AssertionError(f"no tab leads to {text}")


def test_a_link_says_everything(page, address):
    """What is chosen stands in the address: whoever opens it sees the same."""
    page.goto(f"{address}/gangs")
    page.select_option("#f-state", "waiting")
    page.fill("#f-name", "train")
    page.click("text=Show")
    expect(page, ".summary", "6 gangs, 4 of them waiting")
    assert page.url == f"{address}/gangs?state=waiting&name=train"
    assert page.locator("#gangs tbody tr").count() == 1


def test_an_address_shows_the_same_to_whoever_is_sent_it(page, window, address):
    """Filters, what is chosen, parts that were opened, and what was tried: copied into a browser that was never here."""
    views = {
        "/": ("#f-resources", "all", ()),
        "/queue/vision": ("#f-resources", "all", ()),
        "/workload/vision/train-2": ("", "", ("#text summary", "#try button")),
        "/nodes": ("#f-model", "NVIDIA-H100", ()),
        "/gangs": ("#f-state", "waiting", ()),
        "/decisions": ("", "", ()),
    }
    for path, (field, value, parts) in views.items():
        page.goto(f"{address}{path}")
        page.wait_for_selector("main[data-generation]")
        if field:
            page.select_option(field, value)
            page.click("text=Show")
            page.wait_for_selector("main[data-generation]")
        for part in parts:
            page.click(part)
        if parts:
            expect(page, "#try", "4 changes tried, of which 4 would do")
        other = window()
        other.goto(f"{address}/?token={TOKEN}")
        other.goto(page.url)
        other.wait_for_selector("main[data-generation]")
        if parts:
            expect(other, "#try", "4 changes tried, of which 4 would do")
        assert _read(other) == _read(page), page.url
        assert (field == "" and not parts) or "?" in page.url


def _read(page: Any) -> list[str]:
    """What is on a page to read, but for how long ago anything was, and what was chosen."""
    return page.evaluate(
        """() => {
          const main = document.getElementById("page"), chosen = [...main.querySelectorAll("input, select")];
          return [...main.innerText.replace(/\\b\\d+[smhd] ago/g, "ago").split("\\n"), ...chosen.map((one) => one.value)];
        }"""
    )


def test_nothing_is_cut_off_at_any_width(page, address):
    """From a telephone to a wide screen: pages are as wide as the window, numbers whole, sentences no thin columns."""
    for path in PAGES:
        page.goto(f"{address}{path}")
        page.wait_for_selector("main[data-generation]")
        for width in (320, 600, 768, 1280, 1920):
            page.set_viewport_size({"width": width, "height": 700})
            page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            assert page.evaluate(CUT_OFF, width <= 600) == [], (path, width)


CUT_OFF = """(narrow) => {
  const wrong = [...document.querySelectorAll("main .number, main .word, main time")]
    .filter((one) => one.scrollWidth > one.clientWidth && getComputedStyle(one).display !== "inline");
  const thin = [...document.querySelectorAll("main .prose")].filter((one) => one.parentElement.clientWidth < 150);
  const sideways = [...document.querySelectorAll("main .scroll")].filter((one) => narrow && one.scrollWidth > one.clientWidth);
  return [...wrong, ...thin, ...sideways].map((one) => one.outerHTML.slice(0, 200));
}"""


def test_a_row_that_is_a_card_is_a_row_to_who_listens(page, address):
    """What is drawn otherwise on a telephone has the same names and roles there."""
    page.goto(f"{address}/gangs")
    page.wait_for_selector("main[data-generation]")
    wide = page.locator("#gangs table").aria_snapshot()
    page.set_viewport_size({"width": 320, "height": 700})
    page.wait_for_selector("#gangs .cards")
    assert 'row "' in wide
    assert page.locator("#gangs table").aria_snapshot().count("row") == wide.count("row")
    assert page.get_by_role("row", name=re.compile("train-2")).get_by_role("cell").count() == 10


def test_each_row_of_a_queue_says_of_which_it_is_and_shows_it_where_it_is_a_card(page, address):
    page.goto(f"{address}/?resources=all")
    page.wait_for_selector("main[data-generation]")
    again = page.locator("#queues .again")
    assert again.count() > 0
    assert all(one.evaluate("one => getComputedStyle(one).clipPath") == "inset(50%)" for one in again.all())
    page.set_viewport_size({"width": 320, "height": 700})
    page.wait_for_selector("#queues .cards")
    for row in page.locator("#queues tbody tr").all():
        assert row.locator("td").first.inner_text().strip()
    assert all(one.evaluate("one => getComputedStyle(one).clipPath") == "none" for one in again.all())


def test_landmarks_headings_and_live_regions_have_names(page, address):
    """What somebody who listens steers by: one heading of the first rank, regions with names, and a quiet voice."""
    for path in PAGES:
        page.goto(f"{address}{path}")
        page.wait_for_selector("main[data-generation]")
        assert page.get_by_role("navigation", name="Pages").count() == 1
        assert page.get_by_role("main").count() == 1
        assert page.get_by_role("heading", level=1).count() == 1
        assert page.locator("[role=status]").count() >= 2
        expect(page, "#said", page.inner_text(".summary"))
        for table in page.get_by_role("table").all():
            assert table.evaluate("one => one.caption.textContent"), path
            assert table.get_by_role("columnheader").count() >= 2


def test_the_text_can_be_copied(page, address):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{address}/workload/vision/train-2")
    page.click("#text button")
    expect(page, "#text [role=status]", "copied")

    assert "needs 8 nvidia.com/gpu in a100" in page.evaluate("navigator.clipboard.readText()")


def test_what_changes_in_the_cluster_changes_on_the_page(loop: Loop, scene: Path, page, address):
    """A row is changed in place: the page is not loaded anew, and the focus stays where it was."""
    page.goto(f"{address}/gangs")
    expect(page, "#gangs", "warmup")
    page.evaluate("window.same = true")
    link = page.locator("#gangs a", has_text="warmup")
    link.focus()
    loop.run(_add_member(scene))
    expect(page, "tr:has(a[href='/workload/vision/warmup']) .dots", "○○○·")

    assert page.evaluate("window.same")
    assert page.evaluate("document.activeElement.textContent") == "warmup"
    assert page.locator("tr:has(a[href='/workload/vision/warmup']) .dots").get_attribute("aria-label") == (
        "0 of 3 members on 0 nodes"
    )


async def _add_member(kubeconfig: Path) -> None:
    from tests.cli.views import scene as made

    async with Client(await Credentials.load(kubeconfig)) as client:
        await made.create(client, made.pod("vision", "warmup-9", 1, gang="warmup"))


def test_a_page_comes_back_after_its_server_was_away(loop: Loop, scene: Path, window):
    """The same address answers again after a while; the page that was open all the time says so, and goes on."""
    page = window()
    options = HomeOptions(scene, port=free_port(), token=TOKEN)
    with loop.holding(pages_at_home(options)) as (address, _):
        page.goto(address)
        expect(page, "#link", "live")
        page.evaluate("window.same = true")
    expect(page, "#link", "the connection is lost")
    with loop.holding(pages_at_home(options)):
        expect(page, "#link", "live")
        expect(page, "h1", "Queues")

        assert page.evaluate("window.same")
        page.goto("about:blank")  # before the server ends once more

    page.wrong[:] = [one for one in page.wrong if "ERR_CONNECTION_REFUSED" not in one and "ERR_INCOMPLETE" not in one]


def test_who_has_an_old_address_is_told_so(window, address):
    page = window()
    page.goto(f"{address}/?token=of-yesterday")
    expect(page, "body", "open the one that `tutti ui` has printed")
    page.wrong.clear()  # a browser logs every 401


CORPUS = (
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "javascript:alert(3)",
    '"><svg onload=alert(4)>',
    "{{constructor.constructor('alert(5)')()}}",
    "<a href='javascript:alert(6)'>x</a>",
    "\u202eevil\u202c",
    "//evil.example/<b>",
    "\x1b[31mred\x9b0m",
    "in\u200bvis\ufeffible\u2060\u2066",
    "w" * 1_000,
)
READ = tuple(
    re.sub(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060-\u2069\ufeff]", lambda one: f"\\u{ord(one[0]):04x}", text
    )
    for text in CORPUS
)
"""The same as they are to be read: what is not seen, or turns the order of what is, as it is written in code."""


def test_names_and_messages_are_text_and_nothing_else(loop: Loop, window):
    """Every name, label, note and message is hostile; each is written as it is, and does nothing."""
    page = window()
    own = [
        path
        for number, text in enumerate(CORPUS[:-1])
        if "/" not in text or number < 4
        for path in (f"/queue/{quote(text, safe='')}", f"/workload/{quote(text, safe='')}/gang-{number}")
    ]
    with loop.holding(_hostile()) as address:
        page.goto(f"{address}/?token={TOKEN}")
        for path in ("/", "/nodes", "/gangs", "/decisions", *own):
            page.goto(f"{address}{path}")
            page.wait_for_selector("main[data-generation]")
            assert (
                page.locator(
                    "main :is(img, script, b, iframe, object), main a:not([href^='/']), main a[href^='//']"
                ).count()
                == 0
            )
            shown = page.inner_text("main")
            assert any(text in shown for text in READ), path
            assert not re.search("[\x7f-\x9f\u200b\u202a-\u202e\u2060-\u2069\ufeff]", shown + page.title()), path
            for width in (320, 1280):
                page.set_viewport_size({"width": width, "height": 800})
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        page.goto(f"{address}/nodes")
        expect(page, "#devices", CORPUS[1])
        page.goto(f"{address}/workload/{quote(CORPUS[0], safe='')}/gang-0")
        expect(page, ".gate-Waits", f"Throttle {CORPUS[0]}/{CORPUS[0]} never allows")
        page.goto(f"{address}/workload/{quote(CORPUS[2], safe='')}/gang-2")
        page.click("#try button")
        expect(page, "#try", "tried, of which")
        assert page.locator("#try :is(img, script, b, iframe, object)").count() == 0
        page.goto("about:blank")  # before the server ends, of which a page would complain


def test_devices_and_cards_are_shown_with_what_is_taken_and_what_ails_them(loop: Loop, window, axe):
    """A pool whose driver has published a part only, and a card that its plugin calls unhealthy."""
    told = [card(0, "gpu-1"), card(1, "gpu-1", health=False)]
    node = scene.node("gpu-1", "T4", "r1")
    node["metadata"]["annotations"] = {REGISTER: json.dumps(told)}
    mirror = MadeUpMirror([node, scene.node("dra-1", "H100", "r1")])
    half = resource_slice("dra-1", 4)
    half = msgspec.structs.replace(
        half,
        spec=msgspec.structs.replace(half.spec, pool=msgspec.structs.replace(half.spec.pool, resource_slice_count=2)),
    )
    mirror.seen.append(SliceSeen(half))
    mirror.configuration = KnownConfiguration(TuttiConfiguration(hami={}), {})  # type: ignore[arg-type]
    page = window()
    with loop.holding(_served(mirror)) as address:
        page.goto(f"{address}/nodes?token={TOKEN}")
        expect(page, "#devices", "gpu.example.com")
        expect(page, "#devices tr:has-text('dra-1') .bad", re.compile("1 of 2"))
        expect(page, "#cards", "Tesla T4")
        expect(page, "#cards tr:has(.bad:not(:empty))", re.compile("gpu-1.*1.*unhealthy"))
        page.evaluate(axe)
        assert [(one["id"], one["nodes"][0]["html"]) for one in page.evaluate(RULES)] == []
        page.set_viewport_size({"width": 320, "height": 640})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        page.goto("about:blank")  # before the server ends, of which a page would complain


def _hostile() -> Any:
    from tests.web.hostility import THROTTLER, hostile_devices, hostile_events, hostile_objects, hostile_throttles

    mirror = MadeUpMirror(hostile_objects(CORPUS), hostile_events(CORPUS))
    mirror.seen[:0] = [*hostile_devices(CORPUS), *hostile_throttles(CORPUS)]
    settings = TuttiConfiguration.model_validate({"throttles": {"name": THROTTLER}, "network": {}})
    mirror.configuration = KnownConfiguration(settings, {})
    return _served(mirror)


def _served(mirror: MadeUpMirror) -> Any:
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def served():
        async with serving_pages(mirror) as (hub, _):
            settings = WebSettings([], "tutti-0", secure=False)
            app = web_application(hub, AddressToken(TOKEN), settings)
            async with serving(app, host="127.0.0.1", port=0, cancels=True, guests=Guests(GUESTS)) as port:
                yield f"http://127.0.0.1:{port}"

    return served()
