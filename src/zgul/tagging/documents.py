"""The result of tagging: documents of sentences, with tags, probabilities, offsets, entities and adapter weights.

A sentence is written as a block of CoNLL-U or TSV or as a line of JSON; `zgul.tagging.display` shows it to people.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

from zgul.corpora.conllu import MISC, ConlluSentence, set_misc
from zgul.corpora.lines import check_words
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.tagging import display

Format = Literal["conllu", "tsv", "json"]
FORMATS: tuple[Format, ...] = ("conllu", "tsv", "json")


@dataclass(frozen=True, slots=True)
class Entity:
    """A name in the text."""

    text: str
    label: str  # PER, LOC, ORG, DATE
    start: int  # [start, end) in the text that was given
    end: int
    probability: float  # mean over its words

    def __str__(self) -> str:
        return f"{self.text} ({self.label})"


@dataclass(frozen=True, slots=True)
class Layer:
    """The output of one tagger for the words of a sentence."""

    tags: list[str]  # UPOS, or entities in IOB2
    probabilities: list[float]  # of the chosen tags
    weights: list[dict[str, float]] | None = None  # per word: source language -> share in the mix, summing to 1


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence and, for each task, their tags.

    ``tags``, ``probabilities`` and ``weights`` belong to the only task. With two tasks, they belong to ``pos``.
    """

    text: str
    words: list[str]
    offsets: list[tuple[int, int]]  # [start, end) of each word in the text that was given
    layers: dict[str, Layer]  # by task: "pos", "ner"
    language: str
    start: int = 0  # where this sentence's text begins in the text that was given
    opens: Literal["document", "paragraph"] | None = None  # what begins with this sentence, if known
    block: ConlluSentence | None = None  # the sentence of a CoNLL-U file that it was read from

    def __len__(self) -> int:
        return len(self.words)

    def __str__(self) -> str:
        return display.plain([self])

    @property
    def tags(self) -> list[str]:
        return self._layer().tags

    @property
    def probabilities(self) -> list[float]:
        return self._layer().probabilities

    @property
    def weights(self) -> list[dict[str, float]] | None:
        return self._layer().weights

    @property
    def upos(self) -> list[str]:
        return self._layer("pos").tags

    @property
    def ner(self) -> list[str]:
        return self._layer("ner").tags

    @property
    def entities(self) -> list[Entity]:
        """The names of people, places, organisations and, if the tagger knows them, dates."""
        layer = self._layer("ner")
        found = []
        for first, last in entity_spans(layer.tags):
            start, end = self.offsets[first][0], self.offsets[last - 1][1]
            probability = sum(layer.probabilities[first:last]) / (last - first)
            text = self.text[start - self.start : end - self.start]
            found.append(Entity(text, layer.tags[first][2:], start, end, probability))
        return found

    def _layer(self, task: str | None = None) -> Layer:
        task = task or ("pos" if "pos" in self.layers else next(iter(self.layers)))
        if task not in self.layers:
            tagged = ", ".join(self.layers)
            raise ZgulError(f"This text was tagged for {tagged} only. Load with task={task!r} or task='both'.")
        return self.layers[task]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as ``zgul tag --format json`` writes it."""
        data: dict[str, Any] = {name: getattr(self, name) for name in ("text", "language", "start", "words")}
        data["offsets"] = [list(span) for span in self.offsets]
        data |= {"opens": self.opens} if self.opens else {}
        for task, layer in self.layers.items():
            column = "upos" if task == "pos" else task
            data[column] = layer.tags
            data[f"{column}_probabilities"] = [round(p, 4) for p in layer.probabilities]
            if layer.weights is not None:
                data[f"{column}_weights"] = [{k: round(w, 4) for k, w in word.items()} for word in layer.weights]
        if "ner" in self.layers:
            entities = map(asdict, self.entities)
            data["entities"] = [entity | {"probability": round(entity["probability"], 4)} for entity in entities]
        return data

    def to_text(self, form: Format, number: int = 1, probabilities: bool = False) -> str:
        """The sentence in one of `FORMATS`: a block of CoNLL-U (see `to_conllu`) or TSV, or a line of JSON."""
        if form == "conllu":
            return self.to_conllu(number, probabilities=probabilities)
        if form == "tsv":
            return self.to_tsv(probabilities=probabilities)
        return json.dumps(self.to_dict(), ensure_ascii=False) + "\n"

    def to_tsv(self, *, probabilities: bool = False) -> str:
        """Lines with a word, its weights if there are any, its probabilities on request and its tags; a blank line."""
        check_words(self.words)
        layers = self.layers.values()
        columns = [self.words]
        columns += [list(map(_weights_text, layer.weights)) for layer in layers if layer.weights is not None]
        columns += [[f"{p:.4f}" for p in layer.probabilities] for layer in layers if probabilities]
        columns += [layer.tags for layer in layers]
        return "".join("\t".join(row) + "\n" for row in zip(*columns, strict=True)) + "\n"

    def to_conllu(self, number: int = 1, *, probabilities: bool = False) -> str:
        """The sentence as CoNLL-U: UPOS in column 4; entities, weights and, on request, probabilities in MISC.

        A sentence that was read from CoNLL-U keeps everything else. A new sentence gets ``number`` as its sent_id.
        """
        offsets = [(start - self.start, end - self.start) for start, end in self.offsets]
        new = Sentence(self.words, text=self.text, offsets=offsets, opens=self.opens)
        block = self.block or ConlluSentence.from_sentence(new, sent_id=str(number))
        for task, layer in self.layers.items():
            block.set_tags(task, layer.tags)
            more = {"Prob": [f"{p:.4f}" for p in layer.probabilities]} if probabilities else {}
            if layer.weights is not None:
                more["Weights"] = list(map(_weights_text, layer.weights))
            for name, values in more.items():
                for row, value in zip(block.word_rows, values, strict=True):
                    row[MISC] = set_misc(row[MISC], task.upper() + name, value)
        return str(block)


@dataclass(frozen=True, slots=True)
class Document(Sequence[TaggedSentence]):
    """A tagged text: a sequence of its sentences. ``print`` shows words over tags."""

    text: str
    sentences: list[TaggedSentence]

    def __getitem__(self, index: int) -> TaggedSentence:  # type: ignore[override]  # a slice gives a list
        return self.sentences[index]

    def __len__(self) -> int:
        return len(self.sentences)

    def __str__(self) -> str:
        return display.plain(self.sentences)

    @property
    def words(self) -> list[str]:
        return [word for sentence in self.sentences for word in sentence.words]

    @property
    def tags(self) -> list[str]:
        return [tag for sentence in self.sentences for tag in sentence.tags]

    @property
    def entities(self) -> list[Entity]:
        return [entity for sentence in self.sentences for entity in sentence.entities]

    def to_conllu(self, *, probabilities: bool = False) -> str:
        """The document as CoNLL-U, as ``zgul tag --format conllu`` writes it."""
        return "".join(s.to_conllu(n, probabilities=probabilities) for n, s in enumerate(self.sentences, start=1))

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the text and its sentences, as ``zgul tag --format json`` writes them."""
        return {"text": self.text, "sentences": [sentence.to_dict() for sentence in self.sentences]}

    def to_html(self) -> str:
        """HTML with words over coloured tags. Notebooks show it."""
        return display.html(self.sentences)

    _repr_html_ = to_html


def entity_spans(tags: Sequence[str]) -> list[tuple[int, int]]:
    """[first, last) word of each entity of valid IOB2 tags."""
    borders = [index for index, tag in enumerate(tags) if tag[0] != "I"]
    return [(first, last) for first, last in pairwise([*borders, len(tags)]) if tags[first][0] == "B"]


def _weights_text(weights: dict[str, float]) -> str:
    """The weights as text, the largest first: ``is:0.62,de:0.25,en:0.13``."""
    ordered = sorted(weights.items(), key=lambda pair: -pair[1])
    return ",".join(f"{code}:{weight:.2f}" for code, weight in ordered)
