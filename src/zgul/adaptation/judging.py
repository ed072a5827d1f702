"""Judge a step of adapting: by held-out text without labels, by folds of labelled sentences, and by F1.

What held-out text can tell is little: whether the student tags a word as before when its letters change, which a better
reader does more often, and whether it still mostly agrees with its teacher. That guards against a step that went wrong.
It is no proof of a gain; only labels are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zgul.adaptation.rounds import Lesson
from zgul.adaptation.student import Student, one_hot
from zgul.corpora.sentence import Sentence, to_iob2
from zgul.evaluation import scores
from zgul.tagger import Tagger
from zgul.tagging.loading import choose_inference
from zgul.training.config import NoiseConfig
from zgul.training.noise import CharacterNoise, letter_counts

NOISE = NoiseConfig(sentences=1.0, words=0.3)
MOST_CHANGED = 0.35  # share of the tags: a student that differs more from its teacher has lost its way
SLACK = 1.0  # points of steadiness that chance may take
ENOUGH = 1000  # words with noise that show steadiness; a smaller held-out text is read several times
SHOWN, BESIDE = 20, 4  # changed words that are shown, with this many words before and after
FOLDS, FEW = 3, 150  # up to so many sentences are judged in folds; more are judged by one part that is left out


@dataclass(frozen=True)
class Change:
    """A word whose tag changed."""

    before: str  # the words before it
    word: str
    after: str
    old: str  # its tags
    new: str


@dataclass(frozen=True)
class Checked:
    """The judgement of a step by held-out text."""

    kept: bool
    reason: str
    figures: dict[str, float]


def check_held_out(teacher: Student, student: Student, sentences: Sequence[Sentence], seed: int) -> Checked:
    """Compare how steady both are under spelling noise, and how far the student moved."""
    noise, times = CharacterNoise(letter_counts(sentences), NOISE), -(-ENOUGH // max(1, sum(map(len, sentences))))
    many = times * list(sentences)  # else a single word would decide on a small text
    noisy = noise.apply([sentence.words for sentence in many], np.random.default_rng([seed, 9]))
    clean = {who: who.probabilities(sentences).argmax(dim=-1) for who in (teacher, student)}
    shaken = {who: who.probabilities(many, noisy).argmax(dim=-1) for who in clean}
    steady = {who: 100 * _same(clean[who].repeat(times), shaken[who]) for who in clean}
    changed = 1 - _same(clean[teacher], clean[student])
    figures = {"steady before": steady[teacher], "steady after": steady[student], "changed": 100 * changed}
    if changed > MOST_CHANGED:
        return Checked(False, f"it changes {changed:.0%} of all tags, which is too much to believe", figures)
    if steady[student] < steady[teacher] - SLACK:
        return Checked(False, "changed letters confuse it more than before", figures)
    return Checked(True, "nothing in the held-out text speaks against it", figures)


def _same(first: Tensor, second: Tensor) -> float:
    return float((first == second).float().mean()) if len(first) else 1.0


def cross_validate(
    current: Tagger, student: Student, few: list[Sentence], learn: Callable[..., None], settings: dict[str, Any]
) -> dict[str, float]:
    """F1 on labelled sentences that were left out of training. ``learn`` trains the student.

    It is that of the current tagger as it tags ("before"), of the student before it learns them, and after.
    """
    folds = FOLDS if len(few) <= FEW else 1
    size = -(-len(few) // FOLDS) if folds > 1 else min(200, len(few) // 5)
    order = np.random.default_rng([settings["seed"], 13]).permutation(len(few)).tolist()
    start = student.trained()
    gold, old, untaught, new = (list[list[str]]() for _ in range(4))
    for fold in range(folds):
        left = order[fold * size : (fold + 1) * size]
        judged, kept = [few[index] for index in left], [few[index] for index in order if index not in left]
        student.restore(start)
        gold += [sentence.tags or [] for sentence in judged]
        old += tags_of(current, judged)
        untaught += tags_of(student, judged)
        learn(Lesson(f"fold {fold + 1}", kept, one_hot(kept, current.labels), **settings), 1 / (folds - fold + 1))
        new += tags_of(student, judged)
    by = {"F1 before": old, "F1 without labels": untaught, "F1 after": new}
    return {name: scores(gold, tags).f1 for name, tags in by.items()} | {"judged on": float(len(gold))}


def tags_of(tagger: Tagger | Student, sentences: Sequence[Sentence]) -> list[list[str]]:
    """The tags of sentences: a tagger's as `zgul tag` gives them, a student's without EM."""
    if isinstance(tagger, Tagger):
        inference = choose_inference(tagger, next((one.language or "" for one in sentences), ""))
        return [prediction.tags for prediction in tagger.predict(sentences, **vars(inference))]
    sizes = [len(sentence) for sentence in sentences]
    best = torch.split(tagger.probabilities(sentences).argmax(dim=-1), sizes)
    named = [[tagger.tagger.labels[label] for label in row.tolist()] for row in best]
    return [to_iob2(row) for row in named] if tagger.tagger.task == "ner" else named


def score(tagger: Tagger | Student, sentences: Sequence[Sentence]) -> float:
    """F1 on labelled sentences."""
    return scores([sentence.tags or [] for sentence in sentences], tags_of(tagger, sentences)).f1


def changed_words(sentences: Sequence[Sentence], old: Tagger, new: Tagger) -> tuple[float, list[Change]]:
    """The share of words whose tag changed, in percent, and some of them, of different words and kinds of change."""
    changes: dict[tuple[str, str, str], Change] = {}
    count = total = 0
    for sentence, before, after in zip(sentences, tags_of(old, sentences), tags_of(new, sentences), strict=True):
        total += len(sentence)
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            if one != other:
                count += 1
                words = sentence.words
                left, right = " ".join(words[max(0, at - BESIDE) : at]), " ".join(words[at + 1 : at + 1 + BESIDE])
                changes.setdefault((words[at].lower(), one, other), Change(left, words[at], right, one, other))
    chosen = list(changes.values())
    step = max(1, len(chosen) // SHOWN)
    return 100 * count / max(total, 1), chosen[::step][:SHOWN]
