"""Inputs of the rows: sizes for each kind of machine, shipped taggers, random models of mBERT's shape, batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.harness import NotMeasured
from zgul import encoders
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.corpora.data_folder import DataFolder
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import Batch, EncodedCorpus
from zgul.encoders.encoder import Encoder, EncoderConfig
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.errors import ZgulError
from zgul.fast.packing import Packing
from zgul.files import shipped_folder
from zgul.methods import MethodOptions
from zgul.tagger import Tagger, load_tagger

VOCABULARY = 10_000  # of random encoders; the size does not matter, because rows of the table are only looked up
MBERT = EncoderConfig(vocabulary=VOCABULARY, width=768, depth=12, heads=12, inner=3072, positions=512, types=2)


@dataclass(frozen=True)
class Sizes:
    """How much is measured. The defaults are for a quarter of an hour on two cores."""

    rounds: int = 5
    reference_sentences: int = 4  # that the slow reference tags
    em_sentences: int = 120  # that EM tags; 0: the whole file
    forward: tuple[int, int] = (16, 32)  # sentences and pieces of the batch for rows on one forward pass
    adaptive_sentences: int = 6  # of each test file; 0: all
    training: tuple[int, int] = (2, 32)  # batches, and sentences in each
    stream_seconds: float = 60.0  # at most, without --full
    mlm: tuple[int, int, int] = (2, 2, 2)  # languages, blocks of each, steps
    tricks: tuple[int, int] = (60, 16)  # sentences for the shipped tagger, and at mBERT's width; 0: all
    bert: EncoderConfig = MBERT


CPU = Sizes()
GPU = Sizes(
    rounds=7,
    reference_sentences=40,
    em_sentences=0,
    forward=(128, 64),
    adaptive_sentences=0,
    training=(60, 128),
    mlm=(11, 16, 60),
    tricks=(0, 0),
)


@dataclass
class Context:
    """A run of the benchmarks."""

    device: torch.device
    sizes: Sizes
    encoder: str = "embedded"
    data: Path | None = None
    full: bool = False

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    def tagger(self, name: str) -> Tagger:
        """A shipped tagger on the chosen encoder."""
        return load_shipped(name, self.encoder, str(self.device))

    def sentences(self, task: str, language: str, split: str = "test", limit: int = 0) -> list[Sentence]:
        """Labelled sentences, or a fixed random choice of them."""
        if self.data is None:
            raise NotMeasured("needs the labelled data: --data DIR")
        try:
            return choose(DataFolder(self.data).sentences(task, language, split), 0 if self.full else limit)
        except ZgulError as error:
            raise NotMeasured(str(error)) from error


def choose(sentences: list[Sentence], limit: int) -> list[Sentence]:
    """Random sentences, the same every time. A smaller choice is the beginning of a larger one."""
    order = np.random.default_rng(0).permutation(len(sentences))[: limit or len(sentences)]
    return [sentences[index] for index in order]


def load_encoder(name: str) -> tuple[Encoder, PieceTokenizer]:
    """A new copy of an encoder."""
    try:
        return encoders.load(name)
    except (ZgulError, ImportError) as error:
        raise NotMeasured(f"the encoder {name} is not here ({error}); name one with --encoder") from error


@cache
def load_shipped(name: str, encoder: str, device: str = "cpu") -> Tagger:
    """A shipped tagger on an encoder, loaded once."""
    if not (shipped_folder() / name / "config.json").is_file():
        raise NotMeasured(f"the shipped tagger {name} is not here")
    return load_tagger(shipped_folder() / name, encoder=load_encoder(encoder), device=device)


def encode(tagger: Tagger, sentences: Sequence[Sentence]) -> EncodedCorpus:
    """Sentences as the tagger reads them, on its device."""
    codes = list(dict.fromkeys(str(sentence.language) for sentence in sentences))
    return tagger.pieces.encode(sentences, languages=tagger.language_table(codes)).to(tagger.device)


def encode_packed(encoder: Encoder, batch: Batch) -> torch.Tensor:
    """The plain encoder without padding, as the engine runs it."""
    packing = Packing(batch.mask)
    hidden, attend = packing.pack(encoder.embed(batch.input_ids)), packing.attention()
    for index in range(encoder.depth):
        x, f = encoder.layer(index, hidden, attend)
        hidden = encoder.output(index, f + x)
    return hidden


# --- random models


def random_tagger(config: EncoderConfig, count: int) -> Tagger:
    """ZGUL with random weights and ``count`` adapters of half the width. It gives hidden states instead of scores.

    C takes only fusion's half, so that the result is that of AdapterFusion. The amount of work stays the same.
    """
    torch.manual_seed(0)
    encoder = Encoder(config).requires_grad_(False).eval()
    for name, weight in encoder.named_parameters():  # as BERT starts
        if weight.dim() > 1:
            weight.normal_(std=0.02)
        elif not name.endswith("norm.weight"):
            weight.zero_()
    languages = [f"language{n}" for n in range(count)]
    adapters = [LanguageAdapter.new(language, config.width, config.depth) for language in languages]
    _randomise(nn.ModuleList(layer for adapter in adapters for layer in adapter.layers), 0.02)
    features = {code: np.random.default_rng(n).random(103, np.float32) for n, code in enumerate(languages)}
    tagger = Tagger.new(
        "zgul",
        encoder=(encoder, PieceTokenizer(None, begin=1, end=2, pad=0, unknown=3, mask=4)),
        task="pos",
        labels=[str(n) for n in range(config.width)],
        sources=languages,
        adapters=adapters,
        options=MethodOptions(dropout=0.0),
        features=features,
    )
    model = tagger.model.eval()
    weighting: Any = model.weighting
    _randomise(model.task, 0.02)
    _randomise(weighting.fusion, 0.05)
    with torch.no_grad():
        for value, combine in zip(weighting.value, weighting.combine, strict=True):
            value.weight += 0.02 * torch.randn_like(value.weight)
            combine.weight.copy_(torch.eye(config.width, 2 * config.width))
        model.head.weight.copy_(torch.eye(config.width))
    return tagger


@torch.no_grad()
def _randomise(module: nn.Module, std: float) -> None:
    for weight in module.parameters():
        weight.normal_(std=std)


def random_batch(rows: int, length: int, tagger: Tagger) -> Batch:
    """Full sentences of random pieces, each of them a word, for a random tagger."""
    ids = torch.randint(5, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(0))
    true, zero = torch.ones(rows, length, dtype=torch.bool), torch.zeros(rows, length, dtype=torch.long)
    table = tagger.language_table(["language0"]).values
    tensors = (ids, true, true, zero, zero, zero[:, 0], torch.arange(rows), table)
    return Batch(*(tensor.to(tagger.device) for tensor in tensors))


def with_random_pieces(encoded: EncodedCorpus, tagger: Tagger) -> EncodedCorpus:
    """A corpus of the same lengths for a random tagger."""
    table = tagger.language_table(["language0"]).values.to(encoded.table.device)
    return replace(encoded, pieces=encoded.pieces % (VOCABULARY - 5) + 5, languages=encoded.languages * 0, table=table)
