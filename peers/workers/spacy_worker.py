"""spaCy: a tagger or an entity recogniser over a tok2vec layer, trained from scratch by spaCy's own loop."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as run_loop
from spacy.util import load_config_from_str, load_model_from_config
from thinc.api import fix_random_seed
from worker import Sentences, Tag, main

CONFIG = Path(__file__).with_name("spacy.cfg")  # with names in braces for settings

MODELS = {
    "tagger": ['@architectures = "spacy.Tagger.v2"'],
    "ner": [
        '@architectures = "spacy.TransitionBasedParser.v2"',
        'state_type = "ner"',
        "extra_state_tokens = false",
        "hidden_width = 64",
        "maxout_pieces = 2",
        "use_upper = true",
    ],
}
SCORES = {"tagger": "tag_acc", "ner": "ents_f"}  # what the dev set is scored by


def docs(nlp: Language, sentences: Sentences, task: str, missing: str) -> DocBin:
    """spaCy's form of labelled sentences. A tag that is ``missing`` is unknown, which spaCy leaves out of its loss."""
    result = DocBin()
    for words, tags in sentences:
        if task == "ner":
            doc = Doc(nlp.vocab, words, ents=tags)
        else:
            doc = Doc(nlp.vocab, words, tags=["" if tag == missing else tag for tag in tags])
        result.add(doc)
    return result


def train(sentences: Sentences, dev: Sentences, model: Path, settings: dict[str, Any]) -> None:
    """Train until the dev score has not risen for ``patience`` steps, and keep the best weights."""
    fix_random_seed(0)
    model.mkdir(parents=True, exist_ok=True)
    blank, paths = spacy.blank("xx"), {}
    random.Random(0).shuffle(sentences)  # spaCy reads the corpus in its order, in blocks
    for name, labelled in (("train", sentences), ("dev", dev)):
        paths[name] = model / f"{name}.spacy"
        docs(blank, labelled, settings["task"], settings.get("missing", "")).to_disk(paths[name])
    task = settings["task"]
    filled = CONFIG.read_text().format(score=SCORES[task], model="\n".join(MODELS[task]), **settings)
    config = load_model_from_config(load_config_from_str(filled), auto_fill=True).config
    config["paths"] |= {name: str(path) for name, path in paths.items()}
    run_loop(init_nlp(config), model)
    shutil.rmtree(model / "model-last")
    for path in paths.values():
        path.unlink()


def load(model: str) -> Tag:
    """Load the best weights."""
    nlp = spacy.load(Path(model, "model-best"))
    entities = "ner" in nlp.pipe_names

    def tag(words: list[list[str]]) -> list[list[str]]:
        tagged = nlp.pipe((Doc(nlp.vocab, own) for own in words), batch_size=256)
        if not entities:
            return [[token.tag_ for token in doc] for doc in tagged]
        return [[f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc] for doc in tagged]

    return tag


if __name__ == "__main__":
    main("spacy", train, load)
