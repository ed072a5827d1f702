"""UDPipe 1 (ufal.udpipe): its averaged perceptron tagger. It learns the tags, or the BIO tags of entities, as UPOS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ufal.udpipe import Model, ProcessingError, Sentence, Sentences, Trainer
from worker import Sentences as Labelled
from worker import Tag, main

LONGEST = 60  # letters of a word; UDPipe's dictionary refuses words of more than 255 bytes (there is one, an address)


def build(words: Sequence[str], tags: Sequence[str] | None = None) -> Sentence:
    """A sentence of UDPipe."""
    sentence = Sentence()
    for number, form in enumerate(words):
        word = sentence.addWord(form[:LONGEST])
        if tags is not None:
            word.upostag = tags[number]
    return sentence


def train(sentences: Labelled, dev: Labelled, model: Path, settings: dict[str, Any]) -> None:
    """Train the tagger. ``settings`` are those of UDPipe's manual. The dev set chooses the iteration that is kept."""
    lists = []
    for labelled in (sentences, dev):
        lists.append(Sentences())
        for words, tags in labelled:
            lists[-1].append(build(words, tags))
    error = ProcessingError()
    options = ";".join(f"{name}={value}" for name, value in settings.items())
    trained = Trainer.train("morphodita_parsito", *lists, Trainer.NONE, options, Trainer.NONE, error)
    if error.occurred():
        raise SystemExit(error.message)
    model.write_bytes(trained)


def load(model: str) -> Tag:
    """Load a model."""
    loaded = Model.load(model)

    def tag(words: list[list[str]]) -> list[list[str]]:
        result, error = [], ProcessingError()
        for own in words:
            sentence = build(own)
            if not loaded.tag(sentence, Model.DEFAULT, error):
                raise SystemExit(error.message)
            result.append([sentence.words[number].upostag for number in range(1, len(own) + 1)])
        return result

    return tag


if __name__ == "__main__":
    main("ufal.udpipe", train, load)
