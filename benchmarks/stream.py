"""A process that tags a stream of sentences and regularly reports how much memory it holds.

    python -m benchmarks.stream '{"data": "DIR", "encoder": "embedded", "device": "cpu", "threads": 2, "seconds": 60}'

Every line of output is a JSON object, and the last one has the sums. The sentences are Faroese text, which is repeated
when it ends.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import torch

from benchmarks.setup import load_shipped
from zgul.corpora import plain_text
from zgul.corpora.data_folder import DataFolder
from zgul.corpora.sentence import Sentence
from zgul.languages import find
from zgul.tagging import text_tagger

WORDS, EVERY = 1_000_000, 100  # words to tag, and sentences between reports


def memory() -> int:
    """Bytes that this process holds, without mapped files, which the system takes back when it needs memory."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(fields["RssAnon"].split()[0])


def main(
    data: str, encoder: str, device: str, threads: int, seconds: float | None = None, keep_memory: bool = False
) -> None:
    """Tag for this many seconds, or all words. ``keep_memory`` switches `release_memory` off."""
    torch.set_num_threads(threads)
    tagger = load_shipped("germanic-pos", encoder, device)
    plain = text_tagger.Inference("plain", None)
    streaming = text_tagger.TextTagger(find("fo"), {"pos": tagger}, {}, {"pos": plain})
    text = [s for line in DataFolder(data).text_lines("fo") for s in plain_text.split(line, "raw") if s.words]
    read, words_read, started = 0, 0, time.perf_counter()

    def source() -> Iterator[Sentence]:
        nonlocal read, words_read
        for sentence in itertools.cycle(text):
            if words_read >= WORDS or (seconds is not None and time.perf_counter() - started > seconds):
                return
            read, words_read = read + 1, words_read + len(sentence)
            yield sentence

    tagged, words = 0, 0
    release = (lambda: None) if keep_memory else text_tagger.release_memory
    with mock.patch.object(text_tagger, "release_memory", release):
        for result in streaming.tag_sentences(source()):
            tagged, words = tagged + 1, words + len(result.words)
            assert len(result.layers["pos"].tags) == len(result.words)
            if tagged % EVERY == 0:
                print(json.dumps({"sentences": tagged, "words": words, "memory": memory()}), flush=True)
    sums = {"sentences": read, "tagged": tagged, "words": words, "seconds": time.perf_counter() - started}
    print(json.dumps(sums), flush=True)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
