"""Text in, tags out: `TextTagger` is one or two taggers with a language and a way to infer.

Sentences are tagged in windows of some thousand words: inside a window they are sorted by length, batched, tagged and
put back into their order. The first windows are small, so that the first results come soon. Windows depend on the text
and the kind of device alone, so the same text gives the same numbers to the last bit, also when an interrupted run is
resumed.
"""

import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import chain, islice
from textwrap import shorten
from typing import Any, TypeVar

from zgul.corpora import plain_text
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError, ZgulWarning
from zgul.fast.memory import release_memory
from zgul.languages import Language, find
from zgul.tagger import Prediction, Tagger
from zgul.tagging.documents import Document, Layer, TaggedSentence
from zgul.tagging.inference_choice import Inference
from zgul.tagging.serving import Served

FIRST_WINDOW, WINDOW, GPU_WINDOW = 64, 4096, 65536  # words
MAX_UNKNOWN = 0.3  # share of pieces that the encoder may not know; in a script it does not know it is about 0.5
FEW_WORDS = 3  # a sentence with fewer words that have letters is not worth a warning

Text = str | Sequence[str] | Sentence  # running text, the words of a sentence, or a sentence
T = TypeVar("T", bound=Sized)


@dataclass(frozen=True)
class TextTagger:
    """Tags text of one language. `zgul.load` makes them. Several threads may use one."""

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
        owners: deque[int] = deque()  # for each sentence on its way: the number of its text

        def sentences() -> Iterator[Sentence]:
            for number, text in enumerate(texts):
                whole, cut = _cut(text, self.language.code)
                open_texts.append(whole)
                for sentence in cut:
                    owners.append(number)
                    yield sentence

        done: list[TaggedSentence] = []
        current = 0
        for tagged in self.tag_sentences(sentences()):
            owner = owners.popleft()
            while current < owner:
                yield Document(open_texts.popleft(), done)
                current, done = current + 1, []
            done.append(tagged)
        while open_texts:
            yield Document(open_texts.popleft(), done)
            done = []

    def tag_sentences(self, sentences: Iterable[Sentence]) -> Iterator[TaggedSentence]:
        """Tag sentences, in order, while they come."""
        return chain.from_iterable(self.tag_windows(self.windows(sentences)))

    def tag_windows(
        self, windows: Iterable[Sequence[Sentence]], *, begun: bool = False
    ) -> Iterator[list[TaggedSentence]]:
        """Tag the windows of one text. ``begun`` says that its first ones were tagged before.

        A text of which the encoder knows too little is refused at its beginning. Further on there is one warning.
        """
        warned = long = False
        for window in windows:
            sentences = [_in_language(sentence, self.language.code) for sentence in window]
            full = [sentence for sentence in sentences if sentence.words]
            layers: dict[str, Iterator[Layer]] = {}
            for task, tagger in self.taggers.items():
                problem = "" if begun and warned else _check_script(tagger, full, begun)
                if problem and not warned:
                    warnings.warn(problem, ZgulWarning, stacklevel=2)
                    warned = True
                layers[task] = self._tag(task, full)
            begun = True
            long |= sum(map(len, full)) >= WINDOW
            if long:
                release_memory()
            nothing = {task: Layer([], []) for task in layers}
            yield [
                _tagged(s, {task: next(own) for task, own in layers.items()} if s.words else nothing) for s in sentences
            ]

    def _tag(self, task: str, sentences: list[Sentence]) -> Iterator[Layer]:
        tagger, chosen = self.taggers[task], self.inference[task]
        predictions = tagger.predict(
            sentences, strategy=chosen.strategy, em=chosen.em, skip_below=chosen.skip_below, weights=self.with_weights
        )
        return iter([_layer(prediction, tagger) for prediction in predictions])

    def windows(self, items: Iterable[T]) -> Iterator[list[T]]:
        """Cut a stream of sentences into windows. A GPU needs more words at once."""
        on_gpu = any(tagger.device.type == "cuda" for tagger in self.taggers.values())
        return windows(items, GPU_WINDOW if on_gpu else WINDOW)

    def entities(self, text: Text) -> list[dict[str, Any]]:
        """Names as the token-classification pipeline of ``transformers`` gives them."""
        names = ("entity_group", "score", "word", "start", "end")
        found = self.tag(text).entities
        return [dict(zip(names, (e.label, e.probability, e.text, e.start, e.end), strict=True)) for e in found]

    def describe(self, task: str) -> str:
        """One line on which tagger this is and what it rests on."""
        sources = ", ".join(_name(code) for code in self.taggers[task].parts.sources)
        inference = str(self.inference[task]).replace("EM", "entropy minimisation", 1)
        return f"{self.served[task].name}, learnt from {sources}; {inference}"


def windows(items: Iterable[T], most: int = WINDOW) -> Iterator[list[T]]:
    """Cut a stream into windows of about ``most`` words. The first ones are smaller."""
    limit, count = FIRST_WINDOW, 0
    window: list[T] = []
    for item in items:
        window.append(item)
        count += max(1, len(item))
        if count >= limit:
            yield window
            window, count, limit = [], 0, min(2 * limit, most)
    if window:
        yield window


def _cut(text: Text, language: str) -> tuple[str, Iterable[Sentence]]:
    """The whole text, and its sentences."""
    if isinstance(text, str):
        sentences = plain_text.split(text, language=language)
        return text, chain((replace(first, opens="document") for first in islice(sentences, 1)), sentences)
    if not isinstance(text, Sentence):
        if spaced := next((word for word in text if any(map(str.isspace, word))), None):
            problem = f"A list is read as the words of one sentence, but {shorten(spaced, 40)!r} has spaces in it."
            raise ZgulError(f"{problem} For several texts use tag_all.")
        text = Sentence(list(text))
    return text.text if text.text is not None else " ".join(text.words), [text]


def _in_language(sentence: Sentence, code: str) -> Sentence:
    """The sentence in the tagger's language, except words that have one of their own."""
    own = sentence.word_languages
    return replace(sentence, language=code, word_languages=own and [word or code for word in own])


def _check_script(tagger: Tagger, sentences: Sequence[Sentence], begun: bool) -> str:
    """A warning if the encoder knows too little of these sentences, or of one; at the beginning of a text an error."""
    lettered = [[word for word in sentence.words if any(map(str.isalpha, word))] for sentence in sentences]
    words = [word for passage in lettered for word in passage]
    share = tagger.pieces.unknown_share(words)
    if share > MAX_UNKNOWN and not begun:
        advice = "Transliterate it first, into the script of the languages that the tagger learnt from."
        refused = f"Text with more than {MAX_UNKNOWN:.0%} is refused, because its tags would mean nothing."
        raise ZgulError(f"{_unknown(share, words)}. {refused} {advice}")
    for passage in [words, *(one for one in lettered if len(one) >= FEW_WORDS)] if share else ():
        share = tagger.pieces.unknown_share(passage)
        if share > MAX_UNKNOWN:
            return f"{_unknown(share, passage)}. Its tags mean nothing (said once; there may be more of it)."
    return ""


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
    text, offsets, start = sentence.text, sentence.offsets, sentence.start
    if text is None or offsets is None:
        text, offsets = " ".join(sentence.words), []
        for word in sentence.words:
            begin = offsets[-1][1] + 1 if offsets else 0
            offsets.append((begin, begin + len(word)))
    places = [(begin + start, end + start) for begin, end in offsets]
    return TaggedSentence(text, sentence.words, places, layers, sentence.language or "", start, sentence.opens)


def _name(code: str) -> str:
    try:
        return find(code).name
    except ZgulError:
        return code
