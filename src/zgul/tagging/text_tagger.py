"""Tag text: a `TextTagger` is one or two taggers with a language and settings for inference.

Sentences are tagged in windows of a few thousand words: inside a window they are sorted by length, batched, tagged and
put back into their order. The first windows are small, so that the first results come soon. Windows depend only on the
text and the kind of device, so the same text gives the same numbers to the last bit, also when an interrupted run is
resumed.
"""

import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice, repeat
from textwrap import shorten
from typing import Any, TypeVar

from zgul.corpora import plain_text
from zgul.corpora.sentence import Sentence
from zgul.devices import release_memory
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.languages import Language, find
from zgul.tagger import Prediction, Tagger
from zgul.tagging.documents import Document, Layer, TaggedSentence
from zgul.tagging.serving import Served, learnt_from

FIRST_WINDOW, WINDOW, GPU_WINDOW = 64, 4096, 65536  # words
MAX_UNKNOWN = 0.3  # the largest share of unknown pieces; in a script that the encoder does not know it is about 0.5
FEW_WORDS = 3  # a sentence with fewer words that have letters is not worth a warning

Text = str | Sequence[str] | Sentence  # running text, the words of a sentence, or a sentence
T = TypeVar("T", bound=Sized)


@dataclass(frozen=True)
class Inference:
    """A strategy, and the settings of entropy minimisation (EM) if the strategy has it."""

    strategy: str
    em: EMConfig | None = None
    skip_below: float = 0.0  # nats per word: EM leaves sentences with less entropy as they are

    @property
    def runs_em(self) -> bool:
        return self.em is not None and self.em.steps > 0

    def __str__(self) -> str:
        if self.em is None or not self.em.steps:
            return "no EM"
        details = [f"EM: {self.em.steps} step{'s' * (self.em.steps > 1)}", f"rate {self.em.lr:g}"]
        details += [f"for sentences of at least {self.skip_below:g} nats a word"] if self.skip_below else []
        details += [f"from {self.em.start}"] if self.em.start != "scores" else []
        details += ["over all positions"] if self.em.positions == "all" else []
        return ", ".join(details)


@dataclass(frozen=True)
class TextTagger:
    """Tags text of one language. `zgul.load` makes them. Several threads may use one."""

    language: Language
    taggers: dict[str, Tagger]  # by task
    served: dict[str, Served]  # by task: which tagger it is, and why that one
    inference: dict[str, Inference]  # by task
    with_weights: bool = False

    def __repr__(self) -> str:
        about = "; ".join(f"{task} by {self.describe(task)}" for task in self.taggers)
        return f"<TextTagger of {self.language}: {about}>"

    def tag(self, text: Text) -> Document:
        """Tag running text, a list of words, or a sentence."""
        return next(self.tag_all([text]))

    def tag_all(self, texts: Iterable[Text]) -> Iterator[Document]:
        """Tag many texts as they arrive: one document for each, in order."""
        if isinstance(texts, str):
            raise ZgulError("tag_all takes many texts. For one text use tag.")
        waiting: deque[Document] = deque()  # read, but not yielded yet
        owners: deque[Document] = deque()  # for each sentence on its way: its document

        def sentences() -> Iterator[Sentence]:
            for text in texts:
                whole, cut = _cut(text, self.language.code)
                waiting.append(Document(whole, []))
                for sentence in cut:
                    owners.append(waiting[-1])
                    yield sentence

        for tagged in self.tag_sentences(sentences()):
            owner = owners.popleft()
            while waiting[0] is not owner:
                yield waiting.popleft()
            owner.sentences.append(tagged)
        yield from waiting

    def tag_sentences(self, sentences: Iterable[Sentence]) -> Iterator[TaggedSentence]:
        """Tag sentences as they arrive, in order."""
        return chain.from_iterable(self.tag_windows(self.windows(sentences)))

    def tag_windows(self, windows: Iterable[list[Sentence]], *, begun: bool = False) -> Iterator[list[TaggedSentence]]:
        """Tag the windows of one text. ``begun`` means that its first windows were tagged before.

        A text is refused if the encoder does not know the script of its beginning. Later there is one warning.
        """
        warned = long = False
        for window in windows:
            sentences = [in_language(sentence, self.language.code) for sentence in window]
            full = [sentence for sentence in sentences if sentence.words]
            layers: dict[str, Iterator[Layer]] = {}
            for task, tagger in self.taggers.items():
                problem = "" if warned else check_script(tagger, full, begun)
                if problem:
                    warnings.warn(problem, ZgulWarning, stacklevel=2)
                    warned = True
                predictions = tagger.predict(full, **vars(self.inference[task]), weights=self.with_weights)
                layers[task] = iter([to_layer(prediction, tagger) for prediction in predictions])
            begun = True
            long |= sum(map(len, full)) >= WINDOW
            if long:
                release_memory()
            empty = dict.fromkeys(layers, repeat(Layer([], [])))  # of a sentence without words
            sources = [layers if sentence.words else empty for sentence in sentences]
            own = ({task: next(layer) for task, layer in source.items()} for source in sources)
            yield list(map(to_tagged, sentences, own))

    def windows(self, items: Iterable[T]) -> Iterator[list[T]]:
        """Cut a stream of sentences into windows."""
        return cut_windows(items, any(tagger.device.type == "cuda" for tagger in self.taggers.values()))

    def entities(self, text: Text) -> list[dict[str, Any]]:
        """Names as the token-classification pipeline of ``transformers`` gives them."""
        fields = {"entity_group": "label", "score": "probability", "word": "text", "start": "start", "end": "end"}
        return [{name: getattr(one, own) for name, own in fields.items()} for one in self.tag(text).entities]

    def learnt_from(self, task: str) -> list[str]:
        """The languages whose labelled sentences the tagger of a task learnt from."""
        return learnt_from(self.taggers[task].sources, self.taggers[task].about)

    def describe(self, task: str) -> str:
        """One line that names the tagger, its source languages, what it was adapted to, and its EM settings."""
        sources = ", ".join(map(_name, self.learnt_from(task)))
        inference = str(self.inference[task]).replace("EM", "entropy minimisation", 1)
        language = self.taggers[task].about.get("adapted", {}).get("language")
        adapted = f" and adapted to {_name(str(language))}" if language else ""
        return f"{self.served[task].name}, learnt from {sources}{adapted}; {inference}"


