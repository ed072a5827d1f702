"""Similar letters, to read letters that a vocabulary lacks.

A fifth of the words of Old Church Slavonic contain letters that an encoder has never seen. The Unicode standard says
which letters are similar: the canonical parts of a letter (``ǘ``: ``ü``, then ``u``), nothing for a combining mark, the
other case, and the letter of the same name without what it is "with" or what comes before it (``YERU WITH BACK YER``:
``YERU``, ``IOTIFIED BIG YUS``: ``BIG YUS``). Not in the paper, and off in paper-faithful runs.
"""

import contextlib
import unicodedata
from collections.abc import Iterator
from functools import cache

STEPS = 3  # from a letter to a similar one, to one similar to that, and so on


@cache
def similar_letters(letter: str) -> tuple[str, ...]:
    """List what may replace a letter, the most similar first. The empty string means that it may be left out."""
    similar = dict.fromkeys([letter])
    newest = [letter]
    for _ in range(STEPS):
        newest = [other for one in newest for other in _one_step(one) if other not in similar]
        similar |= dict.fromkeys(newest)
    return tuple(similar)[1:]


def _one_step(letter: str) -> Iterator[str]:
    if len(letter) != 1:
        return
    parts = unicodedata.normalize("NFD", letter)
    for end in range(len(parts) - 1, 0, -1):
        yield unicodedata.normalize("NFC", parts[:end])
    if unicodedata.category(letter) == "Mn":
        yield ""
    if len(letter.swapcase()) == 1:
        yield letter.swapcase()
    whole = unicodedata.name(letter, "").partition(" WITH ")[0]
    kind, _, name = whole.partition(" LETTER ")
    words = name.split()
    for start in range(len(words)):
        with contextlib.suppress(KeyError):
            yield unicodedata.lookup(f"{kind} LETTER {' '.join(words[start:])}")
