"""The same tags, however they are computed: alone, batched, shuffled, with one and four threads, after fork and spawn.

`reliability.gpu` compares CPU and GPU.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from random import Random
from typing import Any

import torch

from zgul.corpora import plain_text
from zgul.tagging.loading import load
from zgul.tagging.text_tagger import TextTagger

LANGUAGE = "fo"
EM = {"adapted": False, "em": True, "em_steps": 5, "em_lr": 10.0, "adaptive": True}  # the shipped tagger needs none
TEXT = """Skipið fór úr Havn í morgun og kom til Klaksvíkar. Nú er klokkan 10:30, og veðrið er gott! Hvør kemur við?
Jógvan og Anna búgva í einum lítlum húsi við ánna. Tey hava ein hund, sum eitur Snati, og tvær kettur. Í gjár kavaði.
"Kom inn," segði hon, "og set teg." Hann svaraði einki. Bókin kostar 250 krónur; eg keypti hana ikki. Ja."""

Tags = list[list[str]]


def sentences() -> list[list[str]]:
    """The words of some sentences of our own, short and long."""
    found = [sentence.words for sentence in plain_text.split(TEXT, "raw", LANGUAGE)]
    return [*found, [word for words in found[:4] for word in words], ["Ja"], ["Havn", "."]]


def load_tagger(settings: dict[str, Any]) -> TextTagger:
    return load(LANGUAGE, "pos", precision="float32", **settings)


def tags(tagger: TextTagger, given: Sequence[list[str]]) -> Tags:
    return [document.sentences[0].tags for document in tagger.tag_all(given)]


def tags_in_a_new_process(given: list[list[str]], settings: dict[str, Any]) -> Tags:
    torch.set_num_threads(1)
    return tags(load_tagger(settings), given)


_shared: list[TextTagger] = []  # what a fork finds


def _tags_in_a_fork(given: list[list[str]]) -> Tags:
    return tags(_shared[0], given)


def compare_all() -> dict[str, Any]:
    """How many tags differ from those of sentences that are tagged one by one, for each way to tag them."""
    given = sentences()
    result: dict[str, Any] = {"words": sum(map(len, given)), "sentences": len(given)}
    return result | {"different": compare({}, given), "different_em": compare(EM, given)}


def compare(settings: dict[str, Any], given: list[list[str]]) -> dict[str, int]:
    """The same for a tagger with these settings."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    tagger = load_tagger(settings)
    alone = [tags(tagger, [sentence])[0] for sentence in given]
    order = list(range(len(given)))
    Random(0).shuffle(order)
    shuffled = tags(tagger, [given[n] for n in order])
    ways = {"batched": tags(tagger, given), "shuffled": [shuffled[order.index(n)] for n in range(len(given))]}
    _shared[:] = [tagger]
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:  # before threads are started
        ways["after fork"] = pool.submit(_tags_in_a_fork, given).result()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        ways["after spawn"] = pool.submit(tags_in_a_new_process, given, settings).result()
    with ThreadPoolExecutor(4) as threads:
        ways["in four threads"] = list(threads.map(lambda sentence: tags(tagger, [sentence])[0], given))
    torch.set_num_threads(4)
    ways["with four threads of torch"] = tags(tagger, given)
    torch.set_num_threads(before)
    return {way: different(alone, found) for way, found in ways.items()}


def different(expected: Tags, found: Tags) -> int:
    """How many tags differ."""
    pairs = [pair for one, other in zip(expected, found, strict=True) for pair in zip(one, other, strict=True)]
    return sum(one != other for one, other in pairs)
