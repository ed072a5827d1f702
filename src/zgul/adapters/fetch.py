"""Adapters by name: Hugging Face repositories, and AdapterHub's index with its archives.

``org/repository`` is a Hugging Face repository. ``en/wiki@ukp`` (task, corpus, author) and ``@ukp/file`` are
names in AdapterHub's own index, which is frozen: ``index/MODEL.json`` leads to an entry, and the entry to a
zip file with its checksum. The entries were also copied to repositories ``AdapterHub/FILE``, tried first.
What was fetched stays in the cache folder, so the network is needed once.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from zgul.adapters.hub import CONFIG, PICKLED, SAFE
from zgul.errors import ZgulError
from zgul.files import atomic_write, cache_dir

INDEX = "https://raw.githubusercontent.com/Adapter-Hub/Hub/master/dist/v2"
_WORD = r"[\w-][\w.-]*"
_REPOSITORY = re.compile(rf"{_WORD}/{_WORD}")
_INDEXED = re.compile(rf"(?P<task>{_WORD})/(?P<subtask>{_WORD})@(?P<org>{_WORD})")
_ENTRY = re.compile(rf"@(?P<org>{_WORD})/(?P<file>{_WORD})")
_ENTRY_PATH = re.compile(rf"adapters/(?P<org>{_WORD})/(?P<file>{_WORD})\.json")
_WANTED = (CONFIG, SAFE, PICKLED)
_OFFLINE = "Check the connection, or bring the adapter's folder from another machine and give its path"


class _Missing(ZgulError):
    """The server answered that there is no such thing."""


def fetch_adapter(name: str, *, encoder: str | None = None, version: str | None = None) -> Path:
    """The folder of an adapter with this hub name, from the cache or the network.

    Names in AdapterHub's index belong to an encoder (``bert-base-multilingual-cased``). ``version`` is a
    branch of the repository or a version of the index entry; the default one otherwise.
    """
    if match := _ENTRY.fullmatch(name):
        return _from_entry(f"adapters/{match['org']}/{match['file']}.json", version)
    if match := _INDEXED.fullmatch(name):
        return _from_entry(_find(match, encoder), version)
    if _REPOSITORY.fullmatch(name):
        try:
            return _from_hugging_face(name, version)
        except _Missing as error:
            raise ZgulError(f"{error}. For a name in AdapterHub's index add its author: {name}@ukp") from None
    raise ZgulError(
        f"{name}: no such folder, and not a hub name either (such as 'en/wiki@ukp' or "
        "'AdapterHub/bert-base-multilingual-cased-en-wiki_pfeiffer')"
    )


def _from_hugging_face(repository: str, version: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    try:
        folder = snapshot_download(
            repository,
            revision=version,
            cache_dir=cache_dir() / "huggingface",
            allow_patterns=list(_WANTED),
            endpoint=os.environ.get("HF_ENDPOINT"),
        )
    except RepositoryNotFoundError:
        raise _Missing(f"{repository}: no such folder, and no such public repository on Hugging Face") from None
    except RevisionNotFoundError:
        raise ZgulError(f"{repository} has no version {version!r} on Hugging Face") from None
    except Exception as error:  # its own errors, and those of the HTTP library it happens to use
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ZgulError(f"{repository}: Hugging Face gave no answer ({reason}). {_OFFLINE}") from error
    return Path(folder)


# --- AdapterHub's index ----------------------------------------------------------------------------------


def _find(name: re.Match[str], encoder: str | None) -> str:
    """The entry of ``task/subtask@org`` for an encoder: the index's default if it is by this author."""
    if encoder is None:
        raise ZgulError(
            f"{name[0]}: AdapterHub has one such adapter for each encoder; say which, for example "
            "encoder='bert-base-multilingual-cased'"
        )
    encoder = encoder.removeprefix("google-bert/").removeprefix("FacebookAI/")  # names from before these
    try:
        index = _json(f"index/{encoder}.json")
    except _Missing:
        raise ZgulError(f"AdapterHub's index has nothing for the encoder {encoder!r}") from None
    choices = index.get(name["task"], {}).get(name["subtask"])
    if not choices:
        raise ZgulError(f"AdapterHub has no {name['task']}/{name['subtask']} for {encoder}{_near(index, name)}")
    for path in _paths(choices):
        match = _ENTRY_PATH.fullmatch(path)
        if match and match["org"] == name["org"]:
            return path
    authors = sorted({path.split("/")[1] for path in _paths(choices)})
    raise ZgulError(f"AdapterHub's {name['task']}/{name['subtask']} is by {', '.join(authors)}, not {name['org']}")


