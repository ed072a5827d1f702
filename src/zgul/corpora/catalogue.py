"""The catalogue of the paper's datasets. It fetches them into a data folder as ``DIR/TASK/LANG/SPLIT.tsv``.

``datasets.toml`` lists the datasets, in the releases that contain the paper's own test files word for word.
``checksums.txt`` has the checksums in the format of ``sha256sum``. Other files are trusted on first fetch.

The upstream files stay in ``DIR/raw``; several treebanks of one language are joined in the order of the catalogue.
``DIR/fetched.json`` has the SHA-256 of each file that was trusted and could be read, the datasets of the folder with
their releases, and the files that zgul may overwrite.
"""

import difflib
import fnmatch
import re
import tarfile
import tomllib
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from zgul.corpora import columns
from zgul.corpora.data_folder import read_labelled
from zgul.corpora.sentence import Sentence, check_task
from zgul.download import MAX_BYTES, ChecksumError, DownloadOptions, download, exclusive, file_digest
from zgul.errors import ZgulError
from zgul.files import cache_dir, read_json, write_json
from zgul.progress import Report, Status, silent

MANIFEST = "fetched.json"
MAX_MEMBER = 100_000_000  # bytes of a file inside an archive
_FOLDER = Path(__file__).parent
_LINES = (_FOLDER / "checksums.txt").read_text("utf-8").splitlines()
CHECKSUMS = {path: digest for digest, path in (line.split(maxsplit=1) for line in _LINES)}  # of paths below the host


@dataclass(frozen=True)
class File:
    """One upstream file, or one member of an upstream archive."""

    split: str  # its place in a data folder: DIR/TASK/LANG/SPLIT.tsv
    path: str  # below the host
    member: str | None = None  # inside the archive at ``path``
    max_bytes: int = MAX_BYTES

    @property
    def sha256(self) -> str | None:  # of the file at ``path``, if the catalogue has it
        return CHECKSUMS.get(self.path)


