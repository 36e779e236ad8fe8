"""A hub on this machine: the few answers of a real one that fetching a file needs, and bad ones."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "org/repo"


@dataclass
class Hub:
    """What the hub holds, and how it misbehaves.

    Args:
        files: Bytes by path in the repository.
        stated: What it says of a file instead of the truth: ``size`` or ``sha256`` by path.
        status: Code of every answer, by kind of request: ``info``, ``head`` or ``get``.
        error: What the header says of an error, as the real one's do.
        cut_count: How many downloads are cut in the middle.
        endless: Whether downloads go on beyond their end.
        redirects: How many redirections come before a file.
        info: The bytes of the answer about the repository, in place of the right ones.
        requests: Method, path and headers of what was asked.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    stated: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    cut_count: int = 0
    endless: bool = False
    redirects: int = 0
    info: bytes | None = None
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    address: str = ""

    def paths(self) -> list[str]:
        """Return the paths that were asked for."""
        return [path for _, path, _ in self.requests]


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        """Answer what a file is."""
        self._answer(is_head=True)

    def do_GET(self) -> None:
        """Answer about the repository, or with a file."""
        self._answer(is_head=False)

    def _answer(self, *, is_head: bool) -> None:
        hub, path = self.hub, unquote(urlsplit(self.path).path)
        hub.requests.append((self.command, self.path, dict(self.headers)))
        if path.startswith(f"/api/models/{REPO}"):
            self._info(path)
        elif path.startswith((f"/{REPO}/resolve/{COMMIT}/", "/moved/")):
            self._file(path, is_head=is_head)
        else:
            self._fail(404, "RepoNotFound")

    def _info(self, path: str) -> None:
        hub = self.hub
        revision = path.partition("/revision/")[2]
        if "info" in hub.status:
            self._fail(hub.status["info"], hub.error)
        elif revision not in ("", "main", COMMIT):
            self._fail(404, "RevisionNotFound")
        else:
            siblings = []
            for name, data in hub.files.items():
                facts = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
                facts |= hub.stated.get(name, {})
                one = {"rfilename": name, "size": facts["size"], "blobId": "0" * 40}
                if facts["sha256"] is not None:
                    lfs = {"size": facts["size"], "sha256": facts["sha256"], "pointerSize": 1}
                    one["lfs"] = lfs
                siblings.append(one)
            answer = {"id": REPO, "modelId": REPO, "sha": COMMIT, "siblings": siblings}
            self._send(200, json.dumps(answer).encode() if hub.info is None else hub.info)

    def _file(self, path: str, *, is_head: bool) -> None:
        hub = self.hub
        kind = "head" if is_head else "get"
        name = path.partition(f"/resolve/{COMMIT}/")[2] or path.partition("/file/")[2]
        if kind in hub.status:
            self._fail(hub.status[kind], hub.error)
        elif name not in hub.files:
            self._fail(404, "EntryNotFound")
        elif hub.redirects and not path.startswith("/moved/"):
            self._send(302, b"", {"Location": f"/moved/1/file/{name}"} | self._facts(name))
        elif path.startswith("/moved/") and int(path.split("/")[2]) < hub.redirects:
            target = f"/moved/{int(path.split('/')[2]) + 1}/file/{name}"
            self._send(302, b"", {"Location": target} | self._facts(name))
        else:
            self._body(name, is_head=is_head)

    def _facts(self, name: str) -> dict[str, str]:
        stated = self.hub.stated.get(name, {})
        data = self.hub.files[name]
        return {
            "X-Repo-Commit": COMMIT,
            "X-Linked-Size": str(stated.get("size", len(data))),
            "X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"',
            "ETag": f'"{hashlib.sha256(data).hexdigest()}"',
        }

    def _body(self, name: str, *, is_head: bool) -> None:
        hub, data = self.hub, self.hub.files[name]
        first = int((self.headers.get("Range") or "bytes=0-")[6:].partition("-")[0])
        status = 206 if first else 200
        self.send_response(status)
        for key, value in self._facts(name).items():
            self.send_header(key, value)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        is_endless = hub.endless and not is_head
        if is_endless:
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        if is_head:
            return
        if hub.cut_count:
            hub.cut_count -= 1
            self.wfile.write(data[first : first + (len(data) - first) // 2])
            self.close_connection = True
            return
        self.wfile.write(data[first:])
        if is_endless:
            self.close_connection = True
            for _ in range(1000):
                self.wfile.write(bytes(1 << 16))

    def _fail(self, status: int, error: str | None) -> None:
        self._send(status, b"{}", {"X-Error-Code": error} if error else {})

    def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Answer on a port of this machine."""
    handler = type("Answers", (_Answers,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        hub.address = "http:" + f"//127.0.0.1:{server.server_address[1]}"
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
