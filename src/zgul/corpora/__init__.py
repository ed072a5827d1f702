"""Corpora: CoNLL-U, word-and-tag columns, WikiAnn and raw text; data folders by task and language."""

from zgul.corpora import columns, conllu, plain_text
from zgul.corpora.data_folder import DataFolder, read_labelled, source_split
from zgul.corpora.sentence import Sentence

__all__ = ["DataFolder", "Sentence", "columns", "conllu", "plain_text", "read_labelled", "source_split"]