@dataclass(frozen=True)
class Dataset:
    """One dataset of one language."""

    name: str  # "ud/fo_oft"
    task: str  # "pos" or "ner"
    language: str  # as in DIR/TASK/LANG
    role: str  # "source" or "target"
    groups: tuple[str, ...]
    release: str
    licence: str
    host: str
    homepage: str
    files: tuple[File, ...]  # empty if the dataset cannot be downloaded
    note: str = ""

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file.split for file in self.files))

    @property
    def places(self) -> dict[str, list[File]]:
        """The upstream files that are joined in each file of a data folder."""
        place = f"{self.task}/{self.language}/{{}}.tsv"
        return {place.format(split): [f for f in self.files if f.split == split] for split in self.splits}

    @property
    def known_checksums(self) -> str:
        paths = {file.path for file in self.files}
        return f"{len(paths & CHECKSUMS.keys())} of {len(paths)}"

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, with the address and the checksum of each file."""
        files = [asdict(file) | {"url": f"{self.host}/{file.path}", "sha256": file.sha256} for file in self.files]
        return asdict(self) | {"files": files}


def _make_dataset(family: str, given: dict[str, Any]) -> Dataset:
    """Make a dataset from a line of ``datasets.toml`` and the defaults of its family."""
    is_target = given["role"] == "target"  # its training data serve the few-shot experiments only
    parts = [("few" if is_target else "train", part) for part in given.get("train", ["train"])]
    parts += [("dev", "dev")] if given.get("dev", True) else []
    parts += [("test", "test")] if is_target else []
    files = []
    for split, part in parts:
        path, member = (given.get(key, "").format(part=part, **given) for key in ("path", "member"))
        files.append(File(given.get("prefix", "") + split, path, member or None, given.get("max_bytes", MAX_BYTES)))
    own = {field.name: given[field.name] for field in fields(Dataset) if field.name in given}
    own |= {"name": f"{family}/{given['code']}", "homepage": given["homepage"].format(**given)}
    return Dataset(**own | {"groups": tuple(given["groups"]), "files": tuple(files)})


_CONTENT = tomllib.loads((_FOLDER / "datasets.toml").read_text("utf-8"))
REFERENCES: list[str] = _CONTENT.pop("references")  # what the paper uses besides labelled data
DATASETS = tuple(_make_dataset(name, family | line) for name, family in _CONTENT.items() for line in family["datasets"])


def select(group: str | None = None, task: str | None = None, language: str | None = None) -> list[Dataset]:
    """The datasets of a group, a task and a language code. None means any."""
    groups = sorted({name for dataset in DATASETS for name in dataset.groups})
    group = group and group.lower()
    if group not in (None, *groups):
        raise ZgulError(f"There is no group {group!r} in the catalogue. The groups are {', '.join(groups)}.")
    if task is not None:
        check_task(task)
    asked = [dataset for dataset in DATASETS if task in (None, dataset.task) and group in (None, *dataset.groups)]
    return [dataset for dataset in asked if language in (None, dataset.language)]


def find(pattern: str) -> list[Dataset]:
    """Find the datasets with this name ("ud/fo_oft") or pattern ("masakhaner/*"). It is an error if there are none."""
    names = {dataset.name: dataset for dataset in DATASETS}
    matches = fnmatch.filter(names, pattern.lower())
    if not matches:
        near = difflib.get_close_matches(pattern.lower(), names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else "`zgul data list` shows all."
        raise ZgulError(f"There is no dataset {pattern!r} in the catalogue. {hint}")
    return [names[name] for name in matches]


def at_release(dataset: Dataset, release: str) -> Dataset:
    """The same treebank in another UD release ("r2.17" or "2.17"), if its files still have the same names."""
    if release == dataset.release:
        return dataset
    if not dataset.name.startswith("ud/"):
        raise ZgulError(f"{dataset.name} has only one release, {dataset.release}. --release is for ud/ datasets.")
    release = f"r{release.removeprefix('r')}"
    if not re.fullmatch(r"r[0-9]{1,2}\.[0-9]{1,2}", release):  # it becomes a part of a path
        raise ZgulError(f"{release!r} is not a UD release. Give one such as r2.17.")
    old, new = f"/{dataset.release}/", f"/{release}/"
    files = tuple(replace(file, path=file.path.replace(old, new)) for file in dataset.files)
    return replace(dataset, release=release, files=files)


# --- fetching


@dataclass(frozen=True)
class FetchedFile:
    """The result of fetching one upstream file."""

    dataset: str
    path: Path  # of the copy in the data folder
    sha256: str
    trust: str  # "catalogue", "first fetch" (now recorded) or "earlier fetch" (recorded then)
    downloaded: bool  # False: it was there already


@dataclass(frozen=True)
class FetchResult:
    """The data folder, its upstream files, and the datasets of the group that cannot be downloaded."""

    folder: Path
    files: list[FetchedFile]
    by_hand: list[Dataset]


def fetch_datasets(
    names: Iterable[str] = (),
    *,
    group: str | None = None,
    release: str | None = None,
    data_dir: Path | None = None,
    mirror: str | None = None,
    options: DownloadOptions = DownloadOptions(),
    report: Report = silent,
) -> FetchResult:
    """Fetch datasets by name or pattern, or those of a group, and write the files of the data folder.

    ``release`` is another UD release than the paper's. ``mirror`` replaces the hosts of the catalogue.
    """
    named = [dataset for name in names for dataset in find(name)]
    for dataset in named:
        if not dataset.files:
            raise ZgulError(f"{dataset.name} cannot be fetched ({dataset.homepage}): {dataset.note}.")
    grouped = select(group=group) if group else []
    datasets = list(dict.fromkeys([*named, *(dataset for dataset in grouped if dataset.files)]))
    if not datasets:
        raise ZgulError("Say what to fetch: names such as ud/fo_oft, or a group. `zgul data list` shows all.")
    if release:
        datasets = [at_release(dataset, release) for dataset in datasets]
    folder = data_dir or cache_dir() / "data"
    with exclusive(folder / "raw"):
        files = _Fetch(folder, mirror, options, report).add(datasets)
    return FetchResult(folder, files, [dataset for dataset in grouped if not dataset.files])


class _Fetch:
    def __init__(self, root: Path, mirror: str | None, options: DownloadOptions, report: Report) -> None:
        self.root, self.mirror, self.options, self.report = root, mirror, options, report
        path = root / MANIFEST
        manifest = read_json(path) if path.exists() else {"releases": {}, "checksums": {}, "laid_out": []}
        try:
            self.releases = {name: str(release) for name, release in manifest["releases"].items()}  # by dataset
            self.checksums = {name: str(digest) for name, digest in manifest["checksums"].items()}  # by upstream path
            self.laid_out = [str(place) for place in manifest["laid_out"]]  # files that zgul may overwrite
        except (KeyError, TypeError, AttributeError) as error:
            raise ZgulError(f"{path} is damaged ({error}). Delete it to fetch everything again.") from error

    def _save(self) -> None:
        manifest = {"releases": self.releases, "checksums": self.checksums, "laid_out": self.laid_out}
        write_json(self.root / MANIFEST, manifest)

    def add(self, datasets: list[Dataset]) -> list[FetchedFile]:
        """Download first, then write each file of the folder once, then record what is now trusted."""
        places = {place for dataset in datasets for place in dataset.places}
        for path in sorted(self.root / place for place in places.difference(self.laid_out)):
            if others := sorted(path.parent.glob(f"{path.stem}.*")):  # never overwrite other files or mix with them
                raise ZgulError(f"{others[0]} was not written by zgul. Choose another folder with --output.")
        releases = self.releases | {dataset.name: dataset.release for dataset in datasets}
        known = (at_release(listed, releases[listed.name]) for listed in DATASETS if listed.name in releases)
        parts = [part for part in known if places.intersection(part.places)]
        upstream = {file.path: (part, file) for part in parts for file in part.files}
        fetched = {path: self._ensure(part, file) for path, (part, file) in upstream.items()}
        self.laid_out = sorted({*self.laid_out, *places})
        self._save()
        first_fetched = {path: file for path, file in fetched.items() if file.trust == "first fetch"}
        try:
            for number, place in enumerate(sorted(places)):
                self.report(Status("writing files", number, len(places)))
                files = [(part, file) for part in parts for file in part.places.get(place, ())]
                columns.write(self.root / place, chain.from_iterable(self._read(*pair) for pair in files))
        except ZgulError as error:
            for file in first_fetched.values():  # a file that cannot be read must not be trusted the next time
                file.path.unlink(missing_ok=True)
            raise ZgulError(f"{error} The upstream file is not what the catalogue expects.") from error
        self.releases = releases
        self.checksums |= {path: file.sha256 for path, file in first_fetched.items()}
        self._save()
        return list(fetched.values())

    def _ensure(self, dataset: Dataset, file: File) -> FetchedFile:
        """Download an upstream file, unless a copy with the right checksum is there."""
        expected = file.sha256 or self.checksums.get(file.path)
        trust = "catalogue" if file.sha256 else "earlier fetch" if expected else "first fetch"
        path = self.root / "raw" / file.path
        digest = file_digest(path) if path.is_file() else ""
        if digest and expected in (digest, None):
            return FetchedFile(dataset.name, path, digest, trust, downloaded=False)
        try:
            url = f"{(self.mirror or dataset.host).rstrip('/')}/{file.path}"
            limits: dict[str, Any] = {"max_bytes": file.max_bytes, "options": self.options}
            download(url, path, checksum=expected or "", report=self.report, **limits)
        except ChecksumError as error:
            earlier = f"It differs from the first fetch. To accept it, delete its line in {self.root / MANIFEST}."
            other = "Try another host with --mirror. If upstream has really changed, please report it."
            raise ZgulError(f"{error} {earlier if trust == 'earlier fetch' else other}") from error
        return FetchedFile(dataset.name, path, expected or file_digest(path), trust, downloaded=True)

    def _read(self, dataset: Dataset, file: File) -> Iterable[Sentence]:
        path = self.root / "raw" / file.path
        return _read_member(path, *file.member.rsplit("/", 1)) if file.member else read_labelled(path, dataset.task)


def _read_member(path: Path, inner: str, part: str) -> Iterator[Sentence]:
    """Read ``part`` of ``LANG.tar.gz`` in WikiAnn's zip file, without unpacking anything to disk."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = next((name for name in archive.namelist() if PurePosixPath(name).name == inner), None)
            if name is None:
                raise ZgulError(f"{path}: the archive contains no {inner}.")
            with archive.open(name) as packed, tarfile.open(fileobj=packed, mode="r|gz") as tar:
                for info in tar:
                    if info.size > MAX_MEMBER:
                        raise ZgulError(f"{path}: {inner}/{info.name} is larger than {MAX_MEMBER:,} bytes.")
                    stream = tar.extractfile(info) if PurePosixPath(info.name).name == part else None
                    if stream is not None:
                        yield from columns.read_wikiann(stream)
                        return
                raise ZgulError(f"{path}: the archive contains no {inner}/{part}.")
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ZgulError(f"{path} cannot be read as WikiAnn's archive ({error}).") from error
