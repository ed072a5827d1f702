"""Files: where the cache and the shipped weights are, atomic writes, compressed streams, and JSON from others."""

import bz2
import contextlib
import glob
import gzip
import io
import json
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

if sys.platform != "win32":
    import fcntl

MAX_JSON = 1_000_000  # bytes; Python's objects take up to thirty times as much memory
MAX_DEPTH = 50  # of JSON
MAX_DIGITS = 40  # of a whole number; transformers writes one of 31
STALE = 3  # seconds, in which a process that writes a temporary file has locked it


def cache_dir() -> Path:
    """Return the folder for converted and downloaded files: ``ZGUL_CACHE``, else the user's cache folder."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "zgul")
    return Path(os.environ.get("ZGUL_CACHE") or default).expanduser()


def shipped_folder() -> Path:
    """Return the folder of the weights that come with the package, or the folder that ``ZGUL_TAGGERS`` names."""
    return Path(os.environ.get("ZGUL_TAGGERS") or Path(__file__).parent / "shipped").expanduser()


@contextlib.contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Write to a temporary file and rename it to ``path`` at the end, so that no half-written file is ever visible."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.tmp"):
        with contextlib.suppress(OSError), left.open("rb") as file:  # another process may have removed it
            if left.stat().st_mtime < time.time() - STALE:
                lock(file)  # fails as long as its writer lives
                left.unlink()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with temporary.open(mode.replace("w", "x"), **text) as file:  # type: ignore[call-overload]
            with contextlib.suppress(OSError):  # a disk without locks
                lock(file)
            yield file
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def lock(file: IO[Any]) -> None:
    """Lock an open file until it is closed. ``BlockingIOError`` means that another process has locked it."""
    if sys.platform != "win32":  # where nobody can remove an open file
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def create_binary(path: Path | str) -> Iterator[IO[bytes]]:
    """Open a file for atomic writing, compressed as its suffix says."""
    path = Path(path)
    if path.is_dir():
        raise ZgulError(f"{path}: this is a folder; a file is needed here")
    try:
        with atomic_write(path, "wb") as file, _compressor(file, path) as compressed:
            yield compressed
    except OSError as error:
        raise ZgulError(f"{path} cannot be written ({error.strerror or error}). Choose another folder.") from error


def open_binary(path: Path | str) -> BinaryIO:
    """Open a file, unpacked as its suffix says; ``-`` is standard input. Reading damaged data raises ``DAMAGED``."""
    if str(path) == "-":
        return sys.stdin.buffer
    path = Path(path)
    try:
        return unpacked(path, path.suffix) if path.suffix in _READERS else path.open("rb")
    except OSError as error:
        reasons = {FileNotFoundError: "no such file", IsADirectoryError: "this is a folder; a file is needed here"}
        reason = reasons.get(type(error), f"cannot be opened ({error.strerror or error})")
        raise ZgulError(f"{path}: {reason}") from error


def unpacked(packed: Path | IO[bytes], suffix: str) -> BinaryIO:
    """The content of a packed file, or of an open one. The suffix is one of ``PACKINGS``."""
    return io.BufferedReader(_READERS[suffix](packed), buffer_size=1 << 16)


def _compressor(file: IO[bytes], path: Path) -> contextlib.AbstractContextManager[Any]:
    if path.suffix in (".xz", ".bz2"):
        return _READERS[path.suffix](file, "wb")  # type: ignore[no-any-return]
    if path.suffix == ".gz":  # without a date, so that the same text gives the same bytes
        return gzip.GzipFile("", "wb", fileobj=file, mtime=0)
    if path.suffix == ".zst":
        return _zstandard(path).ZstdCompressor().stream_writer(file, closefd=False)  # type: ignore[no-any-return]
    return contextlib.nullcontext(file)


class _ZstdReader(io.RawIOBase):
    """Unpacks a .zst file. Unlike the library's own reader it notices when the file is truncated."""

    def __init__(self, packed: Path | IO[bytes]) -> None:
        self._parts = filter(None, self._unpack(_zstandard(packed)))
        self._file = packed.open("rb") if isinstance(packed, Path) else packed
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._ready = self._ready or memoryview(next(self._parts, b""))
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


_READERS: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open, ".zst": _ZstdReader, ".bz2": bz2.open}
PACKINGS = tuple(_READERS)
DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error)


def _zstandard(packed: Path | IO[bytes]) -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise ZgulError(
            f"{getattr(packed, 'name', packed)}: .zst files need another package: pip install 'zgul[zstd]'"
        ) from error
    return zstandard


def read_plain_file(path: Path, most: int) -> bytes:
    """Read a file of a folder from others. A longer one is refused, and so is a pipe, which might never end."""
    if path.is_fifo():
        raise ZgulError(f"{path} is a pipe. A plain file is needed here.")
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ZgulError(f"{path} is larger than {most:,} bytes, the limit for this kind of file.")
    return content


# --- JSON, with limits on size, depth and numbers


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Anything else raises a `ZgulError` that says what is wrong and where."""
    try:
        content = read_plain_file(path, MAX_JSON)
        # a long number is cut, but stays too long, so that `check_plain` can name its field; `int` takes 4,300 digits
        parse_int = lambda digits: int(digits[: MAX_DIGITS + 2])  # noqa: E731
        value = json.loads(content.decode("utf-8-sig"), parse_int=parse_int)
        check_plain(value, (), path)
    except OSError as error:  # no such file, a folder of that name, no permission
        raise ZgulError(f"{path} cannot be read ({error.strerror or error}).") from error
    except RecursionError:
        raise ZgulError(f"{path} is nested too deeply; at most {MAX_DEPTH} levels are allowed.") from None
    except ValueError as error:
        raise ZgulError(f"{path} is not valid JSON ({error}).") from error
    if not isinstance(value, dict):
        raise ZgulError(f"{path} must contain a JSON object.")
    return value


def write_json(path: Path, value: object) -> None:
    with atomic_write(path) as file:
        json.dump(value, file, ensure_ascii=False, indent=2)
        file.write("\n")


def check_plain(value: object, field: tuple[object, ...], path: Path) -> None:
    """Refuse long numbers, deep nesting and halves of characters. ``field`` leads to the value: ``("files", "nd")``."""
    if len(field) > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        name = ".".join(map(str, field)) or "the number"
        raise ZgulError(f"{path}: {name} has more than the {MAX_DIGITS} digits that are allowed.")
    if isinstance(value, str):
        value.encode()
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            check_plain(key, (), path)
            check_plain(item, (*field, key), path)
