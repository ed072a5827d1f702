"""Plain text of any script: running text in paragraphs, or one sentence a line, also with spaces between all words.

Running text is split without a language model. Words are those of Unicode (UAX 29), with the exceptions in
``patterns.toml``, which bring them closer to those of treebanks. English clitics are split off (do|n't, it|'s). A full
stop belongs to the word before it if that is an initial (J. Smith, z. B.), an ordinal (3. mai), an abbreviation
(``abbreviations.toml``), or short and the sentence continues (etc. and). In scripts without spaces, words are single
characters.

Sentences end as in UAX 29, at a terminator of any script (property Sentence_Break: ``. ! ? । ። ؟ ։ 。`` and more) with
the closing quotes and brackets after it. A full stop needs white space after it. Neither a full stop nor a closing
quote ends a sentence if lower case follows, but a full stop does in a text that begins its sentences in lower case. A
blank line always ends a sentence, a single line end never does.

Every word is ``text[start:end]`` of its sentence's text. Only blanks are left out: white space, control characters,
zero-width space and byte-order mark.
"""

import statistics
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import regex

from zgul.corpora.lines import Lines, Source
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError, ZgulWarning

FORMS = ("auto", "raw", "sentences", "words")
SAMPLE = 200  # lines that decide what a text is
SHORT_LINE = 100  # characters: the median line of poems, lists and sentences is shorter
BUFFER = 1 << 16  # characters of a paragraph that `stream` holds at most, unless one line is longer
BLANK = r"\s\p{Cc}\u200b\ufeff"  # the inside of a character class
LEARN_FROM = 1 << 18  # characters: enough to learn abbreviations from, and the counts stay small
Span = tuple[int, int]

_LISTS = tomllib.loads(Path(__file__).with_name("abbreviations.toml").read_text("utf-8"))
_EVERY_LANGUAGE = frozenset(_LISTS["every_language"].split())
_BEFORE_NUMBERS = frozenset(_LISTS["before_numbers"].split())
_LISTED = {code: set(words.split()) for codes, words in _LISTS["languages"].items() for code in codes.split()}

_TEXTS = tomllib.loads(Path(__file__).with_name("patterns.toml").read_text("utf-8"))
_TEXTS["token"] = _TEXTS["token"].replace("MARK", _TEXTS.pop("mark")).replace("REST", _TEXTS.pop("rest"))
_PATTERN = SimpleNamespace(**{name: regex.compile(text.replace("BLANK", BLANK)) for name, text in _TEXTS.items()})


def read(source: Source, form: str = "sentences", language: str | None = None) -> Iterator[Sentence]:
    """Read sentence by sentence. The first one opens a document; one after a blank line opens a paragraph.

    ``form``: ``raw`` is running text; ``sentences`` one sentence a line; ``words`` the same, with blanks between all
    words; ``auto`` is ``sentences`` if the first lines look like it, with a warning, else ``raw``.
    """
    if form not in FORMS:
        raise ZgulError(f"unknown form of text {form!r}: choose one of {', '.join(FORMS)}")
    lines = Lines(source)
    choice = getattr(source, "choice", True)
    for number, sentence in enumerate(_cut(iter(lines), form, language, lines.name, choice)):
        sentence.opens = sentence.opens if number else "document"
        yield sentence


def split(text: str, form: str = "auto", language: str | None = None) -> Iterator[Sentence]:
    """Split a text into sentences, in one of the forms of ``read``."""
    return _cut(iter(text.split("\n")), form, language, "the text")


