"""The passage of stories: it hands on both ways, cuts off who is within when it is shut, and opens again."""

from __future__ import annotations

import socket
import threading
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from e2e.harness.passage import Passage

pytestmark = pytest.mark.timeout(60)


class Echo(StreamRequestHandler):
    """Says each line again."""

    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)


class Beyond(ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@pytest.fixture
def passage():
    with Passage() as made, Beyond(("127.0.0.1", made.beyond), Echo) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield made
        server.shutdown()
        serving.join()


def asked(passage):
    return socket.create_connection(("127.0.0.1", passage.port), timeout=20)


def said(connection):
    connection.sendall(b"so\n")
    return connection.recv(100)


def is_cut_off(connection):
    try:
        return connection.recv(100) == b""
    except ConnectionError:
        return True


def test_what_is_sent_and_answered_goes_through_until_it_is_shut(passage):
    with asked(passage) as connection:
        assert said(connection) == b"so\n"
        passage.shut()
        assert is_cut_off(connection)
        with pytest.raises(ConnectionRefusedError):
            asked(passage)


def test_who_comes_when_it_is_open_again_gets_through(passage):
    passage.shut()
    passage.open()
    with asked(passage) as connection:
        assert said(connection) == b"so\n"


def test_one_that_leads_nowhere_closes_and_leaves_no_thread():
    with Passage() as passage, asked(passage) as connection:
        assert is_cut_off(connection)
    assert "passage" not in {thread.name for thread in threading.enumerate()}
