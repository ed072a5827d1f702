"""A tagger in use: predicting, memory, and taggers side by side that do not change each other."""

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
import torch

from family import tiny_encoder
from small_tagger import LABELS, MADE, WIDTH, mixed_sentences, small_adapters, small_batch, small_tagger
from threads import in_threads
from zgul.corpora.sentence import Sentence, to_iob2
from zgul.encoders.batches import Batch, PieceEncoder
from zgul.ensemble.em import EMConfig, sentence_entropy
from zgul.errors import ZgulError, ZgulWarning
from zgul.fast.engine import Engine
from zgul.methods import METHODS, MethodOptions
from zgul.methods.model import infer
from zgul.tagger import Prediction, Tagger

EVERY = [
    (name, strategy)
    for name, made in METHODS.items()
    for strategy in made.strategies
    if strategy not in ("en", "tgt") and name != "madx"
]
NER = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def with_an_empty_one() -> list[Sentence]:
    """Sentences of several languages and lengths, one of them without words."""
    found = [*mixed_sentences(), *MADE.sentences("s0", 3)]
    return [*found[:4], Sentence([], [], "target"), *found[4:]]


def assert_same(found: list[Prediction], expected: list[Prediction], tolerance: float = 1e-6) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.tags == other.tags
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=tolerance)
        for name in ("weights", "weights_before") if one.tags else ():
            assert (getattr(one, name) is None) == (getattr(other, name) is None)
            if getattr(one, name) is not None:
                np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=tolerance)


def by_plain_code(tagger: Tagger, sentence: Sentence, strategy: str) -> Prediction:
    """What `infer` computes, from which the fast engine must not differ."""
    batch = small_batch(tagger, [sentence], strategy=strategy)
    language = (sentence.word_languages or [sentence.language])[0]
    inferred = infer(tagger.model, batch, tagger.em_for(str(language), strategy), weights=True)
    p = inferred.logits[batch.words].softmax(dim=-1)
    shares = [
        None if value is None else value.expand(*batch.words.shape, *value.shape[2:])[batch.words].numpy()
        for value in (inferred.after, inferred.before)
    ]
    return Prediction([tagger.labels[best] for best in p.argmax(dim=-1)], p.amax(dim=-1).numpy(), *shares)


# --- predicting


def test_words_without_a_language_of_their_own_have_the_sentence_s() -> None:
    tagger, whole = small_tagger(), MADE.sentences("target", 1)[0]
    for first in ("", "s0"):
        named = replace(whole, word_languages=[first or "target", *["target"] * (len(whole) - 1)])
        blank = replace(whole, word_languages=[first, *[""] * (len(whole) - 1)])
        assert_same(tagger.predict([blank]), tagger.predict([named]), tolerance=0)
    with pytest.raises(ZgulError, match="A sentence has no language"):
        tagger.predict([Sentence(["a", "b"], word_languages=["s0", ""])])


@pytest.mark.parametrize(("name", "strategy"), EVERY)
def test_many_at_once_are_what_they_are_one_by_one(name: str, strategy: str) -> None:
    settings = {"": EMConfig(steps=2, lr=5.0), "s1": EMConfig(steps=3, lr=20.0), "s0": EMConfig(steps=0)}
    tagger = replace(small_tagger(name, double=True), em=settings)
    sentences = with_an_empty_one()
    done: list[int] = []
    together = tagger.predict(sentences, strategy=strategy, weights=True, on_batch=done.append)
    assert sum(done) == len(sentences) - 1, "an empty sentence is in no batch"
    alone = [tagger.predict([sentence], strategy=strategy, weights=True)[0] for sentence in sentences]
    assert_same(together, alone)
    assert_same(
        [by_plain_code(tagger, sentence, strategy) for sentence in sentences if sentence.words],
        [p for p in alone if p.tags],
    )
    for sentence, prediction in zip(sentences, together, strict=True):
        assert len(prediction.tags) == len(sentence) == len(prediction.probabilities)
        if len(sentence):
            assert (prediction.weights is not None) == bool(tagger.bank_languages)
        if prediction.weights is not None:
            np.testing.assert_allclose(prediction.weights.sum(axis=-1), 1, atol=1e-6)


