"""``zgul.load`` and `TextTagger`, compared with the `Tagger` inside."""

import re
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import zgul
from standin import text, words
from zgul import encoders
from zgul.corpora import DataFolder, plain_text
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import PieceEncoder
from zgul.errors import ZgulError, ZgulWarning
from zgul.tagger import load_tagger
from zgul.tagging import loading, text_tagger
from zgul.tagging.documents import FORMATS, TaggedSentence
from zgul.tagging.tag_files import FileSettings
from zgul.tagging.text_tagger import FIRST_WINDOW, GPU_WINDOW, MAX_UNKNOWN, WINDOW, Text, TextTagger

pytestmark = pytest.mark.usefixtures("taggers")

NAMES = ("germanic-pos", "slavic-pos", "all-ner", "all-pos", "african-ner", "indo-aryan-ner")
TEXT = "sapuri ha sasike hawa parotu! satedi tapise haja,\nwa sagesu hawa padedo kasite!"


def test_tags_are_those_of_the_tagger_itself(taggers: Path) -> None:
    document = zgul.load("fo", "pos", adaptive=False).tag(TEXT)
    direct = load_tagger(taggers / "germanic-pos")
    sentences = list(plain_text.split(TEXT, "raw", "fo"))
    expected = direct.predict(sentences)
    assert [sentence.words for sentence in document] == [sentence.words for sentence in sentences]
    assert [sentence.tags for sentence in document] == [prediction.tags for prediction in expected]
    assert len(set(document.tags)) > 2
    for sentence, prediction in zip(document, expected, strict=True):
        np.testing.assert_allclose(sentence.probabilities, prediction.probabilities, atol=1e-5)


def test_bf16_is_nearly_the_same_and_stays_with_who_asked_for_it() -> None:
    rough, exact = (zgul.load("fo", "pos", em=False, precision=name) for name in ("bfloat16", "float32"))
    ours, theirs = (np.concatenate([s.probabilities for s in tagger.tag(TEXT)]) for tagger in (rough, exact))
    assert 0 < np.abs(ours - theirs).mean() < 0.05
    assert rough.taggers["pos"].model is exact.taggers["pos"].model, "the weights are held once"


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
        *("text", "language", "start", "words", "offsets", "opens"),
        *("upos", "upos_probabilities", "ner", "ner_probabilities", "entities"),
    ]
    with pytest.raises(ZgulError, match="tagged for pos only"):
        _ = zgul.load("fo", "pos").tag(TEXT)[0].entities


def test_the_task_is_the_groups_unless_given() -> None:
    assert list(zgul.load("fo").taggers) == ["pos"]
    assert list(zgul.load("Luo").taggers) == ["ner"]


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
    texts: list[Text] = [text(n % 4, seed=n) * (n % 3) for n in range(40)]
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
    assert read < 2 * FIRST_WINDOW


@given(st.lists(st.integers(0, 3000), max_size=30))
def test_windows_keep_everything_in_order(sizes: list[int]) -> None:
    found = list(TextTagger(zgul.languages.find("fo"), {}, {}, {}).windows(map(range, sizes)))
    assert [len(item) for window in found for item in window] == sizes
    assert all(sum(map(len, window[:-1])) < WINDOW for window in found)


def test_em_can_be_switched_and_changed() -> None:
    with_em, without = (zgul.load("fo", "pos", em=em, em_lr=20 if em else None).tag(TEXT)[0] for em in (True, False))
    assert np.abs(np.subtract(with_em.probabilities, without.probabilities)).max() > 1e-3
    none = zgul.load("fo", "pos", em_steps=0).tag(TEXT)[0]
    np.testing.assert_allclose(none.probabilities, without.probabilities, atol=1e-5)


