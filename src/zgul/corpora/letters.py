"""Letters that a vocabulary lacks, read as their nearest kin.

Old and minority spellings use letters that an encoder has never seen: a fifth of the words of Old Church Slavonic hold
one, and its pieces are lost. What a letter is akin to stands in the Unicode standard, for every script alike: its
canonical parts (``ǘ``: ``ü``, then ``u``), nothing for a combining mark, its other case, and the letter of the same
name without what it is "with" or what stands before it (``YERU WITH BACK YER``: ``YERU``, ``IOTIFIED BIG YUS``: ``BIG
YUS``). A letter without known kin stays as it is. Not in the paper; off in paper-faithful runs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache

STEPS = 3  # from kin to kin


@cache
def kin(letter: str) -> tuple[str, ...]:
    """What may stand for a letter, nearest first; the empty string for a mark that may be left out."""
    found = dict.fromkeys([letter])
    newest = [letter]
    for _ in range(STEPS):
        newest = [other for one in newest for other in _next_of_kin(one) if other not in found]
        found |= dict.fromkeys(newest)
    return tuple(found)[1:]


def _next_of_kin(letter: str) -> Iterator[str]:
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
        try:
            yield unicodedata.lookup(f"{kind} LETTER {' '.join(words[start:])}")
        except KeyError:
            continue