@pytest.mark.parametrize("name", ["zgul", "cpg", "madx-multi", "sft-m"])
def test_nothing_in_nothing_out(name: str) -> None:
    tagger = small_tagger(name)
    assert tagger.predict([]) == []
    for empty in (Sentence([], language="target"), Sentence([], word_languages=[])):
        (prediction,) = tagger.predict([empty])
        assert prediction.tags == [] and prediction.probabilities.shape == (0,)


def test_each_language_is_read_with_its_own_em_settings() -> None:
    tagger = replace(small_tagger(double=True), em={"": EMConfig(steps=1, lr=1.0), "s1": EMConfig(steps=0)})
    sentences = [*MADE.sentences("target", 2), *MADE.sentences("s1", 2)]

    def moved(predictions: list[Prediction]) -> list[bool]:
        return [not np.allclose(p.weights, p.weights_before, atol=1e-9) for p in predictions]

    assert moved(tagger.predict(sentences, weights=True)) == [True, True, False, False]
    given = tagger.predict(sentences, weights=True, em=EMConfig(steps=1, lr=1.0))
    assert moved(given) == [True] * 4, "a setting that is given wins"
    assert moved(tagger.predict(sentences, weights=True, strategy="plain")) == [False] * 4
    assert tagger.em_for("s1", "plain") is None and tagger.em_for("xx", "em-tied") == EMConfig(1, 1.0, tied=True)
    assert replace(tagger, em={}).em_for("xx") == EMConfig()


@pytest.mark.parametrize(("method", "strategy"), [("zgul", "em-tied"), ("madx-multi", "emea")])
def test_a_tied_strategy_ties_settings_that_are_given(method: str, strategy: str) -> None:
    tagger, sentences = small_tagger(method), MADE.sentences("target", 3)
    given = EMConfig(steps=2, lr=5.0)
    found = tagger.predict(sentences, strategy=strategy, em=given, weights=True)
    expected = tagger.predict(sentences, strategy=strategy, em=replace(given, tied=True), weights=True)
    assert_same(found, expected, tolerance=0)


@pytest.mark.parametrize("name", ["zgul", "sft-m"])
def test_a_sentence_needs_a_language(name: str) -> None:
    with pytest.raises(ZgulError, match="A sentence has no language"):
        small_tagger(name).predict([Sentence(["paki"])])


