"""``zgul.load`` and what it gives, held to the methods' own tagger."""

import re
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import zgul
from standin import text, words
from zgul.corpora import segment
from zgul.corpora.sentence import Sentence
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.methods.tagger import Tagger
from zgul.tagging import tagger as tagging
from zgul.tagging import terminal
from zgul.tagging.results import Entity, Layer, TaggedSentence, entity_spans

pytestmark = pytest.mark.usefixtures("taggers")

TEXT = "sapuri ha sasike hawa parotu! satedi tapise haja,\nwa sagesu hawa padedo kasite!"


def test_tags_are_those_of_the_tagger_itself(taggers: Path) -> None:
    document = zgul.load("fo", "pos", adaptive=False).tag(TEXT)
    direct = Tagger.from_pretrained(taggers / "germanic-pos")
    sentences = list(segment.sentences(TEXT, "fo"))
    expected = direct.predict(sentences)
    assert [sentence.words for sentence in document] == [sentence.words for sentence in sentences]
    assert [sentence.tags for sentence in document] == [prediction.tags for prediction in expected]
    assert len(set(document.tags)) > 2
    for sentence, prediction in zip(document, expected, strict=True):
        np.testing.assert_allclose(sentence.probabilities, prediction.probabilities, atol=1e-5)


@pytest.mark.filterwarnings("ignore:this CPU has no products")
def test_bf16_is_nearly_the_same_and_stays_with_who_asked_for_it() -> None:
    rough, exact = (zgul.load("fo", "pos", em=False, precision=name) for name in ("bfloat16", "float32"))
    ours, theirs = (np.concatenate([s.probabilities for s in tagger.tag(TEXT)]) for tagger in (rough, exact))
    assert 0 < np.abs(ours - theirs).mean() < 0.02
    assert rough.taggers["pos"].model is exact.taggers["pos"].model, "the weights are held once"
    with pytest.raises(ZgulError, match="precision is one of"):
        zgul.load("fo", "pos", precision="half")


def test_offsets_are_places_in_the_text_given() -> None:
    document = zgul.load("luo", "ner").tag(TEXT)
    assert document.text == TEXT
    assert [TEXT[a:b] for sentence in document for a, b in sentence.offsets] == document.words
    assert document.entities
    for entity in document.entities:
        assert TEXT[entity.start : entity.end] == entity.text
        assert 0 < entity.probability <= 1


def test_entities_as_the_pipeline_of_transformers_gives_them() -> None:
    tagger = zgul.load("luo", "ner")
    found = tagger.entities(TEXT)
    assert [tuple(entity) for entity in found] == [("entity_group", "score", "word", "start", "end")] * len(found)
    assert [entity["word"] for entity in found] == [entity.text for entity in tagger.tag(TEXT).entities]


def test_both_tasks() -> None:
    document = zgul.load("fo", "both").tag(TEXT)
    assert document[0].upos == zgul.load("fo", "pos").tag(TEXT)[0].tags == document[0].tags
    assert document[0].ner == zgul.load("fo", "ner").tag(TEXT)[0].tags
    assert list(document[0].to_dict()) == [
        *("text", "language", "start", "words", "offsets"),
        *("upos", "upos_probabilities", "ner", "ner_probabilities", "entities"),
    ]
    with pytest.raises(ZgulError, match="tagged for pos only"):
        _ = zgul.load("fo", "pos").tag(TEXT)[0].entities


def test_the_task_is_the_groups_unless_given() -> None:
    assert list(zgul.load("fo").taggers) == ["pos"]
    assert list(zgul.load("Luo").taggers) == ["ner"]
    with pytest.raises(ZgulError, match="unknown task"):
        zgul.load("fo", "parse")


def test_weights_name_the_sources_and_sum_to_one() -> None:
    sentence = zgul.load("fo", "pos", weights=True).tag(TEXT)[0]
    assert sentence.weights is not None
    assert len(sentence.weights) == len(sentence)
    for weights in sentence.weights:
        assert list(weights) == ["en", "is", "de"]
        assert sum(weights.values()) == pytest.approx(1, abs=1e-5)
    assert zgul.load("fo", "pos").tag(TEXT)[0].weights is None


