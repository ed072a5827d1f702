"""Files here or elsewhere. A place is a path, or a URL of any kind that fsspec knows: ``s3://bucket/texts/a.txt``."""

import contextlib
import glob
import hashlib
import io
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any

from zgul.errors import ZgulError
from zgul.files import PACKINGS, atomic_write, unpacked
from zgul.tagging.reading import find_sources
from zgul.tagging.tag_files import output_place

# Where a file appears when all of it has arrived. Elsewhere it is written beside its place and renamed.
OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oci", "memory"}
CHANGED = ("ETag", "etag", "mtime", "LastModified", "last_modified", "updated", "created")  # what file systems call it
_TEMPORARY = re.compile(r".*\.[0-9a-f]{8}\.tmp")


def is_url(place: str) -> bool:
    return "://" in place


def absolute(place: str) -> str:
    """The place as other processes can use it, whatever folder they are in."""
    return place.rstrip("/") if is_url(place) else str(Path(place).resolve())


def join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


@contextlib.contextmanager
def _file_system(place: str) -> Iterator[tuple[Any, str]]:
    """The file system of a place, and its path there. What goes wrong there is a `ZgulError`."""
    import fsspec

    try:
        yield fsspec.core.url_to_fs(place)
    except FileNotFoundError as error:
        raise ZgulError(f"{place}: no such file") from error
    except (OSError, ValueError, ImportError) as error:  # an unknown kind of URL, or one that needs another package
        raise ZgulError(f"{place} cannot be used ({' '.join(str(error).split())}).") from error


def find_inputs(given: Sequence[str], output: str, form: str) -> dict[str, str]:
    """The inputs that files, folders, patterns and URLs mean, each by the name of its output below a folder."""
    local = [name for name in given if not is_url(name)]
    sources = find_sources(local, None if is_url(output) else Path(output)) if local else []
    if stream := next((source for source in sources if not source.is_file), None):
        raise ZgulError(f"{stream.name} cannot be tagged on a cluster. Give files, folders or URLs.")
    found = [(source.place, absolute(str(source.path))) for source in sources]
    found += [one for name in filter(is_url, given) for one in _find_urls(name, output)]
    inputs: dict[str, str] = {}
    for place, source in found:
        name = output_place(place, form).as_posix()
        if inputs.setdefault(name, source) != source:
            raise ZgulError(f"{inputs[name]} and {source} would both be written to {name}. Rename one of them.")
    if not inputs:
        raise ZgulError(f"{', '.join(given)} holds no files.")
    return inputs


def _find_urls(url: str, output: str) -> list[tuple[Path, str]]:
    """The files that a URL means, without hidden ones and without those in the folder of the outputs."""
    with _file_system(output) as (_, folder), _file_system(url) as (system, path):
        searched = bool(system.isdir(path))
        names = system.find(path) if searched else system.glob(path) if glob.has_magic(path) else [path]
        if not names or not system.exists(names[0]):
            raise FileNotFoundError
        found = []
        for name in sorted(names):
            place = Path(PurePosixPath(name).relative_to(path) if searched else PurePosixPath(name).name)
            if not name.startswith(f"{folder}/") and not any(part.startswith(".") for part in place.parts):
                found.append((place, str(system.unstrip_protocol(name))))
    return found


def look(place: str) -> tuple[int, str]:
    """The size of a file, and a mark that changes when the file does; "" if its file system has none."""
    with _file_system(place) as (system, path):
        about = system.info(path)
    return int(about["size"] or 0), next((str(about[name]) for name in CHANGED if about.get(name)), "")


def sizes(folder: str) -> dict[str, int]:
    """The files below a folder by name, with their sizes. A folder that does not exist is empty."""
    with _file_system(folder) as (system, path):
        system.invalidate_cache()
        found = system.find(path, detail=True) if system.exists(path) else {}
        names = {PurePosixPath(name).relative_to(path).as_posix(): about["size"] for name, about in found.items()}
    return {name: int(size or 0) for name, size in names.items()}


def remove_litter(folder: str) -> None:
    """Remove what killed processes left below a folder elsewhere. Here, the next write of the same file does that."""
    for name in filter(_TEMPORARY.fullmatch, sizes(folder) if is_url(folder) else ()):
        remove(join(folder, name))


def remove(place: str) -> None:
    """Remove a file, or a folder with all that is in it, if there is one."""
    with _file_system(place) as (system, path):
        if system.exists(path):
            system.rm(path, recursive=True)


def read_whole(place: str) -> bytes:
    with _file_system(place) as (system, path):
        return bytes(system.cat_file(path))


def write_whole(place: str, content: bytes) -> None:
    """Write a file that is there completely or not at all."""
    if not is_url(place):
        try:
            with atomic_write(place, "wb") as file:
                file.write(content)
        except OSError as error:
            raise ZgulError(f"{place} cannot be written ({error.strerror or error}).") from error
        return
    with _file_system(place) as (system, path):
        if OBJECT_STORES.intersection([system.protocol] if isinstance(system.protocol, str) else system.protocol):
            system.pipe_file(path, content)
            return
        system.makedirs(str(PurePosixPath(path).parent), exist_ok=True)
        temporary = f"{path}.{secrets.token_hex(4)}.tmp"  # as `_TEMPORARY` says
        system.pipe_file(temporary, content)
        system.mv(temporary, path)


class CountedStream(io.RawIOBase):
    """Reads a stream and computes the size and the checksum of what was read."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self.name = stream, name
        self.digest, self.size = hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._stream.read(len(buffer))
        except Exception as error:  # those of the HTTP libraries under fsspec are of all kinds
            raise OSError(f"{type(error).__name__}: {error}") from error
        buffer[: len(content)] = content
        self.digest.update(content)
        self.size += len(content)
        return len(content)


@contextlib.contextmanager
def open_counted(place: str) -> Iterator[tuple[CountedStream, IO[bytes]]]:
    """Open a file: its own bytes, which are counted, and its content, which is unpacked."""
    with _file_system(place) as (system, path):
        file = system.open(path, "rb")
    with file:
        counted = CountedStream(file, place)
        buffered = io.BufferedReader(counted, 1 << 20)
        suffix = PurePosixPath(path).suffix
        yield counted, unpacked(buffered, suffix) if suffix in PACKINGS else buffered