def test_words_are_read_without_marks_if_the_tagger_does_so(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = (Sentence(sentence.words[:4], language="target") for sentence in MADE.sentences("target", 2))
    # what is left out here is easy to see: all the words
    monkeypatch.setattr(PieceEncoder, "without_marks", lambda self, sentences: [other.words])
    tagger = small_tagger("zgul")
    for strip, read in ((True, other), (False, first)):
        (found,) = replace(tagger, strip_marks=strip).predict([first])
        assert_same([found], tagger.predict([read]))


def test_long_sentences_are_cut_and_joined() -> None:
    tagger = small_tagger("sft-m", double=True)
    words = [word for s in MADE.sentences("s0", 40) for word in s.words]
    (prediction,) = tagger.predict([Sentence(words, None, "s0")])
    assert len(prediction.tags) == len(words)
    encoded = tagger.pieces.encode([Sentence(words, None, "s0")], languages=tagger.language_table(["s0"]))
    assert len(encoded) > 2
    sizes = [int(encoded.first[a : a + n].sum()) for a, n in zip(encoded.starts, encoded.lengths, strict=True)]
    parts = [Sentence(part.tolist(), None, "s0") for part in np.split(np.array(words), np.cumsum(sizes)[:-1])]
    assert [tag for p in tagger.predict(parts) for tag in p.tags] == prediction.tags


@pytest.mark.parametrize("name", ["zgul", "madx-multi"])
def test_code_switched_words_are_read_in_their_own_language(name: str) -> None:
    """The global weights of each word are those that a sentence wholly in its language gets."""
    tagger, strategy = small_tagger(name, double=True), "plain" if name == "zgul" else "rel"
    words = MADE.sentences("s0", 3)[2].words
    codes = [("target", "s1", "s2")[n % 3] for n in range(len(words))]
    (mixed,) = tagger.predict([Sentence(words, None, "target", codes)], strategy=strategy, weights=True)
    for code in set(codes):
        (whole,) = tagger.predict([Sentence(words, None, code)], strategy=strategy, weights=True)
        for n, own in enumerate(codes):
            if own == code:
                np.testing.assert_allclose(mixed.weights[n, -1], whole.weights[n, -1], atol=1e-12)
    rows = {tuple(row.round(6)) for row in mixed.weights[:, -1]}
    assert len(rows) == 3, "three languages, three weightings"


def test_probabilities_are_those_of_the_chosen_tags() -> None:
    tagger = small_tagger("sft-m", double=True)
    sentence = MADE.sentences("s0", 1)[0]
    batch = small_batch(tagger, [sentence])
    with torch.no_grad():
        p = tagger.model(batch)[batch.words].softmax(dim=-1)
    (prediction,) = tagger.predict([sentence])
    assert prediction.tags == [LABELS[int(best)] for best in p.argmax(dim=-1)]
    np.testing.assert_allclose(prediction.probabilities, p.amax(dim=-1), atol=1e-6)


def test_ner_comes_out_as_valid_iob2() -> None:
    tagger = small_tagger("sft-m", task="ner", labels=["O", "B-PER", "I-PER", "I-LOC"])
    predictions = tagger.predict(MADE.sentences("s0", 20))
    assert any(prediction.tags != ["O"] * len(prediction.tags) for prediction in predictions)
    for prediction in predictions:
        assert prediction.tags == to_iob2(prediction.tags)


def test_nothing_is_dropped_though_the_encoder_is_shared_with_a_model_that_learns() -> None:
    tagger, sentences = small_tagger("sft-m", options=MethodOptions(dropout=0.5)), MADE.sentences("s0", 5)
    before = tagger.predict(sentences)
    tagger.parts.encoder.train()
    assert_same(tagger.predict(sentences), before, tolerance=0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_em_works_wherever_gradients_are_switched_off(mode: Any) -> None:
    sentences, em = MADE.sentences("target", 3), EMConfig(steps=2, lr=5.0)
    expected, tagger = small_tagger().predict(sentences, em=em), small_tagger()
    with mode():
        assert_same(tagger.predict(sentences, em=em), expected)
    assert_same(tagger.predict(sentences, em=em), expected)


# --- certain sentences


@pytest.mark.parametrize("share", [0.2, 0.7], ids=["few are uncertain", "most are"])
@pytest.mark.parametrize("weights", [False, True])
def test_em_leaves_certain_sentences_as_they_are(share: float, weights: bool) -> None:
    tagger, sentences = small_tagger(double=True), MADE.sentences("target", 30)
    batch = small_batch(tagger, sentences)
    entropies = sentence_entropy(infer(tagger.model, batch).logits, batch)
    bound = float(entropies.quantile(1 - share))
    em, done = EMConfig(steps=3, lr=2.0), []
    found = tagger.predict(sentences, em=em, skip_below=bound, weights=weights, on_batch=done.append)
    assert sum(done) == len(sentences)
    moved = tagger.predict(sentences, em=em, weights=weights)
    still = tagger.predict(sentences, em=EMConfig(steps=0), weights=weights)
    uncertain = (entropies >= bound).tolist()
    assert 0 < sum(uncertain) < len(sentences)
    expected = [a if own else b for own, a, b in zip(uncertain, moved, still, strict=True)]
    assert_same(found, expected)
    assert [p.probabilities.tolist() for p in moved] != [p.probabilities.tolist() for p in still]


def test_without_em_nothing_waits() -> None:
    tagger, sentences, done = small_tagger(), MADE.sentences("target", 5), []
    for options in ({"strategy": "plain"}, {"em": EMConfig(steps=0)}):
        done.clear()
        found = tagger.predict(sentences, skip_below=0.1, on_batch=done.append, **options)
        assert sum(done) == 5
        assert_same(found, tagger.predict(sentences, strategy="plain"))


# --- memory


def out_of_memory_above(limit: int, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> list[int]:
    """Batches of more sentences than ``limit`` run out of memory. Gives the sizes that were tried."""
    tried: list[int] = []
    real = Engine.__call__

    def call(self: Engine, batch: Batch, *arguments: Any, **named: Any) -> Any:
        tried.append(len(batch))
        if len(batch) > limit:
            raise error
        return real(self, batch, *arguments, **named)

    monkeypatch.setattr(Engine, "__call__", call)
    return tried


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA"), MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
@pytest.mark.parametrize("strategy", ["plain", "em"])
def test_out_of_memory_halves_the_batch_and_goes_on(
    strategy: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    tagger = replace(small_tagger(double=True), em={"": EMConfig(steps=2, lr=5.0)})
    sentences = with_an_empty_one()
    expected = tagger.predict(sentences, strategy=strategy, weights=True)
    done: list[int] = []
    tried = out_of_memory_above(2, monkeypatch, error)
    with pytest.warns(ZgulWarning, match=r"out of memory: continuing with \d+ sentences at a time"):
        found = tagger.predict(sentences, strategy=strategy, weights=True, on_batch=done.append)
    assert tried[0] > 4 and sum(done) == len(sentences) - 1 and max(done) <= 2
    assert_same(found, expected)


def test_later_batches_start_with_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = small_tagger("sft-m")
    sentences = [s for size in (60, 30, 12) for s in [Sentence(["paki"] * size, None, "s0")] * 40]
    tried = out_of_memory_above(3, monkeypatch, MemoryError())
    with pytest.warns(ZgulWarning):
        tagger.predict(sentences)
    first = next(n for n, size in enumerate(tried) if size <= 3)
    assert first <= 4 and all(size <= 12 for size in tried[first:]), "by tokens: shorter sentences, more of them"


def test_memory_that_is_too_small_for_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    out_of_memory_above(0, monkeypatch, torch.OutOfMemoryError("CUDA"))
    with (
        pytest.warns(ZgulWarning),
        pytest.raises(ZgulError, match=r"out of memory even with one of the sentences at a time; .*--no-em"),
    ):
        small_tagger().predict(MADE.sentences("s0", 4))


# --- taggers do not change


def test_a_tagger_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        small_tagger().decode = "sequence"  # type: ignore[misc]


def test_settings_side_by_side() -> None:
    """Every order of use gives what each tagger gives alone."""
    made = small_tagger("zgul", task="ner", labels=NER)
    sentences = MADE.sentences("target", 12)
    settings: dict[str, dict[str, Any]] = {
        "as made": {},
        "plain": {"strategy": "plain"},
        "sequence": {"decode": "sequence"},
        "other EM": {"em": {"": EMConfig(steps=1, lr=50.0)}},
        "bfloat16": {"precision": "bfloat16"},
    }
    expected = {name: replace(small_tagger("zgul", task="ner", labels=NER), **s) for name, s in settings.items()}
    expected = {name: tagger.predict(sentences) for name, tagger in expected.items()}
    taggers = {name: replace(made, **values) for name, values in settings.items()}
    for _ in range(2):
        for name, tagger in taggers.items():
            assert_same(tagger.predict(sentences), expected[name], tolerance=1e-6)
    assert_same(made.predict(sentences), expected["as made"])
    assert len({str([p.tags for p in found]) for found in expected.values()}) >= 4, "the settings matter"


def test_copies_share_the_weights() -> None:
    made = small_tagger()
    other = replace(made, precision="bfloat16", decode="sequence")
    assert other.model is made.model and other.engine is not made.engine
    assert made.engine is made.engine, "made once"
    assert made.engine.model.head.weight.data_ptr() == made.model.head.weight.data_ptr()
    assert made.to("cpu") is made


@pytest.mark.parametrize("device", ["potato", "cuda:99", torch.device("cuda:99"), ""])
def test_devices_that_are_not_here(device: Any) -> None:
    with pytest.raises(ZgulError, match=r"There is no device '.*' here\. Use cpu(, cuda)? or auto"):
        small_tagger("sft-m").to(device)


def test_moving_a_tagger_leaves_the_original() -> None:
    made = small_tagger()
    moved = made.to("meta")  # a device without memory, which is always there
    assert moved.device.type == "meta" and made.device.type == "cpu"
    assert moved.parts.encoder is moved.model.encoder and made.parts.encoder is made.model.encoder
    assert moved.trained_names == made.trained_names
    assert len(made.predict(MADE.sentences("s0", 2))) == 2


def predictions_of(tagger: Tagger, number: int) -> list[list[Prediction]]:
    """Some of the ways to use a tagger, in an order of its own for each number."""
    ways: list[dict[str, Any]] = [
        {"strategy": "plain"},
        {"em": EMConfig(steps=1, lr=5.0)},
        {"em": EMConfig(steps=2, lr=2.0, tied=True), "weights": True},
        {"em": EMConfig(steps=1, lr=5.0), "skip_below": 1.5},
    ]
    groups = [MADE.sentences("target", 9), mixed_sentences(), MADE.sentences("s1", 3, seed=5)]
    jobs = [(way, group) for way in ways for group in groups]
    order = [(n * 5 + number) % len(jobs) for n in range(len(jobs))]
    found = {n: tagger.predict(jobs[n][1], **jobs[n][0]) for n in order}
    return [found[n] for n in range(len(jobs))]


def test_taggers_on_one_encoder_do_not_change_it_or_each_other() -> None:
    body, tokenizer = tiny_encoder(MADE, layers=2, width=WIDTH)
    before = {name: value.clone() for name, value in body.state_dict().items()}
    made = []
    for rank, dropout in ((0, 0.1), (2, 0.5)):
        options = MethodOptions(encoder_rank=rank, dropout=dropout, train_encoder=rank == 0)
        adapters = small_adapters()
        names: dict[str, Any] = {"task": "pos", "labels": ["A", "B"], "sources": MADE.sources}
        names["features"] = {language: MADE.features(language) for language in MADE.languages}
        made.append(Tagger.new("zgul", encoder=(body, tokenizer), adapters=adapters, options=options, **names))
    with torch.no_grad():
        for parameter in made[0].model.encoder.parameters():
            parameter += 1  # as training does
    assert [tagger.model.encoder.dropout for tagger in made] == [0.1, 0.5] and body.dropout == 0
    assert not any(name.endswith(".a") for name in made[0].trained_names)
    assert body.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[name]) for name, value in body.state_dict().items())
    assert torch.equal(made[1].model.encoder.words.weight, body.words.weight)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_GPU)])
