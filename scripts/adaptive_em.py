"""Choose how `zgul tag` saves work in EM, on source dev sets made strange; then see what it costs on the targets.

    python scripts/adaptive_em.py [--data ../shared/data] [--sentences 40] [--courses runs/adaptive-em] [--targets]

EM is for languages that the encoder has not seen, and on a plain dev set of a source a tagger is certain. So the dev
sentences get character noise and regular letter changes (as in scripts/embedded_taggers.py). A shipped tagger reads
them with EM in its K upper layers at several multiples of its own rate, and the tags after every step are kept: what
any rule gives and costs follows from them. A rule says K, at most how many steps are taken and how far they
go (``Adaptive``). Chosen is the cheapest whose F1 is in no group more than 0.2 below that of full EM (all layers, 10
steps, the tagger's own rate), and neither where full EM is one step, as some languages are tuned. With --targets
the choice is also scored on the test files, which play no part in it.

A forward and a backward pass count alike, 1 is a pass through all layers. Files in --courses are kept; what one lacks
is added.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent))
from embedded_taggers import SHIFTS

from zgul import corpora
from zgul.corpora.encode import Batch
from zgul.corpora.sentence import Sentence
from zgul.ensemble.em import Adaptive, EMConfig, minimise_entropy
from zgul.errors import ZgulError
from zgul.evaluation import scores
from zgul.files import atomic_write
from zgul.languages import GROUPS
from zgul.methods.decode import decoder
from zgul.methods.tagger import Tagger, batch_tokens
from zgul.tagging import shipped
from zgul.tagging.tagger import ADAPTIVE
from zgul.training.data import SPLITS

ROOT = Path(__file__).resolve().parents[1]
STEPS = 10  # of full EM
OWN = (STEPS, 1)  # steps as taggers are tuned, for which a rule has to hold
ALL = 12  # layers
# times the tagger's own, by layers moved
RATES = {1: (1, 2, 4, 8, 16), 2: (1, 2, 4, 8), 3: (1, 2, 4, 8), 4: (1, 2, 4), 6: (1, 2), ALL: (1, 3, 5, 10, 20)}
FEWER = (1, 2, 3, 5, 10)  # steps
FEW = 3  # of which faster ones in all layers take no more: they are there to be cheap
SKIP = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
PATIENCE = (0, 1, 2, 3)
LOSS = 0.2  # of F1, against full EM
END = 0.25  # of a layer's work comes after its weights: all that moves with the scores of the lowest moving layer


@dataclass
class Course:
    """The sentences of one language on their way through EM, in every variant."""

    group: str
    language: str
    labels: list[str]
    gold: list[list[str]]
    entropy: NDArray[np.float32]  # [S] before the first step
    pieces: NDArray[np.int64]  # [S]
    tags: dict[tuple[int, int], NDArray[np.int16]]  # by layers and rate: [steps + 1, words]

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """The sentence of each word."""
        return np.repeat(np.arange(len(self.gold)), [len(row) for row in self.gold])

    def unchanged(self, variant: tuple[int, int]) -> NDArray[np.bool_]:
        """[steps, S]: whether a step left all tags of a sentence as they were."""
        moved = self.tags[variant][1:] != self.tags[variant][:-1]
        counts = np.stack([np.bincount(self.owner, row, minlength=len(self.gold)) for row in moved])
        return counts == 0

    def steps(self, rule: Adaptive, own: int) -> NDArray[np.int64]:
        """How many steps each sentence [S] takes by a rule where the tagger was tuned to ``own``."""
        most = min(own, rule.steps)
        taken = np.full(len(self.gold), most)
        if rule.patience:
            still, run = self.unchanged(_variant(rule, own)), np.zeros(len(self.gold), int)
            for step in range(1, most):
                run = np.where(still[step - 1], run + 1, 0)
                taken = np.where((run >= rule.patience) & (taken == most), step, taken)
        return np.where(self.entropy < rule.skip_below, 0, taken)

    def found(self, rule: Adaptive, own: int) -> NDArray[np.int16]:
        return self.tags[_variant(rule, own)][self.steps(rule, own)[self.owner], np.arange(len(self.owner))]

    def full(self, own: int) -> NDArray[np.int16]:
        return self.tags[ALL, 1][own]

    def f1(self, tags: NDArray[np.int16]) -> float:
        named = [self.labels[tag] for tag in tags]
        ends = np.cumsum([len(row) for row in self.gold]).tolist()
        return float(scores(self.gold, [named[a:b] for a, b in itertools.pairwise([0, *ends])]).f1)

    @cached_property
    def full_f1(self) -> dict[int, float]:
        return {own: self.f1(self.full(own)) for own in OWN}

    def kept(self, rule: Adaptive, own: int) -> tuple[int, int]:
        """Of the tags that full EM changes, how many the rule gives as well."""
        changed = self.full(own) != self.tags[ALL, 1][0]
        return int((self.found(rule, own) == self.full(own))[changed].sum()), int(changed.sum())

    def passes(self, rule: Adaptive, own: int) -> float:
        """Forward and backward passes a piece; 1 is a forward pass without EM."""
        share = ((rule.layers or ALL) - 1 + END) / ALL
        taken = self.steps(rule, own)
        stopped = (taken > 0) & (taken < min(own, rule.steps))  # such a one has had a forward for a step not taken
        return float(((1 + share * (2 * taken + stopped)) * self.pieces).sum() / self.pieces.sum())

    def save(self, path: Path) -> None:
        told = json.dumps({"group": self.group, "language": self.language, "labels": self.labels, "gold": self.gold})
        held = {f"tags {layers} {rate}": tags for (layers, rate), tags in self.tags.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, "wb") as file:
            np.savez_compressed(file, told=told, entropy=self.entropy, pieces=self.pieces, **held)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> Course:
        with np.load(path) as held:
            names = [name.split() for name in held.files if name.startswith("tags ")]
            tags = {(int(layers), int(rate)): held[f"tags {layers} {rate}"] for _, layers, rate in names}
            told = json.loads(str(held["told"]))
            return cls(**told, entropy=held["entropy"], pieces=held["pieces"], tags=tags)


def _variant(rule: Adaptive, own: int) -> tuple[int, int]:
    return rule.layers or ALL, round(rule.longer(own))


def _most(layers: int, rate: int) -> int:
    """How many steps a variant takes."""
    return FEW if layers == ALL and rate > 1 else STEPS


def course(
    tagger: Tagger, group: str, language: str, sentences: Sequence[Sentence], variants: Sequence[tuple[int, int]]
) -> Course:
    """EM in every variant, with the tags after every step."""
    encoded = tagger.pieces.encode(sentences, languages=tagger.prepare([language], "em")).to(tagger.device)
    if len(encoded) != len(sentences):
        raise ZgulError(f"{language}: a sentence is longer than the encoder reads; leave it out")
    own = tagger.em_for("", "em") or EMConfig()
    rate = own.lr if own.steps else EMConfig().lr  # some are tuned not to move at all
    entropy = torch.zeros(len(encoded), device=tagger.device)
    decode = decoder(tagger.decode, tagger.labels)
    words = {}
    for layers, multiple in variants:
        config = EMConfig(steps=_most(layers, multiple), lr=rate * multiple, layers=layers if layers < ALL else 0)
        found = torch.zeros(config.steps + 1, len(encoded.pieces), len(tagger.labels), device=tagger.device)
        for batch in encoded.batches(batch_tokens(tagger.device)):

            def keep(step: int, logits: Tensor, batch: Batch = batch, found: Tensor = found) -> None:
                encoded.scatter(found[step], batch, logits.float().softmax(dim=-1))

            result = minimise_entropy(tagger.model, batch, config, on_step=keep)
            entropy[batch.rows] = result.entropy[0].float()
        tags = [decode(encoded.by_word(step).numpy(), encoded.sentence_sizes) for step in found]
        words[layers, multiple] = np.stack(tags).astype(np.int16)
    gold = [sentence.tags or [] for sentence in sentences]
    return Course(group, language, tagger.labels, gold, entropy.cpu().numpy(), encoded.lengths.cpu().numpy() + 2, words)


def courses(
    told: argparse.Namespace, split: str, variants: Sequence[tuple[int, int]], console: Console
) -> list[Course]:
    """Source dev sets, made strange in two ways, or target test files as they are, of all groups."""
    found = []
    for group in GROUPS.values():
        tagger: Tagger | None = None
        for language in group.sources if split == "dev" else group.targets:
            for shift in ("noised", "shifted") if split == "dev" else ("",):
                name = "-".join(filter(None, (group.name, language, split, shift, str(told.sentences))))
                path = told.courses / f"{name}.npz"
                held = Course.load(path) if path.exists() else None
                if lacking := [each for each in variants if held is None or each not in held.tags]:
                    tagger = tagger or shipped.load(f"{group.name}-{group.task}").to(told.device)
                    kept = (SPLITS.get((group.name, language), "") if split == "dev" else "") + split
                    sentences = [s for s in corpora.load(told.data, group.task, language, kept) if s.tags]
                    sentences = [s for s in SHIFTS[shift](sentences) if 0 < len(s.words) < 100]
                    if told.sentences:
                        random.Random(0).shuffle(sentences)
                    chosen = sentences[: told.sentences or len(sentences)]
                    made = course(tagger, group.name, language, chosen, lacking)
                    if held is not None:
                        made.tags |= held.tags
                    made.save(path)
                    console.print(f"{name}: {len(chosen)} sentences")
                found.append(Course.load(path))
    return found


def losses(found: Sequence[Course], rule: Adaptive, own: int) -> dict[str, float]:
    """F1 of the rule less that of full EM, by group."""
    groups = dict.fromkeys(one.group for one in found)
    return {
        group: mean(one.f1(one.found(rule, own)) - one.full_f1[own] for one in found if one.group == group)
        for group in groups
    }


def passes(found: Sequence[Course], rule: Adaptive, own: int = STEPS) -> float:
    return mean(one.passes(rule, own) for one in found)


def kept(found: Sequence[Course], rule: Adaptive, own: int) -> float:
    pairs = [one.kept(rule, own) for one in found]
    return sum(pair[0] for pair in pairs) / max(1, sum(pair[1] for pair in pairs))


def holds(found: Sequence[Course], rule: Adaptive) -> bool:
    """Whether no group loses too much; asked group by group, because most rules fail in the first."""
    groups = dict.fromkeys(one.group for one in found)
    parts = [[one for one in found if one.group == group] for group in groups]
    return all(losses(part, rule, own)[part[0].group] >= -LOSS for own in OWN for part in parts)


def rules() -> list[Adaptive]:
    return [
        Adaptive(layers % ALL, steps, rate * steps / STEPS, skip, patience)
        for layers, rates in RATES.items()
        for rate, steps, skip, patience in itertools.product(rates, FEWER, SKIP, PATIENCE)
        if patience < steps <= _most(layers, rate) and (steps < STEPS or rate == 1)
    ]


def choose(found: Sequence[Course]) -> Adaptive:
    """The cheapest rule that holds."""
    return next(rule for rule in sorted(rules(), key=lambda rule: passes(found, rule)) if holds(found, rule))


HEADS = ["layers", "steps", "reach", "skip_below", "patience", "passes", "changes kept"]


def table(found: Sequence[Course], chosen: Sequence[Adaptive], own: int) -> str:
    """One row a rule."""
    heads = [*HEADS, *dict.fromkeys(one.group for one in found)]
    rows = []
    for rule in chosen:
        cells = [f"{value:g}" for value in (rule.layers or ALL, rule.steps, rule.reach, rule.skip_below, rule.patience)]
        cells += [f"{passes(found, rule, own):.2f}", f"{kept(found, rule, own):.0%}"]
        rows.append([*cells, *(f"{value:+.2f}" for value in losses(found, rule, own).values())])
    lines = [heads, ["---:"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--courses", type=Path, default=ROOT / "runs" / "adaptive-em", help="folder for what EM gave")
    parser.add_argument("--sentences", type=int, default=40, help="of each file; 0: all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--targets", action="store_true", help="also score the choice on the test files")
    told = parser.parse_args(arguments)
    console = Console(stderr=True, highlight=False)
    variants = [(layers, rate) for layers, rates in RATES.items() for rate in rates]
    found = courses(told, "dev", variants, console)
    best = choose(found)
    full = Adaptive(0, STEPS, 1.0, 0.0, 0)
    near = [replace(full, skip_below=skip) for skip in (0.05, 0.2)] + [replace(full, patience=2)]
    near += [replace(full, layers=layers) for layers in RATES if layers < ALL]
    near += [Adaptive(0, steps, rate * steps / STEPS, 0.0, 0) for steps in (1, 2, 3) for rate in RATES[ALL][2:]]
    near += [replace(best, skip_below=skip) for skip in SKIP[1:]]
    words = sum(len(one.owner) for one in found)
    for own in OWN:
        changed = sum(one.kept(best, own)[1] for one in found)
        print(f"Source dev sets made strange, full EM of T = {own} changes {changed:,} of {words:,} tags:\n")
        print(table(found, [full, *near, best], own) + "\n")
    print(f"Chosen: {best}" + ("" if best == ADAPTIVE else f"; zgul.tagging.tagger.ADAPTIVE is {ADAPTIVE}"))
    if told.targets:
        tested = courses(told, "test", list({(ALL, 1), *(_variant(best, own) for own in OWN)}), console)
        for own in OWN:
            print(f"\nTest files of the targets, not used for the choice, T = {own}:\n")
            print(table(tested, [full, best], own))
        print()
        for one in tested:
            f1 = [one.f1(tags) for tags in (one.full(0), one.full(STEPS), one.found(best, STEPS))]
            told_f1 = "no EM {:5.1f}  full EM {:5.1f}  adaptive {:5.1f}".format(*f1)
            print(f"{one.language:4} {told_f1}  {one.passes(best, STEPS):.2f} passes")


if __name__ == "__main__":
    try:
        main()
    except ZgulError as error:
        sys.exit(f"Error: {error}")
