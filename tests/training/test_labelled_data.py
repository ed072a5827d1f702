"""Labelled data: the label set, what each corpus annotates, and noise afresh in every epoch."""

from pathlib import Path

import pytest
import torch

from family import tiny_tokenizer
from small_tagger import MADE
from zgul.corpora import columns
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import IGNORED, ModelLanguages, PieceEncoder
from zgul.errors import ZgulError, ZgulWarning
from zgul.training.config import NoiseConfig, TrainingConfig
from zgul.training.labelled_data import labelled_data, load_labelled, sample, training_languages


def sentence(tags: str, language: str = "en") -> Sentence:
    found = tags.split()
    return Sentence(["paki"] * len(found), found, language)


def table(*languages: str) -> ModelLanguages:
    return ModelLanguages({language: row for row, language in enumerate(languages)}, torch.zeros(len(languages), 0))


PIECES = PieceEncoder(tiny_tokenizer(MADE), 128)
TABLE = table("en", "sw")


def test_labels_are_those_of_the_training_data_o_first() -> None:
    made = labelled_data([sentence("B-PER I-PER O B-LOC"), sentence("I-LOC", "sw")], [], TrainingConfig())
    assert made.labels == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert made.allowed.all() and made.corpus_of == {"en": 0, "sw": 1}


def test_unannotated_labels_are_neither_learnt_nor_predicted() -> None:
    config = TrainingConfig(unannotated=("X",))
    data = labelled_data([sentence("NOUN X VERB")], [sentence("X NOUN")], config)
    assert data.labels == ["NOUN", "VERB"]
    encoded = data.encode(data.train, PIECES, TABLE)
    assert encoded.labels[encoded.first].tolist() == [0, IGNORED, 1]
    kept = labelled_data([sentence("NOUN X VERB")], [], TrainingConfig())
    assert kept.labels == ["NOUN", "VERB", "X"], "X is a label like any other unless it is named"


def test_a_label_that_a_corpus_never_uses_is_unknown_there() -> None:
    train = [sentence("B-DATE O", "sw"), sentence("O B-PER", "sw"), sentence("O B-PER", "en")]
    data = labelled_data(train, [], TrainingConfig(label_set_per_corpus=True))
    assert data.labels == ["O", "B-DATE", "B-PER"]
    assert data.allowed[data.corpus_of["en"]].tolist() == [True, False, True]
    assert data.allowed[data.corpus_of["sw"]].tolist() == [True, True, True]
    encoded = data.encode(train, PIECES, TABLE)
    assert encoded.corpora.tolist() == [0, 0, 1]


def test_code_switched_sentences_are_a_corpus_of_their_own() -> None:
    """They name the language of each word, and none of the whole."""
    mixed = Sentence(["paki", "paki"], ["B-DATE", "O"], word_languages=["en", "sw"])
    train = [mixed, sentence("O B-PER", "sw")]
    data = labelled_data(train, [], TrainingConfig(label_set_per_corpus=True))
    encoded = data.encode(train, PIECES, TABLE)
    allowed = dict(zip(data.labels, data.allowed[encoded.corpora[0]].tolist(), strict=True))
    assert allowed == {"O": True, "B-DATE": True, "B-PER": False}
    assert data.allowed[encoded.corpora[1]].tolist() == [True, False, True]


def test_data_without_labels() -> None:
    with pytest.raises(ZgulError, match="has no labels"):
        labelled_data([Sentence(["a"])], [], TrainingConfig())
    with pytest.raises(ZgulError, match="has no labels"):
        labelled_data([sentence("X")], [], TrainingConfig(unannotated=("X",)))


def test_labels_that_only_dev_has_count_as_mistakes() -> None:
    train, dev = [sentence("NOUN")], [sentence("SYM NOUN INTJ X")]
    with pytest.warns(ZgulWarning, match=r"that the training data lacks: INTJ, SYM\. They count as mistakes"):
        data = labelled_data(train, dev, TrainingConfig(unannotated=("X",)))
    assert data.labels == ["NOUN"] and data.dev == dev
    encoded = data.encode(dev, PIECES, TABLE)
    assert encoded.labels[encoded.first].tolist() == [IGNORED, 0, IGNORED, IGNORED]


