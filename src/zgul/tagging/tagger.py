"""Text in, tags out: ``TextTagger`` is one or two trained methods with a language and a way to infer.

Sentences are tagged in windows: as many as hold some thousand words are sorted by length, batched, tagged and given
out in their own order. The first windows are small, so that the first results come soon. Windows depend on the text
and the kind of device alone, so the same text gives the same numbers to the last bit, also when a broken-off run is
resumed.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeVar

from zgul.corpora import segment
from zgul.corpora.sentence import Sentence
from zgul.ensemble.em import Adaptive, EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.languages import Language, assign_group, find
from zgul.methods.tagger import Prediction, Tagger
from zgul.tagging import shipped
from zgul.tagging.results import Document, Layer, TaggedSentence

FIRST_WINDOW, WINDOW, GPU_WINDOW = 64, 4096, 65536  # words
MAX_UNKNOWN = 0.3  # share of pieces that the encoder may not know; in a script it does not know it is about 0.5
FEW_WORDS = 3  # with letters; a sentence of fewer is not worth a warning
MAX_TYPES = 50_000  # word types remembered as pieces, some 15 MB
BOTH = "both"
ADAPTIVE = Adaptive(layers=0, steps=1, reach=2.0, skip_below=0.3, patience=0)  # chosen by scripts/adaptive_em.py

Text = str | Sequence[str] | Sentence  # running text, the words of a sentence, or a sentence
T = TypeVar("T")


def load(
    lang: str | Language,
    task: str | None = None,
    *,
    model: str | Path | None = None,
    em: bool | None = None,
    em_steps: int | None = None,
    em_lr: float | None = None,
    adaptive: bool | None = None,
    weights: bool = False,
    device: str = "cpu",
    precision: str = "float32",
) -> TextTagger:
    """A tagger for a language.

    ``task`` is ``pos``, ``ner`` or ``both``; not given, it is what the language's group (or the model) was made for.
    The shipped tagger that serves the language is taken unless ``model`` names another shipped one
    (``"slavic-pos"``) or a folder saved by ``Tagger.save_pretrained``. ``em`` switches entropy minimisation on or
    off (default: as the tagger was tuned), ``em_steps`` and ``em_lr`` change it. ``adaptive`` does it at a fraction of
    the work, for nearly the same tags (default: unless steps or rate are given; False: as in the paper). ``weights``
    also gives the share of each source language per word. ``precision`` "bfloat16" is faster where the CPU or GPU
    multiplies in it, for nearly the same tags.
    """
    language = find(lang)
    if model is not None:
        taggers, served = _chosen(str(model), task)
    else:
        taggers, served = _serving(language, task)
    taggers = {name: tagger.to(device).using(precision=precision) for name, tagger in taggers.items()}
    inference = {name: _inference(tagger, language, em, em_steps, em_lr, adaptive) for name, tagger in taggers.items()}
    return TextTagger(language, taggers, served, inference, weights)


@dataclass
class Inference:
    """How a tagger infers: its strategy, and entropy minimisation where that has it."""

    strategy: str
    em: EMConfig | None


@dataclass
class TextTagger:
    """Tags text of one language; ``load`` makes them."""

    language: Language
    taggers: dict[str, Tagger]  # by task
    served: dict[str, shipped.Served]  # by task: which tagger it is, and why that one
    inference: dict[str, Inference]  # by task
    with_weights: bool = False
    _warned: bool = field(default=False, init=False, repr=False, compare=False)  # of a script, in this text
    _long: bool = field(default=False, init=False, repr=False, compare=False)  # this text fills windows

    def tag(self, text: Text) -> Document:
        """Tag running text, a list of words, or a sentence."""
        return next(self.tag_all([text]))

    def tag_all(self, texts: Iterable[Text]) -> Iterator[Document]:
        """Tag many texts, one document each, in order, while they come."""
        open_texts: deque[str] = deque()  # read, but not given out yet
        held: list[TaggedSentence] = []
        current, begun = 0, False

        def numbered() -> Iterator[tuple[int, Sentence]]:
            for index, text in enumerate(texts):
                open_texts.append(_whole(text))
                for sentence in self._sentences(text):
                    yield index, sentence

        for window in windows(numbered(), size=lambda pair: len(pair[1]), most=self.window):
            results = self.tag_window([sentence for _, sentence in window], begun=begun)
            begun = True
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
        for number, window in enumerate(windows(sentences, size=len, most=self.window)):
            yield from self.tag_window(window, begun=number > 0)

    @property
    def window(self) -> int:
        """Words that are tagged together: a GPU wants more at once."""
        on_gpu = any(tagger.device.type == "cuda" for tagger in self.taggers.values())
        return GPU_WINDOW if on_gpu else WINDOW

    def entities(self, text: Text) -> list[dict[str, Any]]:
        """Names as the token-classification pipeline of ``transformers`` gives them."""
        return [
            {
                "entity_group": entity.label,
                "score": entity.probability,
                "word": entity.text,
                "start": entity.start,
                "end": entity.end,
            }
            for entity in self.tag(text).entities
        ]

    def tag_window(self, sentences: Sequence[Sentence], *, begun: bool = False) -> list[TaggedSentence]:
        """Tag these sentences together; ``begun``: they go on with a text whose script was known."""
        spoken = [self._spoken(sentence) for sentence in sentences]
        full = [sentence for sentence in spoken if sentence.words]
        layers: dict[str, Iterator[Layer]] = {}
        self._warned &= begun
        for task, tagger in self.taggers.items():
            problem = _check_script(tagger, full, begun)
            if problem and not self._warned:
                self._warned = True
                warnings.warn(problem, ZgulWarning, stacklevel=3)
            how = self.inference[task]
            settings: dict[str, Any] = {"strategy": how.strategy, "em": how.em, "weights": self.with_weights}
            predictions = tagger.predict(full, **settings) if full else []
            layers[task] = iter([_layer(prediction, tagger) for prediction in predictions])
        self._long = sum(map(len, full)) >= WINDOW or (begun and self._long)
        if self._long:
            _give_back()
        nothing = {task: Layer([], []) for task in layers}
        return [
            _tagged(sentence, {task: next(found) for task, found in layers.items()} if sentence.words else nothing)
            for sentence in spoken
        ]

    def describe(self, task: str) -> str:
        """One line on which tagger this is and what it rests on."""
        sources = ", ".join(_name(code) for code in self.taggers[task].parts.sources)
        em = self.inference[task].em
        steps = em.steps if em else 0
        how = f"entropy minimisation, {steps} step{'s' * (steps > 1)}" if steps else "no entropy minimisation"
        return f"{self.served[task].name}, learnt from {sources}; {how}"

    def _spoken(self, sentence: Sentence) -> Sentence:
        """The sentence in the tagger's language, but for words that have one of their own."""
        own = sentence.word_languages
        words = own and [code or self.language.code for code in own]
        return replace(sentence, language=self.language.code, word_languages=words)

    def _sentences(self, text: Text) -> Iterable[Sentence]:
        if isinstance(text, str):
            return segment.sentences(text)
        return [text if isinstance(text, Sentence) else Sentence(list(text))]


