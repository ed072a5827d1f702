"""What adaptive EM costs and keeps: choose ``skip_below`` and ``patience`` on source dev sets, check on the targets.

    python scripts/adaptive_em.py [--data ../shared/data] [--sentences 200] [--steps 10] [--device cuda] [--targets]

A shipped tagger reads dev sentences of its sources with full EM, and the tags after every step are kept: what any
stopping rule gives, and how many passes it takes, follows from them. Chosen is the cheapest rule that keeps nine tenths
of the tags that EM changes and whose F1 is in no group more than 0.2 below that of full EM. With --targets the chosen
rule is also scored on the test files, which play no part in the choice. A forward and a backward pass count alike.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import torch
from rich.console import Console
from torch import Tensor

from zgul import corpora
from zgul.corpora.sentence import Sentence
from zgul.ensemble.em import EMConfig, minimise_entropy
from zgul.errors import ZgulError
from zgul.evaluation import scores
from zgul.languages import GROUPS
from zgul.methods.tagger import Tagger
from zgul.tagging import shipped
from zgul.training.data import SPLITS

ROOT = Path(__file__).resolve().parents[1]
SKIP = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
PATIENCE = (0, 1, 2, 3, 5)
LOSS = 0.2  # of F1, against full EM
KEPT = 0.9  # of the tags that EM changes


@dataclass
class Course:
    """The sentences of one language on their way through full EM."""

    group: str
    language: str
    gold: list[list[str]]
    tags: list[list[list[str]]]  # after each step, of each sentence
    entropy: list[float]  # of each sentence before the first step
    pieces: list[int]

    def steps(self, rule: EMConfig) -> list[int]:
        """How many steps each sentence takes."""
        return [self._steps(row, rule) for row in range(len(self.gold))]

    def _steps(self, row: int, rule: EMConfig) -> int:
        if self.entropy[row] < rule.skip_below:
            return 0
        unchanged = 0
        for step in range(1, rule.steps):
            unchanged = unchanged + 1 if self.tags[step][row] == self.tags[step - 1][row] else 0
            if rule.patience and unchanged >= rule.patience:
                return step
        return rule.steps

    def found(self, rule: EMConfig) -> list[list[str]]:
        return [self.tags[step][row] for row, step in enumerate(self.steps(rule))]

    def f1(self, rule: EMConfig) -> float:
        return float(scores(self.gold, self.found(rule)).f1)

    def kept(self, rule: EMConfig) -> tuple[int, int]:
        """Of the tags that full EM changes, how many the rule gives as well."""
        rows = zip(self.tags[0], self.tags[rule.steps], self.found(rule), strict=True)
        changed = [(after, got) for row in rows for before, after, got in zip(*row, strict=True) if before != after]
        return sum(after == got for after, got in changed), len(changed)

    def passes(self, rule: EMConfig) -> float:
        """Forward and backward passes a piece: 1 is a forward without EM; a stop has one pass that was not needed."""
        taken = [1 + 2 * steps + (0 < steps < rule.steps) for steps in self.steps(rule)]
        return sum(n * size for n, size in zip(taken, self.pieces, strict=True)) / sum(self.pieces)


def course(tagger: Tagger, group: str, language: str, sentences: Sequence[Sentence], config: EMConfig) -> Course:
    """Full EM, with the tags after every step."""
    encoded = tagger.pieces.encode(sentences, languages=tagger.prepare([language], "em")).to(tagger.device)
    if len(encoded) != len(sentences):
        raise ZgulError(f"{language}: a sentence is longer than the encoder reads; leave it out")
    tags = torch.zeros(config.steps + 1, len(encoded.pieces), dtype=torch.int16, device=tagger.device)
    entropy = torch.zeros(len(encoded), device=tagger.device)
    for batch in encoded.batches(1024 if tagger.device.type == "cpu" else 16384):

        def keep(step: int, logits: Tensor, batch: corpora.encode.Batch = batch) -> None:
            encoded.scatter(tags[step], batch, logits.argmax(dim=-1))

        result = minimise_entropy(tagger.model, batch, config, on_step=keep)
        real = batch.rows >= 0
        entropy[batch.rows[real]] = result.entropy[0][real].float()
    named = [[[tagger.labels[int(tag)] for tag in row] for row in encoded.by_sentence(step)] for step in tags]
    gold = [sentence.tags or [] for sentence in sentences]
    return Course(group, language, gold, named, entropy.tolist(), encoded.lengths.tolist())


def courses(data: Path, count: int, steps: int, device: str, split: str, console: Console) -> list[Course]:
    """Source dev sets or target test files of all groups."""
    found = []
    for group in GROUPS.values():
        tagger = shipped.load(f"{group.name}-{group.task}").to(device)
        rate = next((em.lr for em in tagger.em.values() if em.steps), EMConfig().lr)
        for language in tagger.parts.sources if split == "dev" else group.targets:
            name = (SPLITS.get((group.name, language), "") if split == "dev" else "") + split
            sentences = [s for s in corpora.load(data, group.task, language, name) if 0 < len(s.words) < 100 and s.tags]
            if count:
                random.Random(0).shuffle(sentences)
                sentences = sentences[:count]
            found.append(course(tagger, group.name, language, sentences, EMConfig(steps=steps, lr=rate)))
            console.print(f"{group.name} {language}: {len(sentences)} sentences, T = {steps}, rate {rate:g}")
    return found


def losses(found: Sequence[Course], rule: EMConfig) -> dict[str, float]:
    """F1 of the rule less that of full EM, by group."""
    full = replace(rule, skip_below=0.0, patience=0)
    groups = dict.fromkeys(one.group for one in found)
    return {g: mean(one.f1(rule) - one.f1(full) for one in found if one.group == g) for g in groups}


def kept(found: Sequence[Course], rule: EMConfig) -> float:
    pairs = [one.kept(rule) for one in found]
    return sum(pair[0] for pair in pairs) / max(1, sum(pair[1] for pair in pairs))


def passes(found: Sequence[Course], rule: EMConfig) -> float:
    return mean(one.passes(rule) for one in found)


def line(found: Sequence[Course], rule: EMConfig) -> str:
    told = [f"{value:+.2f}" for value in losses(found, rule).values()]
    cells = [
        f"{rule.skip_below:g}",
        str(rule.patience),
        f"{passes(found, rule):.1f}",
        f"{kept(found, rule):.0%}",
        *told,
    ]
    return "| " + " | ".join(cells) + " |"


def table(found: Sequence[Course], rules: Sequence[EMConfig]) -> str:
    """One row a rule."""
    heads = ["skip_below", "patience", "passes", "changes kept", *dict.fromkeys(one.group for one in found)]
    rows = ["| " + " | ".join(heads) + " |", "|" + " ---: |" * len(heads), *(line(found, rule) for rule in rules)]
    return "\n".join(rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sentences", type=int, default=200, help="of each file; 0: all")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--targets", action="store_true", help="also score the choice on the test files")
    told = parser.parse_args(arguments)
    console = Console(stderr=True, highlight=False)
    found = courses(told.data, told.sentences, told.steps, told.device, "dev", console)
    rules = [EMConfig(steps=told.steps, skip_below=skip, patience=p) for skip in SKIP for p in PATIENCE]
    changed = sum(one.kept(rules[0])[1] for one in found)
    words = sum(len(row) for one in found for row in one.gold)
    print(
        f"Source dev sets: full EM changes {changed} of {words:,} tags. F1 against full EM:\n\n{table(found, rules)}\n"
    )
    good = [rule for rule in rules if kept(found, rule) >= KEPT and min(losses(found, rule).values()) >= -LOSS]
    best = min(good, key=lambda rule: (passes(found, rule), rule.skip_below))
    print(f"Chosen: skip_below {best.skip_below:g}, patience {best.patience}; {passes(found, best):.1f} passes")
    if told.targets:
        tested = courses(told.data, told.sentences, told.steps, told.device, "test", console)
        print(f"\nTest files of the targets, not used for the choice:\n\n{table(tested, [rules[0], best])}\n")
        for one in tested:
            full, ours = one.f1(rules[0]), one.f1(best)
            none = one.f1(replace(best, skip_below=float("inf")))
            found_f1 = f"no EM {none:5.1f}  full EM {full:5.1f}  adaptive {ours:5.1f}"
            print(f"{one.language:4} {found_f1}  {one.passes(best):.1f} passes")


if __name__ == "__main__":
    try:
        main()
    except ZgulError as error:
        sys.exit(f"Error: {error}")
