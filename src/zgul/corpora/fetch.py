"""Fetch datasets of the catalogue and lay them out as ``DIR/TASK/LANG/SPLIT.tsv``.

The upstream files stay in ``DIR/raw``; several treebanks of one language are joined in the order of the
catalogue.

Checksums: those of the catalogue are binding. A file without one is trusted on first use: once it has been
read without an error its SHA-256 goes to ``DIR/fetched.json``, and from then on that one is binding. The same
file says which datasets, in which release, the folder is made of.
"""

from __future__ import annotations

import contextlib
import json
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from filelock import FileLock

from zgul.corpora import catalogue, columns, conllu, wikiann
from zgul.corpora.catalogue import Dataset, File
from zgul.corpora.download import ChecksumError, Report, Settings, download, no_report, sha256_of
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.files import atomic_write

MANIFEST = "fetched.json"


@dataclass(frozen=True)
class Fetched:
    """What became of one upstream file."""

    dataset: str
    url: str
    path: Path
    sha256: str
    trust: str  # "catalogue", "first fetch" (now recorded) or "earlier fetch" (as recorded then)
    downloaded: bool  # False: it was there already


def fetch(
    datasets: Iterable[Dataset],
    data_dir: Path | str,
    mirror: str | None = None,
    settings: Settings = Settings(),
    report: Report = no_report,
) -> list[Fetched]:
    """Fetch what is not there yet and rebuild the files of ``data_dir`` that the datasets have a part in.

    ``mirror`` is a base URL that stands in for the hosts of the catalogue, with the same paths below it.
    """
    data_dir = Path(data_dir)
    datasets = list(datasets)
    for dataset in datasets:
        if not dataset.fetchable:
            raise ZgulError(f"{dataset.name} cannot be fetched ({dataset.homepage}); {dataset.note}")
    if mirror and urlsplit(mirror).scheme not in ("http", "https"):
        raise ZgulError(f"the mirror must be an http or https address, not {mirror!r}")
    raw = data_dir / "raw"
    try:
        raw.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ZgulError(f"{data_dir}: cannot be made ({error.strerror}); choose another folder") from error
    with FileLock(raw / ".lock"):  # two runs at once take turns
        return _Folder(data_dir, mirror, settings, report).add(datasets)


