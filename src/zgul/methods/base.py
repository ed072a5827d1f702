"""What a method is: what it builds, what of it is trained, and how it infers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from zgul.adapters.bank import Bank, LanguageAdapter, subset
from zgul.encoders.encoder import Encoder
from zgul.ensemble.lang2vec import FORMS
from zgul.errors import ZgulError
from zgul.languages.uriel import FeatureSet
from zgul.methods.model import INVERTIBLE, Model

COMBINE = ("linear", "max")
FEATURES = get_args(FeatureSet)


@dataclass(frozen=True)
class MethodOptions:
    """Choices inside a method. The defaults follow the paper; what only the authors' release does is named so."""

    reduction: float = 3.0  # bottleneck of the task adapter: width / reduction
    dropout: float = 0.1  # encoder and head, while training
    features: FeatureSet = "syntax"  # URIEL features of a language: "syntax" (103) or "all" (289, the release)
    l_scores: str = "bilinear"  # or "additive" (the release's Germanic model)
    combine: str = "linear"  # or "max" (the release's Slavic model)
    invertible: str = "off"  # invertible blocks: "off", "first" (adapters, the release) or "mixed" (EMEA)
    encoder_rank: int = 0  # above 0: the encoder is trained a little, by differences of this rank
    train_encoder: bool = False  # train all of the encoder
    cpg_rank: int = 32  # CPG: size of the language vector
    cpg_bottleneck: int = 128  # CPG: bottleneck of the generated adapter

    def __post_init__(self) -> None:
        for name, allowed in (
            ("features", FEATURES),
            ("l_scores", FORMS),
            ("combine", COMBINE),
            ("invertible", INVERTIBLE),
        ):
            if getattr(self, name) not in allowed:
                raise ZgulError(f"{name} is one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        for name, fine, range_ in (
            ("reduction", 0 < self.reduction < float("inf"), "above 0"),
            ("dropout", 0 <= self.dropout < 1, "at least 0 and below 1"),
            ("encoder_rank", self.encoder_rank >= 0, "at least 0"),
            ("cpg_rank", self.cpg_rank >= 1, "at least 1"),
            ("cpg_bottleneck", self.cpg_bottleneck >= 1, "at least 1"),
        ):
            if not fine:
                raise ZgulError(f"options.{name} must be {range_}, not {getattr(self, name)}")


@dataclass(frozen=True)
class Method:
    """One way to train; ``strategies`` are the ways to infer with what was trained, the first is the default."""

    name: str  # on the command line and in files
    title: str  # in the paper
    english_only: bool = False  # trained on English alone
    strategies: tuple[str, ...] = ("plain",)
    needs_bank: bool = True
    views: tuple[str, ...] = ()

    def build(self, parts: Parts) -> Model:
        """The untrained model; what is to be trained asks for gradients."""
        raise NotImplementedError

    def prepare(self, model: Model, strategy: str, languages: Sequence[str], parts: Parts) -> dict[str, int]:
        """Make the model ready to read these languages; gives each language's row in the model's table."""
        return {language: row for row, language in enumerate(languages)}

    def check_strategy(self, strategy: str) -> str:
        if strategy not in self.strategies:
            raise ZgulError(f"{self.title} infers by {' or '.join(self.strategies)}, not {strategy!r}")
        return strategy

    def uses_em(self, strategy: str) -> bool:
        """Whether this way of inferring minimises entropy."""
        return strategy in ("em", "em-tied", "emea")


@dataclass
class Parts:
    """What a method builds a model from."""

    encoder: Encoder
    labels: list[str]
    sources: list[str]
    adapters: list[LanguageAdapter] = field(default_factory=list)
    options: MethodOptions = field(default_factory=MethodOptions)
    features: dict[str, np.ndarray] = field(default_factory=dict)  # given ones win over URIEL's

    def bank(self) -> Bank:
        """The bank of the sources, and of further languages that have an adapter (a target's, say)."""
        extra = [adapter for adapter in self.adapters if adapter.language not in self.sources]
        adapters = subset(self.adapters, self.sources) + extra
        bank = Bank(adapters, width=self.encoder.width, depth=self.encoder.depth)
        return bank.to(next(self.encoder.parameters()).device)

    def language_features(self, language: str) -> Tensor:
        """A language's feature vector [F]."""
        if language in self.features:
            return torch.as_tensor(self.features[language], dtype=torch.float32)
        from zgul import languages

        return torch.as_tensor(languages.features(language, self.options.features), dtype=torch.float32)

    def most_related(self, language: str) -> str:
        """The source that reads a language best: itself, or its nearest relative.

        By URIEL, unless features were given: then by the cosine of those.
        """
        if language in self.sources:
            return language
        if language in self.features:
            own = self.language_features(language)
            alike = [F.cosine_similarity(own, self.language_features(source), dim=0) for source in self.sources]
            return self.sources[int(torch.stack(alike).argmax())]
        from zgul import languages

        return str(languages.most_related(language, self.sources))

    def task_size(self) -> int:
        return max(1, int(self.encoder.width // self.options.reduction))

    def train_whole_encoder(self) -> None:
        """Fine-tuning: every weight of it."""
        self.encoder.set_dropout(self.options.dropout)
        self.encoder.requires_grad_(True)

    def freeze_encoder(self) -> None:
        """Frozen, but for what the options ask to train."""
        self.encoder.set_dropout(self.options.dropout)
        self.encoder.requires_grad_(self.options.train_encoder)
        if self.options.encoder_rank:
            self.encoder.add_low_rank(self.options.encoder_rank)
