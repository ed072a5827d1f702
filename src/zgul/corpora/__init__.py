"""Corpora: CoNLL-U, word-and-tag columns, WikiAnn and raw text; data folders by task and language."""

from pathlib import Path

from zgul.corpora import columns, conllu, plain_text
from zgul.corpora.data_folder import DataFolder, read_labelled, source_split
from zgul.corpora.sentence import Sentence

__all__ = ["DataFolder", "Sentence", "columns", "conllu", "load", "plain_text", "read_labelled", "source_split"]


def load(data_dir: Path | str, task: str, lang: str, split: str) -> list[Sentence]:
    """Read a labelled split of a data folder: ``DataFolder.sentences``."""
    return DataFolder(data_dir).sentences(task, lang, split)
