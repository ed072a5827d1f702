"""Choose the rule of adaptive EM on dev sets of the sources that were made strange; then measure it on the targets.

    python scripts/adaptive_em.py [--data ../shared/data] [--sentences 40] [--targets]

EM is for languages that the encoder has not seen. On the plain dev set of a source, a tagger is certain. So the dev
sentences are made strange (strange_text.py). A shipped tagger reads them with EM at several multiples of its own rate,
and the tags after every step are kept. They show the tags and the cost of every rule (`zgul.fast.adaptive.AdaptiveEM`).
The script takes the cheapest rule that loses at most 0.2 F1 in every group, both against full EM (10 steps at the
tagger's own rate) and against one step, to which some languages are tuned. With --targets the rule is also scored on
the test files, which play no part in the choice.

A forward pass and a backward pass cost 1 each, so tagging without EM costs 1.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent))
from scores import DATA, markdown
from strange_text import FORMS

from zgul.corpora.data_folder import DataFolder, source_split
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import Batch
from zgul.ensemble.em import EMConfig, sentence_entropy
from zgul.errors import ZgulError
from zgul.evaluation import scores
from zgul.fast.adaptive import AdaptiveEM
from zgul.languages import GROUPS
from zgul.tagger import Tagger
from zgul.tagger.decoding import decoder
from zgul.tagging.loading import load

STEPS = 10  # of full EM
OWN = (STEPS, 1)  # steps to which taggers are tuned, for which a rule has to hold
RATES = (1, 3, 5, 10, 20)  # times the tagger's own
FEWER = (1, 2, 3, 5, 10)  # steps
SKIP = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)  # nats a word
LOSS = 0.2  # of F1, against full EM
FULL = AdaptiveEM(STEPS, 1.0, 0.0)
HEADS = ["steps", "reach", "skip_below", "passes", "changes kept"]


@dataclass
class Course:
    """The sentences of one language on their way through EM, at every rate."""

    group: str
    language: str
    labels: list[str]
    gold: list[list[str]]
    entropy: NDArray[np.float32]  # [S] before the first step
    pieces: NDArray[np.int64]  # [S]
    tags: dict[int, NDArray[np.int64]]  # by rate: [steps + 1, words]

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """The sentence of each word."""
        return np.repeat(np.arange(len(self.gold)), [len(row) for row in self.gold])

    def steps(self, rule: AdaptiveEM, own: int) -> NDArray[np.int64]:
        """How many steps each sentence [S] takes by a rule where the tagger was tuned to ``own``."""
        return np.where(self.entropy < rule.skip_below, 0, min(own, rule.steps))

    def by_rule(self, rule: AdaptiveEM, own: int) -> NDArray[np.int64]:
        """The tags that a rule gives."""
        rate = round(rule.cheaper(EMConfig(steps=own, lr=1.0)).lr)
        return self.tags[rate][self.steps(rule, own)[self.owner], np.arange(len(self.owner))]

    def full(self, own: int) -> NDArray[np.int64]:
        return self.tags[1][own]

    def f1(self, tags: NDArray[np.int64]) -> float:
        named = [self.labels[tag] for tag in tags]
        ends = np.cumsum([len(row) for row in self.gold]).tolist()
        return float(scores(self.gold, [named[a:b] for a, b in itertools.pairwise([0, *ends])]).f1)

    @cached_property
    def full_f1(self) -> dict[int, float]:
        return {own: self.f1(self.full(own)) for own in OWN}

    def kept(self, rule: AdaptiveEM, own: int) -> tuple[int, int]:
        """Of the tags that full EM changes, how many the rule gives as well."""
        changed = self.full(own) != self.full(0)
        return int((self.by_rule(rule, own) == self.full(own))[changed].sum()), int(changed.sum())

    def passes(self, rule: AdaptiveEM, own: int) -> float:
        """Passes a piece. With ``skip_below``, a pass without EM comes before those of EM."""
        taken = self.steps(rule, own)
        passes = (rule.skip_below > 0) + np.where((taken > 0) | (rule.skip_below == 0), 2 * taken + 1, 0)
        return float((passes * self.pieces).sum() / self.pieces.sum())


def follow(tagger: Tagger, group: str, language: str, sentences: Sequence[Sentence]) -> Course:
    """Run EM at every rate and keep the tags after every step."""
    encoded = tagger.pieces.encode(sentences, languages=tagger.language_table([language], "em")).to(tagger.device)
    if len(encoded) != len(sentences):
        raise ZgulError(f"{language}: a sentence is longer than the encoder reads. Leave it out.")
    own = tagger.em_for("", "em") or EMConfig()
    rate = own.lr if own.steps else EMConfig().lr  # some taggers are tuned to no steps
    entropy = torch.zeros(len(encoded), device=tagger.device)
    size = len(encoded.pieces), len(tagger.labels)
    kept = {(r, t): torch.zeros(size, device=tagger.device) for r in RATES for t in range(STEPS + 1)}

    def run(batch: Batch) -> None:
        def keep(t: int, logits: Tensor) -> None:  # [rates, B, T, C]
            if t == 0:
                entropy[batch.rows] = sentence_entropy(logits[0], batch)
            for multiple, each in zip(RATES, logits, strict=True):
                encoded.scatter(kept[multiple, t], batch, each.float().softmax(dim=-1))

        tagger.engine.grid(batch, EMConfig(steps=STEPS), [rate * multiple for multiple in RATES], keep)

    for _ in tagger.run_batches(encoded, run, copies=len(RATES)):
        pass
    decode = decoder(tagger.decode, tagger.labels)
    tags = {key: decode(encoded.by_word(value).numpy(), encoded.sentence_sizes) for key, value in kept.items()}
    by_rate = {multiple: np.stack([tags[multiple, t] for t in range(STEPS + 1)]) for multiple in RATES}
    gold = [sentence.tags or [] for sentence in sentences]
    pieces = encoded.lengths.cpu().numpy() + 2
    return Course(group, language, tagger.labels, gold, entropy.cpu().numpy(), pieces, by_rate)


def follow_all(data: Path, count: int, device: str, *, targets: bool = False) -> list[Course]:
    """Source dev sets, made strange in two ways, or target test files as they are, of all groups."""
    courses = []
    for group in GROUPS.values():
        name = f"{group.name}-{group.task}"
        for language in group.targets if targets else group.sources:
            tagger = load(language, group.task, model=name, device=device, precision="float32").taggers[group.task]
            split = "test" if targets else source_split(group.name, language, "dev")
            sentences = DataFolder(data).sentences(group.task, language, split)
            for form in ("",) if targets else ("noised", "shifted"):
                changed = [sentence for sentence in FORMS[form](sentences) if 0 < len(sentence.words) < 100]
                random.Random(0).shuffle(changed)
                chosen = changed[: count or len(changed)]
                print(f"{group.name}, {language} {form}: {len(chosen)} sentences", file=sys.stderr)
                courses.append(follow(tagger, group.name, language, chosen))
    return courses


def losses(courses: Sequence[Course], rule: AdaptiveEM, own: int) -> dict[str, float]:
    """F1 of the rule less that of full EM, by group."""
    groups: dict[str, list[float]] = {}
    for course in courses:
        groups.setdefault(course.group, []).append(course.f1(course.by_rule(rule, own)) - course.full_f1[own])
    return {group: mean(values) for group, values in groups.items()}


def passes(courses: Sequence[Course], rule: AdaptiveEM, own: int = STEPS) -> float:
    return mean(course.passes(rule, own) for course in courses)


def holds(courses: Sequence[Course], rule: AdaptiveEM) -> bool:
    """Whether no group loses too much."""
    return all(loss >= -LOSS for own in OWN for loss in losses(courses, rule, own).values())


def rules() -> list[AdaptiveEM]:
    """All rules that are tried."""
    return [
        AdaptiveEM(steps, rate * steps / STEPS, skip)
        for rate, steps, skip in itertools.product(RATES, FEWER, SKIP)
        if steps < STEPS or rate == 1
    ]


def choose(courses: Sequence[Course], candidates: Sequence[AdaptiveEM]) -> AdaptiveEM:
    """The cheapest rule that holds."""
    order = sorted(candidates, key=lambda rule: passes(courses, rule))
    return next(rule for rule in order if holds(courses, rule))


def table(courses: Sequence[Course], shown: Sequence[AdaptiveEM], own: int) -> str:
    """One row for each rule."""
    rows = []
    for rule in shown:
        pairs = [course.kept(rule, own) for course in courses]
        share = sum(same for same, _ in pairs) / max(1, sum(changed for _, changed in pairs))
        cells = [*(f"{value:g}" for value in (rule.steps, rule.reach, rule.skip_below))]
        cells += [f"{passes(courses, rule, own):.2f}", f"{share:.0%}"]
        rows.append([*cells, *(f"{loss:+.2f}" for loss in losses(courses, rule, own).values())])
    return markdown([*HEADS, *dict.fromkeys(course.group for course in courses)], rows, words=0)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sentences", type=int, default=40, help="of each file; 0: all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--targets", action="store_true", help="also score the choice on the test files")
    given = parser.parse_args(arguments)
    courses = follow_all(given.data, given.sentences, given.device)
    best = choose(courses, rules())
    near = [rule for rule in rules() if (rule.steps, rule.reach) == (best.steps, best.reach)]
    near += [rule for rule in rules() if rule.steps <= 2 and rule.skip_below == best.skip_below]
    for own in OWN:
        print(f"Source dev sets made strange, T = {own}:\n\n{table(courses, [FULL, *near, best], own)}")
    print(f"Chosen: {best}" + ("" if best == AdaptiveEM() else f"; zgul uses {AdaptiveEM()}"))
    if given.targets:
        tested = follow_all(given.data, given.sentences, given.device, targets=True)
        for own in OWN:
            print(f"\nTest files of the targets, not used for the choice, T = {own}:\n")
            print(table(tested, [FULL, best], own))


if __name__ == "__main__":
    try:
        main()
    except ZgulError as error:
        sys.exit(f"Error: {error}")
