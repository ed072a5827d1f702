"""The result of tagging: documents of sentences, with tags, probabilities, offsets, entities and adapter weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, overload

from zgul.errors import ZgulError
from zgul.tagging import terminal
from zgul.tagging.document_html import html
from zgul.tagging.writing import conllu_block


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
    """What one tagger says of the words of a sentence."""

    tags: list[str]  # UPOS, or entities in IOB2
    probabilities: list[float]  # of the chosen tags
    weights: list[dict[str, float]] | None = None  # per word: source language -> share in the mix, summing to 1


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The words of a sentence and, for each task, their tags.

    ``tags``, ``probabilities`` and ``weights`` are those of the only task; of two, those of ``pos``.
    """

    text: str
    words: list[str]
    offsets: list[tuple[int, int]]  # [start, end) of each word in the text that was given
    layers: dict[str, Layer]  # by task: "pos", "ner"
    language: str
    start: int = 0  # where this sentence's text begins in the text that was given
    opens: Literal["document", "paragraph"] | None = None  # what begins with this sentence, where that is known

    def __len__(self) -> int:
        return len(self.words)

    @property
    def tags(self) -> list[str]:
        return self._first.tags

    @property
    def probabilities(self) -> list[float]:
        return self._first.probabilities

    @property
    def weights(self) -> list[dict[str, float]] | None:
        return self._first.weights

    @property
    def upos(self) -> list[str]:
        return self._layer("pos").tags

    @property
    def ner(self) -> list[str]:
        return self._layer("ner").tags

    @property
    def entities(self) -> list[Entity]:
        """The names of people, places, organisations and, where the tagger knows them, dates."""
        layer = self._layer("ner")
        return [
            Entity(
                text=self.text[start - self.start : end - self.start],
                label=layer.tags[first][2:],
                start=start,
                end=end,
                probability=sum(layer.probabilities[first:last]) / (last - first),
            )
            for first, last in entity_spans(layer.tags)
            for start, end in [(self.offsets[first][0], self.offsets[last - 1][1])]
        ]

    @property
    def _first(self) -> Layer:
        return self.layers.get("pos") or next(iter(self.layers.values()))

    def _layer(self, task: str) -> Layer:
        if task not in self.layers:
            raise ZgulError(
                f"This text was tagged for {', '.join(self.layers)} only. Load with task={task!r} or task='both'."
            )
        return self.layers[task]

    def __str__(self) -> str:
        return terminal.plain([self])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as ``zgul tag --format json`` writes it."""
        data: dict[str, Any] = {
            "text": self.text,
            "language": self.language,
            "start": self.start,
            "words": self.words,
            "offsets": [list(span) for span in self.offsets],
        }
        for task, layer in self.layers.items():
            column = "upos" if task == "pos" else task
            data[column] = layer.tags
            data[f"{column}_probabilities"] = [round(p, 4) for p in layer.probabilities]
            if layer.weights is not None:
                data[f"{column}_weights"] = [{k: round(w, 4) for k, w in word.items()} for word in layer.weights]
        if "ner" in self.layers:
            entities = self.entities
            data["entities"] = [asdict(entity) | {"probability": round(entity.probability, 4)} for entity in entities]
        return data


@dataclass(frozen=True, slots=True)
class Document(Sequence[TaggedSentence]):
    """A tagged text: a sequence of its sentences. ``print`` shows words over tags."""

    text: str
    sentences: list[TaggedSentence]

    @overload
    def __getitem__(self, index: int) -> TaggedSentence: ...
    @overload
    def __getitem__(self, index: slice) -> list[TaggedSentence]: ...
    def __getitem__(self, index: int | slice) -> TaggedSentence | list[TaggedSentence]:
        return self.sentences[index]

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[TaggedSentence]:
        return iter(self.sentences)

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
        sentences = enumerate(self.sentences, start=1)
        return "".join(conllu_block(tagged, n, probabilities=probabilities) for n, tagged in sentences)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the text and its sentences, as ``zgul tag --format json`` writes them."""
        return {"text": self.text, "sentences": [sentence.to_dict() for sentence in self.sentences]}

    def to_html(self) -> str:
        """A piece of HTML: words over coloured tags, names marked as such."""
        return html(self.sentences)

    def _repr_html_(self) -> str:
        """How notebooks show a document."""
        return self.to_html()

    def __str__(self) -> str:
        return terminal.plain(self.sentences)


def entity_spans(tags: Sequence[str]) -> list[tuple[int, int]]:
    """[first, last) word of each entity of valid IOB2 tags."""
    starts = (index for index, tag in enumerate(tags) if tag[0] == "B")
    spans = []
    for first in starts:
        last = first + 1
        while last < len(tags) and tags[last][0] == "I":
            last += 1
        spans.append((first, last))
    return spans