def cut_windows(items: Iterable[T], on_gpu: bool) -> Iterator[list[T]]:
    """Cut a stream of sentences into windows. The first ones are smaller. A GPU needs more words at once."""
    limit, count, window = FIRST_WINDOW, 0, list[T]()
    for item in items:
        window.append(item)
        count += max(1, len(item))
        if count >= limit:
            yield window
            limit = min(2 * limit, GPU_WINDOW if on_gpu else WINDOW)
            count, window = 0, []
    if window:
        yield window


def _cut(text: Text, language: str) -> tuple[str, Iterable[Sentence]]:
    """The whole text, and its sentences."""
    if isinstance(text, str):
        sentences = plain_text.split(text, language=language)
        return text, chain((replace(first, opens="document") for first in islice(sentences, 1)), sentences)
    if not isinstance(text, Sentence):
        words: list[Any] = list(text) if isinstance(text, Iterable) else [text]
        if strange := next((type(word).__name__ for word in words if not isinstance(word, str)), ""):
            raise ZgulError(f"A text, and each word in a list of words, is a string (str), not of type {strange}.")
        if spaced := next((word for word in words if any(map(str.isspace, word))), None):
            problem = f"A list is read as the words of one sentence, but {shorten(spaced, 40)!r} has spaces in it."
            raise ZgulError(f"{problem} For several texts use tag_all.")
        text = Sentence(words)
    return text.text if text.text is not None else " ".join(text.words), [text]


def in_language(sentence: Sentence, code: str) -> Sentence:
    """Set the sentence's language to the tagger's, except for words that have a language of their own."""
    own = sentence.word_languages
    return replace(sentence, language=code, word_languages=own and [word or code for word in own])


def check_script(tagger: Tagger, sentences: Sequence[Sentence], begun: bool) -> str:
    """A warning if the encoder does not know these sentences, or one of them. At the beginning of a text, an error."""
    lettered = [[word for word in sentence.words if any(map(str.isalpha, word))] for sentence in sentences]
    words = [word for passage in lettered for word in passage]
    share = tagger.pieces.unknown_share(words)
    if share > MAX_UNKNOWN and not begun:
        advice = "Transliterate it first, into the script of the languages that the tagger learnt from."
        refused = f"Text with more than {MAX_UNKNOWN:.0%} is refused, because its tags would mean nothing."
        raise ZgulError(f"{_unknown(share, words)}. {refused} {advice}")
    passages = [words, *(one for one in lettered if len(one) >= FEW_WORDS)] if share else []
    shares = ((tagger.pieces.unknown_share(passage), passage) for passage in passages)
    unknown = next((_unknown(*pair) for pair in shares if pair[0] > MAX_UNKNOWN), "")
    return unknown and f"{unknown}. Its tags mean nothing. (This is said once; there may be more such text.)"


def _unknown(share: float, words: list[str]) -> str:
    sample = shorten(" ".join(words), 40, placeholder="…") if len(words[0]) < 40 else words[0][:40] + "…"
    pieces = f"{share:.0%} of the pieces of this text (“{sample}”)"
    return f"The encoder does not know the script: {pieces} are unknown to it"


def to_layer(prediction: Prediction, tagger: Tagger) -> Layer:
    weights = None
    if prediction.weights is not None:
        shares = prediction.weights.mean(axis=1)  # [words, K, N] -> [words, N]
        weights = [dict(zip(tagger.bank_languages, map(float, row), strict=True)) for row in shares]
    return Layer(prediction.tags, prediction.probabilities.tolist(), weights)


def to_tagged(sentence: Sentence, layers: dict[str, Layer]) -> TaggedSentence:
    text, offsets, start = sentence.text, sentence.offsets, sentence.start
    if text is None or offsets is None:
        text = " ".join(sentence.words)
        ends = list(accumulate(len(word) + 1 for word in sentence.words))
        offsets = [(end - 1 - len(word), end - 1) for word, end in zip(sentence.words, ends, strict=True)]
    places = [(begin + start, end + start) for begin, end in offsets]
    rest = (start, sentence.opens, sentence.block)
    return TaggedSentence(text, sentence.words, places, layers, sentence.language or "", *rest)


def _name(code: str) -> str:
    try:
        return find(code).name
    except ZgulError:
        return code
