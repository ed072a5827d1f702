"""The labelled data of a training run: its corpora, its labels, and its encoding, with new noise in each epoch."""

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from zgul.corpora.data_folder import DataFolder, source_split
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import EncodedCorpus, ModelLanguages, PieceEncoder
from zgul.errors import ZgulError, ZgulWarning
from zgul.methods import find_method
from zgul.training.config import NoiseConfig, TrainingConfig
from zgul.training.noise import Words, noisy_words

Reader = Callable[[str, str, str], list[Sentence]]  # of task, language and split


@dataclass
class LabelledData:
    """Training and development sentences of the sources."""

    train: list[Sentence]
    dev: list[Sentence]
    labels: list[str]  # that the model predicts
    allowed: Tensor  # [languages, C] bool: the labels that each language's corpus annotates
    corpus_of: dict[str, int]  # language to row of `allowed`
    noise: NoiseConfig = field(default_factory=NoiseConfig)

    def encode(
        self, sentences: Sequence[Sentence], pieces: PieceEncoder, table: ModelLanguages, words: Words | None = None
    ) -> EncodedCorpus:
        """Encode sentences. If ``words`` are given, they replace the sentences' own."""
        index = {label: row for row, label in enumerate(self.labels)}
        corpora = [self.corpus_of.get(sentence.language or "", 0) for sentence in sentences]
        return pieces.encode(sentences, labels=index, languages=table, corpora=corpora, words=words)

    def encode_epoch(self, pieces: PieceEncoder, table: ModelLanguages, seed: int, epoch: int) -> EncodedCorpus:
        """Encode the training sentences of one epoch, with this epoch's own noise."""
        words = noisy_words(self.train, self.noise, np.random.default_rng([seed, epoch]))
        return self.encode(self.train, pieces, table, words)

    def label_shares(self) -> Tensor:
        """How often each label occurs in the training data, as shares [C]."""
        counts = Counter(tag for sentence in self.train for tag in sentence.tags or ())
        times = torch.tensor([float(counts[label]) for label in self.labels])
        return times / times.sum()


def load_labelled(
    config: TrainingConfig, read: Reader | None = None, labels: Sequence[str] | None = None
) -> LabelledData:
    """Read the corpora of a configuration, from its data folder or with ``read(task, language, split)``.

    ``labels`` are those of a tagger that is trained further. By default they come from the data.
    """
    train, dev = list[Sentence](), list[Sentence]()
    for language in training_languages(config):
        for part, name in ((train, "train"), (dev, "dev")):
            split = source_split(config.group, language, name)
            sentences = (read or partial(read_split, config))(config.task, language, split)
            limit = config.limit if name == "train" or read is None else 0  # a reader limits dev sets itself
            part += sample(sentences, limit, config.seed) if limit else sentences
    return labelled_data(train, dev, config, labels)


def read_split(config: TrainingConfig, task: str, language: str, split: str) -> list[Sentence]:
    """Read a split from the data folder of a configuration. A dev set may be missing: then it is empty."""
    data = DataFolder(config.data)
    if split.endswith("dev") and data.labelled_file(task, language, split) is None:
        kept = "it does not help to choose the best weights and EM settings"
        warnings.warn(f"There is no dev set of {language} in {config.data}, so {kept}.", ZgulWarning, stacklevel=3)
        return []
    return data.sentences(task, language, split)


def training_languages(config: TrainingConfig) -> list[str]:
    """The languages whose labels are trained on."""
    return ["en"] if find_method(config.method).english_only else config.kept_sources


def labelled_data(
    train: list[Sentence], dev: list[Sentence], config: TrainingConfig, labels: Sequence[str] | None = None
) -> LabelledData:
    """Determine the labels (O first, then by name), unless they are given, and which corpus annotates which of them."""
    used = {tag for sentence in train for tag in sentence.tags or ()} - set(config.unannotated)
    if not used:
        raise ZgulError("The training data has no labels.")
    if labels is not None and (new := used - set(labels)):
        problem = f"The tagger that is trained further does not know these labels: {', '.join(sorted(new))}"
        warnings.warn(f"{problem}. Words that have them are left out.", ZgulWarning, stacklevel=2)
    labels = list(labels or sorted(used, key=lambda tag: (tag != "O", tag.partition("-")[2] or tag, tag)))
    if unknown := {tag for sentence in dev for tag in sentence.tags or ()} - used - set(config.unannotated):
        problem = f"The dev data has labels that the training data lacks: {', '.join(sorted(unknown))}"
        warnings.warn(f"{problem}. They count as mistakes.", ZgulWarning, stacklevel=2)
    languages = list(dict.fromkeys(sentence.language or "" for sentence in train))
    allowed = torch.ones(len(languages), len(labels), dtype=torch.bool)
    if config.label_set_per_corpus:
        for row, language in enumerate(languages):
            own = {tag for s in train if (s.language or "") == language for tag in s.tags or ()}
            allowed[row] = torch.tensor([label in own for label in labels])
    corpus_of = {language: row for row, language in enumerate(languages)}
    return LabelledData(train, dev, labels, allowed, corpus_of, config.noise)


def sample(sentences: list[Sentence], limit: int, seed: int) -> list[Sentence]:
    """At most this many sentences, the same ones for the same seed."""
    if len(sentences) <= limit:
        return sentences
    chosen = np.random.default_rng(seed).choice(len(sentences), limit, replace=False)
    return [sentences[int(index)] for index in sorted(chosen)]