def test_many_texts_come_back_in_order_whatever_their_length() -> None:
    tagger = zgul.load("hsb", "pos")
    texts: list[tagging.Text] = [text(n % 4, seed=n) * (n % 3) for n in range(40)]
    texts += [["sapuri", "ha"], Sentence(["hawa", "parotu", "."]), "", "   "]
    documents = list(tagger.tag_all(iter(texts)))
    assert len(documents) == len(texts)
    for given_text, document in zip(texts, documents, strict=True):
        alone = tagger.tag(given_text)
        assert document.text == alone.text
        assert (document.words, document.tags) == (alone.words, alone.tags)
    assert documents[-4].words == ["sapuri", "ha"]
    assert len(documents[-1]) == 0


def test_tagging_streams() -> None:
    """Results come before the input has ended."""
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield "sapuri ha sasike hawa parotu."

    results = zgul.load("fo", "pos", em=False).tag_all(endless())
    next(results)
    assert read < 2 * tagging.FIRST_WINDOW


@given(st.lists(st.integers(0, 3000), max_size=30))
def test_windows_keep_everything_in_order(sizes: list[int]) -> None:
    found = list(tagging.windows(sizes, size=int))
    assert [size for window in found for size in window] == sizes
    assert all(sum(window[:-1]) < tagging.WINDOW for window in found)


def test_em_can_be_switched_and_changed() -> None:
    own = zgul.load("fo", "pos", adaptive=False).inference["pos"]
    assert own.em is not None
    assert (own.em.steps, own.em.lr) == (2, 1.0)
    changed = zgul.load("fo", "pos", em_steps=7, em_lr=3.0).inference["pos"]
    assert changed.em is not None
    assert (changed.em.steps, changed.em.lr) == (7, 3.0)
    assert zgul.load("fo", "pos", em=False).inference["pos"].strategy == "plain"
    with_em, without = (zgul.load("fo", "pos", em=em, em_lr=20 if em else None).tag(TEXT)[0] for em in (True, False))
    assert np.abs(np.subtract(with_em.probabilities, without.probabilities)).max() > 1e-3
    none = zgul.load("fo", "pos", em_steps=0).tag(TEXT)[0]
    np.testing.assert_allclose(none.probabilities, without.probabilities, atol=1e-5)
    with pytest.raises(ZgulError, match="EM is switched off"):
        zgul.load("fo", "pos", em=False, em_steps=3)


def test_em_is_adaptive_unless_all_of_it_is_asked_for() -> None:
    def settings(**asked: Any) -> EMConfig:
        found = zgul.load("fo", "pos", **asked).inference["pos"].em
        assert found is not None
        return found

    full = settings(adaptive=False)
    assert full.exact and (full.steps, full.lr) == (2, 1.0)
    assert settings() == settings(adaptive=True) == tagging.ADAPTIVE.of(full)
    assert settings(em_steps=7) == EMConfig(7, 1.0), "numbers that were asked for are taken as they are"
    assert settings(em_steps=7, adaptive=True) == tagging.ADAPTIVE.of(EMConfig(7, 1.0))


def test_another_tagger_by_name_or_folder(taggers: Path) -> None:
    assert zgul.load("fo", "pos", model="slavic-pos").taggers["pos"].parts.sources == ["en", "ru", "cs"]
    by_folder = zgul.load("fo", model=taggers / "african-ner")
    assert list(by_folder.taggers) == ["ner"]
    with pytest.raises(ZgulError, match="is a tagger for ner, not for pos"):
        zgul.load("fo", "pos", model="african-ner")
    with pytest.raises(ZgulError, match=r"neither a tagger's folder .* nor one of the shipped taggers: african-ner"):
        zgul.load("fo", model="nothing-pos")
    with pytest.raises(ZgulError, match="has one task"):
        zgul.load("fo", "both", model="slavic-pos")


def test_a_language_of_no_group_is_served_with_a_warning() -> None:
    with pytest.warns(ZgulWarning, match=r"Finnish \(fi\) is related to none"):
        zgul.load("fi", "pos")


