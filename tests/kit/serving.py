"""HTTP servers that answer from a thread of the test's process."""

import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def answering(server):
    """The address of `server`, which answers until the end."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


def served(folder):
    """The files of a folder behind an address on this machine."""
    return answering(ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))))
