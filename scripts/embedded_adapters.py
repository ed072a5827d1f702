"""Train the language adapters that ship with the package, on a GPU machine, and measure them.

    python scripts/embedded_adapters.py --data DIR --output DIR [--encoder embedded] [--variants mixed]

DIR/text holds LANG.KIND.txt[.xz]. The script trains one masked-LM head on all source text, then one adapter shared by
all sources, then the adapters of the sources, all in one batch. The variant `zero` skips the shared start. `mixed`
reads some blocks with a mixture of two adapters. The script writes adapters-VARIANT.safetensors (8 bits a number) and
adapters.json (masked accuracy and perplexity on held-out text).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from zgul import encoders
from zgul.adapters.bank import AdapterOutputs, Bank
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import load_adapters, save_adapters
from zgul.corpora.data_folder import TEXT_KINDS, DataFolder
from zgul.devices import find_device
from zgul.encoders.batches import PieceEncoder
from zgul.files import write_json
from zgul.languages import SOURCES
from zgul.progress import Status
from zgul.tensors import save_tensors
from zgul.training.masked_lm import MaskedLM, MLMConfig, MLMHead, masked_scores, pack_text, train_masked_lm

HELD_OUT = 40  # every 40th line is never trained on
MEASURED = 200  # blocks that masked accuracy and perplexity are measured on
TARGET_WORDS = 40_000  # of each of a target's files, which are only used to measure
VARIANTS = ("zero", "shared", "mixed")
HEAD_LR = 2e-3
MIXED = 0.5  # share of the blocks that are read with two adapters
PART = (0.3, 1.0)  # of a block's own adapter in such a mixture
RISE = 0.1  # points of held-out masked accuracy, mean over the sources, that another round must bring


@dataclass(frozen=True)
class Settings:
    """How the adapters are made."""

    variants: tuple[str, ...] = ("mixed",)
    size: int = 96  # bottleneck
    invertible: bool = False  # MAD-X's invertible block after the embeddings
    kinds: tuple[str, ...] = TEXT_KINDS  # of text
    rounds: int = 1  # of `steps` for each variant, at most: as long as held-out masked accuracy rises
    blocks: int = 24  # of each language in a step
    head_steps: int = 700
    shared_steps: int = 1200
    steps: int = 3000
    lr: float = 1e-3
    words: int = 900_000  # at most, of each file


def sampled(folder: Path, language: str, words: int, kinds: Sequence[str] = TEXT_KINDS) -> list[str]:
    """Lines taken evenly from each file of a language, about this many words of a file."""
    kept: list[str] = []
    for kind in sorted({path.name.split(".")[1] for path in (folder / "text").glob(f"{language}.*")} & {*kinds}):
        lines = list(DataFolder(folder).text_lines(language, (kind,)))
        step = max(1.0, sum(line.count(" ") + 1 for line in lines) / words)
        kept += [line for index, line in enumerate(lines) if (index + 1) // step > index // step]
    return kept


def read_blocks(
    language: str, encoder: str, folder: Path, words: int, kinds: Sequence[str] = TEXT_KINDS
) -> tuple[Tensor, Tensor]:
    """Training and held-out blocks of one language. Of a target, everything is held out."""
    body, tokenizer = encoders.load(encoder)
    pieces = PieceEncoder(tokenizer, body.max_pieces)
    if language in SOURCES:
        lines = sampled(folder, language, words, kinds)
    else:
        lines = sampled(folder, language, TARGET_WORDS)
        return pack_text(pieces, []), pack_text(pieces, lines)[:MEASURED]
    trained = [line for index, line in enumerate(lines) if index % HELD_OUT]
    return pack_text(pieces, trained), pack_text(pieces, lines[::HELD_OUT])[:MEASURED]


def all_blocks(
    languages: Sequence[str], encoder: str, folder: Path, settings: Settings, workers: int
) -> dict[str, tuple[Tensor, Tensor]]:
    """The blocks of every language, read by this many processes (0: this one)."""
    read = partial(read_blocks, encoder=encoder, folder=folder, words=settings.words, kinds=settings.kinds)
    if workers == 0:
        return {language: read(language) for language in languages}
    with ProcessPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return dict(zip(languages, pool.map(read, languages), strict=True))


class AdapterMaker:
    """Trains head, shared adapter and the adapters of the sources on one frozen encoder."""

    def __init__(self, encoder: str, blocks: dict[str, tuple[Tensor, Tensor]], settings: Settings) -> None:
        self.blocks, self.settings, self.started = blocks, settings, time.monotonic()
        self.accuracies: dict[str, list[float]] = {}  # after each round, by variant
        self.device = find_device("auto")
        body, tokenizer = encoders.load(encoder)
        self.encoder, self.pieces = body.to(self.device), PieceEncoder(tokenizer, body.max_pieces)
        self.training = [blocks[source][0] for source in SOURCES]
        torch.manual_seed(0)
        self.head = MLMHead(body.width, body.config.vocabulary).to(self.device)
        self.train("head", None, self.training, settings.head_steps, HEAD_LR)
        self.head.requires_grad_(False)
        form: dict[str, Any] = {"size": settings.size, "invertible": settings.invertible}
        self.new = LanguageAdapter.new("shared", body.width, body.depth, **form)
        self.shared = self.train_shared() if set(settings.variants) - {"zero"} else self.new

    def bank(self, adapters: Sequence[LanguageAdapter]) -> Bank:
        return Bank(adapters, width=self.encoder.width, depth=self.encoder.depth).to(self.device)

    def train(
        self, stage: str, bank: Bank | None, texts: list[Tensor], steps: int, lr: float, kind: type[MaskedLM] = MaskedLM
    ) -> None:
        blocks = self.settings.blocks * (len(SOURCES) // len(texts))
        config = MLMConfig(steps=steps, blocks=blocks, lr=lr)
        model = kind(self.encoder, self.head, bank, self.pieces)
        train_masked_lm(model, texts, config, stage=stage, report=self.report)

    def report(self, status: Status) -> None:
        seconds, figures = time.monotonic() - self.started, f"{status.figures.get('loss', 0):.3f}"
        print(f"[{seconds:6.1f} s] {status.stage} {status.done}/{status.total} loss {figures}", flush=True)

    def train_shared(self) -> LanguageAdapter:
        """Train one adapter on the text of all sources, with equal shares of each."""
        bank = self.bank([self.new]).requires_grad_(True)
        smallest = min(4 * len(block) for block in self.training)
        mixture = torch.cat([block[torch.arange(smallest) % len(block)] for block in self.training])
        self.train("shared adapter", bank, [mixture], self.settings.shared_steps, self.settings.lr)
        return bank.extract("shared")

    def train_variant(self, variant: str) -> list[LanguageAdapter]:
        start = self.new if variant == "zero" else self.shared
        bank = self.bank([replace(start, language=source) for source in SOURCES]).requires_grad_(True)
        kind = MixedLM if variant == "mixed" else MaskedLM
        best: list[LanguageAdapter] = []
        self.accuracies[variant] = []
        for _ in range(self.settings.rounds):
            self.train(f"adapters, {variant}", bank, self.training, self.settings.steps, self.settings.lr, kind)
            adapters, rises = [bank.extract(source) for source in SOURCES], [-1.0, *self.accuracies[variant]]
            if self.settings.rounds > 1:
                self.accuracies[variant].append(self.accuracy(adapters))
                if self.accuracies[variant][-1] < rises[-1] + RISE:
                    return best if self.accuracies[variant][-1] < rises[-1] else adapters
            best = adapters
        return best

    @torch.no_grad()
    def accuracy(self, adapters: Sequence[LanguageAdapter]) -> float:
        """Mean masked accuracy of the sources, each read with its own adapter."""
        models = {one.language: MaskedLM(self.encoder, self.head, self.bank([one]), self.pieces) for one in adapters}
        return mean(masked_scores(model, self.blocks[source][1])[0] for source, model in models.items())

    @torch.no_grad()
    def measure(self, adapters: Sequence[LanguageAdapter]) -> dict[str, dict[str, tuple[float, float]]]:
        """Masked accuracy and perplexity of every text under every adapter, none, the shared one and the mixture."""
        banks = {"none": None} | {adapter.language: self.bank([adapter]) for adapter in [*adapters, self.shared]}
        models = {name: MaskedLM(self.encoder, self.head, bank, self.pieces) for name, bank in banks.items()}
        if not self.settings.invertible:  # whose blocks are not averaged
            models["uniform"] = UniformLM(self.encoder, self.head, self.bank(adapters), self.pieces)
        return {
            language: {name: masked_scores(model, held_out) for name, model in models.items()}
            for language, (_, held_out) in self.blocks.items()
        }


class MixedLM(MaskedLM):
    """Half of the blocks are read with another adapter mixed in, so that a weighted sum of adapters means something."""

    order: Tensor  # [N]: adapter n is mixed into the blocks of language order[n]
    share: Tensor  # [N B]: how much of its own adapter each block gets

    def guess(self, shown: Tensor, places: Tensor) -> Tensor:
        assert self.bank is not None
        self.order = torch.rand(len(self.bank), device=shown.device).argsort()
        part = torch.empty(len(shown), device=shown.device).uniform_(*PART)
        self.share = torch.where(torch.rand_like(part) < MIXED, part, 1.0)
        return super().guess(shown, places)

    def adapt(self, bank: Bank, layer: int, h: Tensor) -> Tensor:
        own = super().adapt(bank, layer, h)
        given = h.unflatten(0, (len(bank), -1))[self.order].flatten(0, 1)
        other = super().adapt(bank, layer, given).unflatten(0, (len(bank), -1))[self.order.argsort()].flatten(0, 1)
        return torch.lerp(other, own, self.share[:, None, None].to(own.dtype))


class UniformLM(MaskedLM):
    """Every block is read with the mean of all adapters."""

    def adapt(self, bank: Bank, layer: int, h: Tensor) -> Tensor:
        outputs: AdapterOutputs = bank(layer, h)
        return outputs.mix(h.new_full((1, 1, len(bank)), 1 / len(bank)))


def make_adapters(data: Path, output: Path, encoder: str, settings: Settings, workers: int = 12) -> None:
    """Train, save and measure the adapters of every variant."""
    output.mkdir(parents=True, exist_ok=True)
    languages = sorted({path.name.split(".")[0] for path in (data / "text").iterdir()})
    targets = [language for language in languages if language not in SOURCES]
    blocks = all_blocks([*SOURCES, *targets], encoder, data, settings, workers)
    maker = AdapterMaker(encoder, blocks, settings)
    save_tensors(output / "head.safetensors", dict(maker.head.state_dict()), bits=16)
    report: dict[str, Any] = {"sources": list(SOURCES), "arguments": vars(settings), "results": {}}
    for variant in settings.variants:
        path = output / f"adapters-{variant}.safetensors"
        save_adapters(path, maker.train_variant(variant), bits=8)
        report["results"][variant] = maker.measure(load_adapters(path))
        report["rounds"] = maker.accuracies
        write_json(output / "adapters.json", report)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds text/")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--variants", nargs="+", default=["mixed"], choices=VARIANTS)
    parser.add_argument("--workers", type=int, default=12, help="processes that read the text")
    given = parser.parse_args(arguments)
    make_adapters(given.data, given.output, given.encoder, Settings(tuple(given.variants)), given.workers)


if __name__ == "__main__":
    main()
