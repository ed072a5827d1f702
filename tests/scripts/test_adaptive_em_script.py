"""What a rule gives, read off the courses of full EM, is what EM with this rule gives."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from small_tagger import MADE, small_tagger
from zgul.ensemble.em import Adaptive, EMConfig, minimise_entropy
from zgul.methods.tagger import Tagger

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import adaptive_em
from adaptive_em import ALL, STEPS, Course

RATE = 2.0
FULL = Adaptive(0, STEPS, 1.0, 0.0, 0)


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    made = small_tagger(depth=3)
    made.em = {"": EMConfig(steps=3, lr=RATE)}
    return made


@pytest.fixture(scope="module")
def found(tagger: Tagger) -> Course:
    sentences = MADE.sentences("target", 12)
    return adaptive_em.course(tagger, "group", "target", sentences, [(ALL, 1), (ALL, 10), (1, 1), (1, 4), (2, 1)])


@pytest.mark.parametrize("own", [STEPS, 1])
@pytest.mark.parametrize(
    ("layers", "reach", "steps", "patience"), [(1, 2.0, 5, 1), (2, 1.0, 10, 2), (0, 2.0, 2, 0), (0, 1.0, 10, 1)]
)
def test_a_rule_read_off_is_the_rule_run(tagger, found, layers, reach, steps, patience, own) -> None:
    skip = float(np.sort(found.entropy)[3:5].mean())
    rule = Adaptive(layers, steps, reach, skip, patience)
    encoded = tagger.pieces.encode(MADE.sentences("target", 12), languages=tagger.prepare(["target"], "em"))
    taken = torch.zeros(12, dtype=torch.long)
    tags = torch.zeros(len(encoded.pieces), dtype=torch.long)
    for batch in encoded.batches(256):
        result = minimise_entropy(tagger.model, batch, rule.of(EMConfig(steps=own, lr=RATE)))
        taken[batch.rows] = result.steps
        encoded.scatter(tags, batch, result.logits.argmax(dim=-1))
    assert found.steps(rule, own).tolist() == taken.tolist()
    assert found.found(rule, own).tolist() == tags[encoded.first].tolist()
    assert (taken == 0).sum() == 4


def test_what_it_costs_and_keeps(found) -> None:
    assert found.passes(FULL, STEPS) == pytest.approx(1 + 2 * STEPS * (ALL - 1 + adaptive_em.END) / ALL)
    assert found.passes(replace(FULL, skip_below=1e9), STEPS) == 1
    same, changed = found.kept(FULL, STEPS)
    assert same == changed > 0 and found.kept(replace(FULL, skip_below=1e9), STEPS) == (0, changed)
    assert adaptive_em.losses([found], FULL, STEPS) == {"group": 0.0}
    assert adaptive_em.holds([found], FULL)


def test_the_cheapest_that_holds_is_chosen(found, monkeypatch) -> None:
    cheap, dear = replace(FULL, skip_below=1e9), replace(FULL, layers=2)
    monkeypatch.setattr(adaptive_em, "rules", lambda: [FULL, dear, cheap])
    monkeypatch.setattr(adaptive_em, "holds", lambda _, rule: rule != cheap)
    assert adaptive_em.choose([found]) == dear


def test_courses_are_kept(found, tmp_path) -> None:
    found.save(tmp_path / "some" / "course.npz")
    again = Course.load(tmp_path / "some" / "course.npz")
    assert again.gold == found.gold and again.labels == found.labels and set(again.tags) == set(found.tags)
    assert (again.found(FULL, STEPS) == found.found(FULL, STEPS)).all()


def test_rules_never_do_more_than_a_taggers_own_settings() -> None:
    rule = Adaptive(layers=2, steps=2, reach=1.5, skip_below=0.1, patience=1)
    for own in (0, 1, 2):
        settings = EMConfig(steps=own, lr=2.0)
        assert rule.of(settings) == replace(settings, layers=2, skip_below=0.1, patience=1)
    fewer = rule.of(EMConfig(steps=10, lr=2.0))
    assert (fewer.steps, fewer.lr) == (2, 15.0), "two steps that go as far as fifteen"
    own = EMConfig(steps=9, patience=2)
    assert rule.of(own) is own, "settings that are not exact themselves stay"
