"""Find and fetch adapters by name: Hugging Face repositories, and AdapterHub's index with its archives.

``org/repository`` is a Hugging Face repository. ``en/wiki@ukp`` (task, corpus, author) and ``@ukp/file`` are names in
AdapterHub's own index, which no longer changes: ``index/ENCODER.json`` leads to an entry, and the entry to a zip file
with its checksum. Repositories ``AdapterHub/FILE`` have copies, which are tried first. The cache folder keeps all.
"""

import contextlib
import os
import re
import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

from zgul.download import DownloadOptions, NotFoundError, download, exclusive
from zgul.errors import ZgulError, first_line
from zgul.files import MAX_JSON, cache_dir, read_json

CONFIG, SAFE, PICKLED = ADAPTER_FILES = ["adapter_config.json", "adapter.safetensors", "pytorch_adapter.bin"]
INDEX = "https://raw.githubusercontent.com/Adapter-Hub/Hub/master/dist/v2"
MAX_BYTES = 1_000_000_000  # of an adapter, packed or not; the wiki adapters of mBERT have 30 MB
MAX_RATIO = 100  # unpacked to packed size; weights hardly shrink
_WORD = r"[\w-][\w.-]*"  # safe as a part of a path
_VERSION = re.compile(rf"{_WORD}(/{_WORD})*")
_REPOSITORY = re.compile(rf"{_WORD}/{_WORD}")
_INDEXED = re.compile(rf"(?P<task>{_WORD})/(?P<subtask>{_WORD})@(?P<org>{_WORD})")
_ENTRY = re.compile(rf"@(?P<org>{_WORD})/(?P<file>{_WORD})")
_ENTRY_PATH = re.compile(rf"adapters/(?P<org>{_WORD})/(?P<file>{_WORD})\.json")
_OPTIONS = DownloadOptions(attempts=2)


def fetch_adapter(name: str, *, encoder: str | None = None, version: str | None = None) -> Path:
    """Return the folder of the adapter with this name, from the cache or the network.

    ``encoder`` is needed for names in AdapterHub's index. ``version`` is a branch, or a version of the index entry.
    """
    if version is not None and not _VERSION.fullmatch(version):
        raise ZgulError(f"{version!r} cannot be the version of an adapter.")
    if match := _ENTRY.fullmatch(name):
        return _from_entry(f"adapters/{match['org']}/{match['file']}.json", version)
    if match := _INDEXED.fullmatch(name):
        return _from_entry(_find_entry(match, encoder), version)
    if _REPOSITORY.fullmatch(name):
        try:
            return _from_hugging_face(name, version)
        except NotFoundError as error:
            raise ZgulError(f"{error} For a name in AdapterHub's index add the author: {name}@ukp.") from None
    raise ZgulError(f"{name}: no such folder, and not a name on a hub either (such as 'en/wiki@ukp').")


def _from_hugging_face(repository: str, version: str | None) -> Path:
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    files: Any = ()
    with contextlib.suppress(Exception):  # the download meets the same error, and then looks into its cache
        files = api.model_info(repository, revision=version, files_metadata=True).siblings
    for file in files or ():
        if file.rfilename in ADAPTER_FILES and (file.size or 0) > MAX_BYTES:
            raise ZgulError(f"{repository}: {file.rfilename} is larger than {MAX_BYTES:,} bytes, so not an adapter.")
    cache = cache_dir() / "huggingface"
    try:
        return Path(api.snapshot_download(repository, revision=version, cache_dir=cache, allow_patterns=ADAPTER_FILES))
    except RepositoryNotFoundError:
        raise NotFoundError(f"{repository}: no such folder, and no public repository on Hugging Face.") from None
    except RevisionNotFoundError:
        raise ZgulError(f"{repository} has no version {version!r} on Hugging Face.") from None
    except Exception as error:  # its own errors, and those of the HTTP library that it happens to use
        advice = "Check the connection, or copy the adapter's folder from another machine and give its path"
        raise ZgulError(f"{repository}: Hugging Face gave no answer ({first_line(error)}). {advice}.") from error


