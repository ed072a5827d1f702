"""Text in, tags out: `TextTagger` is one or two taggers with a language and a way to infer.

Sentences are tagged in windows of some thousand words: inside a window they are sorted by length, batched, tagged and
put back into their order. The first windows are small, so that the first results come soon. Windows depend on the text
and the kind of device alone, so the same text gives the same numbers to the last bit, also when an interrupted run is
resumed.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal, TypeVar

from zgul.corpora import plain_text
from zgul.corpora.sentence import Sentence
from zgul.devices import find_device
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.fast.engine import find_precision
from zgul.fast.memory import release_memory
from zgul.languages import Language, assign_group, find
from zgul.tagger import Prediction, Tagger
from zgul.tagging.documents import Document, Layer, TaggedSentence
from zgul.tagging.inference_choice import Inference, choose_inference
from zgul.tagging.loading import load_named, load_shipped
from zgul.tagging.serving import BOTH, TASKS, Served, TaskChoice, check_task, serving

FIRST_WINDOW, WINDOW, GPU_WINDOW = 64, 4096, 65536  # words
MAX_UNKNOWN = 0.3  # share of pieces that the encoder may not know; in a script it does not know it is about 0.5
FEW_WORDS = 3  # a sentence with fewer words that have letters is not worth a warning

Text = str | Sequence[str] | Sentence  # running text, the words of a sentence, or a sentence
T = TypeVar("T")


def load(
    lang: str | Language,
    task: TaskChoice | None = None,
    *,
    model: str | Path | None = None,
    em: bool | None = None,
    em_steps: int | None = None,
    em_lr: float | None = None,
    adaptive: bool | None = None,
    weights: bool = False,
    device: str = "cpu",
    precision: Literal["float32", "bfloat16"] = "float32",
) -> TextTagger:
    """A tagger for a language.

    ``task`` is ``pos``, ``ner`` or ``both``; by default it is what the language's group (or the model) was made for.
    The shipped tagger that serves the language is used unless ``model`` names another shipped one (``"slavic-pos"``)
    or a folder saved by `save_tagger`. ``em`` switches entropy minimisation on or off (default: as the tagger was
    tuned); ``em_steps`` and ``em_lr`` change it. ``adaptive`` does it at a fraction of the work, for nearly the same
    tags (default: unless steps or rate are given; False: as in the paper). ``weights`` also gives the share of each
    source language for each word. ``device`` is cpu, cuda or auto. ``precision="bfloat16"`` is faster on a CPU or GPU
    that multiplies in it, for nearly the same tags.
    """
    language = find(lang)
    # everything is checked before the seconds that loading takes
    changes = {name: value for name, value in (("steps", em_steps), ("lr", em_lr)) if value is not None}
    EMConfig.from_dict(changes, "em_")
    find_precision(precision)
    place = str(find_device(device))
    if model is not None:
        taggers, served = _named(str(model), task, place, precision)
    else:
        taggers, served = _serving(language, task, place, precision)
    inference = {
        name: choose_inference(tagger, language.code, em=em, adaptive=adaptive, changes=changes)
        for name, tagger in taggers.items()
    }
    return TextTagger(language, taggers, served, inference, weights)


@dataclass(frozen=True)
class TextTagger:
    """Tags text of one language. `load` makes them. Several threads may use one."""

    language: Language
    taggers: dict[str, Tagger]  # by task
    served: dict[str, Served]  # by task: which tagger it is, and why that one
    inference: dict[str, Inference]  # by task
    with_weights: bool = False

    def tag(self, text: Text) -> Document:
        """Tag running text, a list of words, or a sentence."""
        return next(self.tag_all([text]))

    def tag_all(self, texts: Iterable[Text]) -> Iterator[Document]:
        """Tag many texts, one document each, in order, while they come."""
        if isinstance(texts, str):
            raise ZgulError("tag_all takes many texts. For one text use tag.")
        open_texts: deque[str] = deque()  # read, but not given out yet
        held: list[TaggedSentence] = []
        current = 0

        def numbered() -> Iterator[tuple[int, Sentence]]:
            for index, text in enumerate(texts):
                open_texts.append(_whole(text))
                for sentence in _sentences(text, self.language.code):
                    yield index, sentence

        stream = self.stream()
        for window in windows(numbered(), size=lambda pair: len(pair[1]), most=self.window):
            results = stream.tag([sentence for _, sentence in window])
            for (index, _), tagged in zip(window, results, strict=True):
                while current < index:
                    yield Document(open_texts.popleft(), held)
                    current, held = current + 1, []
                held.append(tagged)
        while open_texts:
            yield Document(open_texts.popleft(), held)
            held = []

    def tag_sentences(self, sentences: Iterable[Sentence]) -> Iterator[TaggedSentence]:
        """Tag sentences, in order, while they come."""
        stream = self.stream()
        for window in windows(sentences, size=len, most=self.window):
            yield from stream.tag(window)

    def stream(self) -> TextStream:
        """Tag one text window by window."""
        return TextStream(self)

    @property
    def window(self) -> int:
        """Words that are tagged together. A GPU needs more at once."""
        on_gpu = any(tagger.device.type == "cuda" for tagger in self.taggers.values())
        return GPU_WINDOW if on_gpu else WINDOW

    def entities(self, text: Text) -> list[dict[str, Any]]:
        """Names as the token-classification pipeline of ``transformers`` gives them."""
        return [
            {
                "entity_group": name.label,
                "score": name.probability,
                "word": name.text,
                "start": name.start,
                "end": name.end,
            }
            for name in self.tag(text).entities
        ]

    def describe(self, task: str) -> str:
        """One line on which tagger this is and what it rests on."""
        sources = ", ".join(_name(code) for code in self.taggers[task].parts.sources)
        inference = str(self.inference[task]).replace("EM", "entropy minimisation", 1)
        return f"{self.served[task].name}, learnt from {sources}; {inference}"


class TextStream:
    """A text on its way through a tagger, window by window."""

    def __init__(self, text_tagger: TextTagger) -> None:
        self.text_tagger = text_tagger
        self._begun = False
        self._warned = False  # of a script that the encoder does not know
        self._long = False

    def tag(self, sentences: Sequence[Sentence]) -> list[TaggedSentence]:
        """Tag the next sentences of the text together."""
        own = self.text_tagger
        spoken = [_in_language(sentence, own.language.code) for sentence in sentences]
        full = [sentence for sentence in spoken if sentence.words]
        layers: dict[str, Iterator[Layer]] = {}
        for task, tagger in own.taggers.items():
            self._check_script(tagger, full)
            chosen = own.inference[task]
            predictions = tagger.predict(
                full, strategy=chosen.strategy, em=chosen.em, skip_below=chosen.skip_below, weights=own.with_weights
            )
            layers[task] = iter([_layer(prediction, tagger) for prediction in predictions])
        self._begun = True
        self._long |= sum(map(len, full)) >= WINDOW
        if self._long:
            release_memory()
        nothing = {task: Layer([], []) for task in layers}
        return [
            _tagged(sentence, {task: next(found) for task, found in layers.items()} if sentence.words else nothing)
            for sentence in spoken
        ]

    def _check_script(self, tagger: Tagger, sentences: Sequence[Sentence]) -> None:
        """Refuse text of which the encoder knows too little. Later in a text, or for single sentences, only warn."""
        lettered = [[word for word in sentence.words if any(map(str.isalpha, word))] for sentence in sentences]
        words = [word for sentence in lettered for word in sentence]
        share = tagger.pieces.unknown_share(words)
        if share > MAX_UNKNOWN and not self._begun:
            raise ZgulError(
                f"{_unknown(share, words)}. Text with more than {MAX_UNKNOWN:.0%} is refused, because its tags would "
                "mean nothing. Transliterate it first, into the script of the languages that the tagger learnt from."
            )
        passages = [words, *(one for one in lettered if len(one) >= FEW_WORDS)] if share and not self._warned else []
        for passage in passages:
            share = tagger.pieces.unknown_share(passage)
            if share > MAX_UNKNOWN:
                self._warned = True
                problem = f"{_unknown(share, passage)}. Its tags mean nothing (said once; there may be more of it)."
                warnings.warn(problem, ZgulWarning, stacklevel=4)
                return


Taggers = tuple[dict[str, Tagger], dict[str, Served]]  # both by task


def _named(model: str, task: str | None, device: str, precision: str) -> Taggers:
    """The one tagger that the user named, which must be for the task."""
    if task == BOTH:
        raise ZgulError("A model has one task. For both tasks leave the model out.")
    if task is not None:
        check_task(task)
    tagger = load_named(model, device, precision)
    if task not in (None, tagger.task):
        raise ZgulError(f"{model} is a tagger for {tagger.task}, not for {task}. Leave the task out.")
    return {tagger.task: tagger}, {tagger.task: Served(model, tagger.task, None, "it was asked for by name")}


def _serving(language: Language, task: str | None, device: str, precision: str) -> Taggers:
    """The shipped taggers that serve a language."""
    if task is None:
        group = assign_group(language)
        task = group.task if group else "pos"
    served = {name: serving(language, name) for name in (TASKS if task == BOTH else [check_task(task)])}
    for one in served.values():
        if one.warning:
            warnings.warn(one.warning, ZgulWarning, stacklevel=3)
    return {name: load_shipped(one.name, device, precision) for name, one in served.items()}, served


def windows(items: Iterable[T], size: Callable[[T], int], most: int = WINDOW) -> Iterator[list[T]]:
    """Cut a stream into windows of about ``most`` words. The first ones are smaller."""
    limit, count = FIRST_WINDOW, 0
    window: list[T] = []
    for item in items:
        window.append(item)
        count += max(1, size(item))
        if count >= limit:
            yield window
            window, count, limit = [], 0, min(2 * limit, most)
    if window:
        yield window


def _sentences(text: Text, language: str) -> Iterable[Sentence]:
    if isinstance(text, str):
        sentences = plain_text.split(text, language=language)
        return chain((replace(first, opens="document") for first in islice(sentences, 1)), sentences)
    if isinstance(text, Sentence):
        return [text]
    if spaced := next((word for word in text if any(map(str.isspace, word))), None):
        raise ZgulError(
            f"A list is read as the words of one sentence, but {shorten(spaced, 40)!r} has spaces in it. "
            "For several texts use tag_all."
        )
    return [Sentence(list(text))]


def _in_language(sentence: Sentence, code: str) -> Sentence:
    """The sentence in the tagger's language, except words that have one of their own."""
    own = sentence.word_languages
    return replace(sentence, language=code, word_languages=own and [word or code for word in own])


