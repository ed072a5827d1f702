"""What a rule gives, read off the course of full EM, is what EM with this rule gives."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from small_tagger import MADE, small_tagger
from zgul.ensemble.em import EMConfig
from zgul.fast.adaptive import AdaptiveEM
from zgul.tagger import Tagger

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import adaptive_em
from adaptive_em import FULL, STEPS, Course

RATE = 100.0
NOTHING = replace(FULL, skip_below=1e9)
SENTENCES = [replace(sentence, language="target") for sentence in MADE.sentences("target", 12)]


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return replace(small_tagger(depth=3), em={"": EMConfig(steps=3, lr=RATE)})


@pytest.fixture(scope="module")
def course(tagger: Tagger) -> Course:
    return adaptive_em.follow(tagger, "group", "target", SENTENCES)


@pytest.mark.parametrize("own", [STEPS, 1])
@pytest.mark.parametrize(("reach", "steps"), [(2.0, 1), (1.0, 2), (1.5, 5), (1.0, 10)])
def test_a_rule_read_off_is_the_rule_run(tagger, course, reach, steps, own) -> None:
    skip = float(np.sort(course.entropy)[3:5].mean())
    rule = AdaptiveEM(steps, reach, skip)
    em = rule.cheaper(EMConfig(steps=own, lr=RATE))
    run = tagger.predict(SENTENCES, strategy="em", em=em, skip_below=skip)
    named = [course.labels[tag] for tag in course.by_rule(rule, own)]
    assert named == [tag for prediction in run for tag in prediction.tags]
    assert (course.steps(rule, own) == 0).sum() == 4


def test_what_it_costs_and_keeps(course) -> None:
    assert course.passes(FULL, STEPS) == 2 * STEPS + 1
    assert course.passes(NOTHING, STEPS) == 1
    always = replace(FULL, skip_below=1e-9)
    assert course.passes(always, STEPS) == 2 * STEPS + 2, "a pass to find the entropies, and all those of EM"
    same, changed = course.kept(FULL, STEPS)
    assert same == changed > 0 and course.kept(NOTHING, STEPS) == (0, changed)
    assert adaptive_em.losses([course], FULL, STEPS) == {"group": 0.0}
    assert adaptive_em.holds([course], FULL)


def test_the_cheapest_that_holds_is_chosen(course, monkeypatch) -> None:
    fewer = AdaptiveEM(5, 1.0, 0.0)
    monkeypatch.setattr(adaptive_em, "holds", lambda _, rule: rule != NOTHING)
    assert adaptive_em.choose([course], [FULL, fewer, NOTHING]) == fewer


def test_every_rule_can_be_read_off_a_course(course) -> None:
    assert AdaptiveEM() in adaptive_em.rules(), "what zgul uses is one of them"
    for rule in adaptive_em.rules():
        assert len(course.by_rule(rule, STEPS)) == len(course.by_rule(rule, 1)) == len(course.owner)
    assert adaptive_em.table([course], [FULL], STEPS).splitlines()[-1] == "| 10 | 1 | 0 | 21.00 | 100% | +0.00 |"
