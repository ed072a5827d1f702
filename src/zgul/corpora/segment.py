"""Split raw text of any script into sentences and words, without a language model.

Words are the default word boundaries of Unicode (UAX 29), as the ``regex`` package implements them. A few rules are
added, each because it brings the words closer to those of real treebanks:

- Not split: web and e-mail addresses, @handles, #tags, emoticons, times and fractions (10:30, 1/2), dotted
  abbreviations (U.S., z.B.), hyphenated words and their halves (Vor- und), an editor's brackets inside a word
  (кн[ѧ]зю), runs of dots, dashes, exclamation and question marks.
- English clitics are split off (do|n't, it|'s), as in Universal Dependencies.
- A full stop belongs to the word before it if that word is an initial (J. Smith, z. B.), an ordinal (3. mai), an
  abbreviation (``abbreviations.toml``), or short and the sentence goes on (etc. and).

In scripts without spaces the words are what Unicode's rules give: single characters of Han, Hiragana and Thai.

Sentences end as in UAX 29, at a terminator of any script (property Sentence_Break: ``. ! ? । ። ؟ ։ 。`` and more) with
the closing quotes and brackets after it. A full stop needs white space after it. Neither a full stop nor a closing
quote ends a sentence if lower case follows. A blank line always ends a sentence, a single line end never does.

Every word is ``text[start:end]`` of its sentence's text. Only blanks are left out: white space, control characters,
zero-width space and byte-order mark. No word contains any of them.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Literal

import regex

from zgul.corpora.sentence import Sentence

BUFFER = 1 << 16  # characters of a paragraph that `stream` holds at most, unless one line is longer
BLANK = r"\s\p{Cc}\u200b\ufeff"  # the inside of a character class
LEARN_FROM = 1 << 18  # characters: enough to learn abbreviations from, and the counts stay small

Span = tuple[int, int]

_LISTS = tomllib.loads(Path(__file__).with_name("abbreviations.toml").read_text("utf-8"))
_EVERY_LANGUAGE = frozenset(_LISTS["every_language"].split())
_BEFORE_NUMBERS = frozenset(_LISTS["before_numbers"].split())
_LISTED = {code: set(words.split()) for codes, words in _LISTS["languages"].items() for code in codes.split()}

_MARK = rf"[[\p{{WB=Extend}}\p{{WB=Format}}\p{{WB=ZWJ}}]--[{BLANK}]]"  # belongs to the character before it
_REST = rf"[^{BLANK}]*? (?: \b | (?= [{BLANK}] | \Z ) )"  # of a word by UAX 29, which never goes over a blank
_TOKEN = regex.compile(
    rf"""
      (?: https?:// | ftp:// | www\. ) [^{BLANK}<>"«»“”]* [\p{{L}}\p{{N}}/=_&\#%~+-]   # web address
    | (?<! [\w.+-] ) [\w.+-]+ @ [\w-]+ (?: \.[\w-]+ )+                                  # e-mail address
    | (?<! \w ) [@\#] \p{{L}} [\w\p{{M}}]*                                              # @handle, #tag
    | (?<! [\p{{L}}\p{{M}}\p{{N}}] ) \p{{L}}\p{{M}}* \. (?: \p{{L}}\p{{M}}* \. )+       # U.S.
    | \p{{Nd}}+ (?: [.,:/] \p{{Nd}}+ )+ (?! [\p{{L}}\p{{N}}_] )                         # 10:30
    | \.{{2,}} | [!?]{{2,}} | -{{2,}} | [–—]{{2,}} | \*{{2,}} | _{{2,}} | ={{2,}}        # runs
    | `` | '' | ’’ | ‘‘ | \p{{RI}}{{2}}                                                # also flags
    | (?<! \w ) [:;] -? [()DP] (?! \w )                                                 # :-)
    | (?<! \w ) ['’] (?: s | re | ve | ll | d | m ) (?! \w )                            # clitic on its own
    | (?: (?<! [^{BLANK}] ) {_MARK}+ )?                                                 # marks after a blank
      [\p{{L}}\p{{N}}] {_REST}                                                          # word by UAX 29
      (?: [-‐‑] [\p{{L}}\p{{N}}] {_REST}                                                # with hyphens
        | \[ [\p{{L}}\p{{M}}]+ \] (?: \p{{L}} {_REST} )? )*                             # or as in кн[ѧ]зю
      (?: [-‐‑] (?= [{BLANK}]+ \p{{L}} ) )?                                             # Vor- und
    | (?<! [^{BLANK}] ) {_MARK}+                                                        # marks alone
    | [^{BLANK}] {_REST}                                                                # anything else
    """,
    regex.WORD | regex.VERBOSE | regex.VERSION1,
)
_CLITIC = regex.compile(r"(?i)(?<=\p{Latin})(?:n['’]t|['’](?:s|re|ve|ll|d|m))$")
_BLANKS = regex.compile(rf"[{BLANK}]*", regex.VERSION1)
_SPACED = regex.compile(rf"[^{BLANK}]+", regex.VERSION1)
_PARAGRAPH = regex.compile(rf"\n[{BLANK}--\n]*\n|\u2029", regex.VERSION1)
_TERMINATOR = regex.compile(r"[\p{SB=STerm}\p{SB=ATerm}…]+")
_FULL_STOP = regex.compile(r"[\p{SB=ATerm}…]+")
_CLOSER = regex.compile(r"[\p{SB=Close}\p{SB=STerm}\p{SB=ATerm}…]+")
_GOES_ON = regex.compile(r"\p{SB=SContinue}")
_LOWER = regex.compile(r"\p{SB=Lower}")
_INITIAL = regex.compile(r"[\p{Lu}\p{Lo}]\p{M}*")
_LETTER = regex.compile(r"\p{L}\p{M}*")
_LETTER_STOP = regex.compile(r"\p{L}\p{M}*\.")
_ORDINAL = regex.compile(r"\p{Nd}{1,2}")
_SHORT = regex.compile(r"(?:\p{L}\p{M}*){1,4}")
_WITHOUT_STOP = regex.compile(r"\p{L}[\p{L}\p{M}]*+(?!\.)")
_WITH_STOP = regex.compile(r"(?<![\p{L}\p{M}.])(\p{L}[\p{L}\p{M}]*+)\.\s+(?:(\p{Ll})|\p{Lu})")


class Abbreviations:
    """The abbreviations of a text: those listed for its language, and those that the text itself shows.

    A word that mostly has a full stop with lower case after it (``geb. in``) is an abbreviation, because sentences
    seldom begin in lower case.
    """

    def __init__(self, language: str | None = None) -> None:
        self._listed = _EVERY_LANGUAGE.union(_LISTED.get(language or "", ()))
        self._counts: Counter[tuple[str, str]] = Counter()  # of a word and what comes after it
        self._characters = 0

    def learn(self, text: str) -> None:
        """Count the words of a passage with and without a full stop."""
        if self._characters > LEARN_FROM:
            return
        self._characters += len(text)
        self._counts.update((word, "no stop") for word in _WITHOUT_STOP.findall(text.lower()))
        for match in _WITH_STOP.finditer(text):
            self._counts[match[1].lower(), "stop, lower case" if match[2] else "stop, upper case"] += 1

    def __contains__(self, word: str) -> bool:
        word = word.lower()
        other = max(1, self._counts[word, "stop, upper case"], self._counts[word, "no stop"])
        return self._counts[word, "stop, lower case"] > other or word in self._listed


def sentences(text: str, language: str | None = None) -> Iterator[Sentence]:
    """Split a text into sentences of words. ``start`` is where each sentence begins in the text."""
    return stream(text.split("\n"), language)


def words(text: str, language: str | None = None) -> Sentence:
    """Split a text that is one sentence into words."""
    parts = list(sentences(text, language))
    offsets = [(part.start + start, part.start + end) for part in parts for start, end in part.offsets or ()]
    return Sentence([word for part in parts for word in part.words], language=language, text=text, offsets=offsets)


def spaced_words(text: str, language: str | None = None) -> Sentence:
    """Split a sentence at blanks only."""
    offsets = [match.span() for match in _SPACED.finditer(text)]
    return Sentence([text[start:end] for start, end in offsets], language=language, text=text, offsets=offsets)


def stream(lines: Iterable[str], language: str | None = None) -> Iterator[Sentence]:
    """Split a text that comes line by line, one paragraph at a time.

    In a paragraph of more than ``BUFFER`` characters all sentences but the last are given out before the paragraph
    ends. Only a single sentence of that length is cut, at the end of a line.
    """
    abbreviations = Abbreviations(language)
    text = ""  # what is not given out yet
    position = carried = 0  # where it begins, and how much of it was looked at before
    after_blank = False  # a blank line stands before the next sentence
    for line in chain(lines, [""]):
        text += line.removesuffix("\n") + "\n"
        blank = _BLANKS.fullmatch(line) is not None
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
    borders = [match.start() for match in _PARAGRAPH.finditer(text, overlapped=True)]
    for border in (*borders, len(text)):
        paragraph = _sentences_of_paragraph(text, list(_word_spans(text, start, border)), abbreviations)
        for number, spans in enumerate(paragraph):
            yield spans, number == 0
        start = border


def _word_spans(text: str, start: int, end: int) -> Iterator[Span]:
    for match in _TOKEN.finditer(text, start, end):
        a, b = match.span()
        clitic = _CLITIC.search(text, a, b)
        if clitic and clitic.start() > a:
            yield a, clitic.start()
            a = clitic.start()
        yield a, b


def _sentences_of_paragraph(text: str, spans: list[Span], abbreviations: Abbreviations) -> Iterator[list[Span]]:
    sentence: list[Span] = []
    terminator: Span | None = None  # ends the sentence unless the next word goes on with it
    for index, span in enumerate(spans):
        if terminator:
            if span[0] == sentence[-1][1] and _CLOSER.fullmatch(text, *span):
                sentence.append(span)
                continue
            if _ends_sentence(text, terminator, sentence[-1][1], span):
                yield sentence
                sentence = []
            terminator = None
        if sentence and _is_abbreviation(text, sentence[-2:], spans[index : index + 3], abbreviations):
            sentence[-1] = (sentence[-1][0], span[1])
            continue
        sentence.append(span)
        if _TERMINATOR.fullmatch(text, *span):
            terminator = span
    if sentence:
        yield sentence


def _ends_sentence(text: str, terminator: Span, end: int, following: Span) -> bool:
    """Whether a terminator ends the sentence: UAX 29, rules SB6 to SB11, and “Really?” she asked."""
    if _GOES_ON.match(text, *following):
        return False
    lower = bool(_LOWER.match(text, *following))
    if _FULL_STOP.fullmatch(text, *terminator):
        return following[0] > end and not lower
    return not (lower and end > terminator[1])


def _is_abbreviation(text: str, before: list[Span], after: list[Span], abbreviations: Abbreviations) -> bool:
    """Whether the first span of ``after`` is a full stop that belongs to the word before it and ends no sentence."""
    word, stop, following = before[-1], after[0], after[1:]
    if text[slice(*stop)] != "." or word[1] != stop[0] or not following:
        return False
    first = following[0]
    spaced = first[0] > stop[1]
    if _ORDINAL.fullmatch(text, *word):
        return spaced and text[first[0]].isalpha()
    name = text[slice(*word)]
    if _INITIAL.fullmatch(name) or name in abbreviations:
        return spaced
    if _LETTER.fullmatch(name):  # z. B., d. h.
        after_letter = len(before) == 2 and _LETTER_STOP.fullmatch(text, *before[0])
        before_letter = len(following) == 2 and _LETTER_STOP.fullmatch(text, first[0], following[1][1])
        if spaced and (after_letter or before_letter):
            return True
    if name.lower() in _BEFORE_NUMBERS and text[first[0]].isdigit():
        return True
    goes_on = _LOWER.match(text, *first) or _GOES_ON.match(text, *first)
    return goes_on is not None and _SHORT.fullmatch(name) is not None