@pytest.mark.parametrize(
    ("choices", "problem"),
    [
        ({"task": "parse"}, "no task 'parse'"),
        ({"precision": "half"}, "precision is one of auto, float32, bfloat16"),
        ({"device": "gpu0"}, "no device 'gpu0' here"),
        ({"em_steps": -1}, "steps must be at least 0"),
        ({"em_lr": -1.0}, "lr must be at least 0"),
        ({"lang": "Fareose"}, r"Did you mean Faroese \(fo\)"),
        ({"model": "slavic-pos", "task": "parse"}, "no task 'parse'"),
        ({"model": "slavic-pos", "task": "both"}, "has one task"),
        ({"model": "nothing-pos"}, "neither a tagger's folder"),
    ],
)
def test_choices_are_checked_before_anything_is_loaded(
    choices: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("load_shipped", "load_named"):
        real = getattr(loading, name)
        monkeypatch.setattr(
            loading, name, lambda *given, real=real: pytest.fail() if given[0] in NAMES else real(*given)
        )
    with pytest.raises(ZgulError, match=problem):
        zgul.load(**{"lang": "fo", **choices})


def test_another_tagger_by_name_or_folder(taggers: Path) -> None:
    assert zgul.load("fo", "pos", model="slavic-pos").taggers["pos"].parts.sources == ("en", "ru", "cs")
    by_folder = zgul.load("fo", model=taggers / "african-ner")
    assert list(by_folder.taggers) == ["ner"]
    with pytest.raises(ZgulError, match="is a tagger for ner, not for pos"):
        zgul.load("fo", "pos", model="african-ner")


def test_a_language_of_no_group_is_served_with_a_warning() -> None:
    with pytest.warns(ZgulWarning, match=r"Finnish \(fi\) is related to none"):
        zgul.load("fi", "pos")


def test_a_script_that_the_encoder_does_not_know_is_refused() -> None:
    tagger = zgul.load("fo", "pos")
    tagger.tag(TEXT)
    with pytest.raises(ZgulError, match=r"does not know the script: 100% of the pieces of this text"):
        tagger.tag("Щит и меч.")
    mixed = "sapuri ha sasike hawa parotu tapise haja Щит."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(tagger.tag(mixed)[0]) == 9  # a few foreign words are no reason to refuse
        assert tagger.tag("🦄 !!")[0].words == ["🦄", "!!"]  # nor are symbols


def test_in_the_middle_of_a_text_a_foreign_script_is_only_warned_of() -> None:
    sentences = [Sentence(words().text("s0", 1, seed=n)[0].split()) for n in range(FIRST_WINDOW)]
    foreign = [Sentence(["Щит"] * 200)]
    with pytest.warns(ZgulWarning, match="Its tags mean nothing"):
        assert len(list(zgul.load("fo", "pos").tag_sentences(sentences + foreign))) == len(sentences) + 1


FOREIGN = "Щит и меч Щит и"


def test_a_single_sentence_in_a_foreign_script_is_warned_of_once() -> None:
    tagger = zgul.load("fo", "both", em=False)
    known = [f"{word}." for word in TEXT.replace("!", "").split()] * 5
    with pytest.warns(ZgulWarning) as caught:
        windows = [[Sentence(s.split()) for s in (*known, FOREIGN, FOREIGN)], [Sentence(FOREIGN.split())]]
        assert [len(window) for window in tagger.tag_windows(windows)] == [len(known) + 2, 1]
    assert len(caught) == 1
    assert re.search(r"100% of the pieces of this text \(“Щит и меч Щит и”\)", str(caught[0].message))
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
    sentence = Sentence(["sapuri", "ha", "sasike", "hawa"])
    plain = tagger.tag(sentence)[0].weights
    own = tagger.tag(replace(sentence, word_languages=["", "de", "", "fo"]))[0].weights
    german = zgul.load("de", "pos", weights=True, em=False).tag(sentence)[0].weights
    assert plain and own and german
    assert [own[n] == pytest.approx(plain[n], abs=0.02) for n in range(4)] == [True, False, True, True]
    german_way, faroese_way = (abs(own[1]["de"] - other[1]["de"]) for other in (german, plain))
    assert german_way < faroese_way / 2, "the other words have a part in its hidden state"


def test_the_real_threshold(shared_data: Path) -> None:
    """Old Church Slavonic, with letters the encoder lacks, is tagged; Gothic script is not."""
    pieces = PieceEncoder(encoders.load("embedded")[1], 512)
    for lang in ("cu", "orv", "got", "qpm"):
        words = [word for s in DataFolder(shared_data).sentences("pos", lang, "test") for word in s.words]
        assert pieces.unknown_share(words) < MAX_UNKNOWN / 2, lang
    assert pieces.unknown_share(["𐌲𐌿𐍄", "𐌹𐍃𐍄", "𐌲𐍉𐌸𐍃"]) > MAX_UNKNOWN


def test_a_sentence_longer_than_the_encoder_and_any_window() -> None:
    document = zgul.load("fo", "pos", em=False).tag("sapuri " * 2 * WINDOW)
    assert len(document) == 1
    assert len(document[0].tags) == 2 * WINDOW


def test_a_huge_word_in_an_error_is_cut() -> None:
    with pytest.raises(ZgulError) as error:
        zgul.load("fo", "pos").tag("Щ" * 100_000)
    assert len(str(error.value)) < 400


def test_a_list_of_texts_is_not_taken_for_words() -> None:
    tagger = zgul.load("fo", "pos", em=False)
    for spaced in ("sapuri ha sasike", "sapuri\u00a0ha", "ha\n", " "):
        with pytest.raises(ZgulError, match=r"has spaces in it. For several texts use tag_all"):
            tagger.tag([spaced, "hawa parotu"])
    with pytest.raises(ZgulError, match="For one text use tag"):
        next(tagger.tag_all("sapuri ha sasike"))


@pytest.mark.parametrize(("given", "kind"), [(5, "int"), (None, "NoneType"), (["Hetta", 3], "int"), (b"Hetta", "int")])
def test_what_is_no_text_is_named(given: Any, kind: str) -> None:
    with pytest.raises(ZgulError, match=f"is a string .*, not of type {kind}"):
        zgul.load("fo", "pos", em=False).tag(given)


def test_a_tagger_is_shown_in_a_line() -> None:
    tagger = zgul.load("fo", "both")
    assert repr(tagger).startswith("<TextTagger of Faroese (fo): pos by ") and "\n" not in repr(tagger)
    assert repr(tagger.taggers["pos"]).startswith("<Tagger by ZGUL for pos, sources ")


def test_lines_without_full_stops_are_sentences_and_that_is_said() -> None:
    tagger = zgul.load("fo", "pos", em=False)
    poem = "sapuri ha\nsasike hawa\nparotu ha\nsatedi wa\n"
    with pytest.warns(ZgulWarning, match="each line is read as a sentence"):
        document = tagger.tag(poem)
    assert [sentence.words for sentence in document] == [line.split() for line in poem.splitlines()]
    assert [poem[start:end] for sentence in document for start, end in sentence.offsets] == poem.split()


def test_documents_and_paragraphs_are_marked() -> None:
    documents = zgul.load("fo", "pos", em=False).tag_all(["sapuri ha. Ja sasike hawa!\n\nparotu wa.", "hawa!", ["ha"]])
    marks = [[sentence.opens for sentence in document] for document in documents]
    assert marks == [["document", None, "paragraph"], ["document"], [None]]


@pytest.mark.parametrize(("device", "window"), [("cpu", WINDOW), ("cuda", GPU_WINDOW)])
def test_a_gpu_is_given_longer_windows(device: str, window: int) -> None:
    stand_in: Any = SimpleNamespace(device=torch.device(device))
    tagger = TextTagger(zgul.languages.find("fo"), {"pos": stand_in}, {}, {})
    assert max(map(len, tagger.windows(["x"] * 200_000))) == window


def test_long_texts_hand_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(text_tagger, "release_memory", lambda: calls.append(1))
    monkeypatch.setattr(text_tagger, "WINDOW", 64)
    tagger = zgul.load("fo", "pos", em=False)
    tagger.tag(TEXT)
    assert not calls, "a short text leaves nothing that matters"
    list(tagger.tag_windows([[Sentence(["sapuri"] * 64)], [Sentence(["sapuri"])]]))
    assert len(calls) == 2, "so does what is left of a long text"


def test_tasks_and_formats_have_literal_types() -> None:
    assert get_type_hints(zgul.load)["task"] == Literal["pos", "ner", "both"] | None
    assert get_type_hints(TaggedSentence.to_text)["form"] == Literal["conllu", "tsv", "json"]
    assert get_args(get_type_hints(FileSettings)["format"]) == FORMATS
