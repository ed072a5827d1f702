"""Flat memory: hand back what a long stream of text no longer uses."""

from __future__ import annotations

import ctypes
import sys


def release_memory() -> None:
    """Return unused memory to the system.

    Batches of ever new shapes leave holes of ever new sizes in glibc's heap. Without this, a process that tags a stream
    grows by a tenth in a thousand sentences, although it holds no more.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
