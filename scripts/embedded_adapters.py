"""Train the language adapters that ship with the package, on a GPU machine, and measure them.

    python scripts/embedded_adapters.py --data DIR --output DIR [--encoder embedded] [--variants mixed]

DIR/text holds LANG.KIND.txt[.xz]. Steps: one masked-LM head on all source text; one adapter shared by all sources;
then the source adapters, all in one batch. `zero` skips the shared start, `mixed` trains them partly in mixture.
Writes adapters-VARIANT.safetensors (8-bit) and adapters.json (masked accuracy and perplexity on held-out text).
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from zgul import encoders
from zgul.adapters.bank import Bank, LanguageAdapter
from zgul.adapters.mlm import MaskedLM, MLMConfig, MLMHead, masked_scores, pack, specialise, train_masked_lm
from zgul.adapters.storage import load_adapters, save_adapters
from zgul.corpora import DataFolder
from zgul.corpora.encode import PieceEncoder
from zgul.encoders import Encoder
from zgul.languages import SOURCES
from zgul.tensors import save_tensors, write_json

HELD_OUT = 40  # every 40th line is never trained on
MEASURED = 200  # blocks of 128 pieces that masked accuracy and perplexity are measured on
TARGET_WORDS = 40_000  # of each of a target's files, which are only measured on
VARIANTS = ("zero", "shared", "mixed")


def sampled(folder: Path, language: str, words: int) -> list[str]:
    """Lines taken evenly from each file of a language, about this many words of a file."""
    kept: list[str] = []
    for kind in sorted({path.name.split(".")[1] for path in (folder / "text").glob(f"{language}.*")}):
        lines = list(DataFolder(folder).text_lines(language, (kind,)))
        step = max(1.0, sum(line.count(" ") + 1 for line in lines) / words)
        kept += [line for index, line in enumerate(lines) if (index + 1) // step > index // step]
    return kept


def blocks_of(job: tuple[str, Path, str, bool, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Training and held-out blocks of one language; of a target everything is held out."""
    encoder, folder, language, source, words = job
    _, tokenizer = encoders.load(encoder)
    pieces = PieceEncoder(tokenizer, 512)
    lines = sampled(folder, language, words if source else TARGET_WORDS)
    if not source:
        return torch.zeros(0, 128, dtype=torch.int32), pack(pieces, lines)[:MEASURED]
    trained = [line for index, line in enumerate(lines) if index % HELD_OUT]
    return pack(pieces, trained), pack(pieces, lines[::HELD_OUT])[:MEASURED]


