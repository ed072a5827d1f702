"""A web server on this machine that serves files and misbehaves on request."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """One file and the ways in which the server gets it wrong."""

    body: bytes
    etag: str | None = '"v1"'
    modified: str | None = None
    kind: str = "application/octet-stream"
    coding: str | None = None
    breaks: list[int] = field(default_factory=list)  # the next answers stop after so many bytes
    statuses: list[int] = field(default_factory=list)  # the next answers are these errors
    claims: int | None = None  # a false Content-Length
    ranges: bool = True  # honours Range
    shift: int = 0  # continues at another place than asked
    understates: int = 0  # by how much, when it continues
    silent_length: bool = False  # sends no Content-Length
    stalls: float = 0.0  # seconds of silence after the header
    redirect: str | None = None  # another address


class Server(ThreadingHTTPServer):
    """Serves ``files``; ``requests`` remembers (path, Range) of every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, Served] = {}
        self.requests: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.lstrip("/")
        self.server.requests.append((path, self.headers.get("Range")))
        served = self.server.files.get(path)
        if served is None:
            self.send_error(404)
            return
        if served.statuses:
            self.send_error(served.statuses.pop(0))
            return
        if served.redirect:
            self.send_response(302)
            self.send_header("Location", served.redirect)
            self.end_headers()
            return
        start = self._start(served)
        if start is not None and start >= len(served.body):
            self.send_error(416)
            return
        body = served.body[start or 0 :]
        self.send_response(200 if start is None else 206)
        if start is not None:
            first = start + served.shift
            total = len(served.body) - served.understates
            self.send_header("Content-Range", f"bytes {first}-{total - 1}/{total}")
        for name, value in (
            ("ETag", served.etag),
            ("Last-Modified", served.modified),
            ("Content-Type", served.kind),
            ("Content-Encoding", served.coding),
            ("Content-Length", None if served.silent_length else str(served.claims or len(body))),
        ):
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        time.sleep(served.stalls)
        self.wfile.write(body[: served.breaks.pop(0)] if served.breaks else body)

    def _start(self, served: Served) -> int | None:
        wanted = self.headers.get("Range")
        same = self.headers.get("If-Range") in (served.etag, served.modified)
        if not (wanted and served.ranges and same):
            return None
        return int(wanted.removeprefix("bytes=").removesuffix("-"))

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
