"""From a request to tagged sentences: language, tagger, words, checks, and then the queue.

Everything that can be wrong with a text is found before it is queued. What zgul warns of is taken as a value, because
Python's warnings belong to the whole process and not to a request.
"""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from zgul.corpora import plain_text
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.languages import Language, feature_source, find
from zgul.serve.batching import Batcher, TaggingSettings
from zgul.serve.metrics import Metrics
from zgul.serve.problems import Problem, blame
from zgul.serve.schemas import TagRequest, TextToTag
from zgul.serve.serve_config import ServeConfig
from zgul.tagger import Prediction
from zgul.tagging.langid import SURE_ENOUGH, guess
from zgul.tagging.loading import load, load_shipped
from zgul.tagging.serving import shipped_names
from zgul.tagging.text_tagger import TextTagger, check_script, in_language, to_layer, to_tagged

BY_LINE = "Most lines are short and end without a full stop, so each is a sentence. "
BY_LINE += "If sentences continue on the next line, join their lines."


@dataclass
class SpokenLanguage:
    """The language of a text: the one that was named, or a guess with its probability."""

    language: Language
    guessed: float | None
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        return {"code": self.language.code, "name": self.language.name, "guessed": self.guessed}


@dataclass
class PreparedText:
    """A text that is ready to be tagged."""

    spoken: SpokenLanguage
    tagger: TextTagger
    sentences: list[Sentence]
    warnings: list[str]

    @property
    def settings(self) -> dict[str, TaggingSettings]:
        """By task."""
        own = self.tagger
        return {task: TaggingSettings(one, own.inference[task], own.with_weights) for task, one in own.taggers.items()}

    def to_dict(self, predictions: dict[str, list[Prediction]]) -> dict[str, Any]:
        """The answer, from the predictions of each task."""
        tagger = self.tagger
        layers = {task: [to_layer(one, tagger.taggers[task]) for one in made] for task, made in predictions.items()}
        own = [dict(zip(layers, row, strict=True)) for row in zip(*layers.values(), strict=True)]
        taggers = [
            {"task": task, "name": served.name, "base": served.base, "sources": tagger.learnt_from(task)}
            | {"em": tagger.inference[task].runs_em, "about": tagger.describe(task)}
            for task, served in tagger.served.items()
        ]
        sentences = [to_tagged(sentence, row).to_dict() for sentence, row in zip(self.sentences, own, strict=True)]
        about = {"language": self.spoken.to_dict(), "taggers": taggers, "warnings": self.warnings}
        return about | {"sentences": sentences}