@dataclass
class _Folder:
    """A data folder under construction; the last three fields are its ``fetched.json``."""

    root: Path
    mirror: str | None
    settings: Settings
    report: Report
    releases: dict[str, str] = field(default_factory=dict)  # dataset -> release
    checksums: dict[str, str] = field(default_factory=dict)  # upstream path -> SHA-256 of the first fetch
    laid_out: list[str] = field(default_factory=list)  # files that are ours to overwrite

    def __post_init__(self) -> None:
        path = self.root / MANIFEST
        if not path.exists():
            return
        try:
            manifest = json.loads(path.read_text("utf-8"))
            self.releases = dict(manifest["releases"])
            self.checksums = dict(manifest["checksums"])
            self.laid_out = list(manifest["laid_out"])
        except (ValueError, KeyError, TypeError) as error:
            raise ZgulError(f"{path} is damaged ({error}); delete it to fetch afresh") from error

    def save(self) -> None:
        manifest = {
            "releases": self.releases,
            "checksums": dict(sorted(self.checksums.items())),
            "laid_out": sorted(self.laid_out),
        }
        with atomic_write(self.root / MANIFEST) as file:
            json.dump(manifest, file, indent=1)
            file.write("\n")

    def add(self, datasets: list[Dataset]) -> list[Fetched]:
        """Download first, then write each file of the folder once, then record what is now trusted."""
        slots = set().union(*(_slots(dataset) for dataset in datasets))
        for slot in slots:
            self._check_free(slot)
        parts = [part for part in self._known_with(datasets) if _slots(part) & slots]
        upstream = {file.path: (part, file) for part in parts for file in part.files}
        fetched = [self._ensure(part, file) for part, file in upstream.values()]
        self._lay_out(slots, parts, fetched)
        self.releases.update({dataset.name: dataset.release for dataset in datasets})
        for path, item in zip(upstream, fetched, strict=True):
            if item.trust == "first fetch":
                self.checksums[path] = item.sha256
        self.save()
        return fetched

    def _known_with(self, datasets: list[Dataset]) -> list[Dataset]:
        """These datasets and those fetched before, in the order of the catalogue."""
        given = {dataset.name: dataset for dataset in datasets}
        known = []
        for listed in catalogue.DATASETS:
            if listed.name in given:
                known.append(given[listed.name])
            elif listed.name in self.releases:
                release = self.releases[listed.name]
                known.append(listed if release == listed.release else catalogue.at_release(listed, release))
        return known

    def _check_free(self, slot: str) -> None:
        """Never write over, or beside, a file that somebody else put there."""
        if slot in self.laid_out:
            return
        path = self.root / slot
        others = sorted(path.parent.glob(f"{path.stem}.*"))
        if others:
            raise ZgulError(f"{others[0]} is there and was not written by zgul; choose another folder with --output")

    def _ensure(self, dataset: Dataset, file: File) -> Fetched:
        """The upstream file, downloaded unless a copy with the right checksum is there."""
        expected = file.sha256 or self.checksums.get(file.path)
        trust = "catalogue" if file.sha256 else "earlier fetch" if expected else "first fetch"
        url = f"{(self.mirror or dataset.host).rstrip('/')}/{file.path}"
        target = self.root / "raw" / file.path
        if target.exists():  # whole, for it was moved there; without a checksum, reading it will show
            digest = sha256_of(target)
            if expected in (digest, None):
                return Fetched(dataset.name, url, target, digest, trust, downloaded=False)
        try:
            digest = download(url, target, expected, self.settings, self.report)
        except ChecksumError as error:
            raise ZgulError(f"{error}\n{_checksum_advice(trust, self.root)}") from error
        return Fetched(dataset.name, url, target, digest, trust, downloaded=True)

    def _lay_out(self, slots: set[str], parts: list[Dataset], fetched: list[Fetched]) -> None:
        self.laid_out = sorted({*self.laid_out, *slots})
        self.save()
        try:
            for slot in sorted(slots):
                columns.write(self.root / slot, self._counted(slot, self._sentences(slot, parts)))
        except ZgulError as error:
            for item in fetched:
                if item.trust == "first fetch":  # an unreadable file must not be trusted the next time
                    item.path.unlink(missing_ok=True)
            raise ZgulError(f"{error}\nThe file fetched is not what the catalogue expects.") from error

    def _sentences(self, slot: str, parts: list[Dataset]) -> Iterator[Sentence]:
        for part in parts:
            for file in part.files:
                if _slot(part, file.split) == slot:
                    with _opened(self.root / "raw" / file.path, file.member) as source:
                        yield from _read(part, source)

    def _counted(self, slot: str, sentences: Iterator[Sentence]) -> Iterator[Sentence]:
        for number, sentence in enumerate(sentences):
            if number % 500 == 0:
                self.report(slot, number, None, "sentences")
            yield sentence


def _read(dataset: Dataset, source: Path | IO[bytes]) -> Iterator[Sentence]:
    if dataset.reader == "wikiann":
        yield from wikiann.read(source)
    elif dataset.reader == "columns":
        yield from columns.read(source, dataset.task)
    else:
        for sentence in conllu.read(source):
            tagged = sentence.to_sentence(dataset.task)
            if tagged.tags is None:
                raise ZgulError(f"{sentence.place}: a sentence without {dataset.task} tags")
            yield tagged


def _slot(dataset: Dataset, split: str) -> str:
    return f"{dataset.task}/{dataset.language}/{split}.tsv"


def _slots(dataset: Dataset) -> set[str]:
    return {_slot(dataset, file.split) for file in dataset.files}


def _checksum_advice(trust: str, root: Path) -> str:
    if trust == "catalogue":
        return "Try again later or from another mirror; if upstream has really changed, please report it."
    return (
        "The server now gives another file than at the first fetch. If that is as it should be, delete its "
        f"line in {root / MANIFEST} and fetch again."
    )


@contextlib.contextmanager
def _opened(path: Path, member: str | None) -> Iterator[Path | IO[bytes]]:
    """The file itself, or ``LANG.tar.gz/SPLIT`` inside a zip, read without unpacking to disk."""
    if member is None:
        yield path
        return
    inner, split = member.rsplit("/", 1)
    try:
        with zipfile.ZipFile(path) as archive:
            name = next((n for n in archive.namelist() if n.rsplit("/", 1)[-1] == inner), None)
            if name is None:
                raise ZgulError(f"{path}: no {inner} in the archive")
            with archive.open(name) as packed, tarfile.open(fileobj=packed, mode="r:gz") as tar:
                found = next((m for m in tar.getmembers() if m.name.rsplit("/", 1)[-1] == split), None)
                stream = tar.extractfile(found) if found else None
                if stream is None:
                    raise ZgulError(f"{path}: no {member} in the archive")
                yield stream
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
        raise ZgulError(f"{path}: not the archive it should be ({error})") from error
