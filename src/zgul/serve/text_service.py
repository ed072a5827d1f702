"""From a request to tagged sentences: language, tagger, words, checks, and then the queue.

Everything that can be wrong with a text is found before it is queued. What zgul warns of is taken as a value, because
Python's warnings belong to the whole process and not to a request.
"""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from zgul.corpora import plain_text
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.languages import Language, feature_source, find
from zgul.serve.batching import Batcher, TaggingSettings, Work
from zgul.serve.metrics import Metrics
from zgul.serve.problems import Problem, blame
from zgul.serve.schemas import TagRequest, TextToTag
from zgul.serve.serve_config import ServeConfig
from zgul.tagger import Prediction
from zgul.tagging.documents import Layer
from zgul.tagging.langid import guess
from zgul.tagging.loading import load
from zgul.tagging.text_tagger import TextTagger, check_script, in_language, to_layer, to_tagged

SURE_ENOUGH = 0.8


@dataclass
class PreparedText:
    """A text that is ready to be tagged."""

    language: Language
    guessed: float | None  # the probability, where the language was guessed
    tagger: TextTagger
    sentences: list[Sentence]
    warnings: list[str]

    def to_dict(self, layers: dict[str, list[Layer]]) -> dict[str, Any]:
        """The answer, from the layers of all sentences by task."""
        per_sentence = zip(*layers.values(), strict=True)
        named = [dict(zip(layers, own, strict=True)) for own in per_sentence]
        return {
            "language": language_dict(self.language, self.guessed),
            "taggers": [
                {"task": task, "name": served.name, "sources": sources(self.tagger, task), "about": about}
                for task, served in self.tagger.served.items()
                for about in [self.tagger.describe(task)]
            ],
            "warnings": self.warnings,
            "sentences": [to_tagged(*pair).to_dict() for pair in zip(self.sentences, named, strict=True)],
        }


def sources(tagger: TextTagger, task: str) -> list[str]:
    return tagger.taggers[task].parts.sources


def language_dict(language: Language, guessed: float | None = None) -> dict[str, Any]:
    return {"code": language.code, "name": language.name, "guessed": guessed and round(guessed, 4)}


class TextService:
    """Answers requests for tags with one queue."""

    def __init__(self, config: ServeConfig, metrics: Metrics) -> None:
        self.config = config
        self.pool = ThreadPoolExecutor(config.workers, thread_name_prefix="tagging")
        self.batcher = Batcher(self.pool, config.max_waiting, metrics.batch_words.observe)
        self.load = lru_cache(256)(self._load)

    def _load(
        self, language: str, task: str | None, settings: tuple[tuple[str, Any], ...], weights: bool
    ) -> TextTagger:
        place: dict[str, Any] = {"device": self.config.device, "precision": self.config.precision}
        return load(language, task, weights=weights, **dict(settings), **place)

    async def tag(self, request: TagRequest) -> tuple[bytes, int]:
        """The answer as JSON, and how many words it has."""
        prepared = await asyncio.to_thread(self.prepare, request)
        work: list[Work] = [
            (TaggingSettings(tagger, text.tagger.inference[task], request.weights), text.sentences)
            for text in prepared
            for task, tagger in text.tagger.taggers.items()
        ]
        predictions = await self.batcher.predict(work)
        words = sum(len(sentence) for text in prepared for sentence in text.sentences)
        return await asyncio.to_thread(_to_json, prepared, predictions), words

    def prepare(self, request: TagRequest) -> list[PreparedText]:
        if len(request.texts) > self.config.max_texts:
            raise Problem(413, f"There are more than {self.config.max_texts:,} texts. Send fewer at a time.", "texts")
        prepared, words = [], 0
        for number, text in enumerate(request.texts):
            prepared.append(self._prepare_text(request, text, f"texts.{number}"))
            words += sum(map(len, prepared[-1].sentences))
            if words > self.config.max_words:
                raise Problem(
                    413, f"There are more than {self.config.max_words:,} words. Send fewer at a time.", "texts"
                )
        return prepared

    def _prepare_text(self, request: TagRequest, text: TextToTag, field: str) -> PreparedText:
        whole = text.text if text.text is not None else " ".join(text.words or ())
        language, guessed, warnings = find_language(text.lang, whole, f"{field}.lang")
        tagger = self.tagger_for(language, request.task, request.em_settings, request.weights)
        warnings += [served.warning for served in tagger.served.values() if served.warning]
        if request.em and not all(inference.runs_em for inference in tagger.inference.values()):
            warnings.append(f"EM was tuned to no steps for {language.name}. Give em_steps.")
        if text.words is not None:
            sentences = [word_sentence(text.words, text.word_langs, language, f"{field}.word_langs")]
        else:
            lines = plain_text.lines_are_sentences(whole.split("\n")[: plain_text.SAMPLE])
            if lines:
                warnings.append("Most lines are short and have no final punctuation, so each is read as a sentence.")
            cut = plain_text.split(whole, "sentences" if lines else "raw", language.code)
            sentences = [in_language(sentence, language.code) for sentence in cut if sentence.words]
        with blame(f"{field}.{'text' if text.words is None else 'words'}"):
            warnings += script_warnings(tagger, sentences)
        return PreparedText(language, guessed, tagger, sentences, warnings)

    def tagger_for(self, language: Language, task: str | None, em: dict[str, Any], weights: bool) -> TextTagger:
        with blame("em"):
            return self.load(language.code, task, tuple(em.items()), weights)


def find_language(name: str, text: str, field: str) -> tuple[Language, float | None, list[str]]:
    """The language that is named, or the one that the text looks like and how sure that is; and what to warn of."""
    guessed, warnings = None, []
    with blame(field):
        if name.lower() == "auto":
            try:
                best = guess(text)[0]
            except ZgulError:
                raise ZgulError("The language cannot be guessed from this text. Name it.") from None
            name, guessed = best.code, best.probability
        language = find(name)
        features = feature_source(language.iso3)  # an isolate without features is refused
    if guessed is not None and guessed < SURE_ENOUGH:
        warnings.append(
            f"The text looks like {language}, but that is only {guessed:.0%} sure. If it is wrong, name it."
        )
    if features.iso3 != language.iso3:
        warnings.append(f"URIEL has no features of {language}; those of its closest relative {features} are used.")
    return language, guessed, warnings


def word_sentence(words: list[str], langs: list[str | None] | None, language: Language, field: str) -> Sentence:
    """A sentence of given words, perhaps with their own languages."""
    given = enumerate(langs or [])
    codes = [find_language(code, "", f"{field}.{n}")[0].code if code else "" for n, code in given]
    return in_language(Sentence(words, word_languages=codes or None), language.code)


def script_warnings(tagger: TextTagger, sentences: list[Sentence]) -> Iterator[str]:
    """At most one warning for each tagger. A text that begins in an unknown script raises."""
    for one in tagger.taggers.values():
        checks = (check_script(one, window, number > 0) for number, window in enumerate(tagger.windows(sentences)))
        if problem := next(filter(None, checks), ""):
            yield problem


def _to_json(prepared: list[PreparedText], predictions: list[list[Prediction]]) -> bytes:
    parts = iter(predictions)
    texts = [
        text.to_dict(
            {task: [to_layer(one, tagger) for one in next(parts)] for task, tagger in text.tagger.taggers.items()}
        )
        for text in prepared
    ]
    return json.dumps({"texts": texts}, ensure_ascii=False).encode("utf-8")
