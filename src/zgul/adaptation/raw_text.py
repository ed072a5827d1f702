"""Raw text for adapting: read as `zgul tag` reads it, sampled evenly, cleaned, with a share held out.

The text is streamed, and a reservoir keeps a fixed number of sentences, each with the same chance. What is dropped is
counted: duplicates, markup, sentences that are too short or too long or have few letters, and sentences of another
language. The languages that `langid` knows are few, and it takes an unknown one for its nearest relative. So a sentence
only counts as foreign if it surely looks like a language that the text as a whole hardly looks like.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import regex

from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.progress import Report, Status, silent
from zgul.tagging import langid
from zgul.tagging.reading import find_sources, read

SHORTEST, LONGEST = 3, 100  # words of a sentence
HELD_OUT = 20  # every 20th sentence is held out
LEAST = 60  # sentences: with fewer, nothing can be held out that tells anything
SURE, USUAL = 0.95, 0.05  # probability of a foreign language; share of the text that makes a guess a usual one
MOST_HASHES = 5_000_000  # sentences among which duplicates are noticed: 500 MB of memory
EVERY = 2000  # sentences between two reports
_MARKUP = regex.compile(r"<[/!a-zA-Z][^>]*>|https?://|www\.|\{\{|\}\}|\[\[|\]\]|&[a-z]{2,6};|\|\||==+|[{}\\|].*[{}\\|]")
_LETTER = regex.compile(r"\p{L}")
_WORD = regex.compile(r"[\p{L}\p{N}]")


@dataclass
class RawText:
    """Sentences of raw text, and what was dropped."""

    train: list[Sentence]
    held_out: list[Sentence]
    read: int = 0  # sentences
    dropped: dict[str, int] = field(default_factory=dict)  # by reason

    @property
    def words(self) -> int:
        return sum(map(len, self.train)) + sum(map(len, self.held_out))

    def to_dict(self) -> dict[str, object]:
        sizes = {"read": self.read, "kept": len(self.train) + len(self.held_out), "words": self.words}
        return sizes | {"held_out": len(self.held_out), "dropped": dict(self.dropped)}


def read_text(
    given: Sequence[str | Path], language: str, most: int, *, seed: int = 0, report: Report = silent
) -> RawText:
    """Read files, folders or patterns, and keep at most this many clean sentences."""
    dropped: Counter[str] = Counter()
    kept: list[Sentence] = []
    rng, seen, fine, count = np.random.default_rng([seed, 11]), set[bytes](), 0, 0
    for count, sentence in enumerate(_sentences(given, language), start=1):
        if problem := _problem(sentence, seen):
            dropped[problem] += 1
            continue
        fine += 1
        if len(kept) < most:
            kept.append(sentence)
        elif (place := int(rng.integers(fine))) < most:
            kept[place] = sentence
        if count % EVERY == 0:
            report(Status("reading text", count, 0))
    report(Status("reading text", count, count))
    sampled, kept = kept, _without_foreign(kept, language)
    dropped["of another language"] += len(sampled) - len(kept)
    if len(kept) < LEAST:
        reasons = ", ".join(f"{times} {reason}" for reason, times in dropped.items() if times) or "none was dropped"
        problem = f"The text has {count} sentences, of which {len(kept)} can be used ({reasons})"
        raise ZgulError(f"{problem}, and at least {LEAST} are needed. Give more text, or labelled sentences.")
    train = [sentence for number, sentence in enumerate(kept, start=1) if number % HELD_OUT]
    return RawText(train, kept[HELD_OUT - 1 :: HELD_OUT], count, dict(dropped))


def unfinished(sentences: Sequence[Sentence], share: float, seed: int) -> list[Sentence]:
    """The same sentences, a share of them without the punctuation at their end.

    Nearly all sentences of most texts end with a full stop. A student of such text learns that a last word is
    punctuation, also where lines have none, as in poems and lists.
    """
    rng = np.random.default_rng([seed, 13])
    cut = rng.random(len(sentences)) < share
    return [_open_ended(one) if ends else one for one, ends in zip(sentences, cut, strict=True)]


def _open_ended(sentence: Sentence) -> Sentence:
    words = list(sentence.words)
    while len(words) > SHORTEST and not _WORD.search(words[-1]):
        words.pop()
    return replace(sentence, words=words, text=None)


def _sentences(given: Sequence[str | Path], language: str) -> Iterator[Sentence]:
    for source in find_sources(given, files_only=True):
        with source.open(choice=False) as text:  # `zgul adapt` has no --input
            for sentence in read(text, language):
                yield Sentence(list(sentence.words), language=language, text=sentence.text)


def _problem(sentence: Sentence, seen: set[bytes]) -> str:
    """Why a sentence is dropped, or nothing. Its hash is added to ``seen``."""
    words = sentence.words
    if not SHORTEST <= len(words) <= LONGEST:
        return "too short" if len(words) < SHORTEST else "too long"
    line = " ".join(words)
    if _MARKUP.search(sentence.text or line):
        return "with markup"
    if 2 * sum(_LETTER.search(word) is not None for word in words) < len(words):
        return "with few letters"
    digest = hashlib.blake2b(line.lower().encode("utf-8", "replace"), digest_size=8).digest()
    if digest in seen:
        return "duplicates"
    if len(seen) < MOST_HASHES:
        seen.add(digest)
    return ""


def _without_foreign(sentences: list[Sentence], language: str) -> list[Sentence]:
    """Leave out the sentences that surely look like a language that the text hardly looks like."""
    guesses = [next(iter(langid.load().guesses(" ".join(sentence.words))), None) for sentence in sentences]
    counts = Counter(guess.code for guess in guesses if guess)
    langid.warn_of(max(counts, key=counts.__getitem__, default=language), language)
    usual = {code for code, times in counts.items() if times >= USUAL * len(sentences)} | {language}
    pairs = zip(sentences, guesses, strict=True)
    return [one for one, guess in pairs if guess is None or guess.code in usual or guess.probability < SURE]
