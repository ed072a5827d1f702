"""Download a file over HTTP so that it is whole and right, or not there at all.

What arrives goes to ``NAME.part`` and is moved into place when it is whole and its SHA-256 is right. What
broke off is continued where the server can (``Range`` with ``If-Range``), else begun again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from zgul import __version__
from zgul.errors import ZgulError

_CHUNK = 1 << 16
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})

Report = Callable[[str, int, int | None, str], None]  # file, done so far, in all if known, "bytes" or "sentences"


def no_report(_file: str, _done: int, _total: int | None, _unit: str) -> None:
    pass


@dataclass(frozen=True)
class Settings:
    """How patient a download is."""

    timeout: float = 30.0  # seconds without a byte before the connection is given up
    attempts: int = 5  # in a row that bring nothing new
    backoff: float = 1.0  # seconds before the second attempt; doubles with each further one
    max_bytes: int = 1 << 30  # WikiAnn's archive, the largest we know of, has 234 MB


class _BrokeOff(Exception):
    """This attempt failed in a way that another one may mend."""


class ChecksumError(ZgulError):
    """The file arrived but is not the one that was asked for."""


def sha256_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def download(
    url: str,
    target: Path,
    sha256: str | None = None,
    settings: Settings = Settings(),
    report: Report = no_report,
) -> str:
    """Download to ``target``, which appears only when it is whole and right; returns its SHA-256."""
    part = target.with_name(f"{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    failures, furthest = 0, 0
    while True:
        try:
            resumed = _transfer(url, part, settings, report)
            digest = sha256_of(part)
            if sha256 is None or digest == sha256:
                break
            _discard(part)
            if not resumed:
                raise ChecksumError(
                    f"{url}: wrong checksum, {digest} where {sha256} was expected; the file was dropped"
                )
            raise _BrokeOff("the continued file has a wrong checksum")
        except _BrokeOff as error:
            size = part.stat().st_size if part.exists() else 0
            failures = 1 if size > furthest else failures + 1
            furthest = max(furthest, size)
            if failures >= settings.attempts:
                raise ZgulError(
                    f"{url}: {error} (given up after {failures} attempts); what has arrived is kept, "
                    "run the same command again to continue"
                ) from error
            time.sleep(settings.backoff * 2 ** (failures - 1))
    part.replace(target)
    _discard(part)
    return digest


def _transfer(url: str, part: Path, settings: Settings, report: Report) -> bool:
    """One attempt at the whole file or the rest of it; True if it continued an earlier one."""
    request = Request(url, headers={"User-Agent": f"zgul/{__version__}", "Accept-Encoding": "identity"})
    have, validator = _kept(part)
    if have:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", validator)
    try:
        with urlopen(request, timeout=settings.timeout) as response:
            return _receive(response, url, part, have, settings, report)
    except HTTPError as error:
        if error.code == 416:  # what we have is longer than the file
            _discard(part)
            raise _BrokeOff("the server has another file than the part fetched before") from error
        if error.code in _TRY_AGAIN:
            raise _BrokeOff(f"the server answered {error.code} {error.reason}") from error
        raise ZgulError(
            f"{url}: the server answered {error.code} {error.reason}; "
            "check the address, or set another with --mirror or ZGUL_MIRROR"
        ) from error
    except URLError as error:
        raise _BrokeOff(f"no connection ({error.reason})") from error
    except (HTTPException, ConnectionError, TimeoutError) as error:
        raise _BrokeOff(f"the connection broke off ({error or type(error).__name__})") from error


def _receive(response: HTTPResponse, url: str, part: Path, have: int, settings: Settings, report: Report) -> bool:
    _refuse_other_content(response, url)
    resumed = have > 0 and response.status == 206
    if resumed:
        start, total = _content_range(response)
        if start != have:
            _discard(part)
            raise _BrokeOff("the server continued at another place than it was asked for")
    else:
        have, total = 0, _number(response.headers.get("Content-Length"))
        _keep_validator(part, response)
    if (total or 0) > settings.max_bytes:
        raise ZgulError(_too_large(url, settings))
    report(part.stem, have, total, "bytes")
    with part.open("ab" if resumed else "wb") as file:
        while chunk := response.read(_CHUNK):
            have += len(chunk)
            if have > settings.max_bytes:
                file.close()
                _discard(part)
                raise ZgulError(_too_large(url, settings))
            file.write(chunk)
            report(part.stem, have, total, "bytes")
    if total is not None and have != total:
        if have > total:
            _discard(part)
        raise _BrokeOff(f"the connection broke off at {have:,} of {total:,} bytes")
    return resumed


def _too_large(url: str, settings: Settings) -> str:
    return f"{url}: larger than the limit of {settings.max_bytes:,} bytes; set another with --max-size"


def _refuse_other_content(response: HTTPResponse, url: str) -> None:
    """A login or error page sent with status 200 is no data file."""
    kind = response.headers.get_content_type()
    if kind in ("text/html", "application/xhtml+xml"):
        raise ZgulError(f"{url}: the server sent a web page instead of the file; is there a proxy that wants a login?")
    coding = response.headers.get("Content-Encoding", "identity")
    if coding != "identity":
        raise ZgulError(f"{url}: the server sent the file {coding}-coded although it was asked not to")


def _content_range(response: HTTPResponse) -> tuple[int | None, int | None]:
    """Start and full length from ``bytes 100-999/1000``."""
    span, _, total = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
    return _number(span.partition("-")[0]), _number(total)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdecimal() else None


def _validator_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.validator")


def _keep_validator(part: Path, response: HTTPResponse) -> None:
    """What identifies this version of the file to the server; without it a part cannot be continued."""
    tag = response.headers.get("ETag", "")
    validator = tag if tag.startswith('"') else response.headers.get("Last-Modified", "")
    _discard(part)
    if validator:
        _validator_file(part).write_text(validator, "utf-8")


def _kept(part: Path) -> tuple[int, str]:
    """Bytes of an earlier attempt that can be continued, and the validator they came with."""
    if part.exists() and _validator_file(part).exists():
        return part.stat().st_size, _validator_file(part).read_text("utf-8")
    return 0, ""


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _validator_file(part).unlink(missing_ok=True)
