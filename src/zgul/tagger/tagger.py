"""A tagger: a method with its model, a tokenizer and settings for inference.

Taggers do not change. `Tagger.to` and `dataclasses.replace` make new ones, which share weights where they can. Several
threads may predict with one tagger.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zgul.adapters.language_adapter import LanguageAdapter
from zgul.corpora.sentence import Sentence, to_iob2
from zgul.devices import find_device, halving, moved_copy
from zgul.encoders.batches import Batch, EncodedCorpus, ModelLanguages, PieceEncoder
from zgul.encoders.encoder import Encoder
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.ensemble.em import EMConfig, sentence_entropy
from zgul.errors import ZgulError
from zgul.fast.engine import Engine, engine
from zgul.methods import Method, MethodOptions, Parts, find_method
from zgul.methods.base import TIED
from zgul.methods.model import Inferred, Model
from zgul.tagger.decoding import decoder

UNNAMED = "given"  # the name of an encoder that was given without a name
READ_ONLY = ("em", "about")  # loaded taggers are shared, so nobody may change their settings
_MAKING_ENGINE = threading.Lock()

Infer = Callable[[Batch, EMConfig | None], Inferred]
OnBatch = Callable[[int], None]  # receives how many chunks were done


@dataclass
class Prediction:
    """A tagger's output for one sentence."""

    tags: list[str]
    probabilities: NDArray[np.float32]  # [words] of the chosen tags
    weights: NDArray[np.float32] | None = None  # [words, K, N] of each view and adapter, mean over the layers
    weights_before: NDArray[np.float32] | None = None  # the same before EM


