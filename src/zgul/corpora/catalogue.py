"""Catalogue of the paper's datasets: where each comes from, its licence, checksums and how to read it.

The releases are those that give the paper's own files, found by comparing words and tags with its test
files: UD 2.5 for all treebanks but two that did not exist then, Icelandic IcePaHC (2.7) and Pomak (2.10).
Checksums live in ``checksums.txt`` beside this module, in the form of ``sha256sum``; a file that is not
listed there is trusted on first fetch (see ``zgul.corpora.fetch``).
"""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

from zgul.errors import ZgulError

GITHUB = "https://raw.githubusercontent.com"
WIKIANN_HOST = "https://s3.amazonaws.com"
MASAKHANER_COMMIT = "ba5843cd08aa491d5f96a5e809e71eb9ec461391"


@dataclass(frozen=True)
class File:
    """One upstream file, or one member of an upstream archive."""

    split: str  # where it goes: DIR/TASK/LANG/SPLIT.tsv
    path: str  # of the URL, below the host: the key of the checksum, and where a mirror has it
    member: str | None = None  # inside the archive at ``path``

    @property
    def sha256(self) -> str | None:
        """Of the file at ``path`` (the archive, for a member); None where nobody has computed it yet."""
        return _checksums().get(self.path)


@dataclass(frozen=True)
class Dataset:
    """One dataset of one language."""

    name: str  # "ud/fo_oft"
    task: str  # "pos" or "ner"
    language: str  # as in DIR/TASK/LANG
    role: str  # "source" or "target"
    groups: tuple[str, ...]
    reader: str  # module of zgul.corpora
    release: str
    licence: str
    host: str
    homepage: str
    files: tuple[File, ...]
    note: str = ""

    @property
    def fetchable(self) -> bool:
        return bool(self.files)


@dataclass(frozen=True)
class Reference:
    """What the paper uses besides labelled data."""

    name: str
    what: str
    licence: str
    homepage: str


REFERENCES = (
    Reference(
        "adapterhub",
        "language adapters for mBERT and XLM-R (zgul reads their files)",
        "Apache 2.0",
        "https://adapterhub.ml/explore/",
    ),
    Reference(
        "uriel",
        "typological features and families of some 8,000 languages (a table of them is part of zgul)",
        "CC BY-SA 4.0",
        "https://github.com/antonisa/lang2vec",
    ),
)


def _ud(
    treebank: str,
    code: str,
    role: str,
    groups: tuple[str, ...],
    licence: str,
    *,
    train: Iterable[str] = ("train",),
    dev: bool = True,
    release: str = "r2.5",
    note: str = "",
) -> Dataset:
    """``code`` is UD's file prefix ("fo_oft"); ``train`` the parts that the training file is published in."""
    repository = f"UniversalDependencies/UD_{treebank}"

    def file(split: str, part: str) -> File:
        return File(split, f"{repository}/{release}/{code}-ud-{part}.conllu")

    # A target's own training data serves the few-shot experiments only, so it is laid out under that name.
    files = [file("few" if role == "target" else "train", part) for part in train]
    if dev:
        files.append(file("dev", "dev"))
    if role == "target":
        files.append(file("test", "test"))
    return Dataset(
        name=f"ud/{code}",
        task="pos",
        language=code.split("_")[0],
        role=role,
        groups=groups,
        reader="conllu",
        release=release,
        licence=licence,
        host=GITHUB,
        homepage=f"https://github.com/{repository}",
        files=tuple(files),
        note=note,
    )


def _masakhaner(code: str, language: str, role: str) -> Dataset:
    folder = f"masakhane-io/masakhane-ner/{MASAKHANER_COMMIT}/data/{code}"
    files = [
        File("few" if role == "target" else "train", f"{folder}/train.txt"),
        File("dev", f"{folder}/dev.txt"),
    ]
    if role == "target":
        files.append(File("test", f"{folder}/test.txt"))
    return Dataset(
        name=f"masakhaner/{code}",
        task="ner",
        language=language,
        role=role,
        groups=("african",),
        reader="columns",
        release="1.0",
        licence="CC BY-NC 4.0",
        host=GITHUB,
        homepage="https://github.com/masakhane-io/masakhane-ner",
        files=tuple(files),
    )