def _unknown(share: float, words: list[str]) -> str:
    sample = shorten(" ".join(words), 40, placeholder="…") if len(words[0]) < 40 else words[0][:40] + "…"
    pieces = f"{share:.0%} of the pieces of this text (“{sample}”)"
    return f"The encoder does not know the script: {pieces} are unknown to it"


def _layer(prediction: Prediction, tagger: Tagger) -> Layer:
    weights = None
    if prediction.weights is not None:
        shares = prediction.weights.mean(axis=1)  # [words, K, N] -> [words, N]
        weights = [dict(zip(tagger.bank_languages, map(float, row), strict=True)) for row in shares]
    return Layer(prediction.tags, [float(p) for p in prediction.probabilities], weights)


def _tagged(sentence: Sentence, layers: dict[str, Layer]) -> TaggedSentence:
    text, offsets = sentence.text, sentence.offsets
    if text is None or offsets is None:
        text, offsets = " ".join(sentence.words), []
        for word in sentence.words:
            begin = offsets[-1][1] + 1 if offsets else 0
            offsets.append((begin, begin + len(word)))
    return TaggedSentence(
        text=text,
        words=sentence.words,
        offsets=[(begin + sentence.start, end + sentence.start) for begin, end in offsets],
        layers=layers,
        language=sentence.language or "",
        start=sentence.start,
        opens=sentence.opens,
    )


def _whole(text: Text) -> str:
    if isinstance(text, str):
        return text
    if isinstance(text, Sentence):
        return text.text if text.text is not None else " ".join(text.words)
    return " ".join(text)


def _name(code: str) -> str:
    try:
        return find(code).name
    except ZgulError:
        return code