def _paths(choices: Mapping[str, Any]) -> Iterator[str]:
    """Entries in the order of preference: the default, then those of each configuration."""
    if "default" in choices:
        yield str(choices["default"])
    for key, choice in choices.items():
        if key != "default":
            yield from map(str, choice.get("versions", {}).values())


def _near(index: Mapping[str, Any], name: re.Match[str]) -> str:
    same = sorted(task for task, subtasks in index.items() if name["subtask"] in subtasks)
    return f"; {name['subtask']} exists for: {', '.join(same)}" if same else ""


def _from_entry(path: str, version: str | None) -> Path:
    match = _ENTRY_PATH.fullmatch(path)
    assert match, path  # made or checked by the caller
    try:
        return _from_hugging_face(f"AdapterHub/{match['file']}", version)
    except _Missing:
        return _from_archive(path, version)


def _from_archive(path: str, version: str | None) -> Path:
    """Fetch an entry's zip file, check it and unpack it, unless that was done before."""
    entry = _json(path)
    version = version or str(entry.get("default_version"))
    file = entry.get("files", {}).get(version)
    if not file:
        raise ZgulError(f"{path} has no version {version!r}; it has: {', '.join(entry.get('files', {}))}")
    folder = cache_dir() / "adapterhub" / f"{PurePosixPath(path).stem}-{version}".replace("/", "_")
    if folder.is_dir():
        return folder
    content = _download(file["url"], progress=True)
    algorithm = "sha256" if file.get("sha256") else "sha1"
    if hashlib.new(algorithm, content).hexdigest() != str(file.get(algorithm)).lower():
        raise ZgulError(f"{file['url']}: the {algorithm} is not the one in AdapterHub's index; try again later")
    _unpack(content, folder, file["url"])
    return folder


def _unpack(content: bytes, folder: Path, url: str) -> None:
    """The adapter's files out of a zip, wherever in it they are; the folder appears only when complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.namelist():
                if PurePosixPath(member).name in _WANTED:
                    (temporary / PurePosixPath(member).name).write_bytes(archive.read(member))
        temporary.chmod(0o755)
        if not folder.is_dir():  # another process may have been quicker
            temporary.rename(folder)
    except zipfile.BadZipFile as error:
        raise ZgulError(f"{url} is not a zip file ({error})") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _json(path: str) -> dict[str, Any]:
    """A file of the index; it never changes, so a copy is kept."""
    kept = cache_dir() / "adapterhub" / path
    base = os.environ.get("ZGUL_ADAPTERHUB_URL", INDEX)
    text = kept.read_bytes() if kept.is_file() else _download(f"{base}/{path}")
    try:
        loaded = json.loads(text)
    except ValueError as error:
        raise ZgulError(f"{kept if kept.is_file() else f'{base}/{path}'}: not JSON ({error})") from error
    if not isinstance(loaded, dict):
        raise ZgulError(f"{base}/{path}: not a part of AdapterHub's index")
    if not kept.is_file():
        with atomic_write(kept, "wb") as file:
            file.write(text)
    return loaded


def _download(url: str, *, progress: bool = False) -> bytes:
    if not url.startswith(("https://", "http://")):
        raise ZgulError(f"{url}: not a web address")
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return _read(response, url) if progress else bytes(response.read())
    except urllib.error.HTTPError as error:
        if error.code == 404:
            raise _Missing(f"{url}: not found") from None
        raise ZgulError(f"{url}: the server answered {error.code} {error.reason}; try again later") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise ZgulError(f"{url}: cannot be reached ({reason}). {_OFFLINE}") from error


def _read(response: http.client.HTTPResponse, url: str) -> bytes:
    from rich.console import Console
    from rich.progress import wrap_file

    total = int(response.headers.get("Content-Length") or 0)
    with wrap_file(
        response, total, description=PurePosixPath(url).name, console=Console(stderr=True), transient=True
    ) as file:
        return bytes(file.read())
