"""The interface of all methods: which parts a method builds, which of them it trains, and how it infers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from zgul import languages as uriel
from zgul.adapters.bank import Bank
from zgul.adapters.language_adapter import LanguageAdapter, select_adapters
from zgul.encoders.encoder import Encoder
from zgul.ensemble.lang2vec import FORMS, STARTS
from zgul.ensemble.weighting import COMBINE, Weighting
from zgul.errors import ZgulError
from zgul.languages.relatedness import FeatureSet
from zgul.methods.model import INVERTIBLE, Model
from zgul.options import Options, option

TIED = ("em-tied", "emea")  # strategies whose EM moves the scores of all tokens of a layer together
RELEASE = "as in the authors' release"


@dataclass(frozen=True)
class MethodOptions(Options):
    """Choices inside a method. The defaults follow the paper."""

    reduction: float = option(3.0, "Reduction factor: width of the encoder / that of the task adapter.", least=0.25)
    dropout: float = option(0.1, "Dropout of encoder and head while training.", least=0, below=1)
    features: FeatureSet = option("syntax", f"URIEL features; all 289 {RELEASE}.", choices=get_args(FeatureSet))
    l_scores: str = option("bilinear", f"Form of lang2vec's scores; additive {RELEASE}, Germanic.", choices=FORMS)
    l_start: str = option("likeness", "Start of lang2vec: likeness of the languages, or random.", choices=STARTS)
    combine: str = option("linear", f"How fusion and lang2vec are joined; max {RELEASE}, Slavic.", choices=COMBINE)
    fusion_dropout: float = option(0.0, f"Dropout of fusion's scores; 0.1 {RELEASE}.", least=0, below=1)
    invertible: str = option("off", f"Invertible blocks; first {RELEASE}, mixed as in EMEA.", choices=INVERTIBLE)
    encoder_rank: int = option(0, "Above 0: train low-rank updates of this rank in the encoder.", least=0, most=512)
    train_encoder: bool = option(False, "Train the whole encoder.")
    cpg_rank: int = option(32, "CPG: size of the language vector.", least=1, most=128)
    cpg_bottleneck: int = option(128, "CPG: bottleneck of the generated adapter.", least=1, most=512)


@dataclass(frozen=True)
class Parts:
    """What a method builds a model from."""

    encoder: Encoder
    labels: Sequence[str]
    sources: Sequence[str]
    adapters: Sequence[LanguageAdapter] = ()
    options: MethodOptions = MethodOptions()
    features: Mapping[str, np.ndarray] = field(default_factory=dict)  # these replace URIEL's

    def bank(self) -> Bank:
        """The bank of the sources and of further languages that have an adapter, such as a target."""
        extra = [adapter for adapter in self.adapters if adapter.language not in self.sources]
        adapters = select_adapters(self.adapters, self.sources) + extra
        return Bank(adapters, width=self.encoder.width, depth=self.encoder.depth)

    def language_features(self, languages: Sequence[str]) -> Tensor:
        """Feature vectors [M, F] of languages."""
        kind = self.options.features
        rows = [self.features[code] if code in self.features else uriel.features(code, kind) for code in languages]
        if len(set(map(len, rows))) > 1:  # features of a file, and URIEL's for languages that the file leaves out
            raise ZgulError(f"The features of {', '.join(languages)} differ in number. Give those of all languages.")
        return torch.as_tensor(np.stack(rows), dtype=torch.float32)

    def most_related(self, language: str) -> str:
        """The source that reads a language best: itself, or the most related by URIEL or by given features."""
        if language in self.sources:
            return language
        if language in self.features:
            own, *others = self.language_features([language, *self.sources])
            return self.sources[int(F.cosine_similarity(own, torch.stack(others)).argmax())]
        return str(uriel.most_related(language, self.sources))

    def freeze_encoder(self) -> None:
        """Freeze the encoder, except what the options ask to train."""
        self.encoder.requires_grad_(self.options.train_encoder)
        if self.options.encoder_rank:
            self.encoder.add_low_rank(self.options.encoder_rank)

    def adapted(self, bank: Bank, weighting: Weighting) -> Model:
        """A model with a weighted bank and task adapters."""
        options = self.options
        return Model(
            self.encoder,
            len(self.labels),
            bank=bank,
            weighting=weighting,
            task_size=max(1, int(self.encoder.width // options.reduction)),
            invertible=options.invertible,
            dropout=options.dropout,
        )


@dataclass(frozen=True)
class Method:
    """One way to train. ``strategies`` are the ways to infer with the trained model; the first is the default."""

    name: str  # on the command line and in files
    title: str  # in the paper
    english_only: bool = False  # trained on English alone
    strategies: tuple[str, ...] = ("plain",)
    needs_bank: bool = True
    views: tuple[str, ...] = ()

    def build(self, parts: Parts) -> Model:
        """Build the untrained model. The parameters to be trained require gradients."""
        raise NotImplementedError

    def table(self, parts: Parts, languages: Sequence[str], strategy: str, bank: Sequence[str]) -> Tensor:
        """The language table [M, ·], which describes each language. ``bank`` names the languages of the bank."""
        return torch.zeros(len(languages), 0)

    def check_strategy(self, strategy: str) -> str:
        if strategy not in self.strategies:
            raise ZgulError(f"{self.title} has no strategy {strategy!r}. Choose one of: {', '.join(self.strategies)}.")
        return strategy

    def uses_em(self, strategy: str) -> bool:
        """Whether this strategy minimises entropy."""
        return strategy in ("em", *TIED)
