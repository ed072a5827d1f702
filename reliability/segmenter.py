"""Fuzz target: cutting running text into sentences and words, over all of Unicode.

The cases go through Unicode's code points, twelve each, so 100,000 cases have every one of them, in some
context. No character of a text is lost except blanks, and no word contains one.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

from reliability import strange
from reliability.cases import Broken, Case, check, check_words
from zgul.corpora import conllu, plain_text
from zgul.corpora.sentence import Sentence

EACH = 12  # code points of a case: 100,000 times 12 is more than there are
LANGUAGES = (None, "en", "de", "fo", "am", "xx")


def is_blank(character: str) -> bool:
    """By Unicode's tables, not by the segmenter's pattern."""
    return character.isspace() or unicodedata.category(character) == "Cc" or character in "\u200b\ufeff"


class Segmenter:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, case: Case) -> None:
        random = case.random
        text = strange.text(random)
        for point in range(EACH * case.number, EACH * case.number + EACH):
            place = random.randint(0, len(text))
            text = text[:place] + chr(point % (strange.LAST + 1)) + text[place:]
        if random.random() < 0.002:
            text *= random.choice((50, 900))  # longer than the buffer
        form, language = random.choice(plain_text.FORMS), random.choice(LANGUAGES)
        sentences = list(plain_text.split(text, form, language))
        check_cut(text, sentences)
        for sentence in sentences[:20]:
            check_sentence(sentence)
        spaced = "".join("\0" if is_blank(one) else one for one in text).split("\0")
        check_words(plain_text.spaced_words(text).words, [word for word in spaced if word])


def check_cut(text: str, sentences: list[Sentence]) -> None:
    """The words of all sentences are the text, in order, without its blanks."""
    position = 0
    for sentence in sentences:
        check(bool(sentence.words) and sentence.offsets is not None, "a sentence has words, and they have a place")
        for word, (start, end) in zip(sentence.words, sentence.offsets or (), strict=True):
            begin = sentence.start + start
            if text[begin : begin + len(word)] != word or len(word) != end - start or not word:
                raise Broken(f"{word!r} stands elsewhere")
            if any(map(is_blank, word)):
                raise Broken(f"{word!r} contains a blank")
            if begin < position or not all(map(is_blank, text[position:begin])):
                raise Broken(f"{word!r} overlaps the word before it, or something was lost between them")
            position = begin + len(word)
    check(all(map(is_blank, text[position:])), f"lost at the end: {text[position:]!r}")


def check_sentence(sentence: Sentence) -> None:
    """CoNLL-U keeps the words."""
    written = str(conllu.ConlluSentence.from_sentence(sentence, "1"))
    rows = [line.split("\t") for line in written.split("\n") if line and not line.startswith("# ")]
    check_words([row[1] for row in rows if row[0].isdigit()], sentence.words)
    check(all(len(row) == conllu.COLUMNS for row in rows), "ten columns a row")