def test_eight_threads_get_what_one_gets(device: str) -> None:
    """The tagger is new: the threads also make its engine and its table of pieces."""
    expected = predictions_of(small_tagger().to(device), 0)
    tagger = small_tagger().to(device)
    for found in in_threads(lambda number: predictions_of(tagger, number)):
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, tolerance=1e-5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_GPU)])
def test_threads_with_taggers_of_different_settings(device: str) -> None:
    made = small_tagger().to(device)
    settings = [{"precision": precision} for precision in ("float32", "bfloat16")] * 2
    expected = [predictions_of(replace(small_tagger().to(device), **values), 0) for values in settings]
    taggers = [replace(made, **values) for values in settings]
    for number, found in enumerate(in_threads(lambda number: predictions_of(taggers[number], number), count=4)):
        for one, other in zip(found, expected[number], strict=True):
            assert_same(one, other, tolerance=1e-5)


@ON_GPU
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_same_on_a_gpu_however_often_it_is_asked(precision: str) -> None:
    here, sentences = small_tagger(scale=0.1), MADE.sentences("s0", 12)
    there = replace(here.to("cuda"), precision=precision)
    for em in (EMConfig(steps=0), EMConfig(steps=3, lr=1.0)):
        expected = here.predict(sentences, em=em)
        for _ in range(5):
            for one, other in zip(there.predict(sentences, em=em), expected, strict=True):
                near = 1e-3 if precision == "float32" else 0.1
                np.testing.assert_allclose(one.probabilities, other.probabilities, atol=near)
    assert here.device.type == "cpu" and there.device.type == "cuda"