def _wikiann(code: str, language: str, role: str) -> Dataset:
    """The balanced splits of Rahimi et al. (2019): one archive with a ``.tar.gz`` for each language."""
    archive = "datasets.huggingface.co/wikiann/1.1.0/panx_dataset.zip"
    # English serves two NER groups with different data, so that WikiAnn's has names of its own.
    prefix = "panx." if code == "en" else ""
    splits = {"few" if role == "target" else f"{prefix}train": "train", f"{prefix}dev": "dev"}
    if role == "target":
        splits["test"] = "test"
    return Dataset(
        name=f"wikiann/{code}",
        task="ner",
        language=language,
        role=role,
        groups=("indo-aryan",),
        reader="wikiann",
        release="1.1.0",
        licence="unstated; from Wikipedia",
        host=WIKIANN_HOST,
        homepage="https://github.com/afshinrahimi/mmner",
        files=tuple(File(split, archive, f"{code}.tar.gz/{member}") for split, member in splits.items()),
        note="one archive of about 234 MB holds all languages; it is fetched once",
    )


_GERMANIC, _SLAVIC = ("germanic",), ("slavic",)
_BOTH = _GERMANIC + _SLAVIC
_SA4, _NCSA4, _NCSA3 = "CC BY-SA 4.0", "CC BY-NC-SA 4.0", "CC BY-NC-SA 3.0"
_NO_TRAIN: tuple[str, ...] = ()

DATASETS: tuple[Dataset, ...] = (
    _ud("English-EWT", "en_ewt", "source", _BOTH, _SA4),
    _ud("English-GUM", "en_gum", "source", _BOTH, _NCSA4),
    _ud("English-LinES", "en_lines", "source", _BOTH, _NCSA4),
    _ud("English-ParTUT", "en_partut", "source", _BOTH, _NCSA4),
    _ud("German-GSD", "de_gsd", "source", _GERMANIC, _SA4),
    _ud(
        "German-HDT",
        "de_hdt",
        "source",
        _GERMANIC,
        "HZSK-ACA (text), CC BY-SA 4.0",
        train=("train-a-1", "train-a-2", "train-b-1", "train-b-2"),
    ),
    _ud("Icelandic-IcePaHC", "is_icepahc", "source", _GERMANIC, _SA4, release="r2.7"),
    _ud("Faroese-OFT", "fo_oft", "target", _GERMANIC, _SA4, train=_NO_TRAIN, dev=False),
    _ud("Gothic-PROIEL", "got_proiel", "target", _GERMANIC, _NCSA3),
    _ud("Swiss_German-UZH", "gsw_uzh", "target", _GERMANIC, _SA4, train=_NO_TRAIN, dev=False),
    _ud("Russian-GSD", "ru_gsd", "source", _SLAVIC, _SA4),
    _ud("Russian-SynTagRus", "ru_syntagrus", "source", _SLAVIC, _NCSA4),
    _ud("Russian-Taiga", "ru_taiga", "source", _SLAVIC, _SA4),
    _ud(
        "Czech-PDT",
        "cs_pdt",
        "source",
        _SLAVIC,
        _NCSA3,
        train=("train-c", "train-l", "train-m", "train-v"),
    ),
    _ud("Czech-CAC", "cs_cac", "source", _SLAVIC, _SA4),
    _ud("Czech-FicTree", "cs_fictree", "source", _SLAVIC, _NCSA4),
    _ud("Czech-CLTT", "cs_cltt", "source", _SLAVIC, _SA4),
    _ud("Pomak-Philotis", "qpm_philotis", "target", _SLAVIC, _NCSA3, release="r2.10"),
    _ud("Upper_Sorbian-UFAL", "hsb_ufal", "target", _SLAVIC, _SA4, dev=False),
    _ud(
        "Old_East_Slavic-TOROT",
        "orv_torot",
        "target",
        _SLAVIC,
        _NCSA3,
        note="the paper's test file is TOROT, RNC and TOROT once more; here each comes once",
    ),
    _ud("Old_East_Slavic-RNC", "orv_rnc", "target", _SLAVIC, _SA4, train=_NO_TRAIN, dev=False),
    _ud("Old_Church_Slavonic-PROIEL", "cu_proiel", "target", _SLAVIC, _NCSA3),
    Dataset(
        name="conll2003/en",
        task="ner",
        language="en",
        role="source",
        groups=("african",),
        reader="columns",
        release="2003",
        licence="Reuters, on request",
        host="",
        homepage="https://trec.nist.gov/data/reuters/reuters.html",
        files=(),
        note="its text needs an agreement with NIST. Put the files at DIR/ner/en/train.tsv and dev.tsv, "
        "MISC as O; it has no DATE, so an unlabelled date there is unknown, not O",
    ),
    _masakhaner("amh", "am", "source"),
    _masakhaner("swa", "sw", "source"),
    _masakhaner("wol", "wo", "source"),
    _masakhaner("hau", "ha", "target"),
    _masakhaner("ibo", "ig", "target"),
    _masakhaner("kin", "rw", "target"),
    _masakhaner("lug", "lg", "target"),
    _masakhaner("luo", "luo", "target"),
    _masakhaner("pcm", "pcm", "target"),
    _wikiann("en", "en", "source"),
    _wikiann("hi", "hi", "source"),
    _wikiann("bn", "bn", "source"),
    _wikiann("ur", "ur", "source"),
    _wikiann("as", "as", "target"),
    _wikiann("bh", "bho", "target"),
)