def lines_are_sentences(lines: Sequence[str]) -> bool:
    """Whether each line is a sentence of its own, as in poems, lists, tables and corpora.

    Most lines are short, have no final punctuation, do not begin in lower case, and are not filled up to one width.
    """
    filled = [line for line in lines if line.strip()]
    pairs = [(line, after) for line, after in pairwise(map(str.rstrip, lines)) if line and after.strip()]
    if len(pairs) < 2 or statistics.median(map(len, filled)) > SHORT_LINE:
        return False
    unfinished = [(line, after) for line, after in pairs if not _PATTERN.final.search(line)]
    if 2 * len(unfinished) <= len(pairs):
        return False
    continued = sum(_PATTERN.continues.match(after) is not None for _, after in unfinished)
    if len(unfinished) < len(pairs) and 2 * continued > len(unfinished):
        return False
    width = sorted(map(len, filled))[-1 - len(filled) // 20]  # a few lines may be too long
    full = sum(len(line) + 1 + len(after.split()[0]) > width for line, after in pairs)
    several_words = statistics.median(len(line.split()) for line in filled) > 3
    return not (several_words and 2 * full > len(pairs))


def _cut(lines: Iterator[str], form: str, language: str | None, name: str, choice: bool = True) -> Iterator[Sentence]:
    if form == "auto":
        first: list[str] = []
        for line in islice(lines, SAMPLE):
            first.append(line)
            if sum(map(len, first)) > BUFFER:  # hold no more text than `stream` does
                break
        lines, form = chain(first, lines), "sentences" if lines_are_sentences(first) else "raw"
        if form == "sentences":
            seen = "most lines are short and have no final punctuation, so each line is read as a sentence"
            advice = "use --input text (in Python: form='raw')" if choice else "join their lines first"
            problem = f"{name}: {seen}. If sentences continue on the next line, {advice}."
            warnings.warn(problem, ZgulWarning, stacklevel=2)
    yield from stream(lines, language) if form == "raw" else _one_a_line(lines, form, language)


def _one_a_line(lines: Iterable[str], form: str, language: str | None) -> Iterator[Sentence]:
    cut = words if form == "sentences" else spaced_words
    position = 0
    given = after_blank = False
    for line in lines:
        sentence = cut(line, language)
        if sentence.words:
            sentence.start = position
            sentence.opens = "paragraph" if after_blank else None
            yield sentence
        given = given or bool(sentence.words)
        after_blank = given and not sentence.words
        position += len(line) + 1


# --- running text


class Abbreviations:
    """The abbreviations of a text: those listed for its language, and those that the text itself shows.

    In a text that begins its sentences in lower case (chats, old manuscripts), there is no such sign of one.
    """

    def __init__(self, language: str | None = None) -> None:
        self._listed = _EVERY_LANGUAGE.union(_LISTED.get(language or "", ()))
        self._counts: Counter[tuple[str, str]] = Counter()  # of a word and what comes after it
        self._characters = 0
        self._before_lower, self._before_upper = set[str](), set[str]()  # longer words that have a full stop; "" begins

    def learn(self, text: str) -> None:
        """Learn words that mostly have a full stop with lower case after it (``geb. in``) from a passage."""
        if self._characters > LEARN_FROM:
            return
        if not self._characters:
            first = next(filter(str.isalpha, text), "")
            (self._before_lower if first.islower() else self._before_upper).add("")
        self._characters += len(text)
        self._counts.update((word, "no stop") for word in _PATTERN.without_stop.findall(text.lower()))
        for match in _PATTERN.with_stop.finditer(text):
            self._counts[match[1].lower(), "stop, lower case" if match[2] else "stop, upper case"] += 1
            if not _PATTERN.short.fullmatch(match[1]):
                (self._before_lower if match[2] else self._before_upper).add(match[1].lower())

    @property
    def lower_starts(self) -> bool:
        """Whether sentences of the text begin in lower case."""
        return len(self._before_lower) > max(1, 2 * len(self._before_upper))

    def __contains__(self, word: str) -> bool:
        word = word.lower()
        if word in self._listed or self.lower_starts:
            return word in self._listed
        other = max(1, self._counts[word, "stop, upper case"], self._counts[word, "no stop"])
        return self._counts[word, "stop, lower case"] > other


def words(text: str, language: str | None = None) -> Sentence:
    """Split a text that is one sentence into words."""
    parts = list(split(text, "raw", language))
    offsets = [(part.start + start, part.start + end) for part in parts for start, end in part.offsets or ()]
    return Sentence([word for part in parts for word in part.words], language=language, text=text, offsets=offsets)


def spaced_words(text: str, language: str | None = None) -> Sentence:
    """Split a sentence at blanks only."""
    offsets = [match.span() for match in _PATTERN.spaced.finditer(text)]
    return Sentence([text[start:end] for start, end in offsets], language=language, text=text, offsets=offsets)


def stream(lines: Iterable[str], language: str | None = None) -> Iterator[Sentence]:
    """Split a text that comes line by line. A sentence that is longer than ``BUFFER`` is cut at the end of a line."""
    abbreviations = Abbreviations(language)
    text = ""  # the text that was not yielded yet
    position = carried = 0  # where it begins, and how much of it was examined before
    after_blank = False  # whether a blank line comes before the next sentence
    for line in chain(lines, [""]):
        text += line.removesuffix("\n") + "\n"
        blank = _PATTERN.blanks.fullmatch(line) is not None
        if not blank and len(text) < BUFFER:
            continue
        abbreviations.learn(text[carried:])
        sentences = list(_sentence_spans(text, abbreviations))
        keep = len(text) if blank or len(sentences) < 2 else sentences.pop()[0][0][0]
        for number, (spans, first) in enumerate(sentences):
            start, end = spans[0][0], spans[-1][1]
            offsets = [(a - start, b - start) for a, b in spans]
            words = [text[a:b] for a, b in spans]
            opens: Literal["paragraph"] | None = "paragraph" if first and (number or after_blank) else None
            yield Sentence(words, None, language, None, text[start:end], offsets, position + start, opens)
        after_blank = blank if sentences else after_blank
        position += keep
        text = text[keep:]
        carried = len(text)


def _sentence_spans(text: str, abbreviations: Abbreviations) -> Iterator[tuple[list[Span], bool]]:
    """The words of each sentence, and whether the sentence is the first of a paragraph."""
    start = 0
    borders = [match.start() for match in _PATTERN.paragraph.finditer(text, overlapped=True)]
    for border in (*borders, len(text)):
        paragraph = _sentences_of_paragraph(text, list(_word_spans(text, start, border)), abbreviations)
        for number, spans in enumerate(paragraph):
            yield spans, number == 0
        start = border


def _word_spans(text: str, start: int, end: int) -> Iterator[Span]:
    for match in _PATTERN.token.finditer(text, start, end):
        a, b = match.span()
        clitic = _PATTERN.clitic.search(text, a, b)
        if clitic and clitic.start() > a:
            yield a, clitic.start()
            a = clitic.start()
        yield a, b


def _sentences_of_paragraph(text: str, spans: list[Span], abbreviations: Abbreviations) -> Iterator[list[Span]]:
    sentence: list[Span] = []
    terminator: Span | None = None  # ends the sentence unless the next word continues it
    for index, span in enumerate(spans):
        if terminator:
            if span[0] == sentence[-1][1] and _PATTERN.closer.fullmatch(text, *span):
                sentence.append(span)
                continue
            if _ends_sentence(text, terminator, sentence[-1][1], span, abbreviations.lower_starts):
                yield sentence
                sentence = []
            terminator = None
        if sentence and _is_abbreviation(text, sentence[-2:], spans[index : index + 3], abbreviations):
            sentence[-1] = (sentence[-1][0], span[1])
            continue
        sentence.append(span)
        if _PATTERN.terminator.fullmatch(text, *span):
            terminator = span
    if sentence:
        yield sentence


def _ends_sentence(text: str, terminator: Span, end: int, following: Span, lower_starts: bool) -> bool:
    """Whether a terminator ends the sentence: UAX 29, rules SB6 to SB11, and “Really?” she asked."""
    if _PATTERN.goes_on.match(text, *following):
        return False
    lower = bool(_PATTERN.lower.match(text, *following))
    if _PATTERN.full_stop.fullmatch(text, *terminator):
        return following[0] > end and (lower_starts or not lower)
    return not (lower and end > terminator[1])


def _is_abbreviation(text: str, before: list[Span], after: list[Span], abbreviations: Abbreviations) -> bool:
    """Whether the first span of ``after`` is a full stop that belongs to the word before it and ends no sentence."""
    word, stop, following = before[-1], after[0], after[1:]
    if text[slice(*stop)] != "." or word[1] != stop[0] or not following:
        return False
    first = following[0]
    spaced = first[0] > stop[1]
    if _PATTERN.ordinal.fullmatch(text, *word):
        return spaced and text[first[0]].isalpha()
    name = text[slice(*word)]
    if _PATTERN.initial.fullmatch(name) or name in abbreviations:
        return spaced
    if spaced and _PATTERN.letter.fullmatch(name):  # z. B., d. h.
        if len(before) == 2 and _PATTERN.letter_stop.fullmatch(text, *before[0]):
            return True
        if len(following) == 2 and _PATTERN.letter_stop.fullmatch(text, first[0], following[1][1]):
            return True
    if name.lower() in _BEFORE_NUMBERS and text[first[0]].isdigit():
        return True
    lower = None if abbreviations.lower_starts else _PATTERN.lower.match(text, *first)
    goes_on = lower or _PATTERN.goes_on.match(text, *first)
    return goes_on is not None and _PATTERN.short.fullmatch(name) is not None
