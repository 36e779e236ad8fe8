"""A package index on this machine, which may send more, or something else, than it should."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.unit.catalog.local_package import WHEEL_NAME

_BLOCK = bytes(1 << 16)


@dataclass
class Index:
    """What the index holds, and how it misbehaves.

    Args:
        wheel: The bytes of the package.
        fragment: What follows the link to it: a hash that the index states.
        stated_size: The length that it states, in place of the right one.
        states_size: Whether it states a length at all.
        endless: What never ends: ``file``, ``page``, or nothing.
        paths: What was asked for.
        sent_bytes: Bytes of the package's file that were sent.
    """

    wheel: bytes = b""
    fragment: str = ""
    stated_size: int | None = None
    states_size: bool = True
    endless: str = ""
    paths: list[str] = field(default_factory=list)
    sent_bytes: int = 0
    address: str = ""


class _Answers(BaseHTTPRequestHandler):
    index: Index

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Answer with the page of the package, or its file."""
        index = self.index
        index.paths.append(self.path)
        with suppress(OSError):
            if self.path.endswith(".whl"):
                self._file(index)
            else:
                self._page(index)

    def _page(self, index: Index) -> None:
        link = f'<a href="/files/{WHEEL_NAME}{index.fragment}">{WHEEL_NAME}</a>\n'.encode()
        self._begin("text/html", None if index.endless else len(link))
        self.wfile.write(link)
        while index.endless == "page":
            self.wfile.write(link * 1000)

    def _file(self, index: Index) -> None:
        size = len(index.wheel) if index.stated_size is None else index.stated_size
        self._begin("application/octet-stream", size if index.states_size else None)
        self.wfile.write(index.wheel)
        index.sent_bytes += len(index.wheel)
        while index.endless == "file":
            self.wfile.write(_BLOCK)
            index.sent_bytes += len(_BLOCK)

    def _begin(self, kind: str, size_bytes: int | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if size_bytes is not None:
            self.send_header("Content-Length", str(size_bytes))
        self.end_headers()


@contextmanager
def serving(index: Index) -> Iterator[Index]:
    """Serve an index, whose address is in it, until the end of the block."""
    answers = type("Answers", (_Answers,), {"index": index})
    server = ThreadingHTTPServer(("127.0.0.1", 0), answers)
    server.daemon_threads = True
    index.address = "http:" + f"//127.0.0.1:{server.server_address[1]}/simple"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        # What is being sent ends when its reader goes.
        server.socket.close()
