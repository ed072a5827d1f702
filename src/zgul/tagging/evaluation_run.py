"""Score a tagger on labelled sentences: F1, accuracy, confused tags, and the words with the most mistakes.

evaluate(load_for_scoring("fo", "pos"), DataFolder(DATA).sentences("pos", "fo", "test")).scores.f1
"""

import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

from zgul.corpora.sentence import Sentence
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.evaluation import Scores, scores
from zgul.methods import METHODS
from zgul.progress import Report, counter, silent
from zgul.tagger.decoding import decoder
from zgul.tagging.loading import choose_inference, load
from zgul.tagging.serving import installed_names
from zgul.tagging.text_tagger import Inference, TextTagger

LISTED = 10  # confusions and words
NO_CHOICES: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Confusion:
    """How often one tag was taken for another."""

    gold: str
    predicted: str
    words: int


@dataclass(frozen=True)
class WordMistakes:
    """How often a word got a wrong tag."""

    word: str
    wrong: int
    total: int
    gold: str  # the most frequent mistake
    predicted: str


@dataclass(frozen=True)
class Evaluation:
    """The scores of a tagger on some sentences, and how it tagged them."""

    scores: Scores
    confusions: list[Confusion]  # the most frequent first
    worst_words: list[WordMistakes]
    model: str  # name of the tagger
    method: str
    task: str
    language: str
    inference: Inference
    decode: str
    precision: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as ``zgul evaluate --json`` prints it. Scores are percentages."""
        plain = asdict(self)
        plain |= plain.pop("inference")
        plain["lang"] = plain.pop("language")
        plain["computed_in"] = plain.pop("precision")  # "precision" is a score
        own: dict[str, Any] = plain.pop("scores")
        return own | plain


def load_for_scoring(
    lang: str, task: str | None = None, decode: str | None = None, choices: Mapping[str, Any] = NO_CHOICES, **place: Any
) -> TextTagger:
    """A tagger as `zgul evaluate` scores it: a shipped one as `zgul tag` runs it, others with EM as they were tuned.

    ``decode`` replaces the tagger's own. ``choices`` are those of `choose_inference`, and ``place`` are the ``model``,
    ``adapted``, ``device`` and ``precision`` of `zgul.load`; scores are computed in float32 unless it is given.
    """
    EMConfig.from_dict(choices.get("changes", {}), "em_")  # check everything first, because loading takes seconds
    if decode is not None:
        decoder(decode, [])
    if (strategy := choices.get("strategy")) and not any(strategy in method.strategies for method in METHODS.values()):
        raise ZgulError(f"No method has a strategy {strategy!r}. See: zgul methods")
    if task == "both":
        raise ZgulError("Only one task can be scored at a time. Choose --task pos or --task ner.")
    loaded = load(lang, **{"precision": "float32"} | place | {"task": task})
    ((task, tagger),) = loaded.taggers.items()
    tagger = replace(tagger, decode=decode) if decode is not None else tagger
    ships = loaded.served[task].name in installed_names()
    inference = choose_inference(tagger, loaded.language.code, **choices, adaptive_default=ships)
    return replace(loaded, taggers={task: tagger}, inference={task: inference})


def evaluate(text_tagger: TextTagger, sentences: Sequence[Sentence], *, report: Report = silent) -> Evaluation:
    """Tag labelled sentences, and compare the result with their own tags."""
    if not sentences or any(sentence.tags is None for sentence in sentences):
        raise ZgulError("Only sentences with tags can be scored. Give at least one.")
    if len(text_tagger.taggers) != 1:
        raise ZgulError("Only one task can be scored at a time. Load the tagger with task='pos' or task='ner'.")
    ((task, tagger),) = text_tagger.taggers.items()
    inference = text_tagger.inference[task]
    gold = [sentence.tags or [] for sentence in sentences]
    _warn_of_unknown(gold, tagger.labels)
    started = time.monotonic()
    count = counter(report, "tagging", len(sentences))
    predictions = tagger.predict(sentences, **vars(inference), on_batch=count)
    seconds = round(time.monotonic() - started, 3)
    predicted = [prediction.tags for prediction in predictions]
    words = [word for sentence in sentences for word in sentence.words]
    triples = zip(words, chain(*gold), chain(*predicted), strict=True)
    mistakes = [(word, (right, wrong)) for word, right, wrong in triples if right != wrong]
    pairs = Counter(tags for _, tags in mistakes).most_common(LISTED)
    confusions = [Confusion(*pair, count) for pair, count in pairs]
    name = (text_tagger.served[task].name, tagger.method.name, task, text_tagger.language.code)
    settings = (inference, tagger.decode, tagger.engine.precision, seconds)
    return Evaluation(scores(gold, predicted), confusions, _worst_words(words, mistakes), *name, *settings)


def _worst_words(words: list[str], mistakes: list[tuple[str, tuple[str, str]]]) -> list[WordMistakes]:
    """The words with the most mistakes. ``mistakes`` has each wrong word with its own tag and the tag that it got."""
    totals = Counter(words)
    result = []
    for word, wrong in Counter(word for word, _ in mistakes).most_common(LISTED):
        ((gold, predicted), _), *_ = Counter(tags for other, tags in mistakes if other == word).most_common(1)
        result.append(WordMistakes(word, wrong, totals[word], gold, predicted))
    return result


def _warn_of_unknown(gold: list[list[str]], labels: Sequence[str]) -> None:
    """Warn of tags that the tagger cannot give, because they count as its mistakes."""
    known = {label.split("-", 1)[-1] for label in labels}
    unknown = Counter(kind for tags in gold for tag in tags if (kind := tag.split("-", 1)[-1]) not in known)
    if unknown:
        named = ", ".join(f"{kind} ({count} words)" for kind, count in unknown.most_common())
        problem = f"The data has tags that this tagger never gives. They count as mistakes: {named}."
        warnings.warn(problem, ZgulWarning, stacklevel=3)