@dataclass(frozen=True, eq=False)
class Tagger:
    """A trained method, ready to predict."""

    method: Method
    parts: Parts
    model: Model
    pieces: PieceEncoder
    task: str
    encoder_name: str
    strategy: str
    em: Mapping[str, EMConfig] = field(default_factory=dict)  # by target language; "" is the default
    decode: str = "words"  # each word's best label, as in the paper, or the best "sequence" that IOB2 allows
    strip_marks: bool = False  # leave stress marks out of sentences that are full of them (`without_marks`)
    precision: str = "float32"  # of predictions; "auto" is int8 where it is fast and keeps F1
    about: Mapping[str, Any] = field(default_factory=dict)  # how it was made

    def __post_init__(self) -> None:
        for name in READ_ONLY:
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __repr__(self) -> str:
        return f"<Tagger by {self.method.title} for {self.task}, sources {', '.join(self.sources)}>"

    @classmethod
    def new(
        cls,
        method: str,
        *,
        encoder: tuple[Encoder, PieceTokenizer],
        task: str,
        labels: Sequence[str],
        sources: Sequence[str],
        adapters: Sequence[LanguageAdapter] = (),
        options: MethodOptions | None = None,
        features: dict[str, NDArray[np.float32]] | None = None,
        encoder_name: str = UNNAMED,
        strategy: str = "",
        related_letters: bool = False,
    ) -> Self:
        """An untrained tagger. The given encoder stays as it is; weights that are not trained are shared with it."""
        chosen, body = find_method(method), encoder[0]
        body = moved_copy(body, body.words.weight.device)
        bank = tuple(adapters) if chosen.needs_bank else ()
        parts = Parts(body, tuple(labels), tuple(sources), bank, options or MethodOptions(), features or {})
        pieces = PieceEncoder(encoder[1], parts.encoder.max_pieces, related_letters=related_letters)
        strategy = chosen.check_strategy(strategy or chosen.strategies[0])
        model = chosen.build(parts).eval()
        for parameter in filter(lambda parameter: parameter.requires_grad, body.parameters()):
            parameter.data = parameter.data.clone()  # training must not change the given encoder
        return cls(chosen, parts, model, pieces, task, encoder_name, strategy)

    @property
    def inferring(self) -> tuple[Model, Parts]:
        """The model that the engine is made from, and the parts as far as inference needs them."""
        return self.model, self.parts

    @property
    def device(self) -> torch.device:
        return self.inferring[0].head.weight.device

    @property
    def labels(self) -> Sequence[str]:
        return self.inferring[1].labels

    @property
    def sources(self) -> Sequence[str]:
        return self.inferring[1].sources

    @property
    def bank_languages(self) -> list[str]:
        """The languages of the bank: the sources, and others whose adapter joined it."""
        bank = self.inferring[0].bank
        return bank.languages if bank is not None else []

    @property
    def trained_names(self) -> list[str]:
        return [name for name, value in self.model.named_parameters() if value.requires_grad]

    @cached_property
    def engine(self) -> Engine:
        """The fast form of the model. If you change weights, make a new tagger (`replace`)."""
        with _MAKING_ENGINE:  # one for all threads
            own = vars(self)
            if "engine" not in own:
                # `about` says if int8 was measured to keep this tagger's F1, and how (docs/tagging.md)
                keep = self.precision == "auto" and self.about.get("int8") is not True
                precision, share = "float32" if keep else self.precision, self.about.get("int8_open")
                share = float(share) if isinstance(share, float | int) else 1.0
                own["engine"] = engine(self.inferring[0], self.device, precision, share)
            return own["engine"]  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        """The contents of a pickle: everything except the engine, which is made again on first use."""
        state = {name: value for name, value in vars(self).items() if name != "engine"}
        return state | {name: dict(state[name]) for name in READ_ONLY}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()

    def to(self, device: torch.device | str) -> Self:
        """This tagger on a device. It returns itself if it is there already."""
        wanted = find_device(device)
        if wanted.type == self.device.type and wanted.index in (None, self.device.index):
            return self
        model = moved_copy(self.model, wanted)
        return replace(self, model=model, parts=replace(self.parts, encoder=model.encoder))

    def language_table(self, languages: Sequence[str], strategy: str | None = None) -> ModelLanguages:
        """The language table of these languages, as the model reads it."""
        strategy = self.method.check_strategy(strategy or self.strategy)
        table = self.method.table(self.inferring[1], languages, strategy, self.bank_languages)
        return ModelLanguages({language: row for row, language in enumerate(languages)}, table)

    def em_for(self, language: str, strategy: str | None = None, em: EMConfig | None = None) -> EMConfig | None:
        """The EM settings for a language, or those given. None if the strategy has no EM."""
        strategy = strategy or self.strategy
        if not self.method.uses_em(strategy):
            return None
        config = em or self.em.get(language) or self.em.get("") or EMConfig()
        return replace(config, tied=True) if strategy in TIED else config

    def predict(
        self,
        sentences: Sequence[Sentence],
        *,
        strategy: str | None = None,
        em: EMConfig | None = None,
        skip_below: float = 0.0,
        weights: bool = False,
        on_batch: OnBatch = lambda count: None,
    ) -> list[Prediction]:
        """Tag sentences, whose ``language`` must be set.

        Without ``em``, the settings that are stored for each sentence's language are used. EM leaves sentences with
        less entropy than ``skip_below`` (nats per word) as they are. ``on_batch`` receives how many chunks were done.
        """
        strategy = self.method.check_strategy(strategy or self.strategy)
        groups: dict[EMConfig | None, list[int]] = {}
        for index, sentence in enumerate(sentences):
            groups.setdefault(self.em_for([*_languages(sentence), ""][0], strategy, em), []).append(index)
        predictions: dict[int, Prediction] = {}
        with torch.inference_mode(False):  # EM needs gradients, whatever the caller has switched off
            run: Infer = partial(self.engine, weights=weights)
            for config, indices in groups.items():
                group = [sentences[index] for index in indices]
                made = self._predict_group(group, strategy, config, skip_below, run, on_batch)
                predictions |= dict(zip(indices, made, strict=True))
        return [predictions[index] for index in range(len(sentences))]

    def _predict_group(
        self, group: list[Sentence], strategy: str, em: EMConfig | None, skip_below: float, run: Infer, count: OnBatch
    ) -> list[Prediction]:
        codes = dict.fromkeys(code for sentence in group for code in _languages(sentence))
        if not codes:  # no words at all
            return [Prediction([], np.zeros(0, np.float32)) for _ in group]
        table = self.language_table(list(codes), strategy)
        encoded = self.pieces.encode(group, languages=table, strip_marks=self.strip_marks).to(self.device)
        # probabilities [P, C] and weights [P, K, N], by their names in `Prediction`
        kept = {"probabilities": torch.zeros(len(encoded.pieces), len(self.labels), device=self.device)}

        def keep(batch: Batch, inferred: Inferred) -> None:
            p = inferred.logits.float().softmax(dim=-1)
            named = {"probabilities": p, "weights": inferred.after, "weights_before": inferred.before}
            for name, value in named.items():
                if value is not None:
                    if name not in kept:
                        kept[name] = value.new_zeros(len(encoded.pieces), *value.shape[2:])
                    encoded.scatter(kept[name], batch, value.expand(*batch.words.shape, *value.shape[2:]))

        first = None if skip_below else em
        uncertain: list[Tensor] = []
        for batch, inferred in self.run_batches(encoded, lambda batch: run(batch, first)):
            keep(batch, inferred)
            waits = torch.zeros(len(batch), dtype=torch.bool, device=self.device)
            if skip_below and em is not None and em.steps:
                waits = sentence_entropy(inferred.logits, batch) >= skip_below
                uncertain.append(batch.rows[waits])
            count(int((~waits).sum()))
        if uncertain:
            rows = torch.cat(uncertain)
            for batch, inferred in self.run_batches(encoded, lambda batch: run(batch, em), rows):
                keep(batch, inferred)
                count(len(batch))
        return self.decoded(encoded, kept)

    def run_batches(
        self, encoded: EncodedCorpus, run: Callable[[Batch], Any], rows: Tensor | None = None, *, copies: int = 1
    ) -> Iterator[tuple[Batch, Any]]:
        """Run all chunks of a corpus, or ``rows``, in batches. Batches get smaller when memory runs out.

        The run works on ``copies`` times the tokens of a batch.
        """
        limit = self.engine.max_tokens // copies
        advice = "cut long sentences, tag without EM (--no-em), or use a device with more memory (--device cpu)"
        for batch in encoded.batches(limit, **self.engine.shapes, rows=rows):
            length = batch.input_ids.shape[1]
            fits = max(1, min(len(batch), limit // length))
            done, fitted = halving(partial(_in_parts, batch, run), fits, "sentences", advice)
            limit = limit if fitted == fits else fitted * length
            yield from done

    def decoded(self, encoded: EncodedCorpus, kept: dict[str, Tensor]) -> list[Prediction]:
        """Decode the label probabilities of pieces [P, C], and cut all that was kept of pieces into sentences."""
        sizes, words = encoded.sentence_sizes, {name: encoded.by_word(value).numpy() for name, value in kept.items()}
        p = words["probabilities"]  # [words, C]
        tags = decoder(self.decode, self.labels)(p, sizes)
        words["probabilities"] = p[np.arange(len(p)), tags]
        names = [self.labels[tag] for tag in tags.tolist()]
        repair = to_iob2 if self.task == "ner" and self.decode == "words" else list
        ends = np.cumsum(sizes)
        places = [slice(start, stop) for start, stop in zip((ends - sizes).tolist(), ends.tolist(), strict=True)]
        return [Prediction(repair(names[at]), **{name: value[at] for name, value in words.items()}) for at in places]


def _in_parts(batch: Batch, run: Callable[[Batch], Any], size: int) -> list[tuple[Batch, Any]]:
    """Run a batch in parts of at most ``size`` sentences."""
    parts = [batch] if size >= len(batch) else [batch.select(slice(n, n + size)) for n in range(0, len(batch), size)]
    return [(part, run(part)) for part in parts]


def _languages(sentence: Sentence) -> list[str]:
    """The languages of a sentence: one, or that of each word."""
    own = [""] if sentence.word_languages is None else sentence.word_languages
    codes = [code or sentence.language or "" for code in own]
    if "" in codes:
        raise ZgulError("A sentence has no language. Name it with --lang, or in Python with Sentence(language=...).")
    return codes
