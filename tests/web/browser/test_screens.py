"""Takes the pictures of the pages that the docs show; `make web-screens` keeps them in docs/screens.

They are of the scene that the terminal views are drawn of, and of a running demo.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.views.staging import staged
from tests.web.browser.conftest import ROOT, TOKEN
from tests.web.serving import Loop
from tutti.api.configuration import TuttiConfiguration
from tutti.cli.views.configuration import KnownConfiguration
from tutti.web.home import HomeOptions, pages_at_home

SCREENS = {
    "web-queues": "/",
    "web-queue": "/queue/vision",
    "web-workload": "/workload/vision/train-2",
    "web-nodes": "/nodes",
    "web-gangs": "/gangs",
}
DEMO_AT = "train-3"
DEMO_SCREENS = {"web-demo": f"/workload/vision/{DEMO_AT}", "web-decisions": "/decisions"}
"""Pages of the demo, once it has told of a gang that it waits."""
WIDTH = 1180
DOCUMENTED = ROOT / "docs" / "screens"
KEPT_IN = os.environ.get("SCREENS")
"""The folder in which they are kept; none where it is only looked whether those in the docs are still like them."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(KEPT_IN) if KEPT_IN else tmp_path


def test_the_pictures_of_pages_in_the_docs_are_of_pages_like_these(chromium: Any, loop: Loop, folder: Path, tmp_path):
    folder.mkdir(exist_ok=True)
    _take_scene(chromium, loop, tmp_path / "kubeconfig", folder)
    _take_demo(chromium, folder)

    taken, kept = _sizes(folder), _sizes(DOCUMENTED)
    assert taken.keys() == kept.keys() == {*SCREENS, *DEMO_SCREENS}
    for name, (width, height) in taken.items():
        assert width == kept[name][0] == WIDTH
        assert 2 / 3 < height / kept[name][1] < 3 / 2, f"{name} has grown or shrunk: make web-screens"


def _take_scene(chromium: Any, loop: Loop, kubeconfig: Path, folder: Path) -> None:
    """Take pages of a cluster that stands still."""
    options = HomeOptions(kubeconfig, token=TOKEN, configuration=KnownConfiguration(TuttiConfiguration(), {}))
    with staged(kubeconfig), loop.holding(pages_at_home(options)) as (address, _):
        page = chromium.new_page(viewport={"width": WIDTH, "height": 400})
        page.goto(address)
        for name, path in SCREENS.items():
            page.goto(address.partition("/?")[0] + path)
            page.wait_for_selector("main[data-generation]")
            if name == "web-workload":
                page.click("text=Try what would help")
                page.wait_for_selector("text=tried, of which")
            page.screenshot(path=folder / f"{name}.png", full_page=True)
        page.close()


def _take_demo(chromium: Any, folder: Path) -> None:
    """Take pages of a running demo, at the address that it prints, while a gang waits."""
    command = (sys.executable, "-m", "tutti", "demo", "--plain", "--limit", "100")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        try:
            address = next(line for line in demo.stdout if "in a browser" in line).split()[-1]
            next(line for line in demo.stdout if DEMO_AT in line and "waits" in line)
            page = chromium.new_page(viewport={"width": WIDTH, "height": 400})
            page.goto(address)
            for name, path in DEMO_SCREENS.items():
                page.goto(address.partition("/?")[0] + path)
                page.wait_for_selector("main[data-generation]")
                page.screenshot(path=folder / f"{name}.png", full_page=True)
            page.close()
        finally:
            demo.terminate()


def _sizes(folder: Path) -> dict[str, tuple[int, int]]:
    """Return width and height of each picture of a page in a folder, by its name (PNG 1.2, IHDR)."""
    return {one.stem: struct.unpack(">II", one.read_bytes()[16:24]) for one in sorted(folder.glob("web-*.png"))}
