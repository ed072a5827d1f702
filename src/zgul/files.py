"""Files: where the cache and the shipped weights are, atomic writes, and streams that may be compressed."""

from __future__ import annotations

import bz2
import contextlib
import glob
import gzip
import io
import lzma
import os
import secrets
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from zgul.errors import ZgulError

STALE = 3600  # seconds after which the temporary file of a killed process is removed


def cache_dir() -> Path:
    """Return the folder for converted and downloaded files: ``ZGUL_CACHE``, else the user's cache folder."""
    chosen = os.environ.get("ZGUL_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "zgul"


def shipped_folder() -> Path:
    """Return the folder of the weights that come with the package, or the folder that ``ZGUL_TAGGERS`` names."""
    chosen = os.environ.get("ZGUL_TAGGERS")
    return Path(chosen).expanduser() if chosen else Path(__file__).parent / "shipped"


@contextlib.contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Write beside ``path`` and move the file into place at the end, so that nobody ever sees half a file.

    A process that is killed leaves its temporary file behind. The next write of the same file removes temporary
    files that nothing has been written to for an hour.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with temporary.open(mode.replace("w", "x"), **text) as file:  # type: ignore[call-overload]
            yield file
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _remove_stale(path: Path) -> None:
    oldest = time.time() - STALE
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.tmp"):
        with contextlib.suppress(OSError):  # another process may have removed it
            if left.stat().st_mtime < oldest:
                left.unlink()


@contextlib.contextmanager
def create_binary(path: Path | str) -> Iterator[IO[bytes]]:
    """Open a file for atomic writing, compressed as its suffix says. ``-`` is standard output."""
    if str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(path)
    if path.is_dir():
        raise ZgulError(f"{path} is a folder; a file is needed here")
    try:
        with atomic_write(path, "wb") as file, _compressor(file, path) as compressed:
            yield compressed
    except OSError as error:
        raise ZgulError(f"{path}: cannot be written ({error.strerror or error})") from error


def _compressor(file: IO[bytes], path: Path) -> contextlib.AbstractContextManager[Any]:
    if path.suffix == ".xz":
        return lzma.LZMAFile(file, "wb")
    if path.suffix == ".gz":  # without a date, so that the same text gives the same bytes
        return gzip.GzipFile("", "wb", fileobj=file, mtime=0)
    if path.suffix == ".bz2":
        return bz2.BZ2File(file, "wb")
    if path.suffix == ".zst":
        return _zstandard(path).ZstdCompressor().stream_writer(file, closefd=False)  # type: ignore[no-any-return]
    return contextlib.nullcontext(file)


def open_binary(path: Path | str) -> BinaryIO:
    """Open a file for reading. ``-`` is standard input, and files with a suffix of ``PACKINGS`` are unpacked.

    Reading a damaged or truncated file later raises one of ``DAMAGED``.
    """
    if str(path) == "-":
        return sys.stdin.buffer
    path = Path(path)
    try:
        if path.suffix in _READERS:
            return io.BufferedReader(_READERS[path.suffix](path), buffer_size=1 << 16)
        return path.open("rb")
    except FileNotFoundError as error:
        raise ZgulError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise ZgulError(f"{path} is a folder; a file is needed here") from error
    except OSError as error:
        raise ZgulError(f"{path}: cannot be opened ({error.strerror or error})") from error


class _ZstdReader(io.RawIOBase):
    """Unpacks a .zst file. Unlike the library's own reader it notices when the file is truncated."""

    def __init__(self, path: Path) -> None:
        library = _zstandard(path)
        self._file = path.open("rb")
        self._parts = self._unpack(library)
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._ready = memoryview(part)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _unpack(self, library: Any) -> Iterator[bytes]:
        frame: Any = None
        while packed := self._file.read(1 << 10):  # little at a time, because a kilobyte may unpack to 32 MB
            while packed:
                frame = frame or library.ZstdDecompressor().decompressobj()
                try:
                    yield frame.decompress(packed)
                except library.ZstdError as error:
                    raise OSError(str(error)) from error
                packed = frame.unused_data  # a file may hold several frames
                frame = None if frame.eof else frame
        if frame is not None:
            raise EOFError("the compressed file ends before its end-of-stream marker")

    def close(self) -> None:
        self._file.close()
        super().close()


_READERS: dict[str, Callable[[Path], Any]] = {
    ".xz": lzma.open,
    ".gz": gzip.open,
    ".zst": _ZstdReader,
    ".bz2": bz2.open,
}
PACKINGS = tuple(_READERS)
DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error)


def _zstandard(path: Path) -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ZgulError(f"{path}: .zst needs one more package: pip install 'zgul[zstd]'") from error
    return zstandard
