"""What the runs of one process share: encoder, corpora and their pieces, adapters. Each is read once."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch

from zgul import encoders
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import find_adapters
from zgul.corpora.data_folder import DataFolder, source_split
from zgul.corpora.sentence import Sentence
from zgul.devices import moved_copy
from zgul.encoders.batches import EncodedCorpus, ModelLanguages, PieceEncoder
from zgul.encoders.encoder import Encoder
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.languages import most_related
from zgul.paper.plan import Inputs
from zgul.paper.protocol import Protocol
from zgul.training.config import TrainingConfig
from zgul.training.labelled_data import LabelledData, load_labelled, sample, training_languages


@dataclass
class SharedData(LabelledData):
    """Labelled data that is cut into pieces once for all runs of a process."""

    encoded: dict[object, EncodedCorpus] = field(default_factory=dict)

    def encode(
        self,
        sentences: Sequence[Sentence],
        pieces: PieceEncoder,
        table: ModelLanguages,
        words: Sequence[Sequence[str]] | None = None,
    ) -> EncodedCorpus:
        split = "train" if sentences is self.train else "dev" if sentences is self.dev else ""
        if not split or words is not None:
            return super().encode(sentences, pieces, table, words)
        key = (split, *sorted(table.rows.items()), pieces.max_pieces)
        if key not in self.encoded:
            self.encoded[key] = super().encode(sentences, pieces, table)
        return replace(self.encoded[key], table=table.values)  # the only part that depends on the method


class Resources:
    """Everything that is read from files, once in a process."""

    def __init__(self, inputs: Inputs, protocol: Protocol) -> None:
        self.inputs, self.protocol = inputs, protocol
        self.data = DataFolder(inputs.data)
        self._sentences: dict[tuple[str, str, str, int], list[Sentence]] = {}
        self._data: dict[str, SharedData] = {}
        self._adapters: dict[tuple[str, tuple[str, ...]], list[LanguageAdapter]] = {}

    @cached_property
    def _encoder(self) -> tuple[Encoder, PieceTokenizer]:
        return encoders.load(self.inputs.encoder)

    def encoder(self) -> tuple[Encoder, PieceTokenizer]:
        """A copy of the encoder that shares no weights, and the tokenizer."""
        copy = moved_copy(self._encoder[0], torch.device("cpu"))
        for parameter in copy.parameters():
            parameter.data = parameter.data.clone()
        return copy, self._encoder[1]

    def sentences(self, task: str, language: str, split: str, limit: int = 0) -> list[Sentence]:
        """A split, or as many of its sentences as asked for, the same for every run."""
        key = (task, language, split, limit)
        if key not in self._sentences:
            whole = self.data.sentences(task, language, split)
            self._sentences[key] = sample(whole, limit, 0) if limit else whole
            gc.freeze()  # millions of words that stay: looking for garbage among them would take seconds each time
        return self._sentences[key]

    def test(self, task: str, language: str) -> list[Sentence]:
        return self.sentences(task, language, "test", self.protocol.test_limit)

    def labelled(self, config: TrainingConfig) -> SharedData:
        """The data that a configuration trains on."""
        limited = (config.limit, config.seed) if config.limit else ()
        treated = (config.unannotated, config.label_set_per_corpus, config.noise)
        key = repr((config.group, config.task, training_languages(config), limited, treated))
        if key not in self._data:
            data = load_labelled(config, self._read)
            if config.limit:  # a few sentences may lack a rare label
                known = {*data.labels, *config.unannotated}
                data.dev = [sentence for sentence in data.dev if known.issuperset(sentence.tags or ())]
            self._data[key] = SharedData(**vars(data))
        return self._data[key]

    def _read(self, task: str, language: str, split: str) -> list[Sentence]:
        return self.sentences(task, language, split, self.protocol.dev_limit if split.endswith("dev") else 0)

    def em_sample(self, config: TrainingConfig, target: str, *, of_target: bool) -> tuple[str, list[Sentence]]:
        """The language whose dev set chooses EM settings for a target, and a sample of that dev set.

        It is the target or its most related source. The sample is empty if the language has no dev set.
        """
        language, split = target, "dev"
        if not of_target:
            kept = [source for source in config.kept_sources if config.em_by == "source" or source != "en"]
            language = most_related(target, kept)
            split = source_split(config.group, language, "dev")
        if self.data.labelled_file(config.task, language, split) is None:
            return language, []
        return language, sample(self.sentences(config.task, language, split), config.em_sentences, config.seed)

    def adapters(self, places: str, languages: Sequence[str], encoder: Encoder) -> list[LanguageAdapter]:
        """The adapters of the sources."""
        key = places, tuple(languages)
        if key not in self._adapters:
            self._adapters[key] = find_adapters(places, languages, encoder, self.inputs.encoder)
        return self._adapters[key]
