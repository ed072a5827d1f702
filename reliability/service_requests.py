"""Fuzz target: requests of the service, from the method to the last byte of the body.

A case is a request to one of the routes, valid or damaged, to the service with stand-ins for the shipped taggers. The
service must answer, never with an error of its own (5xx), and every refusal must be JSON with a code and a message. A
valid request must be accepted, and the answer must have the words that were sent.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import standin
from reliability import readers, strange
from reliability.cases import Broken, Case, check, check_words
from zgul.errors import ZgulError
from zgul.serve.app import create_app
from zgul.serve.serve_config import ServeConfig

LANGUAGES = (("fo", "pos"), ("gsw", "pos"), ("luo", "ner"), ("Faroese", "pos"))
PATHS = ("/v1/tag", "/v1/explain", "/v1/read", "/v1/conllu", "/v1/languages", "/v1/examples", "/v1/config", "/healthz")
METHODS = ("GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH", "TRACE", "x")
TYPES = ("application/json", "multipart/form-data", "text/plain", "application/json; charset=utf-16", "\xff", "")
LIMITS = {"max_bytes": 20_000, "max_words": 500, "max_sentence": 200, "max_texts": 20, "max_explained": 30}
BOUNDARY = "case"


@dataclass
class Sent:
    """A request, and what its answer must have if nothing is done to it."""

    method: str
    path: str
    body: bytes = b""
    kind: str = ""  # Content-Type
    words: list[str] | None = None
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


class ServiceRequests:
    def __init__(self, folder: Path) -> None:
        os.environ["ZGUL_TAGGERS"] = str(standin.stand_in_taggers(folder))
        logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it says more than anyone wants to read here
        self.app = create_app(ServeConfig(open=False, precision="float32", **LIMITS))  # type: ignore[arg-type]
        self.loop = asyncio.new_event_loop()
        self.lifespan = self.app.router.lifespan_context(self.app)
        self.loop.run_until_complete(self.lifespan.__aenter__())
        self.app.state.service.load_all()
        self.known = sorted({word for line in standin.words().text("s0", 200) for word in line.split()})

    def __del__(self) -> None:
        self.loop.run_until_complete(self.lifespan.__aexit__(None, None, None))
        self.loop.run_until_complete(asyncio.sleep(0))  # what was cancelled ends
        self.loop.close()

    def run(self, case: Case) -> None:
        random = case.random
        sent = self._valid(random)
        damaged = random.random() < 0.8
        if damaged:
            self._damage(random, sent)
        status, headers, body = self.loop.run_until_complete(asyncio.wait_for(self._send(sent), 60))
        check(200 <= status < 500, f"status {status} for {sent.method} {sent.path}")
        check(b"content-security-policy" in headers, "an answer without the headers for security")
        if status >= 400:
            error = json.loads(body)["error"] if body or sent.method != "HEAD" else {"code": "", "message": ""}
            check(isinstance(error["code"], str) and isinstance(error["message"], str), "an error without a message")
            check(damaged, f"a valid request was refused: {error['message']}")
            raise ZgulError(error["message"])
        if not damaged and sent.words is not None:
            check_words(_words(sent.path, body), sent.words)

    def _valid(self, random: Random) -> Sent:
        language, task = random.choice(LANGUAGES)
        words = random.choices(self.known, k=random.randint(1, 12))
        kind = random.randrange(6)
        if kind < 2:
            text = {"words": words} if kind else {"text": " ".join(words)}
            body: Any = {"texts": [{**text, "lang": language}], "task": task, "em_steps": random.randint(0, 2)}
            return _json("/v1/tag", body, words if kind else None)
        if kind == 2:
            return _json("/v1/explain", {"words": words, "lang": language, "task": task, "em_steps": 1})
        if kind == 3:
            rows = {"text": " ".join(words), "language": "fo", "words": words, "offsets": _offsets(words)}
            sentence = {**rows, "upos": ["NOUN"] * len(words), "upos_probabilities": [0.5] * len(words)}
            return _json("/v1/conllu", {"sentences": [sentence]}, words)
        if kind == 4:
            ending = random.choice((".txt", ".txt.gz", *readers.DOCUMENTS.values()))
            content = readers.write(random, ending.removeprefix(".").removesuffix(".gz"), [words]).encode()
            if ending in (".docx", ".odt"):
                content = readers.office(random, ending[1:], content, valid=True)
            content = gzip.compress(content) if ending.endswith(".gz") else content
            return Sent("POST", "/v1/read", _form(f"a{ending}", content), f"multipart/form-data; boundary={BOUNDARY}")
        return Sent("GET", random.choice(("/v1/languages?q=far&limit=3", "/v1/languages/fo", *PATHS[4:])))

    def _damage(self, random: Random, sent: Sent) -> None:
        """Change the request in one or two places."""
        for _ in range(random.randint(1, 2)):
            match random.randrange(8):
                case 0 | 1 | 2 if sent.kind == "application/json":
                    try:
                        value = json.loads(sent.body)
                    except (ValueError, RecursionError):  # a second damage
                        continue
                    sent.body = strange.json_bytes(random, value)
                case 3:
                    sent.body = strange.damage(random, sent.body)
                case 4:
                    sent.kind = random.choice((*TYPES, sent.kind + "; boundary=" + strange.letters(random)))
                case 5:
                    name = random.choice((b"content-length", b"authorization", b"host", b"origin", b"content-encoding"))
                    value = random.choice((b"-1", b"9" * 30, b"gzip", b"\xff\xfe", b"", b"0"))
                    sent.headers.append((name, value))
                case 6:
                    sent.method = random.choice(METHODS)
                case 7:
                    paths = (*PATHS, "/static/../app.py", "/", "/v1/languages/", "/openapi.json", "/metrics")
                    sent.path = (
                        random.choice(paths) + random.choice(("", "/", "?q=", "/" * 50)) + strange.text(random, 8)
                    )
                case _:
                    text = strange.text(random, 60)
                    sent.body = _json("/v1/tag", {"texts": [{"text": text, "lang": "fo"}], "task": "pos"}).body

    async def _send(self, sent: Sent) -> tuple[int, dict[bytes, bytes], bytes]:
        """Send a request through ASGI, as a server does with what it has read from a connection."""
        path, _, query = sent.path.partition("?")
        headers = [(b"content-type", sent.kind.encode("latin-1"))] if sent.kind else []
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": ""}
        scope |= {
            "method": sent.method,
            "path": path,
            "raw_path": quote(path).encode(),
            "headers": headers + sent.headers,
        }
        scope |= {"query_string": quote(query, safe="=&%").encode(), "client": ("127.0.0.1", 1), "server": ("a", 80)}
        scope["state"] = {}
        messages = [{"type": "http.request", "body": sent.body, "more_body": False}]
        status, answered, parts = 0, dict[bytes, bytes](), list[bytes]()

        async def receive() -> dict[str, Any]:
            return messages.pop() if messages else await self.loop.create_future()

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answered.update((name.lower(), value) for name, value in message["headers"])
            else:
                parts.append(message.get("body", b""))

        await self.app(scope, receive, send)  # type: ignore[arg-type]
        if not status:
            raise Broken("no answer")
        return status, answered, b"".join(parts)


def _json(path: str, body: Any, words: list[str] | None = None) -> Sent:
    return Sent("POST", path, strange.dump(body), "application/json", words)


def _form(name: str, content: bytes) -> bytes:
    about = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    return about.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()


def _offsets(words: list[str]) -> list[tuple[int, int]]:
    offsets, start = [], 0
    for word in words:
        offsets.append((start, start + len(word)))
        start += len(word) + 1
    return offsets


def _words(path: str, body: bytes) -> list[str]:
    """The words of an answer."""
    if path == "/v1/conllu":
        return [line.split("\t")[1] for line in body.decode().splitlines() if line[:1].isdigit()]
    answer = json.loads(body)
    return [word for text in answer["texts"] for sentence in text["sentences"] for word in sentence["words"]]
