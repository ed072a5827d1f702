"""CoNLL-U, the format of Universal Dependencies (https://universaldependencies.org/format.html).

Every line is kept (comments, multi-word tokens such as ``1-2``, empty nodes such as ``8.1``), so that writing
what was read gives the same bytes, and changing one column changes that column only. Part-of-speech tags are
column 4 (UPOS); entities are ``NER=B-PER`` in column 10 (MISC), and so is ``Lang=de``, a word's own language in
code-switched text. A last sentence without its blank line is
read with a warning. A block of comments without words is a sentence of no words. Of several blank lines
between two sentences one is kept.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter

from zgul.corpora.lines import Lines, Sink, Source, check_word, write_blocks
from zgul.corpora.sentence import Sentence
from zgul.corpora.tags import UPOS, check_tags, tag_problem, to_iob2
from zgul.errors import ZgulError, ZgulWarning

ID, FORM, UPOS_COLUMN, MISC = 0, 1, 3, 9  # columns, from 0
COLUMNS = 10
EMPTY = "_"
MAX_ROWS = 1_000_000  # in one sentence; more means that this is another kind of file

_KNOWN_UPOS = frozenset((*UPOS, EMPTY))
_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
_EMPTY_NODE = re.compile(r"(0|[1-9][0-9]{0,8})\.[1-9][0-9]{0,8}")

_Token = tuple[str, bool, list[str]]  # form, whether a space follows, the words it stands for


class ConlluSentence:
    """One sentence as it stands in the file; its words are the syntactic ones, those with a whole number."""

    __slots__ = ("comments", "place", "rows")

    def __init__(self, comments: list[str], rows: list[list[str]], place: str = "") -> None:
        self.comments = comments  # lines that start with #
        self.rows = rows  # ten columns each: words, multi-word tokens, empty nodes
        self.place = place  # file and line, for messages

    def __len__(self) -> int:
        return len(self._word_rows)

    def __str__(self) -> str:
        lines = [*self.comments, *map("\t".join, self.rows), "", ""]
        return "\n".join(lines)

    @property
    def _word_rows(self) -> list[list[str]]:
        return [row for row in self.rows if row[ID].isdigit()]

    @property
    def words(self) -> list[str]:
        return [row[FORM] for row in self._word_rows]

    @property
    def upos(self) -> list[str]:
        """One per word; ``_`` where there is none. Assigning writes column 4."""
        return [row[UPOS_COLUMN] for row in self._word_rows]

    @upos.setter
    def upos(self, tags: list[str]) -> None:
        check_tags("pos", tags)
        for row, tag in zip(self._matching(tags), tags, strict=True):
            row[UPOS_COLUMN] = tag

    @property
    def ner(self) -> list[str]:
        """One per word, from MISC; ``_`` where there is none. Assigning keeps MISC's other entries."""
        return [_get_misc(row[MISC], "NER") or EMPTY for row in self._word_rows]

    @ner.setter
    def ner(self, tags: list[str]) -> None:
        check_tags("ner", tags)
        for row, tag in zip(self._matching(tags), tags, strict=True):
            row[MISC] = _set_misc(row[MISC], "NER", tag)

    def _matching(self, tags: list[str]) -> list[list[str]]:
        rows = self._word_rows
        if len(rows) != len(tags):
            raise ValueError(f"{len(rows)} words but {len(tags)} tags")
        return rows

    def set_tags(self, task: str, tags: list[str]) -> None:
        """Write the tags of a task (``pos`` or ``ner``) where they belong."""
        check_tags(task, tags)
        if task == "pos":
            self.upos = tags
        else:
            self.ner = tags

    def word_languages(self, language: str | None = None) -> list[str] | None:
        """Where a word has its own language in MISC, the codes of all words: of the others ``language``, else ""."""
        own = [_get_misc(row[MISC], "Lang") for row in self._word_rows]
        return [(code and _known(code)) or language or "" for code in own] if any(own) else None

    def comment(self, key: str) -> str | None:
        """The value of ``# key = value``."""
        for line in self.comments:
            name, equals, value = line[1:].partition("=")
            if equals and name.strip() == key:
                return value.strip()
        return None

    def to_sentence(self, task: str | None = None, language: str | None = None) -> Sentence:
        """Words with their languages, offsets into ``# text`` and, for a task, the tags, where every word has one."""
        text, offsets = self._aligned()
        tags = None if task is None else self._tags(task)
        return Sentence(self.words, tags, language, self.word_languages(language), text, offsets)

    def _tags(self, task: str) -> list[str] | None:
        tags = self.upos if task == "pos" else self.ner
        missing = tags.count(EMPTY)
        if missing == len(tags):
            return None
        if missing:
            self._warn(f"{missing} of {len(tags)} words have no {task} tag; the sentence is taken as untagged")
            return None
        try:
            check_tags(task, tags)
        except ZgulError as error:
            raise ZgulError(f"{self.place}: {error}") from None
        return tags if task == "pos" else to_iob2(tags)

    def _aligned(self) -> tuple[str, list[tuple[int, int]]]:
        """The text and where each word is in it; without a matching ``# text`` it is built from the words."""
        given = self.comment("text")
        if given is not None:
            spans = _spans(given, self._tokens())
            if spans is not None:
                return given, spans
            self._warn("'# text' does not match the words; the text is put together from the words")
        text = "".join(form + " " * spaced for form, spaced, _ in self._tokens()).removesuffix(" ")
        return text, _spans(text, self._tokens()) or []

    def _tokens(self) -> list[_Token]:
        """The tokens as written, multi-word ones with their words."""
        tokens: list[_Token] = []
        covered = 0  # words up to this number belong to a multi-word token
        for row in self.rows:
            number, form = row[ID], row[FORM]
            spaced = _get_misc(row[MISC], "SpaceAfter") != "No"
            if "-" in number:
                covered = int(number.partition("-")[2])
                tokens.append((form, spaced, []))
            elif number.isdigit():
                if int(number) <= covered:
                    tokens[-1][2].append(form)
                else:
                    tokens.append((form, spaced, [form]))
        return tokens

    def _warn(self, message: str) -> None:
        warnings.warn(f"{self.place}: {message}", ZgulWarning, stacklevel=4)

    @classmethod
    def from_sentence(cls, sentence: Sentence, task: str | None = None, sent_id: str | None = None) -> ConlluSentence:
        """A new one: spaces and multi-word tokens as the offsets say, tags where ``task`` puts them."""
        text = " ".join(sentence.words) if sentence.text is None else sentence.text
        comments = [] if sent_id is None else [f"# sent_id = {_one_line(sent_id)}"]
        comments.append(f"# text = {_one_line(text)}")
        result = cls(comments, _new_rows(sentence))
        if task is not None and sentence.tags is not None:
            result.set_tags(task, sentence.tags)
        return result


