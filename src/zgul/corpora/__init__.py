"""What is read: CoNLL-U, word-and-tag columns, WikiAnn, raw text; and data folders by task and language."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from zgul.corpora import columns, conllu, segment, text, wikiann
from zgul.corpora.lines import Lines
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError, ZgulWarning

__all__ = ["Sentence", "columns", "conllu", "load", "load_text", "segment", "text", "wikiann"]

_PACKINGS = ("", ".xz", ".gz", ".zst", ".bz2")
_FORMATS = (".tsv", ".txt", ".conllu")


def load(data_dir: Path | str, task: str, lang: str, split: str) -> list[Sentence]:
    """The sentences of ``DIR/TASK/LANG/SPLIT.{tsv,txt,conllu}``, perhaps compressed, with their language."""
    path = _find(Path(data_dir), task, lang, split)
    return [sentence for sentence in _read(path, task, lang) if sentence.words]


def load_text(data_dir: Path | str, lang: str, kinds: Iterable[str] = ("open", "research")) -> Iterator[str]:
    """The lines, but blank ones, of those ``DIR/text/LANG.KIND.txt``, perhaps compressed, that are there."""
    folder = Path(data_dir) / "text"
    kinds = tuple(kinds)
    paths = [path for kind in kinds for path in _existing(folder, f"{lang}.{kind}", (".txt",))]
    if not paths:
        raise ZgulError(
            f"no unlabelled text ({', '.join(kinds)}) for {lang!r} in {folder}; there is text for: "
            + _listed({path.name.split(".")[0] for path in folder.glob("*.txt*")})
        )
    return (line for path in paths for line in Lines(path) if line.strip())


def _read(path: Path, task: str, lang: str) -> Iterator[Sentence]:
    if ".conllu" in path.suffixes:
        return (sentence.to_sentence(task, lang) for sentence in conllu.read(path))
    return columns.read(path, task, lang)


def _find(data_dir: Path, task: str, lang: str, split: str) -> Path:
    if task not in ("pos", "ner"):
        raise ZgulError(f"unknown task {task!r}: choose pos or ner")
    folder = data_dir / task / lang
    found = _existing(folder, split, _FORMATS)
    if not found:
        raise ZgulError(f"no {task} data for {lang!r}, split {split!r}, in {data_dir}; " + _what_is_there(folder))
    if len(found) > 1:
        others = ", ".join(path.name for path in found[1:])
        warnings.warn(f"{found[0]} is read; beside it lies {others}", ZgulWarning, stacklevel=3)
    return found[0]


def _existing(folder: Path, stem: str, formats: Iterable[str]) -> list[Path]:
    names = (f"{stem}{form}{packing}" for form in formats for packing in _PACKINGS)
    return [folder / name for name in names if (folder / name).is_file()]


def _what_is_there(folder: Path) -> str:
    if folder.is_dir():
        return f"{folder} has the splits: " + _listed(_splits(folder))
    languages = {path.name for path in folder.parent.glob("*") if path.is_dir()}
    if languages:
        return f"{folder.parent} has the languages: " + _listed(languages)
    return f"{folder} does not exist (expected there: {folder.name}/SPLIT.tsv, perhaps with .xz, .gz or .zst)"


def _splits(folder: Path) -> set[str]:
    splits = set()
    for path in folder.iterdir():
        name = path.name.removesuffix(path.suffix) if path.suffix in _PACKINGS else path.name
        splits |= {name.removesuffix(form) for form in _FORMATS if name.endswith(form)}
    return splits


def _listed(names: Iterable[str]) -> str:
    return " ".join(sorted(names)) or "nothing"