def _find_entry(name: re.Match[str], encoder: str | None) -> str:
    """The path of the entry ``task/subtask@org`` for an encoder."""
    if encoder is None:
        which = "Say which, for example encoder='bert-base-multilingual-cased'"
        raise ZgulError(f"{name[0]}: AdapterHub has one for each encoder. {which}.")
    encoder = encoder.removeprefix("google-bert/").removeprefix("FacebookAI/")  # the index has the older names
    index: dict[str, Any] = {}
    with contextlib.suppress(NotFoundError):
        index = _read_index(f"index/{encoder}.json") if re.fullmatch(_WORD, encoder) else {}
    if not index:
        raise ZgulError(f"AdapterHub's index has nothing for the encoder {encoder!r}. It lists encoders by name.")
    task, subtask, org = name.groups()
    choices = dict(_field(_field(index, task), subtask))
    paths = [choices.pop("default", None)]
    for key in choices:
        paths += _field(_field(choices, key), "versions").values()
    entries = [entry for path in paths if (entry := _ENTRY_PATH.fullmatch(str(path)))]
    if not entries:
        others = ", ".join(sorted(other for other in index if subtask in _field(index, other)))
        hint = f" {subtask} exists for: {others}." if others else ""
        raise ZgulError(f"AdapterHub has no {task}/{subtask} for {encoder}.{hint}")
    by_author = {entry["org"]: entry[0] for entry in reversed(entries)}  # the first one of each author
    if org not in by_author:
        raise ZgulError(f"AdapterHub's {task}/{subtask} is by {', '.join(sorted(by_author))}, not by {org}.")
    return by_author[org]


def _field(value: dict[str, Any], name: str) -> dict[str, Any]:
    """An object in the index, or an empty one if it is not there."""
    if isinstance(content := value.get(name, {}), dict):
        return content
    raise ZgulError(f"AdapterHub's index is damaged: {name} must be an object. Delete {cache_dir() / 'adapterhub'}.")


def _from_entry(path: str, version: str | None) -> Path:
    """The adapter of an entry: its copy on Hugging Face or, if there is none, its zip file."""
    name = PurePosixPath(path).stem
    with contextlib.suppress(NotFoundError):
        return _from_hugging_face(f"AdapterHub/{name}", version)
    entry = _read_index(path)
    version = version or str(entry.get("default_version"))
    file = _field(_field(entry, "files"), version)
    if not file or not re.fullmatch(_WORD, version):
        raise ZgulError(f"{path} has no version {version!r}. It has: {', '.join(_field(entry, 'files'))}.")
    folder = cache_dir() / "adapterhub" / f"{name}-{version}"
    if not folder.is_dir():
        with exclusive(folder.parent):
            if not folder.is_dir():  # another process may have been faster
                _fetch_archive(str(file.get("url")), str(file.get("sha256") or file.get("sha1")), folder)
    return folder


def _fetch_archive(url: str, checksum: str, folder: Path) -> None:
    """Unpack the adapter's files, wherever in the zip file they are. The folder appears when it is complete."""
    path, temporary = folder.with_name(f"{folder.name}.zip"), folder.with_name(f".{folder.name}")
    download(url, path, checksum=checksum, max_bytes=MAX_BYTES, options=_OPTIONS)
    shutil.rmtree(temporary, ignore_errors=True)  # of a run that was killed
    temporary.mkdir()
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if PurePosixPath(info.filename).name in ADAPTER_FILES]
            size = sum(member.file_size for member in members)
            if size > min(MAX_BYTES, MAX_RATIO * path.stat().st_size):
                raise ZgulError(f"{url} unpacks to {size:,} bytes, which is too much for an adapter.")
            for member in members:
                member.filename = PurePosixPath(member.filename).name
                archive.extract(member, temporary)
        temporary.rename(folder)
    except (zipfile.BadZipFile, RuntimeError, EOFError, zlib.error) as error:
        raise ZgulError(f"{url} is not a zip file that can be read ({error}).") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        path.unlink()


def _read_index(path: str) -> dict[str, Any]:
    """Read a file of the index. It never changes, so a copy in the cache is enough."""
    copy = cache_dir() / "adapterhub" / path
    if not copy.is_file():
        with exclusive(cache_dir() / "adapterhub"):
            url = f"{os.environ.get('ZGUL_ADAPTERHUB_URL', INDEX)}/{path}"
            download(url, copy, max_bytes=MAX_JSON, options=_OPTIONS)
    try:
        return read_json(copy)
    except ZgulError:
        copy.unlink(missing_ok=True)  # the next call downloads it again
        raise
