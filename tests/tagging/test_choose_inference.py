"""What a user's choices mean for a tagger."""

import warnings
from dataclasses import replace

import pytest

from small_tagger import small_tagger
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.fast.adaptive import AdaptiveEM
from zgul.tagger import Tagger
from zgul.tagging.loading import choose_inference
from zgul.tagging.text_tagger import Inference

OWN = EMConfig(steps=5, lr=2.0)


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return replace(small_tagger(), em={"fo": OWN, "": EMConfig(steps=0)})


def test_em_is_adaptive_unless_settings_are_given(tagger: Tagger) -> None:
    rule = AdaptiveEM()
    adaptive = Inference("em", rule.cheaper(OWN), rule.skip_below)
    assert choose_inference(tagger, "fo") == choose_inference(tagger, "fo", adaptive=True) == adaptive
    assert choose_inference(tagger, "fo", adaptive=False) == Inference("em", OWN)
    assert choose_inference(tagger, "fo", adaptive_default=False) == Inference("em", OWN)
    changed = replace(OWN, steps=7, start="probabilities")
    changes = {"steps": 7, "start": "probabilities"}
    assert choose_inference(tagger, "fo", changes=changes) == Inference("em", changed), "taken as they are given"
    cheaper = Inference("em", rule.cheaper(changed), rule.skip_below)
    assert choose_inference(tagger, "fo", changes=changes, adaptive=True) == cheaper


def test_em_can_be_switched_off_and_on(tagger: Tagger) -> None:
    off = choose_inference(tagger, "fo", em=False)
    assert off == Inference("em", replace(OWN, steps=0)) and not off.runs_em
    assert choose_inference(tagger, "fo", strategy="plain") == Inference("plain")
    plain = replace(tagger, strategy="plain")
    assert choose_inference(plain, "fo") == Inference("plain")
    assert choose_inference(plain, "fo", em=True, adaptive=False) == Inference("em", OWN)
    assert choose_inference(plain, "fo", changes={"steps": 1}).strategy == "em"
    assert choose_inference(tagger, "fo", strategy="em-tied", adaptive=False).em == replace(OWN, tied=True)


def test_contradictions_are_refused(tagger: Tagger) -> None:
    with pytest.raises(ZgulError, match="EM is switched off, so its settings have no meaning"):
        choose_inference(tagger, "fo", em=False, changes={"steps": 3})
    with pytest.raises(ZgulError, match="The strategy 'plain' of ZGUL has no EM"):
        choose_inference(tagger, "fo", strategy="plain", changes={"steps": 3})
    with pytest.raises(ZgulError, match="SFT-M has no EM"):
        choose_inference(small_tagger("sft-m"), "fo", em=True)
    with pytest.raises(ZgulError, match=r"ZGUL has no strategy 'uniform'\. Choose one of: em, plain, em-tied"):
        choose_inference(tagger, "fo", strategy="uniform")
    with pytest.raises(ZgulError, match="start is one of scores, probabilities"):
        choose_inference(tagger, "fo", changes={"start": "zero"})


def test_em_that_was_tuned_to_no_steps_is_warned_of(tagger: Tagger) -> None:
    for choice in ({"em": True}, {"adaptive": False}, {"changes": {"lr": 2.0}}):
        with pytest.warns(ZgulWarning, match=r"EM was tuned to no steps for German\. Give --em-steps"):
            choose_inference(tagger, "de", **choice)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for silent in ({}, {"em": False}, {"adaptive": True}, {"em": True, "changes": {"steps": 1}}):
            choose_inference(tagger, "de", **silent)  # type: ignore[arg-type]


def test_in_words() -> None:
    assert str(Inference("plain")) == str(Inference("em", EMConfig(steps=0))) == "no EM"
    assert str(Inference("em", EMConfig(1, 20.0), 0.3)) == (
        "EM: 1 step, rate 20, for sentences of at least 0.3 nats a word"
    )
    release = EMConfig(3, 0.5, start="probabilities", positions="all")
    assert str(Inference("em", release)) == ("EM: 3 steps, rate 0.5, from probabilities, over all positions")