def test_a_script_that_the_encoder_does_not_know_is_refused() -> None:
    tagger = zgul.load("fo", "pos")
    tagger.tag(TEXT)
    with pytest.raises(ZgulError, match=r"100% of the pieces of this text .* it does not know the script"):
        tagger.tag("Щит и меч.")
    mixed = "sapuri ha sasike hawa parotu tapise haja Щит."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(tagger.tag(mixed)[0]) == 9  # a few foreign words are no reason to refuse
        assert tagger.tag("🦄 !!")[0].words == ["🦄", "!!"]  # nor are symbols


def test_in_the_middle_of_a_text_a_foreign_script_is_only_warned_of() -> None:
    sentences = [Sentence(words().text("s0", 1, seed=n)[0].split()) for n in range(tagging.FIRST_WINDOW)]
    foreign = [Sentence(["Щит"] * 200)]
    with pytest.warns(ZgulWarning, match="its tags mean nothing"):
        assert len(list(zgul.load("fo", "pos").tag_sentences(sentences + foreign))) == len(sentences) + 1


FOREIGN = "Щит и меч Щит и"


def test_a_single_sentence_in_a_foreign_script_is_warned_of_once() -> None:
    tagger = zgul.load("fo", "both", em=False)
    known = [f"{word}." for word in TEXT.replace("!", "").split()] * 5
    with pytest.warns(ZgulWarning) as caught:
        assert len(tagger.tag_window([Sentence(s.split()) for s in (*known, FOREIGN, FOREIGN)])) == len(known) + 2
        tagger.tag_window([Sentence(FOREIGN.split())], begun=True)
    assert len(caught) == 1
    assert re.match(r"100% of the pieces of this text \(“Щит и меч Щит и”\)", str(caught[0].message))
    with pytest.warns(ZgulWarning, match="100%"):  # another text
        tagger.tag("\n\n".join([*known, FOREIGN]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger.tag("\n\n".join([*known, "Щит!", "Щит и!", "🦄 🦄 🦄 🦄"]))  # odd words and symbols are none


def test_half_a_character_is_refused() -> None:
    tagger = zgul.load("fo", "pos")
    for broken in ("sapuri ha\ud800 wa", ["sapuri", "\udcff"]):
        with pytest.raises(ZgulError, match="is half of a character"):
            tagger.tag(broken)
    assert tagger.tag("sapuri 🦄").words == ["sapuri", "🦄"]


def test_words_of_another_language_are_mixed_by_theirs() -> None:
    tagger = zgul.load("fo", "pos", weights=True, em=False)
    found = Sentence(["sapuri", "ha", "sasike", "hawa"])
    plain = tagger.tag(found)[0].weights
    own = tagger.tag(replace(found, word_languages=["", "de", "", "fo"]))[0].weights
    german = zgul.load("de", "pos", weights=True, em=False).tag(found)[0].weights
    assert plain and own and german
    assert [own[n] == pytest.approx(plain[n], abs=0.02) for n in range(4)] == [True, False, True, True]
    assert own[1] == pytest.approx(german[1], abs=0.02), "but for what the other words bring into its hidden state"


def test_the_real_threshold(shared_data: Path) -> None:
    """Old Church Slavonic, with letters the encoder lacks, is tagged; Gothic script is not."""
    from zgul import corpora, encoders
    from zgul.corpora.encode import PieceEncoder

    pieces = PieceEncoder(encoders.load("embedded")[1], 512)
    for lang in ("cu", "orv", "got", "qpm"):
        found = [word for s in corpora.load(shared_data, "pos", lang, "test") for word in s.words]
        assert pieces.unknown_share(found) < tagging.MAX_UNKNOWN / 2, lang
    assert pieces.unknown_share(["𐌲𐌿𐍄", "𐌹𐍃𐍄", "𐌲𐍉𐌸𐍃"]) > tagging.MAX_UNKNOWN


def test_a_sentence_longer_than_the_encoder_and_any_window() -> None:
    document = zgul.load("fo", "pos", em=False).tag("sapuri " * 2 * tagging.WINDOW)
    assert len(document) == 1
    assert len(document[0].tags) == 2 * tagging.WINDOW


def test_a_huge_word_in_an_error_is_cut() -> None:
    with pytest.raises(ZgulError) as error:
        zgul.load("fo", "pos").tag("Щ" * 100_000)
    assert len(str(error.value)) < 400


def test_the_memory_for_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = zgul.load("fo", "pos", em=False)
    expected = tagger.tag(TEXT).tags
    monkeypatch.setattr(tagging, "MAX_TYPES", 3)
    assert tagger.tag(TEXT).tags == tagger.tag(TEXT).tags == expected
    assert len(tagger.taggers["pos"].pieces._type_of) < 20


def test_sentences_and_documents_print() -> None:
    document = zgul.load("fo", "pos").tag(TEXT)
    first = str(document[0]).splitlines()
    assert first[0].split() == document[0].words
    assert [tag.rstrip("?") for tag in first[1].split()] == document[0].tags
    assert str(document) == f"{document[0]}\n\n{document[1]}"


def test_all_that_is_unsure_is_marked() -> None:
    def shown(*probabilities: float) -> tuple[str, bool]:
        layer = Layer(["B-PER", "I-PER", "O"], list(probabilities))
        sentence = TaggedSentence("a b c", ["a", "b", "c"], [(0, 1), (2, 3), (4, 5)], {"ner": layer}, "fo")
        return str(sentence).splitlines()[1].strip(), "?" in terminal.shown(sentence)

    assert shown(0.9, 0.9, 0.1) == ("PER  ───", False)
    assert shown(0.4, 0.9, 0.9) == ("PER?  ───", True)
    assert shown(0.9, 0.4, 0.9) == ("PER  ───?", True)


def test_entity_spans_and_their_probability() -> None:
    tags = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC"]
    assert entity_spans(tags) == [(0, 2), (3, 4), (4, 5)]
    sentence = TaggedSentence(
        "Ada Bo in X Y", ["Ada", "Bo", "in", "X", "Y"], [(10, 13), (14, 16), (17, 19), (20, 21), (22, 23)],
        {"ner": Layer(tags, [0.5, 0.7, 1, 1, 1])}, "fo", start=10,
    )  # fmt: skip
    assert sentence.entities[0] == Entity("Ada Bo", "PER", 10, 16, pytest.approx(0.6))
    assert [str(entity) for entity in sentence.entities] == ["Ada Bo (PER)", "X (LOC)", "Y (LOC)"]


@pytest.mark.parametrize(("device", "window"), [("cpu", tagging.WINDOW), ("cuda", tagging.GPU_WINDOW)])
def test_a_gpu_is_given_longer_windows(device: str, window: int) -> None:
    stand_in: Any = SimpleNamespace(device=torch.device(device))
    tagger = tagging.TextTagger(zgul.languages.find("fo"), {"pos": stand_in}, {}, {})
    assert tagger.window == window
    assert max(map(len, tagging.windows(range(200_000), size=lambda _: 1, most=tagger.window))) == window


def test_full_windows_hand_memory_back(monkeypatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(tagging, "_give_back", lambda: given.append(1))
    monkeypatch.setattr(tagging, "WINDOW", 64)
    tagger = zgul.load("fo", "pos", em=False)
    words = len(tagger.tag(TEXT).tags)
    assert not given, "a short text leaves nothing worth it"
    times = 1 + 256 // words
    tagger.tag(f"{TEXT} " * times)
    assert 2 <= len(given) <= times * words // 64 + 1
    given.clear()
    window = tagger.tag_window([Sentence(["sapuri"] * 64)])
    tagger.tag_window([Sentence(["sapuri"])], begun=True)
    assert len(window) == 1 and len(given) == 2, "what is left of a long text hands back what it took, too"
    tagger.tag_window([Sentence(["sapuri"])])
    assert len(given) == 2
    monkeypatch.undo()
    tagging._give_back()  # does no harm anywhere