class TextService:
    """Answers requests for tags with one queue."""

    def __init__(self, config: ServeConfig, metrics: Metrics) -> None:
        self.config = config
        self.pool = ThreadPoolExecutor(config.workers, thread_name_prefix="tagging")
        self.explaining = ThreadPoolExecutor(1, thread_name_prefix="explaining")
        self.batcher = Batcher(self.pool, config.max_waiting, metrics.batch_words.observe)
        self._place: dict[str, Any] = {"device": config.device, "precision": config.precision}
        self._cached = lru_cache(256)(lambda choices: load(**dict(choices), **self._place))
        self._loading = threading.Lock()  # so that nothing is loaded twice

    def load_all(self) -> None:
        """Load the taggers, so that no request waits for them. Adapted ones are loaded when they are asked for."""
        for name in shipped_names():
            with self._loading:
                _ = load_shipped(name, **self._place).engine
            time.sleep(0.01)  # a request that waits for its tagger goes first

    def load(self, language: Language, **choices: Any) -> TextTagger:
        """The tagger of a language, as `zgul.load` makes it."""
        with self._loading:
            return self._cached((("lang", language.code), *choices.items()))

    async def tag(self, request: TagRequest) -> tuple[bytes, int]:
        """The answer as JSON, and how many words it has."""
        prepared = await asyncio.to_thread(self.prepare, request)
        work: dict[TaggingSettings, list[Sentence]] = {}
        for text in prepared:
            for settings in text.settings.values():
                work.setdefault(settings, []).extend(text.sentences)
        predictions = await self.batcher.predict(work)
        words = sum(len(sentence) for text in prepared for sentence in text.sentences)
        return await asyncio.to_thread(_to_json, prepared, predictions), words

    def prepare(self, request: TagRequest) -> list[PreparedText]:
        if len(request.texts) > self.config.max_texts:
            raise Problem(413, f"There are more than {self.config.max_texts:,} texts. Send fewer at a time.", "texts")
        prepared, words = [], 0
        for number, text in enumerate(request.texts):
            prepared.append(self._prepare_text(request, text, f"texts.{number}"))
            sizes = [len(sentence) for sentence in prepared[-1].sentences]
            if max(sizes, default=0) > self.config.max_sentence:
                message = f"A sentence has more than {self.config.max_sentence:,} words. Cut it, by blank lines."
                raise Problem(413, message, f"texts.{number}")
            words += sum(sizes)
            if words > self.config.max_words:
                message = f"There are more than {self.config.max_words:,} words. Send fewer at a time."
                raise Problem(413, message, f"texts.{number}")
        return prepared

    def _prepare_text(self, request: TagRequest, text: TextToTag, field: str) -> PreparedText:
        whole = text.text if text.words is None else " ".join(text.words)
        spoken = find_language(text.lang, whole or "", f"{field}.lang")
        tagger = self.load(spoken.language, **request.choices)
        warnings = spoken.warnings + [one.warning for one in tagger.served.values() if one.warning]
        if request.em and not all(inference.runs_em for inference in tagger.inference.values()):
            warnings.append(f"EM was tuned to no steps for {spoken.language.name}. Give em_steps.")
        if text.words is not None:
            sentences = [word_sentence(text.words, text.word_langs, spoken, f"{field}.word_langs")]
        else:
            by_line = plain_text.lines_are_sentences((whole or "").split("\n")[: plain_text.SAMPLE])
            warnings += [BY_LINE] if by_line else []
            cut = plain_text.split(whole or "", "sentences" if by_line else "raw", spoken.language.code)
            sentences = [in_language(sentence, spoken.language.code) for sentence in cut if sentence.words]
            sentences[:1] = [replace(first, opens="document") for first in sentences[:1]]
        with blame(f"{field}.{'text' if text.words is None else 'words'}"):
            warnings += script_warnings(tagger, sentences)
        return PreparedText(spoken, tagger, sentences, warnings)


def find_language(name: str, text: str, field: str) -> SpokenLanguage:
    """The language that is named or, for ``auto``, the one that the text looks like."""
    guessed, warnings = None, []
    with blame(field):
        if name.lower() == "auto":
            try:
                best = guess(text)[0]
            except ZgulError:
                raise ZgulError("The language cannot be guessed from this text. Name it.") from None
            name, guessed = best.code, round(best.probability, 4)
        language = find(name)
        features = feature_source(language.iso3)  # a language without features and relatives is refused
    if guessed is not None and guessed < SURE_ENOUGH:
        warnings.append(f"The text looks like {language}, but that is only {guessed:.0%} sure. If wrong, name it.")
    if features.iso3 != language.iso3:
        warnings.append(f"URIEL has no features of {language}; those of its closest relative {features} are used.")
    return SpokenLanguage(language, guessed, warnings)


def word_sentence(words: list[str], langs: list[str | None] | None, spoken: SpokenLanguage, field: str) -> Sentence:
    """A sentence of given words, perhaps with their own languages."""
    given = enumerate(langs or [])
    codes = [find_language(name, "", f"{field}.{n}").language.code if name else "" for n, name in given]
    return in_language(Sentence(words, word_languages=codes or None), spoken.language.code)


def script_warnings(tagger: TextTagger, sentences: list[Sentence]) -> Iterator[str]:
    """At most one warning for each tagger. A text that begins in an unknown script raises."""
    for one in tagger.taggers.values():
        checks = (check_script(one, window, number > 0) for number, window in enumerate(tagger.windows(sentences)))
        if problem := next(filter(None, checks), ""):
            yield problem


def _to_json(prepared: list[PreparedText], made: dict[TaggingSettings, list[Prediction]]) -> bytes:
    """The answer. The predictions are those of all texts, one after the other."""
    left = {settings: iter(predictions) for settings, predictions in made.items()}
    texts = []
    for text in prepared:
        each = text.settings.items() if text.sentences else ()
        texts.append(text.to_dict({task: [next(left[own]) for _ in text.sentences] for task, own in each}))
    return json.dumps({"texts": texts}, ensure_ascii=False).encode("utf-8")
