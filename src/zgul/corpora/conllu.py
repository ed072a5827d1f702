"""CoNLL-U, the format of Universal Dependencies (https://universaldependencies.org/format.html).

Every line is kept (comments, multi-word tokens such as ``1-2``, empty nodes such as ``8.1``), so writing what was read
gives the same bytes. Only repeated blank lines become one. Part-of-speech tags are in column 4 (UPOS), entities in
column 10 (MISC) as ``NER=B-PER``. In code-switched text, MISC has a word's own language as ``Lang=de``.
"""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby, takewhile, zip_longest
from operator import itemgetter
from typing import Self

from zgul.corpora.lines import Lines, Source, check_words
from zgul.corpora.sentence import UPOS, Sentence, tag_problem, to_iob2
from zgul.errors import ZgulError, ZgulWarning
from zgul.languages import find

ID, FORM, UPOS_COLUMN, MISC = 0, 1, 3, 9  # columns, from 0
COLUMNS = 10
EMPTY = "_"
_NO_ANNOTATION = [EMPTY] * 7  # the columns between FORM and MISC

_KNOWN_UPOS = frozenset((*UPOS, EMPTY))
_COMPOUND_ID = re.compile(r"(0|[1-9][0-9]{0,8})([-.])([1-9][0-9]{0,8})")  # of a multi-word token or an empty node
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")  # also line ends of other systems, and control characters
_OPENS = {"document": "# newdoc", "paragraph": "# newpar"}
_BEGINNING = re.compile(
    r"\ufeff?"
    r"(# *(newdoc|newpar)\s*$"
    r"|# *((newdoc|newpar) +)?[\w.:-]+ *=\s"  # "# key = value"
    r"|1(-\d+)?\t([^\t\n]+\t){8}[^\t\n]+$)"  # ten columns
)

Token = tuple[str, bool, list[str]]  # the form as written, whether a space follows, the words it stands for


def looks_like_conllu(line: str) -> bool:
    """Whether a CoNLL-U file can begin with this line."""
    return _BEGINNING.match(line) is not None


@dataclass(slots=True)
class ConlluSentence:
    """One sentence as it is in the file. Its words are the syntactic words, whose IDs are whole numbers."""

    comments: list[str]  # lines that start with #
    rows: list[list[str]]  # ten columns each: words, multi-word tokens, empty nodes
    place: str = ""  # file and line, for messages

    def __len__(self) -> int:
        return len(self.word_rows)

    def __str__(self) -> str:  # as it is in a file
        return "\n".join([*self.comments, *map("\t".join, self.rows), "", ""])

    @property
    def word_rows(self) -> list[list[str]]:
        return [row for row in self.rows if row[ID].isdigit()]

    @property
    def words(self) -> list[str]:
        return [row[FORM] for row in self.word_rows]

    @property
    def upos(self) -> list[str]:  # "_" where there is none
        return [row[UPOS_COLUMN] for row in self.word_rows]

    @property
    def ner(self) -> list[str]:  # "_" where there is none
        return [_get_misc(row[MISC], "NER") or EMPTY for row in self.word_rows]

    def set_tags(self, task: str, tags: list[str]) -> None:
        """Write the tags of a task: parts of speech into column 4, entities into MISC."""
        if problem := next(filter(None, (tag_problem(task, tag) for tag in tags)), None):
            raise ZgulError(problem)
        if len(tags) != len(self):
            raise ValueError(f"{len(self)} words but {len(tags)} tags")
        for row, tag in zip(self.word_rows, tags, strict=True):
            if task == "pos":
                row[UPOS_COLUMN] = tag
            else:
                row[MISC] = set_misc(row[MISC], "NER", tag)

    def comment(self, key: str) -> str | None:
        """The value of ``# key = value``."""
        pairs = (line[1:].partition("=") for line in self.comments)
        return next((value.strip() for name, equals, value in pairs if equals and name.strip() == key), None)

    def to_sentence(self, task: str | None = None, language: str | None = None) -> Sentence:
        """Convert to words, languages and offsets in ``# text``; for a task also tags, if every word has one."""
        own = [_get_misc(row[MISC], "Lang") for row in self.word_rows]
        languages = [(code and _known_language(code)) or language or "" for code in own] if any(own) else None
        tags = None if task is None else self._complete_tags(task)
        tokens, given = self._tokens(), self.comment("text")
        offsets = None if given is None else _spans(given, tokens)
        if given is not None and offsets is None:
            self._warn("'# text' does not match the words; the text is put together from the words")
        text = _join(tokens) if given is None or offsets is None else given
        return Sentence(self.words, tags, language, languages, text, offsets or _spans(text, tokens))

    def _complete_tags(self, task: str) -> list[str] | None:
        tags = self.upos if task == "pos" else self.ner
        if missing := tags.count(EMPTY):
            if missing < len(tags):
                self._warn(f"{missing} of {len(tags)} words have no {task} tag; the sentence is taken as untagged")
            return None
        for tag in tags:
            if problem := tag_problem(task, tag):
                raise ZgulError(f"{self.place}: {problem}")
        return tags if task == "pos" else to_iob2(tags)

    def _tokens(self) -> list[Token]:
        tokens: list[Token] = []
        covered = 0  # words up to this number belong to a multi-word token
        for row in self.rows:
            first, multi_word, last = row[ID].partition("-")
            if "." in first:  # an empty node
                continue
            if multi_word or int(first) > covered:
                tokens.append((row[FORM], _get_misc(row[MISC], "SpaceAfter") != "No", []))
            if multi_word:
                covered = int(last)
            else:
                tokens[-1][2].append(row[FORM])
        return tokens

    def _warn(self, message: str) -> None:
        warnings.warn(f"{self.place}: {message}", ZgulWarning, stacklevel=4)

    @classmethod
    def from_sentence(cls, sentence: Sentence, sent_id: str | None = None) -> Self:
        """Make a new sentence without annotation. Spaces and multi-word tokens follow from the offsets."""
        tokens = _tokens_of(sentence)
        comments = [_OPENS[sentence.opens]] if sentence.opens else []
        comments += [f"# sent_id = {_BLANKS.sub(' ', sent_id).strip()}"] if sent_id is not None else []
        comments.append(f"# text = {_join(tokens)}")
        rows: list[list[str]] = []
        number = 0
        for form, spaced, words in tokens:
            misc = EMPTY if spaced else "SpaceAfter=No"
            if len(words) > 1:
                rows.append([f"{number + 1}-{number + len(words)}", form, *_NO_ANNOTATION, misc])
                misc = EMPTY
            for word in words:
                number += 1
                rows.append([str(number), word, *_NO_ANNOTATION, misc])
        return cls(comments, rows)