def read(source: Source, *, check_upos: bool = True) -> Iterator[ConlluSentence]:
    """Read sentence by sentence, checking columns, numbering and, unless they do not matter, parts of speech."""
    lines = Lines(source)
    comments: list[str] = []
    block = _Block(lines, check_upos)
    for line in lines:
        if not line or line.isspace():
            if comments or block.rows:
                yield block.finish(comments)
                comments, block = [], _Block(lines, check_upos)
        elif line[0] != "#":
            block.add(line)
        elif block.rows:
            raise lines.error("a comment inside a sentence; is a blank line missing before it?")
        else:
            comments.append(line)
    if comments or block.rows:
        lines.warn("the last sentence has no blank line after it; the file may have been cut short")
        yield block.finish(comments)


class _Block:
    """The rows of one sentence, checked as they come."""

    __slots__ = ("check_upos", "covered", "first", "lines", "rows", "words")

    def __init__(self, lines: Lines, check_upos: bool) -> None:
        self.lines = lines
        self.check_upos = check_upos
        self.rows: list[list[str]] = []
        self.first = 0  # line of the first row
        self.words = 0  # number of the last word
        self.covered = 0  # number of the last word of the last multi-word token

    def add(self, line: str) -> None:
        columns = line.split("\t")
        if len(columns) != COLUMNS:
            raise self.lines.error(_wrong_width(len(columns)))
        if columns[ID] == str(self.words + 1):
            self.words += 1
        else:
            self._check_number(columns[ID])
        if self.check_upos and columns[UPOS_COLUMN] not in _KNOWN_UPOS:
            raise self.lines.error(tag_problem("pos", columns[UPOS_COLUMN]) or "")
        if "" in columns:
            raise self.lines.error("an empty column; CoNLL-U writes _ there")
        if not self.rows:
            self.first = self.lines.number
        elif len(self.rows) == MAX_ROWS:
            raise self.lines.error(f"no blank line in {MAX_ROWS:,} lines; sentences must be set apart by one")
        self.rows.append(columns)

    def _check_number(self, number: str) -> None:
        """Refuse an ID that is neither a multi-word token about to begin nor an empty node after the last word."""
        multi_word = _RANGE.fullmatch(number)
        if multi_word and int(multi_word[1]) == self.words + 1 > self.covered and int(multi_word[2]) > self.words:
            self.covered = int(multi_word[2])
            return
        empty_node = _EMPTY_NODE.fullmatch(number)
        if empty_node and int(empty_node[1]) == self.words:
            return
        hint = "; is a blank line missing before it?" if number == "1" else ""
        raise self.lines.error(f"word number {number!r} where {self.words + 1} is expected{hint}")

    def finish(self, comments: list[str]) -> ConlluSentence:
        if self.covered > self.words:
            raise self.lines.error(f"a multi-word token reaches to word {self.covered}, which is missing")
        return ConlluSentence(comments, self.rows, f"{self.lines.name}, line {self.first}")


