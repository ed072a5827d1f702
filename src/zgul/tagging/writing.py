"""Output formats: CoNLL-U, TSV and JSON lines. Each sentence becomes one block of text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from zgul.corpora.conllu import MISC, ConlluSentence, set_misc
from zgul.corpora.lines import check_words
from zgul.corpora.sentence import Sentence

if TYPE_CHECKING:
    from zgul.tagging.documents import TaggedSentence

Format = Literal["conllu", "tsv", "json"]
Read = ConlluSentence | None  # the sentence as it was read from CoNLL-U, where it was


def conllu_block(tagged: TaggedSentence, number: int, block: Read = None, probabilities: bool = False) -> str:
    """UPOS in column 4; entities and, where they are wanted, weights and probabilities in MISC.

    All else in a ``block`` that was read stays as it is. ``number`` identifies a new sentence.
    """
    block = block or ConlluSentence.from_sentence(_sentence(tagged), sent_id=str(number))
    for task, layer in tagged.layers.items():
        block.set_tags(task, layer.tags)
        more: dict[str, list[str]] = {}
        if probabilities:
            more["Prob"] = [f"{probability:.4f}" for probability in layer.probabilities]
        if layer.weights is not None:
            more["Weights"] = list(map(weights_text, layer.weights))
        for name, values in more.items():
            for row, value in zip(block.word_rows, values, strict=True):
                row[MISC] = set_misc(row[MISC], task.upper() + name, value)
    return str(block)


def tsv_block(tagged: TaggedSentence, number: int, block: Read = None, probabilities: bool = False) -> str:
    """Word, weights and probabilities where they are wanted, tag (of two tasks: UPOS, then entity); a blank line."""
    check_words(tagged.words)
    layers = tagged.layers.values()
    columns = [tagged.words]
    columns += [list(map(weights_text, layer.weights)) for layer in layers if layer.weights is not None]
    columns += [[f"{p:.4f}" for p in layer.probabilities] for layer in layers if probabilities]
    columns += [layer.tags for layer in layers]
    return "".join("\t".join(row) + "\n" for row in zip(*columns, strict=True)) + "\n"


def json_block(tagged: TaggedSentence, number: int, block: Read = None, probabilities: bool = False) -> str:
    """All that is known of the sentence, in one line: `TaggedSentence.to_dict`."""
    return json.dumps(tagged.to_dict(), ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[..., str]] = {"conllu": conllu_block, "tsv": tsv_block, "json": json_block}


def weights_text(weights: dict[str, float]) -> str:
    """The largest weight first: ``is:0.62,de:0.25,en:0.13``."""
    ordered = sorted(weights.items(), key=lambda pair: -pair[1])
    return ",".join(f"{code}:{weight:.2f}" for code, weight in ordered)


def _sentence(tagged: TaggedSentence) -> Sentence:
    offsets = [(start - tagged.start, end - tagged.start) for start, end in tagged.offsets]
    return Sentence(tagged.words, text=tagged.text, offsets=offsets, opens=tagged.opens)
