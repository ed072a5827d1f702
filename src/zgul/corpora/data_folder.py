"""A data folder: where labelled files and texts are, and how they are read. docs/data.md explains the splits.

    DIR/TASK/LANG/SPLIT.tsv     labelled; TASK is pos or ner. Also .txt and .conllu
    DIR/text/LANG.KIND.txt      unlabelled text; KIND is open or research

Every file may be compressed (``zgul.files.PACKINGS``).
"""

import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from zgul.corpora import columns, conllu
from zgul.corpora.lines import BOM, Lines
from zgul.corpora.sentence import TASKS, Sentence, check_task
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import DAMAGED, PACKINGS, open_binary

FORMATS = (".tsv", ".txt", ".conllu")
TEXT_KINDS = ("open", "research")
SPLIT_ORDER = ("train", "extra", "few", "dev", "test")
_LABELLED = re.compile(r"([^.].*)\.(?:tsv|txt|conllu)(?:\.(?:xz|gz|zst|bz2))?")


def source_split(group: str, language: str, split: str) -> str:
    """The name of a source's split in a group of the paper. The Indo-Aryan group uses WikiAnn's English."""
    return f"panx.{split}" if (group, language) == ("indo-aryan", "en") else split


def read_labelled(path: Path | str, task: str, language: str | None = None) -> list[Sentence]:
    """Read the tagged sentences of a labelled file: CoNLL-U, WikiAnn's form, or word-and-tag columns.

    Sentences without tags are left out with a warning. A file whose sentences all have no tags is an error.
    """
    path = Path(path)
    form = _format(path)
    if form == "conllu":
        read: Iterable[Sentence] = (block.to_sentence(task, language) for block in conllu.read(path))
    else:
        read = (columns.read_wikiann if form == "wikiann" else columns.read)(path, task, language)
    sentences = [sentence for sentence in read if sentence.words]
    tagged = [sentence for sentence in sentences if sentence.tags is not None]
    if sentences and not tagged:
        raise ZgulError(f"{path} has no {task.upper()} tags; a labelled file is needed here")
    if len(tagged) < len(sentences):
        left_out = f"{len(sentences) - len(tagged)} sentences without {task.upper()} tags are left out"
        warnings.warn(f"{path}: {left_out}", ZgulWarning, stacklevel=2)
    return tagged


def _format(path: Path) -> str:
    if ".conllu" in path.suffixes:
        return "conllu"
    try:
        with open_binary(path) as file:
            beginning = file.read(1 << 12).decode("utf-8", "replace").removeprefix(BOM)
    except DAMAGED:
        return "columns"  # the reader of columns reports the problem
    lines = [line for line in beginning.split("\n")[:-1] if line.strip()]  # the last one may be cut
    if lines and conllu.looks_like_conllu(lines[0]):
        return "conllu"
    prefixed = (columns.WIKIANN_TOKEN.fullmatch(line.split("\t")[0]) for line in lines)
    return "wikiann" if lines and all(prefixed) else "columns"


class DataFolder:
    """Finds and reads the files of a data folder."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def labelled_file(self, task: str, language: str, split: str) -> Path | None:
        """The file of a split, or None if it does not exist."""
        return next(iter(_existing(self.path / task / language, split, FORMATS)), None)

    def sentences(self, task: str, language: str, split: str) -> list[Sentence]:
        """Read a split. If it does not exist, the error names the splits and languages that do."""
        check_task(task)
        files = _existing(self.path / task / language, split, FORMATS)
        if not files:
            here = [(code, other) for other_task, code, other in self.splits() if other_task == task]
            splits = " ".join(other for code, other in here if code == language)
            languages = " ".join(sorted({code for code, _ in here})) or "none"
            there = f"{language} has the splits: {splits}" if splits else f"{task} has the languages: {languages}"
            raise ZgulError(f"no {task} data for {language!r}, split {split!r}, in {self.path}; {there}")
        if len(files) > 1:
            others = ", ".join(file.name for file in files[1:])
            warnings.warn(f"{files[0]} is read; {others} in the same folder is ignored", ZgulWarning, stacklevel=3)
        return read_labelled(files[0], task, language)

    def splits(self) -> list[tuple[str, str, str]]:
        """Task, language and split of every labelled file, in the usual order."""
        if not self.path.is_dir():
            raise ZgulError(f"{self.path}: no such folder")
        names = ((path, _LABELLED.fullmatch(path.name)) for task in TASKS for path in self.path.glob(f"{task}/*/*"))
        splits = {(path.parts[-3], path.parts[-2], name[1]) for path, name in names if name and path.is_file()}
        if splits:
            return sorted(splits, key=_rank)
        raise ZgulError(f"{self.path} has no labelled data such as pos/fo/test.tsv. Fetch some with: zgul data fetch")

    def text_files(self, language: str, kinds: Iterable[str] = TEXT_KINDS) -> list[Path]:
        """The existing files of unlabelled text of a language."""
        return [path for kind in kinds for path in _existing(self.path / "text", f"{language}.{kind}", (".txt",))]

    def text_lines(self, language: str, kinds: Iterable[str] = TEXT_KINDS) -> Iterator[str]:
        """Read the lines of the text files of a language, without blank lines."""
        kinds = tuple(kinds)
        paths = self.text_files(language, kinds)
        if not paths:
            there = " ".join(sorted({path.name.split(".")[0] for path in self.path.glob("text/*.txt*")})) or "nothing"
            missing = f"no unlabelled text ({', '.join(kinds)}) for {language!r} in {self.path / 'text'}"
            raise ZgulError(f"{missing}; there is text for: {there}")
        return (line for path in paths for line in Lines(path) if line.strip())


def _existing(folder: Path, stem: str, formats: Iterable[str]) -> list[Path]:
    paths = (folder / f"{stem}{form}{packing}" for form in formats for packing in ("", *PACKINGS))
    return [path for path in paths if path.is_file()]


def _rank(key: tuple[str, str, str]) -> tuple[Any, ...]:
    """The usual order; splits with a prefix (``panx.``) come after those without."""
    task, language, split = key
    base = split.rsplit(".", 1)[-1]
    order = SPLIT_ORDER.index(base) if base in SPLIT_ORDER else len(SPLIT_ORDER)
    return [*TASKS].index(task), language, base != split, order, split