def _chosen(model: str, task: str | None) -> tuple[dict[str, Tagger], dict[str, shipped.Served]]:
    """The one tagger that the user named, which must be for the task."""
    if task == BOTH:
        raise ZgulError("a model has one task; for both tasks leave the model out")
    tagger = named(model)
    if task is not None and tagger.task != shipped.check_task(task):
        raise ZgulError(f"{model} is a tagger for {tagger.task}, not for {task}; leave the task out")
    return {tagger.task: tagger}, {tagger.task: shipped.Served(model, tagger.task, None, "it was asked for by name")}


def _serving(language: Language, task: str | None) -> tuple[dict[str, Tagger], dict[str, shipped.Served]]:
    """The shipped taggers that serve a language."""
    if task is None:
        group = assign_group(language)
        task = group.task if group else "pos"
    tasks = list(shipped.TASKS) if task == BOTH else [shipped.check_task(task)]
    served = {name: shipped.serving(language, name) for name in tasks}
    for one in served.values():
        if one.warning:
            warnings.warn(one.warning, ZgulWarning, stacklevel=3)
    return {name: shipped.load(one.name) for name, one in served.items()}, served


def _check_script(tagger: Tagger, sentences: Sequence[Sentence], begun: bool) -> str | None:
    """Refuse text of which the encoder knows too little; further on in a text, or of a sentence, only say so."""
    if len(tagger.pieces._type_of) > MAX_TYPES:
        tagger.pieces.forget()
    lettered = [[word for word in sentence.words if any(map(str.isalpha, word))] for sentence in sentences]
    words = [word for sentence in lettered for word in sentence]
    share = tagger.pieces.unknown_share(words)
    if share > MAX_UNKNOWN and not begun:
        raise ZgulError(
            f"{_unknown(share, words)}. Text with more than {MAX_UNKNOWN:.0%} is refused, because its tags would mean "
            "nothing; transliterate it first, into the script of the languages that the tagger learnt from."
        )
    passages = [words, *(one for one in lettered if len(one) >= FEW_WORDS)] if share else []
    for passage in passages:
        share = tagger.pieces.unknown_share(passage)
        if share > MAX_UNKNOWN:
            return f"{_unknown(share, passage)}; its tags mean nothing (said once; there may be more of it)"
    return None


