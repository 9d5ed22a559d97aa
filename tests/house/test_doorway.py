"""The doorway of stories: it closes though somebody is within, and says that binds are kept though one was lost."""

from __future__ import annotations

import contextlib
import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from e2e.harness.doorway import Doorway
from e2e.harness.processes import wait_for

pytestmark = pytest.mark.timeout(60)

BIND = "/api/v1/namespaces/default/pods/p/binding"


class Beyond(BaseHTTPRequestHandler):
    """A server that begins to answer a GET and never ends, and hangs up on a POST."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}\n")
        self.server.over.wait()

    def do_POST(self):
        self.close_connection = True

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def kubeconfig(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Beyond) as server:
        server.over = threading.Event()
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield written(tmp_path, f"http://127.0.0.1:{server.server_port}")
        server.over.set()
        server.shutdown()
        serving.join()


def written(folder, host):
    named = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    file = folder / "kubeconfig"
    clusters, users = [{"name": "x", "cluster": {"server": host}}], [{"name": "x", "user": {}}]
    document = {"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [named]}
    file.write_text(yaml.safe_dump({**document, "clusters": clusters, "users": users}))
    return file


def through(doorway):
    _, _, address = yaml.safe_load(doorway.kubeconfig.read_text())["clusters"][0]["cluster"]["server"].rpartition("/")
    return contextlib.closing(http.client.HTTPConnection(address))


def test_it_closes_though_a_watch_is_open(kubeconfig, tmp_path):
    with contextlib.ExitStack() as until, Doorway(kubeconfig, tmp_path, 0) as doorway:
        asked = until.enter_context(through(doorway))
        asked.request("GET", "/api/v1/pods?watch=1")
        assert asked.getresponse().readline() == b"{}\n"


def test_it_closes_though_a_bind_is_kept(kubeconfig, tmp_path):
    with contextlib.ExitStack() as until, Doorway(kubeconfig, tmp_path, 0) as doorway:
        asked = until.enter_context(through(doorway))
        asked.request("POST", BIND)
        wait_for(lambda: doorway.kept, "the bind to be kept")


def test_it_says_that_binds_are_kept_though_one_that_it_let_through_was_lost(kubeconfig, tmp_path):
    with contextlib.ExitStack() as until, Doorway(kubeconfig, tmp_path, 1) as doorway:
        with through(doorway) as lost:
            lost.request("POST", BIND)
            with pytest.raises(OSError):
                lost.getresponse()
        kept = until.enter_context(through(doorway))
        kept.request("POST", BIND)
        wait_for(lambda: doorway.kept, "the next to be kept", seconds=20)


def test_one_that_does_not_open_leaves_no_thread(tmp_path):
    doorway = Doorway(written(tmp_path, "http://127.0.0.1:1"), tmp_path, 0)
    doorway.kubeconfig = tmp_path  # a folder, which nothing is written to
    with pytest.raises(IsADirectoryError):
        doorway.__enter__()
    assert "doorway" not in {thread.name for thread in threading.enumerate()}
