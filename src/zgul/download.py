"""Download a file over HTTPS so that it is complete and correct, or not there at all.

The data go to ``NAME.part``. The file gets its name when it is complete and its checksum is right. An interrupted
download continues where it stopped, also in a later run, if the server supports that (``Range`` with ``If-Range``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, InvalidURL
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from zgul import __version__
from zgul.errors import ZgulError

ALLOW_HTTP = "ZGUL_ALLOW_HTTP"  # environment variable: "1" allows addresses without encryption
MAX_BYTES = 200_000_000
_CHUNK = 1 << 16
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_ALGORITHMS = {40: "sha1", 64: "sha256"}  # by the length of the checksum


@dataclass(frozen=True)
class DownloadOptions:
    """How patient and how strict downloads are."""

    timeout: float = 30.0  # seconds without data until a connection is given up
    attempts: int = 5  # in a row that bring nothing new
    backoff: float = 1.0  # seconds before the second attempt; doubles before each further one
    max_bytes: int | None = None  # replaces the limit that belongs to the file
    allow_http: bool = False


class NotFoundError(ZgulError):
    """The server has no such file."""


class ChecksumError(ZgulError):
    """The file arrived, but it is not the one that was asked for."""


class _Interrupted(Exception):
    """This attempt failed, but another one may succeed."""


def download(
    url: str,
    target: Path,
    *,
    checksum: str | None = None,
    max_bytes: int = MAX_BYTES,
    options: DownloadOptions = DownloadOptions(),
) -> None:
    """Download ``url`` to ``target``. ``checksum`` is a SHA-256 or SHA-1 in hexadecimal."""
    _check_url(url, options)
    if checksum is not None and len(checksum) not in _ALGORITHMS:
        raise ZgulError(f"{url}: the checksum {checksum!r} is neither a SHA-256 nor a SHA-1.")
    part = target.with_name(f"{target.name}.part")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with _progress_bar(target.name) as show:
            transfer = _Transfer(url, part, options.max_bytes or max_bytes, options, show)
            transfer.run(checksum.lower() if checksum else None)
        part.replace(target)
        _discard(part)
    except OSError as error:
        reason = error.strerror or error
        raise ZgulError(f"{target} cannot be written ({reason}). Free some space or choose another folder.") from error


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Checksum of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _check_url(url: str, options: DownloadOptions) -> None:
    scheme = url.partition("://")[0].lower()
    if scheme == "https" or (scheme == "http" and (options.allow_http or os.environ.get(ALLOW_HTTP) == "1")):
        return
    if scheme == "http":
        raise ZgulError(
            f"{url} is not encrypted, so anybody on the way could replace the file. Use https, or allow http "
            f"with {ALLOW_HTTP}=1."
        )
    raise ZgulError(f"{url} is not a web address. It must begin with https://.")


class _Redirects(HTTPRedirectHandler):
    """Follows redirects, but only to addresses that could have been asked for directly."""

    def __init__(self, options: DownloadOptions) -> None:
        self.options = options

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        _check_url(newurl, self.options)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextlib.contextmanager
def _progress_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function that shows bytes received and bytes in all, on standard error if that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(name, total=None)
        yield lambda received, total: progress.update(bar, completed=received, total=total)


@dataclass
class _Transfer:
    """The attempts to get one file."""

    url: str
    part: Path
    max_bytes: int
    options: DownloadOptions
    show: Callable[[int, int | None], None]

    def run(self, checksum: str | None) -> None:
        """Try until the file is complete and correct, or until several attempts in a row bring nothing new."""
        failures, furthest = 0, 0
        while True:
            try:
                continued = self._attempt()
                digest = checksum and file_digest(self.part, _ALGORITHMS[len(checksum)])
                if digest == checksum:
                    return
                _discard(self.part)
                if continued:  # the two parts may come from different versions of the file
                    raise _Interrupted("the continued file has a wrong checksum")
                raise ChecksumError(f"{self.url}: wrong checksum. Expected {checksum}, got {digest}.")
            except _Interrupted as error:
                size = self.part.stat().st_size if self.part.exists() else 0
                failures = 1 if size > furthest else failures + 1
                furthest = max(furthest, size)
                if failures >= self.options.attempts:
                    raise ZgulError(
                        f"{self.url}: {error}. Gave up after {failures} attempts. Check the connection and run the "
                        "same command again: it continues with what has arrived."
                    ) from error
                time.sleep(self.options.backoff * 2 ** (failures - 1))

    def _attempt(self) -> bool:
        """Get the file, or the rest of it. True if this continued an earlier attempt."""
        headers = {"User-Agent": f"zgul/{__version__}", "Accept-Encoding": "identity"}
        received, validator = _kept(self.part)
        if received:
            headers |= {"Range": f"bytes={received}-", "If-Range": validator}
        try:
            opener = build_opener(_Redirects(self.options))
            response = opener.open(Request(self.url, headers=headers), timeout=self.options.timeout)
        except HTTPError as error:
            raise self._refused(error) from error
        except (InvalidURL, ValueError) as error:
            raise ZgulError(f"{self.url} is not a valid address ({error}).") from error
        except (OSError, HTTPException) as error:
            raise _Interrupted(f"no connection ({getattr(error, 'reason', error)})") from error
        with response:
            return self._receive(response, received)

    def _refused(self, error: HTTPError) -> Exception:
        answer = f"the server answered {error.code} {error.reason}"
        if error.code == 416:  # what has arrived is longer than the file
            _discard(self.part)
            return _Interrupted("the file on the server has changed")
        if error.code in _TRY_AGAIN:
            return _Interrupted(answer)
        return (NotFoundError if error.code == 404 else ZgulError)(f"{self.url}: {answer}. Check the address.")

    def _receive(self, response: HTTPResponse, received: int) -> bool:
        _check_content(response, self.url)
        continued = received > 0 and response.status == 206
        if not continued:
            received = 0
            _keep_validator(self.part, response)
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {received}-"):
            _discard(self.part)
            raise _Interrupted("the server did not continue where it was asked to")
        total = None if response.length is None else received + response.length
        self._check_size(total or 0)
        with self.part.open("ab" if continued else "wb") as file:
            for chunk in _chunks(response):
                received += len(chunk)
                self._check_size(received)
                file.write(chunk)
                self.show(received, total)
        if total is not None and received != total:
            raise _Interrupted(f"the connection broke off at {received:,} of {total:,} bytes")
        return continued

    def _check_size(self, size: int) -> None:
        if size > self.max_bytes:
            _discard(self.part)
            raise ZgulError(
                f"{self.url} is larger than the limit of {self.max_bytes:,} bytes. "
                "If that is right, allow more (`zgul data fetch --max-size`)."
            )


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    try:
        while chunk := response.read(_CHUNK):
            yield chunk
    except (OSError, HTTPException) as error:
        raise _Interrupted(f"the connection broke off ({error or type(error).__name__})") from error


def _check_content(response: HTTPResponse, url: str) -> None:
    """Refuse a login or error page that is sent as if it were the file."""
    if response.headers.get_content_type() in ("text/html", "application/xhtml+xml"):
        raise ZgulError(f"{url}: the server sent a web page instead of the file. Does a proxy want a login?")
    coding = response.headers.get("Content-Encoding", "identity")
    if coding != "identity":
        raise ZgulError(f"{url}: the server sent the file {coding}-coded, although it was asked not to.")


# A part can only be continued with its validator, which tells the server which version of the file it belongs to.


def _validator_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.validator")


def _keep_validator(part: Path, response: HTTPResponse) -> None:
    tag = response.headers.get("ETag", "")
    validator = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
    _discard(part)
    if validator:
        _validator_file(part).write_text(validator, "utf-8")


def _kept(part: Path) -> tuple[int, str]:
    """Bytes of an earlier attempt, and their validator."""
    if part.exists() and _validator_file(part).exists():
        return part.stat().st_size, _validator_file(part).read_text("utf-8")
    return 0, ""


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _validator_file(part).unlink(missing_ok=True)
