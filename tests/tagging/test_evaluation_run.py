"""Scoring a tagger from Python."""

import json
import warnings
from collections import Counter
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

import pytest

import zgul
from standin import words
from zgul.corpora.sentence import Sentence
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.evaluation import scores
from zgul.progress import Status
from zgul.tagging.evaluation_run import evaluate
from zgul.tagging.text_tagger import Inference, TextTagger


@pytest.fixture
def tagger(taggers: Path) -> TextTagger:
    return zgul.load("fo", "pos", precision="float32")


def sentences(count: int = 20) -> list[Sentence]:
    return [replace(sentence, language="fo") for sentence in words().sentences("s0", count, 3)]


def test_scores_are_those_of_the_predictions(tagger: TextTagger) -> None:
    test = sentences()
    inference = Inference("em", EMConfig(2, 3.0))
    result = evaluate(replace(tagger, inference={"pos": inference}), test)
    gold = [sentence.tags or [] for sentence in test]
    predicted = [prediction.tags for prediction in tagger.taggers["pos"].predict(test, em=EMConfig(2, 3.0))]
    assert result.scores == scores(gold, predicted)
    assert (result.model, result.method, result.task, result.language) == ("germanic-pos", "zgul", "pos", "fo")
    assert result.inference is inference and result.seconds > 0

    flat = list(zip([w for s in test for w in s.words], chain(*gold), chain(*predicted), strict=True))
    wrong = [entry for entry in flat if entry[1] != entry[2]]
    pairs = Counter((right, mistaken) for _, right, mistaken in wrong)
    assert {(c.gold, c.predicted): c.words for c in result.confusions}.items() <= pairs.items()
    assert [c.words for c in result.confusions] == sorted(pairs.values(), reverse=True)[:10]
    by_word = Counter(word for word, _, _ in wrong)
    assert [w.wrong for w in result.worst_words] == sorted(by_word.values(), reverse=True)[:10]
    for entry in result.worst_words:
        assert entry.wrong == by_word[entry.word] and entry.total == sum(word == entry.word for word, _, _ in flat)
        assert (entry.word, entry.gold, entry.predicted) in wrong


def test_plain_data(tagger: TextTagger) -> None:
    result = evaluate(tagger, sentences(4))
    data = json.loads(json.dumps(result.to_dict()))
    assert {name: data[name] for name in asdict(result.scores)} == json.loads(json.dumps(asdict(result.scores)))
    assert data["strategy"] == "em" and data["em"]["steps"] == 1 and data["skip_below"] == 0.3
    assert data["computed_in"] == "float32" and data["decode"] == "words"


def test_a_tagger_is_scored_as_it_was_loaded(tagger: TextTagger) -> None:
    result = evaluate(zgul.load("fo", "pos", em_steps=3), sentences(6))
    assert result.inference.em == EMConfig(3, 1.0)
    with pytest.raises(ZgulError, match="Only one task can be scored at a time"):
        evaluate(zgul.load("fo", "both"), sentences(6))


def test_tags_that_the_tagger_never_gives_are_named(tagger: TextTagger) -> None:
    ner = zgul.load("luo", "ner")
    strange = Sentence(["sapuri", "ha", "wa", "ja"], ["B-MISC", "I-MISC", "O", "B-PER"], "luo")
    with pytest.warns(ZgulWarning, match=r"count as mistakes: MISC \(2 words\)"):
        evaluate(ner, [strange])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(ner, [replace(strange, tags=["I-PER", "O", "O", "O"])])  # the type is known


def test_only_labelled_sentences_can_be_scored(tagger: TextTagger) -> None:
    for nothing in ([], [Sentence(["a"], language="fo")]):
        with pytest.raises(ZgulError, match="Only sentences with tags can be scored"):
            evaluate(tagger, nothing)


def test_progress_is_reported(tagger: TextTagger) -> None:
    reports: list[Status] = []
    evaluate(tagger, sentences(8), report=reports.append)
    assert (reports[-1].done, reports[-1].total) == (8, 8)
