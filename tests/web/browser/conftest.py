"""One browser for all of these tests: Debian's Chromium, driven by playwright; without them they are skipped, with a word.

Playwright leaves a loop running in the thread that it is used in, where other tests want one of theirs. So the browser
has a thread, and tests of this folder run in it; pages are served from another one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.views.staging import staged
from tests.web.serving import Loop
from tutti.web.home import HomeOptions, pages_at_home

ROOT = Path(__file__).parents[3]
AXE = ROOT / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TOKEN = "the-token-of-these-tests"
PATIENCE_MS = 120_000
"""Milliseconds after which what a page is waited for to show will not come."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("browser"))


THREAD = ThreadPoolExecutor(1, thread_name_prefix="browser")


def there(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return what a function returns that is called in the thread of the browser."""
    return THREAD.submit(function, *args, **options).result()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    wanted = pyfuncitem._fixtureinfo.argnames
    there(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in wanted})
    return True


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    driver = there(playwright.sync_playwright().start)
    browser = there(driver.chromium.launch, executable_path=CHROMIUM, args=["--no-sandbox"])
    yield browser
    there(browser.close)
    there(driver.stop)


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a cluster with the scene on it."""
    kubeconfig = tmp_path_factory.mktemp("scene") / "kubeconfig"
    with staged(kubeconfig):
        yield kubeconfig


@pytest.fixture(scope="session")
def address(loop: Loop, scene: Path) -> Iterator[str]:
    """Where the pages of the scene are, without the token."""
    with loop.holding(pages_at_home(HomeOptions(scene, token=TOKEN))) as (found, _):
        yield found.partition("/?")[0]


@pytest.fixture
def window(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open a window of its own: nothing is remembered from another. What goes wrong in it fails the test."""
    wrong: list[str] = []
    windows = ExitStack()

    def open_window(**options: Any) -> Any:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        windows.callback(context.close)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.wrong = wrong
        return page

    yield open_window
    there(windows.close)
    assert wrong == []


@pytest.fixture
def page(window: Callable[..., Any], address: str) -> Any:
    """A window that has been let in."""
    made = there(window)
    there(made.goto, f"{address}/?token={TOKEN}")
    return made


@pytest.fixture(scope="session")
def axe() -> str:
    """The text of axe-core, where npm has fetched it."""
    if not AXE.is_file():
        pytest.skip("no axe-core: make axe (needs npm)")
    return AXE.read_text()
