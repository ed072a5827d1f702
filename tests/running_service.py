"""A real service on a loopback port, in a thread of this process, and a plain HTTP client."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zgul.serve.app import create_app
from zgul.serve.serve_config import ServeConfig
from zgul.serve.server import bind, new_server

BOUNDARY = "zgul-test"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, str]:
        return dict(self.data["error"])


@dataclass
class Client:
    port: int
    app: Any = None

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """A request. A body that is not bytes is sent as JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers = {"content-type": "application/json"} | headers
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.call("POST", path, body, **headers)

    def tag(self, text: str, lang: str = "fo", **choices: Any) -> Answer:
        return self.post("/v1/tag", {"texts": [{"text": text, "lang": lang}], **choices})

    def upload(self, name: str, content: bytes, field: str = "file") -> Answer:
        about = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'
        body = about.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()
        return self.post("/v1/read", body, content_type=f"multipart/form-data; boundary={BOUNDARY}")


@contextmanager
def running(page: Path, **options: Any) -> Iterator[Client]:
    """A service with these options."""
    config = ServeConfig(open=False, **options)
    app = create_app(config, page)
    server = new_server(app, config)
    listening = bind("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield Client(listening.getsockname()[1], app)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