def test_noise_is_drawn_afresh_each_epoch_and_again_for_the_same_seed() -> None:
    train = [s for source in MADE.sources for s in MADE.sentences(source, 20)]
    languages = table(*MADE.sources)
    data = labelled_data(train, [], TrainingConfig(noise=NoiseConfig(sentences=0.8)))

    def epoch(seed: int, number: int) -> list[int]:
        return data.encode_epoch(PIECES, languages, seed, number).pieces.tolist()

    clean = data.encode(train, PIECES, languages)
    assert epoch(0, 0) == epoch(0, 0) != clean.pieces.tolist()
    assert len({tuple(epoch(seed, number)) for seed in range(2) for number in range(3)}) == 6
    noised = data.encode_epoch(PIECES, languages, 0, 0)
    assert torch.equal(noised.labels[noised.first], clean.labels[clean.first]), "labels stay on their words"
    quiet = labelled_data(train, [], TrainingConfig())
    assert quiet.encode_epoch(PIECES, languages, 0, 1).pieces.tolist() == clean.pieces.tolist()


def test_samples_are_the_same_for_the_same_seed_and_in_order() -> None:
    sentences = [sentence("NOUN") for _ in range(20)]
    chosen = sample(sentences, 5, 3)
    assert chosen == sample(sentences, 5, 3) and len(chosen) == 5
    places = [next(n for n, s in enumerate(sentences) if s is one) for one in chosen]
    other = [next(n for n, s in enumerate(sentences) if s is one) for one in sample(sentences, 5, 4)]
    assert places == sorted(places) and places != other
    assert sample(sentences, 20, 0) is sentences


def test_languages_that_are_trained_on() -> None:
    config = TrainingConfig(method="zgul", sources=("en", "is", "de"), leave_out=("is",))
    assert training_languages(config) == ["en", "de"]
    assert training_languages(TrainingConfig(method="madx", sources=("en", "is"))) == ["en"]


def test_corpora_are_read_by_group_task_and_language(tmp_path: Path) -> None:
    for language, prefix in (("en", "panx."), ("en", ""), ("hi", "")):
        for split in ("train", "dev"):
            path = tmp_path / "ner" / language / f"{prefix}{split}.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            columns.write(path, [sentence("B-ORG" if prefix else "B-PER", language)] * 3)
    config = TrainingConfig(task="ner", group="indo-aryan", sources=("en", "hi"), data=str(tmp_path), limit=2)
    data = load_labelled(config)
    assert [s.tags for s in data.train] == [["B-ORG"]] * 2 + [["B-PER"]] * 2, "English WikiAnn where the others are"
    assert len(data.dev) == 4, "the limit holds for dev sets, too"


def test_a_dev_set_may_be_missing(tmp_path: Path) -> None:
    for language in ("en", "is"):
        path = tmp_path / "pos" / language / "train.tsv"
        path.parent.mkdir(parents=True)
        columns.write(path, [sentence("NOUN", language)] * 3)
    columns.write(tmp_path / "pos" / "is" / "dev.tsv", [sentence("NOUN", "is")])
    with pytest.warns(ZgulWarning, match="There is no dev set of en in .*, so it does not help to choose"):
        data = load_labelled(TrainingConfig(sources=("en", "is"), data=str(tmp_path)))
    assert len(data.train) == 6 and [s.language for s in data.dev] == ["is"]


def test_shares_of_labels() -> None:
    data = labelled_data([sentence("O O O B-PER"), sentence("O O O O", "sw")], [], TrainingConfig())
    assert dict(zip(data.labels, data.label_shares().tolist(), strict=True)) == {"O": 7 / 8, "B-PER": 1 / 8}