def _unknown(share: float, words: list[str]) -> str:
    sample = shorten(" ".join(words), 40, placeholder="…") if len(words[0]) < 40 else words[0][:40] + "…"
    return (
        f"{share:.0%} of the pieces of this text (“{sample}”) are unknown to the encoder: it does not know the script"
    )


def _give_back() -> None:
    """Hand unused memory back to the system.

    Batches of ever new shapes leave holes of ever new sizes in glibc's heap: without this a process grows by a tenth
    in a thousand sentences, though it holds no more.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def windows(items: Iterable[T], size: Callable[[T], int], most: int = WINDOW) -> Iterator[list[T]]:
    """Cut a stream into windows of about this many words; the first ones are smaller."""
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


def named(model: str) -> Tagger:
    """A folder, or a shipped tagger by its name."""
    if (Path(model) / "config.json").is_file():
        return Tagger.from_pretrained(model)
    if model in shipped.names():
        return shipped.load(model)
    raise ZgulError(
        f"{model} is neither a tagger's folder (with config.json) nor one of the shipped taggers: "
        f"{', '.join(shipped.names()) or 'none are installed'}"
    )


def _inference(
    tagger: Tagger, language: Language, em: bool | None, steps: int | None, lr: float | None, adaptive: bool | None
) -> Inference:
    """The strategy and EM settings that the user's switches mean for this tagger."""
    strategies = tagger.method.strategies
    strategy = tagger.strategy
    wanted = em if em is not None or (steps is None and lr is None) else True
    if wanted is not None and wanted != tagger.method.uses_em(strategy):
        fitting = [name for name in strategies if tagger.method.uses_em(name) == wanted]
        if not fitting:
            raise ZgulError(f"{tagger.method.title} has no inference {'with' if wanted else 'without'} EM")
        strategy = fitting[0]
    config = tagger.em_for(language.code, strategy)
    if config is None:
        if steps is not None or lr is not None:
            raise ZgulError("EM is switched off, so its steps and learning rate have no meaning; leave them out")
        return Inference(strategy, None)
    if config.steps == 0 and steps is None and (em or lr is not None or adaptive is False):
        warnings.warn(f"EM was tuned to no steps for {language.name}; give --em-steps", ZgulWarning, stacklevel=4)
    config = replace(config, steps=config.steps if steps is None else steps, lr=config.lr if lr is None else lr)
    literal = steps is not None or lr is not None  # numbers that were asked for are taken as they are
    return Inference(strategy, config if adaptive is False or (adaptive is None and literal) else adapted(config))


def adapted(config: EMConfig) -> EMConfig:
    """EM at a fraction of the work, for nearly the same tags."""
    return ADAPTIVE.of(config)


def _layer(prediction: Prediction, tagger: Tagger) -> Layer:
    weights = None
    if prediction.weights is not None and tagger.model.bank is not None:
        languages = tagger.model.bank.languages
        shares = prediction.weights.mean(axis=1)  # [words, K, N] -> [words, N]
        weights = [dict(zip(languages, map(float, row), strict=True)) for row in shares]
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
