"""Plain text: running, a sentence a line, words apart; and which of these a text is."""

import io
import warnings
from pathlib import Path
from textwrap import fill

import pytest

from zgul.corpora import conllu, plain_text
from zgul.corpora.plain_text import lines_are_sentences
from zgul.errors import ZgulError, ZgulWarning

POEM = """Der Mond ist aufgegangen
Die goldnen Sternlein prangen
Am Himmel hell und klar;
Der Wald steht schwarz und schweiget,
Und aus den Wiesen steiget
Der weiße Nebel wunderbar.

Wie ist die Welt so stille
Und in der Dämmrung Hülle
So traulich und so hold!
"""
WORD_LIST = "hundur\nketta\nkúgv\nseyður\nhestur\n"
HEADLINES = """Stjórnin fer úr landi í dag
Nýggj brúgv opnað
Tveir menn funnir eftir langa leiting í fjøllunum
Veðrið: kalt
"""
PROSE = """It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of
foolishness, it was the epoch of belief, it was the epoch of incredulity. It was the season of Light, it was the
season of Darkness, it was the spring of hope, it was the winter of despair. We had everything before us, we had
nothing before us, we were all going direct to Heaven, we were all going direct the other way. In short, the period
was so far like the present period, that some of its noisiest authorities insisted on its being received."""


def read(text: str, form: str = "sentences", language: str | None = None) -> list:  # type: ignore[type-arg]
    return list(plain_text.read(io.BytesIO(text.encode()), form, language))


def test_a_sentence_a_line() -> None:
    first, second = read("Eg fari. Tú fert.\n\n  Ja!\n", language="fo")
    assert first.words == ["Eg", "fari", ".", "Tú", "fert", "."] and first.language == "fo"
    assert second.text == "  Ja!" and second.offsets == [(2, 4), (4, 5)]
    assert (first.start, second.start) == (0, 19)


def test_words_apart() -> None:
    (sentence,) = read("a  aa a.\u200b\x01b\n", "words")
    assert sentence.words == ["a", "aa", "a.", "b"] and sentence.offsets == [(0, 1), (3, 5), (6, 8), (10, 11)]


def test_running_text() -> None:
    sentences = read("Eg fari. Tú\nfert.\n\nJa\n\n", "raw")
    assert [sentence.text for sentence in sentences] == ["Eg fari.", "Tú\nfert.", "Ja"]
    assert [sentence.start for sentence in sentences] == [0, 9, 19]


def test_unknown_form() -> None:
    with pytest.raises(ZgulError, match="choose one of auto, raw, sentences, words"):
        read("", "lines")


@pytest.mark.parametrize("form", ["raw", "sentences", "words"])
def test_documents_and_paragraphs_are_marked(form: str) -> None:
    sentences = read("\n\nOne.\nTwo.\n\n \nThree.\n\nFour.\nFive.", form)
    opened = [(sentence.text, sentence.opens) for sentence in sentences]
    assert opened == [
        ("One.", "document"),
        ("Two.", None),
        ("Three.", "paragraph"),
        ("Four.", "paragraph"),
        ("Five.", None),
    ]
    written = [str(conllu.ConlluSentence.from_sentence(sentence)).split("\n")[0] for sentence in sentences]
    assert written == ["# newdoc", "# text = Two.", "# newpar", "# newpar", "# text = Five."]


@pytest.mark.parametrize("text", [POEM, WORD_LIST, HEADLINES], ids=["poem", "words", "headlines"])
def test_lines_without_full_stops_are_sentences_and_the_user_is_told(text: str) -> None:
    with pytest.warns(ZgulWarning, match="so each line is read as a sentence"):
        sentences = read(text, "auto")
    assert [sentence.text for sentence in sentences] == [line for line in text.split("\n") if line]
    with pytest.warns(ZgulWarning, match="the text: most lines"):
        assert [s.text for s in plain_text.split(text)] == [sentence.text for sentence in sentences]


@pytest.mark.parametrize("width", [40, 60, 72, 80, 100])
def test_wrapped_text_is_running_text(width: int) -> None:
    text = fill(" ".join(PROSE.split()), width)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read(text, "auto")) == 4


@pytest.mark.parametrize(
    "text",
    [
        "",
        "One line",
        "A title\nand a second line",
        "One.\nTwo!\nThree?\nfour\n",
        "A title\n\nA second paragraph\n\nA third one\n",
        "we went out\nand came home.\nThen it rained,\nall day long,\nand nobody slept.\n",
        "\n".join("A paragraph on one line that is long, as word processors save it " * 3 for _ in range(9)),
    ],
)
def test_other_texts_are_running_text(text: str) -> None:
    assert not lines_are_sentences(text.split("\n"))


def test_little_is_read_before_the_first_sentence() -> None:
    taken = 0

    def lines():  # type: ignore[no-untyped-def]
        nonlocal taken
        while True:
            taken += 1
            yield "A long line. " * 1000

    class Stream:
        name = "endless"
        source = lines()

        def readline(self, limit: int) -> bytes:
            return f"{next(self.source)}\n".encode()

    assert next(plain_text.read(Stream(), "auto")).words == ["A", "long", "line", "."]  # type: ignore[arg-type]
    assert taken < 20


def test_real_treebanks_as_text(shared_data: Path) -> None:
    """Gothic has no punctuation: a sentence a line is recognised. Wrapped Swiss German is not cut at line ends."""
    gothic = [s.comment("text") or "" for s in conllu.read(shared_data / "conllu/got_proiel-ud-test.conllu.xz")]
    assert lines_are_sentences(gothic[:200])
    assert not lines_are_sentences(fill(" ".join(gothic[:200]), 72).split("\n"))
    german = [s.comment("text") or "" for s in conllu.read(shared_data / "conllu/gsw_uzh-ud-test.conllu.xz")]
    assert not lines_are_sentences(fill(" ".join(german), 72).split("\n"))
