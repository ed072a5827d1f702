"""Raw text of any script to sentences and words, without a language model.

Words are the default word boundaries of Unicode (UAX 29), as the ``regex`` package implements them, with a few
rules on top that were kept because they bring the words of real treebanks closer:

- whole stay web and e-mail addresses, @handles, #tags, emoticons, times and fractions (10:30, 1/2), dotted
  abbreviations (U.S., z.B.), hyphenated words and their halves (Vor- und), an editor's brackets inside a word
  (кн[ѧ]зю), runs of dots, dashes, exclamation and question marks;
- English clitics come off (do|n't, it|'s), as in Universal Dependencies;
- a full stop belongs to the word before it if that is an initial (J. Smith), an ordinal (3. mai), a usual title,
  or short and the sentence goes on (etc. and).

Scripts written without spaces come out as Unicode's rules leave them: Han, Hiragana and Thai by the character.

Sentences end as in UAX 29, at a terminator of any script (property Sentence_Break: ``. ! ? । ። ؟ ։ 。`` and more)
with the closing quotes and brackets behind it; a full stop only before white space. Neither a full stop nor a
closing quote ends a sentence if lower case follows. A blank line always does, a single line end never.

Every word is ``text[start:end]`` of its sentence's text, and nothing but white space is left out (zero-width
space and byte-order mark count as white space).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import regex

from zgul.corpora.sentence import Sentence

BUFFER = 1 << 16  # characters of a paragraph that `stream` holds at most, unless one line is longer

Span = tuple[int, int]

_BLANK = r"\s\x1c-\x1f\u200b\ufeff"
_MARK = rf"[[\p{{WB=Extend}}\p{{WB=Format}}\p{{WB=ZWJ}}]--[{_BLANK}]]"  # belongs to what it follows
_TOKEN = regex.compile(
    rf"""
      (?: https?:// | ftp:// | www\. ) [^{_BLANK}<>"«»“”]* [\p{{L}}\p{{N}}/=_&\#%~+-]   # web address
    | (?<! [\w.+-] ) [\w.+-]+ @ [\w-]+ (?: \.[\w-]+ )+                                   # e-mail address
    | (?<! \w ) [@\#] \p{{L}} [\w\p{{M}}]*                                               # @handle, #tag
    | (?<! [\p{{L}}\p{{M}}\p{{N}}] ) \p{{L}}\p{{M}}* \. (?: \p{{L}}\p{{M}}* \. )+        # U.S.
    | \p{{Nd}}+ (?: [.,:/] \p{{Nd}}+ )+ (?! [\p{{L}}\p{{N}}_] )                          # 10:30
    | \.{{2,}} | [!?]{{2,}} | -{{2,}} | [–—]{{2,}} | \*{{2,}} | _{{2,}} | ={{2,}}         # runs
    | `` | '' | ’’ | ‘‘ | \p{{RI}}{{2}}                                                 # also flags
    | (?<! \w ) [:;] -? [()DP] (?! \w )                                                  # :-)
    | (?<! \w ) ['’] (?: s | re | ve | ll | d | m ) (?! \w )                             # clitic on its own
    | (?: (?<! [^{_BLANK}] ) {_MARK}+ )?                                                 # marks with nothing before
      [\p{{L}}\p{{N}}] (?s:.*?) \b                                                       # word, by UAX 29
      (?: [-‐‑] [\p{{L}}\p{{N}}] (?s:.*?) \b                                             # its hyphens
        | \[ [\p{{L}}\p{{M}}]+ \] (?: \p{{L}} (?s:.*?) \b )? )*                          # and кн[ѧ]зю
      (?: [-‐‑] (?= [{_BLANK}]+ \p{{L}} ) )?                                             # Vor- und
    | (?<! [^{_BLANK}] ) {_MARK}+                                                        # nor after them
    | [^{_BLANK}] (?s:.*?) \b                                                            # whatever else
    """,
    regex.WORD | regex.VERBOSE | regex.VERSION1,
)
_CLITIC = regex.compile(r"(?i)(?<=\p{Latin})(?:n['’]t|['’](?:s|re|ve|ll|d|m))$")
_BLANKS = regex.compile(rf"[{_BLANK}]*")
_PARAGRAPH = regex.compile(rf"\n[{_BLANK}--\n]*\n|\u2029", regex.VERSION1)
_TERMINATOR = regex.compile(r"[\p{SB=STerm}\p{SB=ATerm}…]+")
_FULL_STOP = regex.compile(r"[\p{SB=ATerm}…]+")
_CLOSER = regex.compile(r"[\p{SB=Close}\p{SB=STerm}\p{SB=ATerm}…]+")
_GOES_ON = regex.compile(r"\p{SB=SContinue}")
_LOWER = regex.compile(r"\p{SB=Lower}")
_INITIAL = regex.compile(r"\p{Lu}\p{M}*")
_ORDINAL = regex.compile(r"\p{Nd}{1,2}")
_SHORT = regex.compile(r"(?:\p{L}\p{M}*){1,4}")
_TITLES = frozenset(("mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "hr", "fr", "nr", "no", "vs"))


def sentences(text: str, language: str | None = None) -> Iterator[Sentence]:
    """Cut a text into sentences of words; ``start`` says where each one's text begins in the whole."""
    for spans in _sentence_spans(text):
        start, end = spans[0][0], spans[-1][1]
        yield Sentence(
            [text[a:b] for a, b in spans],
            language=language,
            text=text[start:end],
            offsets=[(a - start, b - start) for a, b in spans],
            start=start,
        )


def words(text: str, language: str | None = None) -> Sentence:
    """Cut a text that is one sentence into words."""
    spans = [span for group in _sentence_spans(text) for span in group]
    return Sentence([text[a:b] for a, b in spans], language=language, text=text, offsets=spans)


def stream(lines: Iterable[str], language: str | None = None) -> Iterator[Sentence]:
    """Cut a text that comes line by line, a paragraph at a time; the same sentences as from the whole text.

    In a paragraph of more than ``BUFFER`` characters all but the last sentence are given out before it ends; only
    a single sentence of that length is cut, at the end of a line.
    """
    parts: list[str] = []  # of the text not given out yet
    size = position = 0  # its length and where it begins
    for line in lines:
        line = line.removesuffix("\n") + "\n"
        parts.append(line)
        size += len(line)
        blank = _BLANKS.fullmatch(line)
        if not blank and size < BUFFER:
            continue
        held = "".join(parts)
        found = list(sentences(held, language))
        keep = len(held)
        if not blank and len(found) > 1:
            keep = found.pop().start
        for sentence in found:
            sentence.start += position
            yield sentence
        position += keep
        parts = [held[keep:]]
        size = len(parts[0])
    for sentence in sentences("".join(parts), language):
        sentence.start += position
        yield sentence


def _sentence_spans(text: str) -> Iterator[list[Span]]:
    start = 0
    borders = [match.start() for match in _PARAGRAPH.finditer(text, overlapped=True)]
    for border in (*borders, len(text)):
        yield from _sentences_of_paragraph(text, list(_word_spans(text, start, border)))
        start = border


def _word_spans(text: str, start: int, end: int) -> Iterator[Span]:
    for match in _TOKEN.finditer(text, start, end):
        a, b = match.span()
        clitic = _CLITIC.search(text, a, b)
        if clitic and clitic.start() > a:
            yield a, clitic.start()
            a = clitic.start()
        yield a, b


def _sentences_of_paragraph(text: str, spans: list[Span]) -> Iterator[list[Span]]:
    sentence: list[Span] = []
    terminator: Span | None = None  # the one that ends this sentence, if the next word does not go on
    for span, following in zip_longest(spans, spans[1:]):
        if terminator:
            if span[0] == sentence[-1][1] and _CLOSER.fullmatch(text, *span):
                sentence.append(span)
                continue
            if _ends_sentence(text, terminator, sentence[-1][1], span):
                yield sentence
                sentence = []
            terminator = None
        if sentence and following and _is_abbreviation(text, sentence[-1], span, following):
            sentence[-1] = (sentence[-1][0], span[1])
            continue
        sentence.append(span)
        if _TERMINATOR.fullmatch(text, *span):
            terminator = span
    if sentence:
        yield sentence


def _ends_sentence(text: str, terminator: Span, end: int, following: Span) -> bool:
    """UAX 29, rules SB6 to SB11; and “Really?” she asked."""
    if _GOES_ON.match(text, *following):
        return False
    lower = bool(_LOWER.match(text, *following))
    if _FULL_STOP.fullmatch(text, *terminator):
        return following[0] > end and not lower
    return not (lower and end > terminator[1])


def _is_abbreviation(text: str, word: Span, stop: Span, following: Span) -> bool:
    """Whether a full stop belongs to the word before it and does not end the sentence."""
    if text[slice(*stop)] != "." or word[1] != stop[0]:
        return False
    spaced = following[0] > stop[1]
    if _ORDINAL.fullmatch(text, *word):
        return spaced and text[following[0]].isalpha()
    if _INITIAL.fullmatch(text, *word) or text[slice(*word)].lower() in _TITLES:
        return spaced
    if not _SHORT.fullmatch(text, *word):
        return False
    return bool(_LOWER.match(text, *following) or _GOES_ON.match(text, *following))