def all_blocks(jobs: list[tuple[str, Path, str, bool, int]], workers: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The blocks of every language, read by this many processes (0: this one)."""
    if workers == 0:
        return [blocks_of(job) for job in jobs]
    with ProcessPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return list(pool.map(blocks_of, jobs))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds text/")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--variants", nargs="+", default=["mixed"], choices=VARIANTS)
    parser.add_argument("--size", type=int, default=96, help="bottleneck")
    parser.add_argument("--blocks", type=int, default=24, help="blocks of each language in a step")
    parser.add_argument("--head-steps", type=int, default=700)
    parser.add_argument("--shared-steps", type=int, default=1200)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--sources", nargs="+", default=list(SOURCES))
    parser.add_argument("--words", type=int, default=900_000, help="at most so many words of each file")
    parser.add_argument("--workers", type=int, default=12, help="processes that read the text")
    told = parser.parse_args(arguments)
    told.output.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - started:6.1f} s] {text}", flush=True)

    languages = sorted({path.name.split(".")[0] for path in (told.data / "text").iterdir()})
    sources = told.sources
    targets = [language for language in languages if language not in sources]
    jobs = [(told.encoder, told.data, language, language in sources, told.words) for language in sources + targets]
    packed = dict(zip(sources + targets, all_blocks(jobs, told.workers), strict=True))
    say("blocks: " + ", ".join(f"{name} {len(train)}+{len(test)}" for name, (train, test) in packed.items()))

    model, tokenizer = encoders.load(told.encoder)
    encoder = Encoder(model).to(device)
    encoder.requires_grad_(False)
    encoder.set_dropout(0.0)
    pieces = PieceEncoder(tokenizer, 512)
    training = [packed[source][0] for source in sources]
    settings = {k: v for k, v in vars(told).items() if k not in ("data", "output", "encoder", "sources", "workers")}
    report: dict[str, object] = {"sources": sources, "arguments": settings, "vocabulary": len(tokenizer)}

    def config(steps: int, lr: float, blocks: int, mix: float = 0.0) -> MLMConfig:
        return MLMConfig(steps=steps, blocks=blocks, lr=lr, mix=mix)

    def show(entry: dict[str, object]) -> None:
        say(f"  step {entry['step']}/{entry['steps']} loss {entry['loss']:.3f} {entry['tokens']} tokens")

    def bank_of(adapters: list[LanguageAdapter]) -> Bank:
        bank = Bank(adapters, width=encoder.width, depth=encoder.depth).to(device)
        for parameter in (bank.down, bank.down_bias, bank.up, bank.up_bias):
            parameter.requires_grad_(True)
        return bank

    torch.manual_seed(0)
    head = MLMHead(encoder.width, model.get_input_embeddings().weight.shape[0]).to(device)
    say("head")
    train_masked_lm(
        MaskedLM(encoder, head, None, pieces), training, config(told.head_steps, 2e-3, told.blocks), report=show
    )
    head.requires_grad_(False)
    save_tensors(told.output / "head.safetensors", dict(head.state_dict()), bits=16)

    new = LanguageAdapter.new("shared", encoder.width, encoder.depth, size=told.size)
    shared = new
    if set(told.variants) - {"zero"}:
        say("shared adapter")
        bank = bank_of([new])
        smallest = min(4 * len(block) for block in training)
        mixture = torch.cat([block[torch.arange(min(smallest, 10**6)) % len(block)] for block in training])
        train_masked_lm(
            MaskedLM(encoder, head, bank, pieces),
            [mixture],
            config(told.shared_steps, told.lr, told.blocks * len(sources)),
            report=show,
        )
        shared = bank.extract("shared")

    results = {}
    for variant in told.variants:
        say(f"adapters: {variant}")
        bank = bank_of(specialise(new if variant == "zero" else shared, sources))
        train_masked_lm(
            MaskedLM(encoder, head, bank, pieces),
            training,
            config(told.steps, told.lr, told.blocks, 0.5 if variant == "mixed" else 0.0),
            report=show,
        )
        path = told.output / f"adapters-{variant}.safetensors"
        save_adapters(path, [bank.extract(source) for source in sources], bits=8)
        say(f"measuring: {variant}")
        results[variant] = measure(encoder, head, pieces, load_adapters(path), shared, packed, device)
        report["results"] = results
        write_json(told.output / "adapters.json", report)
    say("done")


@torch.no_grad()
def measure(encoder, head, pieces, adapters, shared, packed, device):  # type: ignore[no-untyped-def]
    """Masked accuracy and perplexity of every text under every adapter, none, the shared one and the even mixture."""
    table = {}
    banks = {a.language: Bank([a], width=encoder.width, depth=encoder.depth).to(device) for a in [*adapters, shared]}
    everything = Bank(adapters, width=encoder.width, depth=encoder.depth).to(device)
    for language, (_, held_out) in packed.items():
        row = {"none": masked_scores(MaskedLM(encoder, head, None, pieces), held_out)}
        for name, bank in banks.items():
            row[name] = masked_scores(MaskedLM(encoder, head, bank, pieces), held_out)
        row["uniform"] = masked_scores(UniformLM(encoder, head, everything, pieces), held_out)
        table[language] = row
    return table


class UniformLM(MaskedLM):
    """Every block read with the mean of all adapters."""

    def hidden(self, ids, order=None, share=None):  # type: ignore[no-untyped-def]
        hidden = self.encoder.embed(ids)
        for index in range(self.encoder.depth):
            x, f = self.encoder.layer(index, hidden, None)
            u = torch.stack(self.bank(index, self.encoder.norm(index, f + x)).outputs).mean(dim=0)
            hidden = self.encoder.norm(index, f + u + x)
        return hidden


if __name__ == "__main__":
    main()
