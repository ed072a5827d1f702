"""Files: the cache folder, atomic writes, and text streams that may be compressed or standard input."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import sys
import tempfile
import zlib
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
        Path(temporary).chmod(0o666 & ~umask)  # mkstemp makes private files; ours should be ordinary ones
        encoding = None if "b" in mode else "utf-8"
        newline = None if "b" in mode else "\n"
        with os.fdopen(handle, mode, encoding=encoding, newline=newline) as file:
            yield file
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


@contextlib.contextmanager
def create_binary(path: Path | str) -> Iterator[IO[bytes]]:
    """Open for writing: atomic, compressed as the suffix says; ``-`` is standard output."""
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(path)
    if path.is_dir():
        raise ZgulError(f"{path} is a folder; a file is needed here")
    try:
        with atomic_write(path, "wb") as file, _pack(file, path) as packed:
            yield packed
    except OSError as error:
        raise ZgulError(f"{path}: cannot be written ({error.strerror or error})") from error


def _pack(file: IO[bytes], path: Path) -> contextlib.AbstractContextManager[IO[bytes]]:
    if path.suffix == ".xz":
        return lzma.LZMAFile(file, "wb")
    if path.suffix == ".gz":  # without a date: the same text gives the same bytes
        return gzip.GzipFile("", "wb", fileobj=file, mtime=0)  # type: ignore[return-value]
    if path.suffix == ".bz2":
        return bz2.BZ2File(file, "wb")
    if path.suffix == ".zst":
        return _zstandard(path).ZstdCompressor().stream_writer(file, closefd=False)  # type: ignore[no-any-return]
    return contextlib.nullcontext(file)


def open_binary(path: Path | str) -> BinaryIO:
    """Open for reading; ``-`` is standard input; ``.xz``, ``.gz``, ``.bz2`` and ``.zst`` are unpacked.

    Reading a damaged or truncated file then raises one of ``DAMAGED``.
    """
    if str(path) == "-":
        return sys.stdin.buffer
    path = Path(path)
    try:
        if path.suffix == ".xz":
            return _buffered(lzma.open(path, "rb"))
        if path.suffix == ".gz":
            return _buffered(gzip.open(path, "rb"))
        if path.suffix == ".bz2":
            return _buffered(bz2.open(path, "rb"))
        if path.suffix == ".zst":
            return _buffered(_ZstdReader(path))
        return path.open("rb")
    except FileNotFoundError as error:
        raise ZgulError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise ZgulError(f"{path} is a folder; a file is needed here") from error
    except OSError as error:
        raise ZgulError(f"{path}: cannot be opened ({error.strerror or error})") from error


DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error)


def _buffered(stream: Any) -> BinaryIO:
    return io.BufferedReader(stream, buffer_size=1 << 16)  # line by line it is several times faster


class _ZstdReader(io.RawIOBase):
    """Unpacks a .zst file; unlike the library's own reader it notices when the file is cut off."""

    def __init__(self, path: Path) -> None:
        self._library = _zstandard(path)
        self._file = path.open("rb")
        self._frame: Any = None
        self._packed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if not self._packed:
                self._packed = self._file.read(1 << 14)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("the compressed file ends before its end-of-stream marker")
                return 0
            self._unpack()
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _unpack(self) -> None:
        if self._frame is None:
            self._frame = self._library.ZstdDecompressor().decompressobj()
        try:
            self._ready = memoryview(self._frame.decompress(self._packed))
        except self._library.ZstdError as error:
            raise OSError(str(error)) from error
        self._packed = b""
        if self._frame.eof:
            self._packed = self._frame.unused_data  # a file may hold several frames
            self._frame = None

    def close(self) -> None:
        self._file.close()
        super().close()


def _zstandard(path: Path) -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ZgulError(f"{path}: .zst needs one more package: pip install 'zgul[zstd]'") from error
    return zstandard
