"""A process that tags a stream and says now and then how far it is and how much memory it holds.

    python -m benchmarks.stream --data DIR --sentences 100000 [--seconds 60]

Every line of output is a JSON object; the last has the sums. The sentences are Faroese text (the test file where
there is none), from the beginning again when it ends.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks import counting
from benchmarks.setup import load_tagger
from zgul import corpora
from zgul.corpora import segment
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.languages import find
from zgul.tagging.tagger import Inference, TextTagger

EVERY = 100  # sentences


def sentences(data: Path) -> list[Sentence]:
    try:
        return [s for line in corpora.DataFolder(data).text_lines("fo") for s in segment.sentences(line) if s.words]
    except ZgulError:
        return corpora.load(data, "pos", "fo", "test")


def memory() -> dict[str, int]:
    """Bytes that this process holds, and of the encoder's file those that it has looked at so far.

    The file is mapped: its pages belong to the system's cache, which takes them back when it needs them.
    """
    told = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    held, mapped = (1024 * int(told[name].split()[0]) for name in ("RssAnon", "RssFile"))
    return {"memory": held, "mapped": mapped}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    told = parser.parse_args()
    torch.set_num_threads(told.threads)
    tagger = load_tagger("germanic-pos", told.encoder).to(told.device)
    text_tagger = TextTagger(find("fo"), {"pos": tagger}, {}, {"pos": Inference("plain", None)})
    held = sentences(told.data)
    given, words = 0, 0
    started = time.perf_counter()

    def source() -> Iterator[Sentence]:
        nonlocal given, words
        for sentence in itertools.islice(itertools.cycle(held), told.sentences):
            if time.perf_counter() - started > told.seconds:
                return
            given += 1
            words += len(sentence)
            yield sentence

    tagged, seen = 0, 0
    for result in text_tagger.tag_sentences(source()):
        tagged, seen = tagged + 1, seen + len(result.words)
        assert len(result.layers["pos"].tags) == len(result.words)
        if tagged % EVERY == 0:
            print(json.dumps({"sentences": tagged, "words": seen} | memory()), flush=True)
    seconds = time.perf_counter() - started
    rounds, rest = divmod(given, len(held))
    rows = {"fo": 0}
    for sentence in held:
        sentence.language = "fo"
    lengths = [int(n) + 2 for n in tagger.pieces.encode(held, languages=rows).lengths]
    shape = counting.Shape.of(tagger.model)
    flops = rounds * counting.forward_flops(shape, lengths) + counting.forward_flops(shape, lengths[:rest])
    sums = {"sentences": given, "tagged": tagged, "words": words, "seconds": seconds, "flops": flops}
    sums |= {"pieces": rounds * sum(lengths) + sum(lengths[:rest]), "weights": counting.weight_bytes(tagger.model)}
    print(json.dumps(sums), flush=True)


if __name__ == "__main__":
    main()
