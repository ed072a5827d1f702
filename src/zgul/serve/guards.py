"""What stands before every route: the log, security headers, the key, and the limits on size, number and time."""

import asyncio
import logging
import secrets
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zgul.serve.metrics import Metrics
from zgul.serve.problems import Problem
from zgul.serve.serve_config import ServeConfig

LOG = logging.getLogger("zgul.serve")
GONE = 499  # as other servers note it: the client did not wait for the answer
ALLOWED = " ".join(f"{kind}-src 'self';" for kind in ("script", "style", "img", "font", "connect", "manifest"))
FORBIDDEN = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; {ALLOWED} {FORBIDDEN}",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Watch:
    """Security headers, the log and metrics. Answers errors that no route answers: our own without details.

    The log has no text of a user: a line names the route, never the path or query that was sent, and an error is
    logged by its place in the code, without its message.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        status, started = 0, time.perf_counter()

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store" if scope["path"].startswith("/v1/") else "no-cache")
            await send(message)

        try:
            await self.app(scope, receive, send_guarded)
        except Exception as error:
            problem = error if isinstance(error, Problem) else _internal(error)
            if not status:
                await problem.response()(scope, receive, send_guarded)
        seconds, words = time.perf_counter() - started, scope.get("state", {}).get("words", 0)
        route = _route(scope)
        self.metrics.requests.labels(route, status or GONE).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        self.metrics.words.inc(words)
        LOG.info("%s %s %d %.0f ms %d words", scope["method"], route, status or GONE, 1000 * seconds, words)
        return None


def _internal(error: Exception) -> Problem:
    place = traceback.extract_tb(error.__traceback__)[-1]
    LOG.error("%s in %s, line %s", type(error).__name__, place.name, place.lineno)
    return Problem(500, "This should not have happened. It is no fault of the request.")


def _route(scope: Scope) -> str:
    """The route as OpenAPI writes it; paths that do not exist are not repeated."""
    if route := getattr(scope.get("route"), "path", None):
        return str(route)
    return "/static" if scope["path"].startswith("/static/") else "other"


class Gate:
    """Refuses what is not allowed, and ends what takes too long or is no longer waited for."""

    def __init__(self, app: ASGIApp, config: ServeConfig) -> None:
        self.app, self.config, self.open_requests = app, config, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._check_key(scope)
        if scope["type"] == "http" and scope["method"] == "POST":
            await self._post(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _check_key(self, scope: Scope) -> None:
        path, key = scope["path"], self.config.api_key
        if not key or path == "/v1/config" or not (path.startswith("/v1/") or path == "/metrics"):
            return
        given = Headers(scope=scope).get("authorization", "").removeprefix("Bearer ")
        if not secrets.compare_digest(given.encode("latin-1"), key.encode("utf-8")):
            raise Problem(401, "This service needs a key. Send it as the header Authorization: Bearer KEY.")

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.open_requests >= self.config.max_requests:
            raise Problem(503, "Too many requests are being answered. Try again in some seconds.")
        wanted = "multipart/form-data" if scope["path"] == "/v1/read" else "application/json"
        headers = Headers(scope=scope)
        if headers.get("content-type", "").partition(";")[0].strip().lower() != wanted:
            raise Problem(415, f"The body must be {wanted}. Set the header Content-Type.")
        self.open_requests += 1
        body: bytes | None = None
        try:
            async with asyncio.timeout(self.config.max_seconds):
                body = await self._read(headers, receive)
                await _unless_gone(self.app(scope, _once(body), send), receive)
        except TimeoutError:
            if body is None:
                raise Problem(408, "The body came too slowly. Send it again.") from None
            limit = f"{self.config.max_seconds:g} seconds"
            raise Problem(504, f"This took longer than {limit}. Send less at a time, or try again later.") from None
        finally:
            self.open_requests -= 1

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body, as long as it is not too large."""
        too_large = Problem(413, f"The body has more than {self.config.max_bytes:,} bytes. Send less at a time.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self.config.max_bytes:
            raise too_large
        parts, size = [], 0
        while (message := await receive())["type"] == "http.request":
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.config.max_bytes:
                raise too_large
            if not message.get("more_body"):
                return b"".join(parts)
        raise Problem(400, "The body was cut short. Send it again.")


def _once(body: bytes) -> Callable[[], Awaitable[Message]]:
    """A `receive` that gives the body, and then nothing more."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        return next(messages, None) or await asyncio.get_running_loop().create_future()

    return receive


async def _unless_gone(answer: Any, receive: Receive) -> None:
    """Wait for the answer. It is cancelled when the client goes away."""
    tasks = [asyncio.ensure_future(one) for one in (answer, receive())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
