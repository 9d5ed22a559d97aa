"""When a page is seen: `python -m bench.paint [NODES WORKLOADS]` opens each page of a large cluster in Chromium.

By the browser's own clock (Performance API), from the start of the navigation: its first paint, and until all that is
on the page was drawn; and how many bytes came for it: files that are not kept from before, and the first message of its
stream. The cluster is made up, and nobody else looks; before the first page, everybody on it is told to an engine.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.sync_api import Browser, Page, sync_playwright

from bench.pages import PAGES, objects
from tests.web.browser.conftest import CHROMIUM, TOKEN
from tests.web.serving import Loop, MadeUpMirror
from tutti.controller.serving import serving
from tutti.web.access import AddressToken
from tutti.web.application import WebSettings, web_application
from tutti.web.home import serving_pages

PATIENCE_MILLIS = 180_000
PAINTED = """() => {
  const [way] = performance.getEntriesByType("navigation");
  const files = [way, ...performance.getEntriesByType("resource")];
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return {
    "first paint ms": Math.round(paint.startTime),
    "drawn ms": Math.round(performance.getEntriesByName("drawn")[0].startTime),
    "files bytes": files.reduce((sum, one) => sum + one.transferSize, 0),
  };
}"""
MESSAGE = """async (path) => {
  const answer = await fetch(`/stream?page=${encodeURIComponent(path)}`);
  const reader = answer.body.getReader(), decoder = new TextDecoder();
  let bytes = 0, text = "";
  while (!/data: [^]*\\n\\n/.test(text)) {
    const { value } = await reader.read();
    bytes += value.length;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
  return bytes;
}"""


@asynccontextmanager
async def served(mirror: MadeUpMirror) -> AsyncIterator[str]:
    """Serve pages of it; yields their address."""
    async with serving_pages(mirror) as (hub, _):  # type: ignore[arg-type]
        app = web_application(hub, AddressToken(TOKEN), WebSettings([], "tutti-0", secure=False))
        async with serving(app, host="127.0.0.1", port=0, cancels=True) as port:
            yield f"http://127.0.0.1:{port}"


def painted(page: Page, address: str, path: str) -> dict[str, int]:
    """Open a page; return what its browser says of it."""
    page.goto(f"{address}{path}")
    page.wait_for_selector("main[data-generation]")
    found: dict[str, int] = page.evaluate(PAINTED)
    return found | {"message bytes": page.evaluate(MESSAGE, path)}


def measure(browser: Browser, address: str) -> dict[str, dict[str, int]]:
    """Open each page, in a window that has been here before; the first of all by itself."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MILLIS)
    found = {"/ (before anybody has looked)": painted(page, address, f"/?token={TOKEN}")}
    return found | {path: painted(page, address, path) for path in PAGES}


def main(nodes: int, workloads: int) -> None:
    """Measure, and print it as JSON."""
    if CHROMIUM is None:
        sys.exit("there is no Chromium: apt-get install chromium")
    mirror, loop = MadeUpMirror(list(objects(nodes, workloads))), Loop()
    begun = time.time()
    with loop.holding(served(mirror)) as address, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = measure(browser, address)
        browser.close()
    loop.close()
    figures = {"nodes": nodes, "workloads": workloads, "load": os.getloadavg()[0], "s": round(time.time() - begun)}
    sys.stdout.write(json.dumps(figures | {"pages": found}, indent=2) + "\n")


if __name__ == "__main__":
    main(*(int(one) for one in sys.argv[1:3]) if len(sys.argv) > 2 else (5000, 10000))
