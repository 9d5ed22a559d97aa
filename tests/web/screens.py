"""The pages as pictures: `python -m tests.web.screens docs/screens` takes them anew.

In Debian's Chromium, of the scene that the terminal views are drawn of.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.cli.views.staging import staged
from tests.web.browser.conftest import CHROMIUM, TOKEN
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


def main(folder: Path) -> None:
    if CHROMIUM is None:
        sys.exit("there is no Chromium: apt-get install chromium")
    folder.mkdir(exist_ok=True)
    loop = Loop()
    with tempfile.TemporaryDirectory() as stage:
        kubeconfig = Path(stage) / "kubeconfig"
        options = HomeOptions(kubeconfig, token=TOKEN, configuration=KnownConfiguration(TuttiConfiguration(), {}))
        with staged(kubeconfig), loop.holding(pages_at_home(options)) as (address, _), sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTH, "height": 400})
            page.goto(address)
            for name, path in SCREENS.items():
                page.goto(address.partition("/?")[0] + path)
                page.wait_for_selector("main[data-generation]")
                if name == "web-workload":
                    page.click("text=Try what would help")
                    page.wait_for_selector("text=tried, of which")
                page.screenshot(path=folder / f"{name}.png", full_page=True)
            _take_demo(browser, folder)
            browser.close()
    loop.close()


def _take_demo(browser: Browser, folder: Path) -> None:
    """Take pages of a running demo, at the address that it prints, while a gang waits."""
    command = (sys.executable, "-m", "tutti", "demo", "--plain", "--limit", "100")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        try:
            address = next(line for line in demo.stdout if "in a browser" in line).split()[-1]
            next(line for line in demo.stdout if DEMO_AT in line and "waits" in line)
            page = browser.new_page(viewport={"width": WIDTH, "height": 400})
            page.goto(address)
            for name, path in DEMO_SCREENS.items():
                page.goto(address.partition("/?")[0] + path)
                page.wait_for_selector("main[data-generation]")
                page.screenshot(path=folder / f"{name}.png", full_page=True)
        finally:
            demo.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
