"""Files: the cache folder, atomic writes, and text streams that may be compressed or standard input."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from zgul.errors import ZgulError


def cache_dir() -> Path:
    """The folder for converted and downloaded files: ``ZGUL_CACHE``, else the user's cache folder."""
    chosen = os.environ.get("ZGUL_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "zgul"


@contextlib.contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Write beside ``path`` and move into place at the end, so that nobody ever sees half a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes private files; ours should be ordinary ones
        encoding = None if "b" in mode else "utf-8"
        newline = None if "b" in mode else "\n"
        with os.fdopen(handle, mode, encoding=encoding, newline=newline) as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def open_binary(path: Path | str) -> BinaryIO:
    """Open for reading; ``-`` is standard input; ``.xz``, ``.gz``, ``.bz2`` and ``.zst`` are unpacked."""
    if str(path) == "-":
        return sys.stdin.buffer
    path = Path(path)
    if not path.exists():
        raise ZgulError(f"{path}: no such file")
    if path.is_dir():
        raise ZgulError(f"{path} is a folder; a file is needed here")
    try:
        if path.suffix == ".xz":
            return lzma.open(path, "rb")  # type: ignore[return-value]
        if path.suffix == ".gz":
            return gzip.open(path, "rb")  # type: ignore[return-value]
        if path.suffix == ".bz2":
            return bz2.open(path, "rb")  # type: ignore[return-value]
        if path.suffix == ".zst":
            return _open_zst(path)
        return path.open("rb")
    except PermissionError as error:
        raise ZgulError(f"{path}: not readable ({error.strerror})") from error


def _open_zst(path: Path) -> BinaryIO:
    try:
        import zstandard
    except ImportError as error:
        raise ZgulError(f"{path}: reading .zst needs one more package: pip install 'zgul[zstd]'") from error
    return zstandard.open(path, "rb")  # type: ignore[no-any-return]