def read(source: Source, *, check_upos: bool = True) -> Iterator[ConlluSentence]:
    """Read sentence by sentence. Columns and numbering are checked; so is UPOS, unless ``check_upos`` is False."""
    lines = Lines(source)
    for first, block in lines.blocks():
        if lines.number < first + len(block):
            lines.warn("the last sentence has no blank line after it; the file may have been cut short")
        yield _parse(lines, first, block, check_upos)


def _parse(lines: Lines, first: int, block: list[str], check_upos: bool) -> ConlluSentence:
    for number, line in enumerate(block, start=first):
        if "\r" in line:
            raise lines.error("a carriage return inside the line, which other programs read as a line end", number)
    comments = list(takewhile(lambda line: line[0] == "#", block))
    first += len(comments)
    rows: list[list[str]] = []
    words = covered = 0  # numbers of the last word, and of the last word of the last multi-word token
    for number, line in enumerate(block[len(comments) :], start=first):
        columns = line.split("\t")
        if line[0] == "#":
            raise lines.error("a comment inside a sentence; is a blank line missing before it?", number)
        if len(columns) != COLUMNS:
            hint = "; a word must not contain a tab" if len(columns) > COLUMNS else "; is this another format?"
            raise lines.error(f"{len(columns)} columns where CoNLL-U has {COLUMNS}, separated by tabs{hint}", number)
        compound = None if columns[ID].isdigit() else _COMPOUND_ID.fullmatch(columns[ID])
        start, kind, end = (int(compound[1]), compound[2], int(compound[3])) if compound else (0, "", 0)
        if columns[ID] == str(words + 1):
            words += 1
        elif kind == "-" and start == words + 1 > covered and end > words:
            covered = end
        elif kind != "." or start != words:
            hint = "; is a blank line missing before it?" if columns[ID] == "1" else ""
            raise lines.error(f"word number {columns[ID]!r} where {words + 1} is expected{hint}", number)
        if check_upos and columns[UPOS_COLUMN] not in _KNOWN_UPOS:
            raise lines.error(tag_problem("pos", columns[UPOS_COLUMN]) or "", number)
        if "" in columns:
            raise lines.error("an empty column; CoNLL-U writes _ there", number)
        rows.append(columns)
    if covered > words:
        raise lines.error(f"a multi-word token reaches to word {covered}, which is missing")
    return ConlluSentence(comments, rows, f"{lines.name}, line {first}")


@cache
def _known_language(code: str) -> str:
    """zgul's code of a word's language. An unknown code is reported once."""
    try:
        return find(code).code
    except ZgulError:
        problem = f"Lang={code} in MISC is not a language that zgul knows; such words get the language of the text"
        warnings.warn(problem, ZgulWarning, stacklevel=4)
        return ""


def _get_misc(misc: str, key: str) -> str | None:
    if key not in misc:  # nearly always
        return None
    pairs = (entry.partition("=") for entry in misc.split("|"))
    return next((value for name, equals, value in pairs if equals and name == key), None)


def set_misc(misc: str, key: str, value: str) -> str:
    """Set ``key=value`` in a MISC column and keep its other entries."""
    entries = [] if misc == EMPTY else misc.split("|")
    names = [entry.partition("=")[0] for entry in entries]
    place = names.index(key) if key in names else len(names)
    entries[place : place + 1] = [f"{key}={value}"]
    return "|".join(entries)


def _join(tokens: list[Token]) -> str:
    return "".join(form + " " * spaced for form, spaced, _ in tokens).removesuffix(" ")


def _spans(text: str, tokens: list[Token]) -> list[tuple[int, int]] | None:
    """Find each word in the text; None if the text does not consist of the tokens."""
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
        else:  # "zum" = "zu" + "dem": the words have no place of their own
            spans += [(start, position)] * len(words)
    return None if text[position:].strip() else spans


def _tokens_of(sentence: Sentence) -> list[Token]:
    """The tokens of a new sentence. Words that share one place in the text become a multi-word token.

    White space of any kind between two tokens is one space. CoNLL-U cannot write a zero-width space: it is dropped.
    """
    check_words(sentence.words)
    text, offsets = sentence.text, sentence.offsets
    if offsets is None or text is None:
        return [(word, True, [word]) for word in sentence.words]
    groups = groupby(zip(offsets, sentence.words, strict=True), key=itemgetter(0))
    places = [(span, [word for _, word in group]) for span, group in groups]
    tokens: list[Token] = []
    for ((start, end), words), following in zip_longest(places, places[1:]):
        form = words[0] if len(words) == 1 else _BLANKS.sub(" ", text[start:end])
        tokens.append((form, following is None or _BLANKS.search(text, end, following[0][0]) is not None, words))
    return tokens
