"""The spaCy component, found by its entry point."""

import pytest

import zgul
from standin import text
from zgul.corpora.sentence import Sentence

spacy = pytest.importorskip("spacy", reason="needs zgul[spacy]")

pytestmark = pytest.mark.usefixtures("taggers")

TEXT = "sapuri ha sasike hawa parotu!  satedi tapise haja wa sagesu!"


def test_parts_of_speech_and_entities_on_spacys_own_tokens() -> None:
    nlp = spacy.blank("fo")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("zgul", config={"task": "both"})
    doc = nlp(TEXT)
    tagger = zgul.load("fo", "both")
    expected = [tagger.tag([t.text for t in s if not t.is_space])[0] for s in doc.sents]
    assert len(expected) == 2
    assert [token.pos_ for token in doc if not token.is_space] == [tag for s in expected for tag in s.upos]
    found = [(entity.text, entity.label_) for entity in doc.ents]
    assert [label for _, label in found] == [entity.label for s in expected for entity in s.entities]
    assert found


def test_without_sentences_a_document_is_one() -> None:
    nlp = spacy.blank("xx")
    nlp.add_pipe("zgul", config={"lang": "luo", "task": "ner", "em": False})
    doc = nlp("sapuri ha sasike")
    expected = zgul.load("luo", "ner", em=False).tag(Sentence(["sapuri", "ha", "sasike"]))
    assert [entity.text for entity in doc.ents] == [entity.text for entity in expected.entities]
    assert all(token.pos_ == "" for token in doc)


def test_pipe_gives_what_single_calls_give() -> None:
    nlp = spacy.blank("hsb") if spacy.util.lang_class_is_loaded("hsb") else spacy.blank("xx")
    nlp.add_pipe("zgul", config={"lang": "hsb", "task": "pos"})
    texts = [text(2, seed=n) for n in range(5)] + ["", "   "]
    piped = [[token.pos_ for token in doc] for doc in nlp.pipe(texts, batch_size=3)]
    assert piped == [[token.pos_ for token in nlp(one)] for one in texts]
