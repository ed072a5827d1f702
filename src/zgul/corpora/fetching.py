"""Fetch datasets of the catalogue and lay them out as ``DIR/TASK/LANG/SPLIT.tsv``.

The upstream files stay in ``DIR/raw``. Several treebanks of one language are joined in the order of the catalogue.

A file must have the checksum of the catalogue, or the one in ``DIR/fetched.json``, where the SHA-256 of a new file goes
once it has been read without an error. ``fetched.json`` also lists the datasets of the folder with their releases, and
the files that zgul may overwrite.
"""

import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

from rich.console import Console

from zgul.corpora import catalogue, columns
from zgul.corpora.catalogue import Dataset, File
from zgul.corpora.data_folder import read_labelled
from zgul.corpora.sentence import Sentence
from zgul.download import ChecksumError, DownloadOptions, download, exclusive, file_digest
from zgul.errors import ZgulError
from zgul.files import cache_dir, read_json, write_json

MANIFEST = "fetched.json"
MAX_MEMBER = 100_000_000  # bytes of a file inside an archive


@dataclass(frozen=True)
class FetchedFile:
    """What became of one upstream file."""

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
) -> FetchResult:
    """Fetch datasets by name or pattern, or those of a group, and build the files that they have a part in.

    ``release`` is another UD release than the paper's. ``mirror`` replaces the hosts of the catalogue.
    """
    named = [dataset for name in names for dataset in catalogue.find(name)]
    for dataset in named:
        if not dataset.files:
            raise ZgulError(f"{dataset.name} cannot be fetched ({dataset.homepage}): {dataset.note}.")
    grouped = catalogue.select(group=group) if group else []
    datasets = list(dict.fromkeys([*named, *(dataset for dataset in grouped if dataset.files)]))
    if not datasets:
        raise ZgulError("Say what to fetch: names such as ud/fo_oft, or a group. `zgul data list` shows all.")
    if release:
        datasets = [catalogue.at_release(dataset, release) for dataset in datasets]
    folder = data_dir or cache_dir() / "data"
    with exclusive(folder / "raw"):
        files = _Fetch(folder, mirror, options).add(datasets)
    return FetchResult(folder, files, [dataset for dataset in grouped if not dataset.files])


class _Fetch:
    def __init__(self, root: Path, mirror: str | None, options: DownloadOptions) -> None:
        self.root, self.mirror, self.options = root, mirror, options
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
            if others := sorted(path.parent.glob(f"{path.stem}.*")):  # never write over, or beside, files of others
                raise ZgulError(f"{others[0]} was not written by zgul. Choose another folder with --output.")
        parts = [part for part in self._known_with(datasets) if places.intersection(part.places)]
        upstream = {file.path: (part, file) for part in parts for file in part.files}
        fetched = {path: self._ensure(part, file) for path, (part, file) in upstream.items()}
        self.laid_out = sorted({*self.laid_out, *places})
        self._save()
        first_fetched = {path: file for path, file in fetched.items() if file.trust == "first fetch"}
        try:
            for place in sorted(places):
                files = [(part, file) for part in parts for file in part.places.get(place, ())]
                with Console(stderr=True).status(f"Writing {place}"):
                    columns.write(self.root / place, chain.from_iterable(self._read(*pair) for pair in files))
        except ZgulError as error:
            for file in first_fetched.values():  # a file that cannot be read must not be trusted the next time
                file.path.unlink(missing_ok=True)
            raise ZgulError(f"{error} The upstream file is not what the catalogue expects.") from error
        self.releases |= {dataset.name: dataset.release for dataset in datasets}
        self.checksums |= {path: file.sha256 for path, file in first_fetched.items()}
        self._save()
        return list(fetched.values())

    def _known_with(self, datasets: list[Dataset]) -> Iterator[Dataset]:
        """These datasets and those fetched before, in the order of the catalogue."""
        given = {dataset.name: dataset for dataset in datasets}
        for listed in catalogue.DATASETS:
            if listed.name in given:
                yield given[listed.name]
            elif release := self.releases.get(listed.name):
                yield listed if release == listed.release else catalogue.at_release(listed, release)

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
            download(url, path, checksum=expected or "", max_bytes=file.max_bytes, options=self.options)
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
        raise ZgulError(f"{path} is not the archive it should be ({error}).") from error