@functools.cache
def _checksums() -> dict[str, str]:
    """Path below the host -> SHA-256."""
    text = resources.files("zgul.corpora").joinpath("checksums.txt").read_text("utf-8")
    pairs = (line.split(maxsplit=1) for line in text.splitlines())
    return {path: digest for digest, path in pairs}


def select(group: str | None = None, task: str | None = None, language: str | None = None) -> list[Dataset]:
    """The datasets of a group, task and language code; what is None does not restrict."""
    groups = sorted({name for dataset in DATASETS for name in dataset.groups})
    if group is not None and group.lower() not in groups:
        raise ZgulError(f"no group {group!r} in the catalogue; the groups are {', '.join(groups)}")
    if task is not None and task not in ("pos", "ner"):
        raise ZgulError(f"no task {task!r} in the catalogue; the tasks are pos and ner")
    return [
        dataset
        for dataset in DATASETS
        if (group is None or group.lower() in dataset.groups)
        and (task is None or task == dataset.task)
        and (language is None or language == dataset.language)
    ]


def find(pattern: str) -> list[Dataset]:
    """The datasets of a name ("ud/fo_oft") or pattern ("masakhaner/*"); at least one."""
    found = [dataset for dataset in DATASETS if fnmatch.fnmatchcase(dataset.name, pattern.lower())]
    if found:
        return found
    near = difflib.get_close_matches(pattern.lower(), [dataset.name for dataset in DATASETS], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "`zgul data list` shows what there is"
    raise ZgulError(f"no dataset {pattern!r} in the catalogue; {hint}")


def at_release(dataset: Dataset, release: str) -> Dataset:
    """The same treebank in another UD release ("r2.17" or "2.17"); the file names must not have changed."""
    if not dataset.name.startswith("ud/"):
        raise ZgulError(f"{dataset.name} comes in one release only ({dataset.release}); --release is for ud/ datasets")
    release = release if release.startswith("r") else f"r{release}"
    files = tuple(
        dataclasses.replace(file, path=file.path.replace(f"/{dataset.release}/", f"/{release}/"))
        for file in dataset.files
    )
    return dataclasses.replace(dataset, release=release, files=files)
