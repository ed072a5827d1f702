"""What the rows measure: sizes by machine, shipped taggers on any encoder, random models of mBERT's shape, batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.harness import Machine, NotMeasured
from zgul import corpora
from zgul.adapters.bank import LanguageAdapter
from zgul.corpora.encode import Batch
from zgul.corpora.sentence import Sentence
from zgul.encoders.encoder import Encoder
from zgul.errors import ZgulError
from zgul.methods import MethodOptions, Parts, method
from zgul.methods.tagger import Tagger


@dataclass(frozen=True)
class Sizes:
    """How much is measured; small enough for ten minutes on two cores, or what fills a GPU."""

    rounds: int
    tokens: int  # of a batch when tagging
    reference_sentences: int  # that the slow reference tags
    em_sentences: int  # that EM tags, 0: the whole file
    forward: tuple[int, int]  # sentences and pieces of the batch for rows on one forward pass
    bert: dict[str, int]
    adaptive_sentences: int  # of each test file, 0: all
    train_batches: int
    train_rows: int  # sentences of a training batch
    stream_seconds: float  # at most, unless --full
    mlm: tuple[int, int, int]  # languages, blocks of each, steps
    memory: tuple[int, int]  # sentences and pieces of the batch for activation memory


MBERT = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
CPU = Sizes(
    rounds=5,
    tokens=1024,
    reference_sentences=4,
    em_sentences=120,
    forward=(16, 32),
    bert=MBERT,
    adaptive_sentences=6,
    train_batches=2,
    train_rows=32,
    stream_seconds=60.0,
    mlm=(2, 2, 2),
    memory=(16, 32),
)
GPU = Sizes(
    rounds=7,
    tokens=65536,
    reference_sentences=40,
    em_sentences=0,
    forward=(128, 64),
    bert=MBERT,
    adaptive_sentences=0,
    train_batches=60,
    train_rows=128,
    stream_seconds=60.0,
    mlm=(11, 16, 60),
    memory=(256, 64),
)
VOCABULARY = 10_000  # of the random encoder: its table is only looked up


@dataclass
class Context:
    """A run of the benchmarks."""

    device: torch.device
    machine: Machine
    sizes: Sizes
    encoder: str = "embedded"
    data: Path | None = None
    full: bool = False
    taggers: dict[str, Tagger] = field(default_factory=dict)

    def tagger(self, name: str) -> Tagger:
        """A shipped tagger, on the encoder that was named; loaded once."""
        if name not in self.taggers:
            self.taggers[name] = load_tagger(name, self.encoder).to(self.device)
        return self.taggers[name]

    def sentences(self, task: str, language: str, split: str = "test", limit: int = 0) -> list[Sentence]:
        """Labelled sentences; with a limit a fixed random choice of them."""
        if self.data is None:
            raise NotMeasured("needs the labelled data: --data DIR")
        try:
            found = corpora.load(self.data, task, language, split)
        except ZgulError as error:
            raise NotMeasured(str(error)) from error
        return choose(found, limit)


def choose(sentences: list[Sentence], limit: int) -> list[Sentence]:
    """The same random sentences every time; fewer are always the first of more."""
    order = np.random.default_rng(0).permutation(len(sentences))[: limit or len(sentences)]
    return [sentences[index] for index in order]


def load_encoder(name: str) -> tuple[Any, Any]:
    """A new copy of the encoder and its tokenizer."""
    from zgul import encoders

    try:
        return encoders.load(name)
    except (ZgulError, ImportError) as error:
        raise NotMeasured(f"the encoder {name} is not here ({error}); name one with --encoder") from error


def load_tagger(name: str, encoder: str) -> Tagger:
    from zgul.tagging import shipped

    if name not in shipped.names():
        raise NotMeasured(f"the shipped tagger {name} is not here")
    if encoder == "embedded":
        try:
            return shipped.load(name)
        except (ZgulError, ImportError) as error:
            raise NotMeasured(f"the embedded encoder is not here ({error}); name one with --encoder") from error
    return Tagger.from_pretrained(shipped.folder() / name, encoder=load_encoder(encoder))


@dataclass
class RandomModel:
    """ZGUL with random weights on an encoder with random weights, before and after folding."""

    tagger: Tagger  # folded
    adapters: list[LanguageAdapter]
    weighting: Any  # as trained: W_q, W_k, W_v, C
    task: nn.ModuleList


@lru_cache(maxsize=8)
def random_bert(**shape: int) -> Any:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(vocab_size=VOCABULARY, **shape)
    return BertModel(config, add_pooling_layer=False).eval().requires_grad_(False)


def random_model(shape: dict[str, int], count: int) -> RandomModel:
    """N adapters of half the width; the combination takes the fusion's half alone.

    So the result is that of AdapterFusion and can be compared with it, while nothing is left out of the work.
    """
    encoder = Encoder(random_bert(**shape).to("cpu", torch.float32))  # another row may have moved it
    torch.manual_seed(1)
    languages = [f"language{n}" for n in range(count)]
    adapters = [LanguageAdapter.new(language, encoder.width, encoder.depth) for language in languages]
    for adapter in adapters:
        for layer in adapter.layers:
            _randomise(layer, 0.02)
    features = {language: np.random.default_rng(n).integers(0, 2, 103) for n, language in enumerate(languages)}
    parts = Parts(encoder, [f"L{n}" for n in range(17)], languages, adapters, MethodOptions(dropout=0.0), features)
    specials = SimpleNamespace(cls_token_id=1, sep_token_id=2, pad_token_id=0, unk_token_id=3)
    tagger = Tagger(method("zgul"), parts, specials, "pos", "random")
    weighting: Any = tagger.model.weighting
    task = tagger.model.task
    _randomise(task, 0.02)
    with torch.no_grad():
        for fusion, value, combine in zip(weighting.fusion, weighting.value, weighting.combine, strict=True):
            _randomise(fusion, 0.05)
            value.weight += 0.02 * torch.randn_like(value.weight)
            combine.weight.copy_(torch.eye(encoder.width, 2 * encoder.width))
    tagger.model.head = nn.Identity()  # type: ignore[assignment]  # hidden states are compared
    tagger.fold().model.eval()
    return RandomModel(tagger, adapters, weighting, task)


@torch.no_grad()
def _randomise(module: nn.Module, std: float) -> None:
    for weight in module.parameters():
        weight.normal_(std=std)


def random_batch(rows: int, length: int, device: torch.device, vocabulary: int = VOCABULARY) -> Batch:
    """Full sentences of random pieces, every one a word."""
    ids = torch.randint(5, vocabulary, (rows, length), generator=torch.Generator().manual_seed(0))
    true = torch.ones(rows, length, dtype=torch.bool)
    zero = torch.zeros(rows, length, dtype=torch.long)
    return Batch(ids, true, true, zero, zero, zero[:, 0], torch.arange(rows)).to(device)


def training_batches(corpus: Any, count: int, rows: int, device: torch.device, step: int = 16) -> list[Batch]:
    """Batches of similar length in random order, as the training loop makes them; few shapes occur."""
    rng = np.random.default_rng(0)
    lengths = corpus.lengths.numpy() + 2
    order = rng.permutation(len(lengths))[: count * rows]
    order = order[np.argsort(lengths[order], kind="stable")]
    held = corpus.to(device)
    batches = []
    for index in rng.permutation(len(order) // rows):
        chosen: Tensor = torch.from_numpy(order[index * rows : (index + 1) * rows].copy())
        longest = int(-(-int(lengths[chosen].max()) // step) * step)
        batches.append(held.batch(chosen.to(device), longest))
    if not batches:
        raise NotMeasured(f"fewer than {rows} training sentences")
    return batches
