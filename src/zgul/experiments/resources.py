"""What the runs of a process share: the encoder, corpora and their pieces, adapters. Each is read once."""

from __future__ import annotations

import copy
import gc
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from zgul import corpora, encoders
from zgul.adapters.bank import LanguageAdapter
from zgul.corpora.encode import EncodedCorpus, PieceEncoder
from zgul.corpora.sentence import Sentence
from zgul.encoders.encoder import Encoder
from zgul.experiments import checksums
from zgul.experiments.plan import Inputs, Protocol
from zgul.languages import most_related
from zgul.tensors import load_tensors, save_tensors
from zgul.training.config import TrainingConfig
from zgul.training.data import SPLITS, LabelledData, labelled_data, sample, training_languages
from zgul.training.run import find_adapters

Pieces = dict[int, PieceEncoder]  # by the longest chunk


@dataclass
class SharedData(LabelledData):
    """Labelled data that is cut into pieces once for all runs of all processes: what was encoded is kept on disk."""

    pieces: Pieces = field(default_factory=dict)
    cache: Path | None = None
    key: str = ""
    encoded: dict[tuple[Any, ...], EncodedCorpus] = field(default_factory=dict)

    def encode(self, sentences: Sequence[Sentence], pieces: PieceEncoder, rows: dict[str, int]) -> EncodedCorpus:
        key = (id(sentences), pieces.max_pieces, *sorted(rows.items()))
        if key not in self.encoded:
            shared = self.pieces.setdefault(pieces.max_pieces, pieces)
            kind = "train" if sentences is self.train else "dev" if sentences is self.dev else ""
            told = f"{kind} {len(sentences)} {sorted(rows.items())} {pieces.max_pieces}" if kind else ""
            self.encoded[key] = self._kept(told, lambda: LabelledData.encode(self, sentences, shared, rows))
        return self.encoded[key]

    def encode_epoch(self, pieces: PieceEncoder, rows: dict[str, int], seed: int, epoch: int) -> EncodedCorpus:
        if not self.noise.sentences:
            return self.encode(self.train, pieces, rows)
        told = f"{self.noise} {sorted(rows.items())} {pieces.max_pieces} {seed} {epoch}"
        return self._kept(told, lambda: LabelledData.encode_epoch(self, pieces, rows, seed, epoch))

    def _kept(self, told: str, make: Callable[[], EncodedCorpus]) -> EncodedCorpus:
        """From the disk, or made and put there; whoever comes second waits for the first."""
        if self.cache is None or not told:
            return make()
        path = self.cache / f"{hashlib.sha256(f'{self.key} {told}'.encode()).hexdigest()}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not path.is_file():
                _save_encoded(path, make())
        return _load_encoded(path)


class Resources:
    """Everything that is read from files, once in a process."""

    def __init__(self, inputs: Inputs, protocol: Protocol, cache: Path | None = None) -> None:
        self.inputs, self.protocol, self.cache = inputs, protocol, cache
        self._encoder: tuple[Any, Any] | None = None
        self._sentences: dict[tuple[str, str, str, int], list[Sentence]] = {}
        self._data: dict[str, SharedData] = {}
        self._adapters: dict[tuple[str, ...], list[LanguageAdapter]] = {}
        self._pieces: Pieces = {}

    def encoder(self) -> tuple[Any, Any]:
        """A fresh copy of the encoder, and the tokenizer."""
        if self._encoder is None:
            self._encoder = encoders.load(self.inputs.encoder)
        return copy.deepcopy(self._encoder[0]), self._encoder[1]

    def piece_encoder(self, max_pieces: int) -> PieceEncoder:
        """The table of words that all runs share."""
        assert self._encoder is not None
        return self._pieces.setdefault(max_pieces - 2, PieceEncoder(self._encoder[1], max_pieces))

    def sentences(self, task: str, language: str, split: str, limit: int = 0) -> list[Sentence]:
        """A split, or as many of its sentences as asked for, the same for every run."""
        key = (task, language, split, limit)
        if key not in self._sentences:
            found = corpora.load(self.inputs.data, task, language, split)
            self._sentences[key] = sample(found, limit, 0) if limit else found
        return self._sentences[key]

    def test(self, task: str, language: str) -> list[Sentence]:
        return self.sentences(task, language, "test", self.protocol.test_limit)

    def labelled(self, config: TrainingConfig) -> SharedData:
        """The data that a configuration trains on."""
        languages = training_languages(config)
        limited = (config.limit, config.seed) if config.limit else ()
        treated = (config.unannotated, config.label_set_per_corpus, config.noise)
        key = repr((config.group, config.task, languages, limited, treated))
        if key not in self._data:
            train: list[Sentence] = []
            dev: list[Sentence] = []
            for language in languages:
                prefix = SPLITS.get((config.group, language), "")
                sentences = self.sentences(config.task, language, prefix + "train")
                train += sample(sentences, config.limit, config.seed) if config.limit else sentences
                dev += self.sentences(config.task, language, prefix + "dev", self.protocol.dev_limit)
            if config.limit:  # a few sentences may lack a rare label
                known = {tag for sentence in train for tag in sentence.tags or ()} | set(config.unannotated)
                dev = [sentence for sentence in dev if known.issuperset(sentence.tags or ())]
            made = labelled_data(train, dev, config)
            self._data[key] = SharedData(**vars(made), pieces=self._pieces, cache=self.cache, key=key)
        return self._data[key]

    def preload(self, config: TrainingConfig, targets: Sequence[str]) -> None:
        """Read what the runs of a group need, all at once: while no model is held."""
        before = len(self._sentences)
        self.labelled(config)
        for target in targets:
            self.test(config.task, target)
            for split in ("dev", "few"):
                if checksums.labelled(self.inputs.data, config.task, target, split) is not None:
                    self.sentences(config.task, target, split)
        for source in config.sources:
            self.sentences(config.task, source, SPLITS.get((config.group, source), "") + "dev")
        if len(self._sentences) > before:
            gc.freeze()  # millions of words that stay: looking for garbage among them would take seconds each time

    def judge(self, config: TrainingConfig, target: str) -> tuple[str, list[Sentence]]:
        """The most related source, and what of its dev set EM's settings are chosen on."""
        source = most_related(target, list(config.sources))
        split = SPLITS.get((config.group, source), "") + "dev"
        return source, sample(self.sentences(config.task, source, split), config.em_sentences, config.seed)

    def adapters(self, languages: Sequence[str], encoder: Encoder) -> list[LanguageAdapter]:
        """The adapters of the sources."""
        key = tuple(languages)
        if key not in self._adapters:
            self._adapters[key] = find_adapters(self.inputs.adapters, languages, encoder, self.inputs.encoder)
        return self._adapters[key]


def _save_encoded(path: Path, corpus: EncodedCorpus) -> None:
    tensors = {name: value for name, value in vars(corpus).items() if isinstance(value, torch.Tensor)}
    tensors["sentence_sizes"] = torch.from_numpy(corpus.sentence_sizes)
    tensors["specials"] = torch.tensor(corpus.specials)
    save_tensors(path, tensors)


def _load_encoded(path: Path) -> EncodedCorpus:
    tensors = load_tensors(path)
    sizes: np.ndarray[Any, Any] = tensors.pop("sentence_sizes").numpy()
    begin, end, pad = tensors.pop("specials").tolist()
    return EncodedCorpus(**tensors, sentence_sizes=sizes, specials=(begin, end, pad))
