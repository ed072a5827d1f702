"""Tagged documents: entities, printing, CoNLL-U, plain data, HTML."""

import io
import json
from html.parser import HTMLParser

import pytest

import zgul
from zgul.corpora import conllu
from zgul.tagging import display
from zgul.tagging.documents import Document, Entity, Layer, TaggedSentence, entity_spans

TEXT = "sapuri ha sasike hawa parotu! satedi tapise haja,\nwa sagesu hawa padedo kasite!"


@pytest.fixture(scope="module")
def document(stand_ins):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZGUL_TAGGERS", str(stand_ins))
        return zgul.load("fo", "both", weights=True).tag(TEXT)


def test_sentences_and_documents_print() -> None:
    layer = Layer(["NOUN", "VERB"], [0.9, 0.3])
    sentence = TaggedSentence("a bc", ["a", "bc"], [(0, 1), (2, 4)], {"pos": layer}, "fo")
    assert str(sentence).splitlines() == ["a     bc", "NOUN  VERB?"]
    assert str(Document("a bc a bc", [sentence, sentence])) == f"{sentence}\n\n{sentence}"


def test_all_that_is_unsure_is_marked() -> None:
    def shown(*probabilities: float) -> tuple[str, bool]:
        layer = Layer(["B-PER", "I-PER", "O"], list(probabilities))
        sentence = TaggedSentence("a b c", ["a", "b", "c"], [(0, 1), (2, 3), (4, 5)], {"ner": layer}, "fo")
        return str(sentence).splitlines()[1].strip(), "?" in display.shown_marks(sentence)

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


def test_conllu(document: Document) -> None:
    blocks = list(conllu.read(io.BytesIO(document.to_conllu().encode())))
    assert [block.words for block in blocks] == [sentence.words for sentence in document]
    assert [block.upos for block in blocks] == [sentence.upos for sentence in document]
    assert [block.ner for block in blocks] == [sentence.ner for sentence in document]
    assert blocks[0].comments[0] == "# newdoc" and "Prob=" not in str(blocks[0])
    text = document.to_conllu(probabilities=True)
    assert f"POSProb={document[0].layers['pos'].probabilities[0]:.4f}|POSWeights=" in text
    assert text.count("NERProb=") == len(document.words)


def test_plain_data_has_the_fields_that_are_documented(document: Document) -> None:
    data = json.loads(json.dumps(document.to_dict()))
    assert data["text"] == TEXT and len(data["sentences"]) == len(document)
    assert list(data["sentences"][0]) == [
        *("text", "language", "start", "words", "offsets", "opens"),
        *("upos", "upos_probabilities", "upos_weights", "ner", "ner_probabilities", "ner_weights", "entities"),
    ]
    assert data["sentences"] == [sentence.to_dict() for sentence in document]


class Words(HTMLParser):
    """Collects what stands in spans, and checks that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: list[str | None] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag == "i":
            self.tags.append(dict(attributes).get("class"))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "span" and data.strip():
            self.words.append(data)


def test_html_has_every_word_and_tag_and_no_mark_up_of_the_text(document: Document) -> None:
    parser = Words()
    parser.feed(document.to_html())
    assert parser.words == document.words and not parser.open
    pairs = zip(document.tags, (tag for sentence in document for tag in sentence.ner), strict=True)
    assert parser.tags == [kind for upos, name in pairs for kind in (upos, name[2:] or None)]
    assert document._repr_html_() == document.to_html(), "notebooks show it"
    nasty = ["<script>", "&amp;", '"']
    layer = Layer(["X"] * 3, [0.1] * 3)
    sentence = TaggedSentence(" ".join(nasty), nasty, [(0, 8), (9, 14), (15, 16)], {"pos": layer}, '"><b>')
    html = Document("", [sentence]).to_html()
    parser = Words()
    parser.feed(html)
    assert parser.words == nasty and "<script" not in html and "<b>" not in html
    assert html.count("X?") == 3, "what is unsure is marked"
    assert "http" not in html
