"""A spaCy component: ``nlp.add_pipe("zgul", config={"lang": "fo", "task": "both"})``. Needs ``zgul[spacy]``.

It sets ``token.pos_`` and ``doc.ents`` on the tokens and sentences that spaCy made. A document without sentence
boundaries is one sentence. spaCy finds the component by the entry point ``spacy_factories``.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc, Span

from zgul.corpora.sentence import Sentence
from zgul.tagging.documents import TaggedSentence, entity_spans
from zgul.tagging.loading import load
from zgul.tagging.text_tagger import TextTagger


class ZgulComponent:
    """Tags spaCy documents."""

    def __init__(self, tagger: TextTagger) -> None:
        self.tagger = tagger

    def __call__(self, doc: Doc) -> Doc:
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = 64) -> Iterator[Doc]:
        """Tag documents some at a time, for ``nlp.pipe``."""
        docs = iter(stream)
        while batch := list(islice(docs, batch_size)):
            spans = [span for doc in batch for span in (doc.sents if doc.has_annotation("SENT_START") else [doc[:]])]
            # spaCy has tokens of white space, treebanks do not
            words = [[token for token in span if not token.is_space] for span in spans]
            sentences = [Sentence([token.text for token in tokens]) for tokens in words]
            entities: dict[int, list[Span]] = {id(doc): [] for doc in batch}
            for tokens, tagged in zip(words, self.tagger.tag_sentences(sentences), strict=True):
                if tokens:
                    entities[id(tokens[0].doc)] += _annotate(tokens, tagged)
            for doc in batch:
                if "ner" in self.tagger.taggers:
                    doc.set_ents(entities[id(doc)], default="outside")
                yield doc


def _annotate(tokens: list[Any], tagged: TaggedSentence) -> list[Span]:
    """Set the parts of speech and return the entities."""
    if "pos" in tagged.layers:
        for token, tag in zip(tokens, tagged.upos, strict=True):
            token.pos_ = tag
    if "ner" not in tagged.layers:
        return []
    return [
        Span(tokens[0].doc, tokens[first].i, tokens[last - 1].i + 1, label=tagged.ner[first][2:])
        for first, last in entity_spans(tagged.ner)
    ]


def make_zgul(
    nlp: Language, name: str, lang: str | None, task: str | None, model: str | None, em: bool | None, adapted: bool
) -> ZgulComponent:
    """Make the component. Its language is ``lang``, or that of the pipeline."""
    choices: dict[str, Any] = {"task": task, "model": model, "em": em, "adapted": adapted}
    return ZgulComponent(load(lang or nlp.lang, **choices))


DEFAULTS = {"lang": None, "task": None, "model": None, "em": None, "adapted": True}
Language.factory("zgul", default_config=DEFAULTS, assigns=["token.pos", "doc.ents"], func=make_zgul)
