"""Download files over HTTPS. A file appears only when it is complete and correct.

The data go to ``NAME.part`` until they are complete and their checksum is right. An interrupted download continues,
also in a later run, if the server supports that (``Range`` with ``If-Range``).
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, InvalidURL
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from filelock import FileLock

from zgul import __version__
from zgul.errors import ZgulError
from zgul.options import Options, option
from zgul.progress import Report, Status, silent

ALLOW_HTTP = "ZGUL_ALLOW_HTTP"  # environment variable: "1" allows addresses without encryption
MAX_BYTES = 200_000_000
_TRY_AGAIN = frozenset({408, 416, 425, 429, 500, 502, 503, 504})
_ALGORITHMS = {40: "sha1", 64: "sha256"}  # by the length of the checksum


@dataclass(frozen=True)
class DownloadOptions(Options):
    """Settings of downloads: time limits, attempts, size and encryption."""

    timeout: float = option(30.0, "Give up a connection after this many seconds without data.", least=0.1)
    attempts: int = option(5, "Give up after this many attempts in a row without new data.", least=1)
    backoff: float = option(1.0, "Seconds before the second attempt. Each further pause is twice as long.", least=0)
    max_size: int = option(0, "Largest file to accept, in MB [default: 200; 300 for WikiAnn].", least=0)
    allow_http: bool = option(False, f"Accept addresses without encryption, as {ALLOW_HTTP}=1 does.")


_DEFAULTS = DownloadOptions()


class NotFoundError(ZgulError):
    """The server has no such file."""


class ChecksumError(ZgulError):
    """The file arrived, but it is not the requested one."""


class _Interrupted(Exception):
    """This attempt failed, but another one may succeed."""


def download(
    url: str,
    target: Path,
    *,
    checksum: str = "",
    max_bytes: int = MAX_BYTES,
    options: DownloadOptions = _DEFAULTS,
    report: Report = silent,
) -> None:
    """Download ``url`` to ``target``. ``checksum`` is a SHA-256 or SHA-1 in hexadecimal, if it is known."""
    _check_url(url, options)
    if checksum and len(checksum) not in _ALGORITHMS:
        raise ZgulError(f"{url}: the checksum {checksum!r} is neither a SHA-256 nor a SHA-1.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _Transfer(url, target, options.max_size * 1_000_000 or max_bytes, options, report).run(checksum.lower())
    except OSError as error:
        raise ZgulError(f"{target} cannot be written ({error.strerror or error}); choose another folder.") from error


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Create a folder, and let processes that download into it at the same time take turns."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / ".lock").acquire()
    except OSError as error:
        raise ZgulError(f"{folder} cannot be written ({error.strerror}). Choose another folder.") from error
    with lock:
        yield


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _check_url(url: str, options: DownloadOptions) -> None:
    scheme = url.partition("://")[0].lower()
    if scheme not in ("https", "http"):
        raise ZgulError(f"{url} is not a web address. It must begin with https://.")
    if scheme == "http" and not options.allow_http and os.environ.get(ALLOW_HTTP) != "1":
        raise ZgulError(f"{url} is not encrypted. Use https, or allow http with {ALLOW_HTTP}=1.")


@dataclass
class _Redirects(HTTPRedirectHandler):
    """Follows redirects, but only to addresses that zgul would also accept from the user."""

    options: DownloadOptions

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        _check_url(newurl, self.options)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Transfer:
    """The attempts to get one file."""

    def __init__(self, url: str, target: Path, max_bytes: int, options: DownloadOptions, report: Report) -> None:
        self.url, self.target, self.max_bytes, self.options, self.report = url, target, max_bytes, options, report
        self.part = target.with_name(f"{target.name}.part")
        self.validator = target.with_name(f"{target.name}.part.validator")  # the version of the file: ETag or date

    def run(self, checksum: str) -> None:
        """Try until the file is complete and correct, or until several attempts in a row bring nothing new."""
        failures, furthest = 0, 0
        while True:
            try:
                continued = self._attempt()
                digest = file_digest(self.part, _ALGORITHMS[len(checksum)]) if checksum else ""
                if digest == checksum:
                    self.part.replace(self.target)
                    return self._discard()
                self._discard()
                if continued:  # the two parts may come from different versions of the file
                    raise _Interrupted("the continued file has a wrong checksum")
                raise ChecksumError(f"{self.url}: wrong checksum. Expected {checksum}, got {digest}.")
            except _Interrupted as error:
                size = self.part.stat().st_size if self.part.exists() else 0
                failures = 1 if size > furthest else failures + 1
                furthest = max(furthest, size)
                if failures >= self.options.attempts:
                    advice = "Check the connection and run the same command again: it continues with what has arrived"
                    raise ZgulError(f"{self.url}: {error}. Gave up after {failures} attempts. {advice}.") from error
                time.sleep(self.options.backoff * 2 ** (failures - 1))

    def _attempt(self) -> bool:
        """Get the file, or the rest of it. True if this continued an earlier attempt."""
        headers = {"User-Agent": f"zgul/{__version__}", "Accept-Encoding": "identity"}
        validator = self.validator.read_text("utf-8") if self.validator.exists() and self.part.exists() else ""
        received = self.part.stat().st_size if validator else 0
        if received:
            headers |= {"Range": f"bytes={received}-", "If-Range": validator}
        try:
            opener = build_opener(_Redirects(self.options))
            response = opener.open(Request(self.url, headers=headers), timeout=self.options.timeout)
        except HTTPError as error:
            answer = f"the server answered {error.code} {error.reason}"
            if error.code == 416:  # what has arrived is longer than the file, so the file has changed
                self._discard()
            if error.code in _TRY_AGAIN:
                raise _Interrupted(answer) from error
            kind = NotFoundError if error.code == 404 else ZgulError
            raise kind(f"{self.url}: {answer}. Check the address.") from error
        except (InvalidURL, ValueError) as error:
            raise ZgulError(f"{self.url} is not a valid address ({error}).") from error
        except (OSError, HTTPException) as error:
            raise _Interrupted(f"no connection ({getattr(error, 'reason', error)})") from error
        with response:
            return self._receive(response, received)

    def _receive(self, response: HTTPResponse, received: int) -> bool:
        headers = response.headers
        kind, coding = headers.get_content_type(), headers.get("Content-Encoding", "identity")
        if kind in ("text/html", "application/xhtml+xml") or coding != "identity":
            sent = f"a web page or a packed file instead ({kind}, {coding})"
            raise ZgulError(f"{self.url}: the server sent {sent}. Check whether a proxy asks for a login.")
        continued = received > 0 and response.status == 206
        if not continued:
            received = 0
            self._discard()
            tag = headers.get("ETag", "")
            self.validator.write_text(tag if tag.startswith('"') else headers.get("Last-Modified", ""), "utf-8")
        elif not headers.get("Content-Range", "").startswith(f"bytes {received}-"):
            self._discard()
            raise _Interrupted("the server did not continue where it was asked to")
        total = None if response.length is None else received + response.length
        with self.part.open("ab") as file:
            while chunk := _read_chunk(response):
                received += len(chunk)
                if max(received, total or 0) > self.max_bytes:
                    raise ZgulError(f"{self.url} is larger than the limit of {self.max_bytes:,} bytes (--max-size).")
                file.write(chunk)
                self.report(Status(f"{self.target.name} (kB)", received // 1000, (total or 0) // 1000))
        if total is not None and received != total:
            raise _Interrupted(f"the connection broke off at {received:,} of {total:,} bytes")
        return continued

    def _discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.validator.unlink(missing_ok=True)


def _read_chunk(response: HTTPResponse) -> bytes:
    try:
        return response.read(1 << 16)
    except (OSError, HTTPException) as error:
        raise _Interrupted(f"the connection broke off ({error or type(error).__name__})") from error
