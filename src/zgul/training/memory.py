"""Work on a whole corpus that goes on in smaller batches when memory runs out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

from zgul.corpora.encode import EncodedCorpus
from zgul.devices import out_of_memory
from zgul.errors import ZgulError, ZgulWarning

T = TypeVar("T")


def fitting(work: Callable[[int], T], corpus: EncodedCorpus, tokens: int) -> tuple[T, int]:
    """What ``work`` gives in batches of so many tokens, or of half as many … until they fit; and how many did."""
    while True:
        try:
            return work(tokens), tokens
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            if tokens < 2 * (int(corpus.lengths.max()) + 2):
                raise ZgulError(
                    "out of memory even with one sentence at a time; use a device with more memory (--device cpu)"
                ) from error
        tokens //= 2  # only here has the error let go of what it held
        warnings.warn(f"out of memory: going on with {tokens} tokens at a time", ZgulWarning, stacklevel=2)