def write(sink: Sink, sentences: Iterable[ConlluSentence]) -> int:
    """Write sentence by sentence; returns how many."""
    return write_blocks(sink, map(str, sentences))


def _wrong_width(found: int) -> str:
    if found == 1:
        return "1 column where CoNLL-U has 10, with a tab between them; is this another format?"
    hint = "; a word must not hold a tab" if found > COLUMNS else ""
    return f"{found} columns where CoNLL-U has 10{hint}"


@cache
def _known(code: str) -> str:
    """A word's language as zgul calls it; what is none is said once."""
    from zgul.languages import find  # its tables are not needed where no word has a language

    try:
        return find(code).code
    except ZgulError:
        problem = f"Lang={code} in MISC is no language that zgul knows; such words are taken to be in the text's own"
        warnings.warn(problem, ZgulWarning, stacklevel=4)
        return ""


def _get_misc(misc: str, key: str) -> str | None:
    if key not in misc:  # nearly always
        return None
    for entry in misc.split("|"):
        name, equals, value = entry.partition("=")
        if equals and name == key:
            return value
    return None


def _set_misc(misc: str, key: str, value: str) -> str:
    entries = [] if misc == EMPTY else misc.split("|")
    names = [entry.partition("=")[0] for entry in entries]
    if key in names:
        entries[names.index(key)] = f"{key}={value}"
    else:
        entries.append(f"{key}={value}")
    return "|".join(entries)


def _spans(text: str, tokens: list[_Token]) -> list[tuple[int, int]] | None:
    """Where each word is in the text; None if the tokens do not make up the text."""
    spans: list[tuple[int, int]] = []
    position = 0
    for form, _, words in tokens:
        while not text.startswith(form, position):
            if not text[position : position + 1].isspace():
                return None
            position += 1
        start, position = position, position + len(form)
        if "".join(words) == form:  # also "don't" = "do" + "n't"
            for word in words:
                spans.append((start, start + len(word)))
                start += len(word)
        else:  # "zum" = "zu" + "dem": no place of their own
            spans += [(start, position)] * len(words)
    return None if text[position:].strip() else spans


def _new_rows(sentence: Sentence) -> list[list[str]]:
    """Rows without annotation; words that share one place in the text become a multi-word token."""
    for word in sentence.words:
        check_word(word)
    if sentence.offsets is None or sentence.text is None:
        return [_new_row(number, word) for number, word in enumerate(sentence.words, start=1)]
    rows: list[list[str]] = []
    number = 0
    for (start, end), group in groupby(zip(sentence.offsets, sentence.words, strict=True), key=itemgetter(0)):
        words = [word for _, word in group]
        glued = end < len(sentence.text) and not sentence.text[end].isspace()
        misc = "SpaceAfter=No" if glued else EMPTY
        if len(words) == 1:
            rows.append(_new_row(number + 1, words[0], misc))
        else:
            rows.append(_new_row(f"{number + 1}-{number + len(words)}", sentence.text[start:end], misc))
            rows += [_new_row(number + place, word) for place, word in enumerate(words, start=1)]
        number += len(words)
    return rows


def _new_row(number: int | str, form: str, misc: str = EMPTY) -> list[str]:
    return [str(number), form, *[EMPTY] * 7, misc]


def _one_line(text: str) -> str:
    return re.sub(r"[\n\r\t\0]", " ", text).strip()
