"""Scores equal seqeval's own, and the real test files give the paper's class supports."""

import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from seqeval.metrics import accuracy_score, classification_report, f1_score, precision_score, recall_score

from zgul.corpora.sentence import UPOS
from zgul.errors import ZgulError
from zgul.evaluation import chunk_counts, scores
from zgul.files import open_binary

IOB = ["O"] + [f"{prefix}-{kind}" for prefix in "BI" for kind in ("PER", "LOC", "ORG", "DATE")]
ODD = [
    "O",
    "B",
    "I",
    "E",
    "S",
    ".",
    "X",
    "_",
    "B-X",
    "S-PER",
    "E-PER",
    "I-A-B",
    "BX",
    "O-PER",
    ".PER",
    "-",
    "ß",
]
# the paper's tables of class-wise F1, column "Support"
PAPER_POS = {
    "PART": 831, "CONJ": 9000, "ADJ": 8768, "ADP": 9960, "ADV": 5830, "VERB": 14385, "DET": 3027, "INTJ": 211,
    "NOUN": 18957, "PRON": 7068, "PROPN": 4506, "NUM": 1508, "PUNCT": 7670, "AUX": 2800, "SYM": 33, "X": 228,
}  # fmt: skip
PAPER_NER = {"DATE": 623, "LOC": 1643, "ORG": 1034, "PER": 1483}


def seqeval_type(tag: str) -> str:
    return tag[1:].split("-", maxsplit=1)[-1] or "_"


def tag_pairs(tags: list[str]) -> st.SearchStrategy:
    pair = st.tuples(st.sampled_from(tags), st.sampled_from(tags))
    return st.lists(st.lists(pair, max_size=8), min_size=1, max_size=5).filter(any)


def split(pairs: list[list[tuple[str, str]]]) -> tuple[list[list[str]], list[list[str]]]:
    return [[g for g, _ in s] for s in pairs], [[p for _, p in s] for s in pairs]


def assert_equals_seqeval(gold: list[list[str]], predicted: list[list[str]]) -> None:
    ours = scores(gold, predicted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = [m(gold, predicted) for m in (f1_score, precision_score, recall_score, accuracy_score)]
        report = classification_report(gold, predicted, output_dict=True) if ours.per_class else {}
    assert [ours.f1, ours.precision, ours.recall, ours.accuracy] == pytest.approx(
        [100 * value for value in theirs], abs=1e-9
    )
    tags = {tag for sentence in gold + predicted for tag in sentence}
    expected = {name: row for name, row in report.items() if not name.endswith(" avg")}
    by_type = {name: name for name in expected}
    by_type |= {
        seqeval_type(tag): tag for tag in tags if tag in ours.per_class and seqeval_type(tag) not in ours.per_class
    }
    assert len(ours.per_class) == len(expected)
    for name, row in expected.items():
        mine = ours.per_class[by_type[name]]
        assert mine["support"] == row["support"]
        assert [mine["f1"], mine["precision"], mine["recall"]] == pytest.approx(
            [100 * row["f1-score"], 100 * row["precision"], 100 * row["recall"]], abs=1e-9
        )


@settings(max_examples=300, deadline=None)
@given(st.one_of(tag_pairs(IOB), tag_pairs(list(UPOS)), tag_pairs([*UPOS, "O"]), tag_pairs(ODD)))
@example([[("X", "O"), ("BX", "BX")]])  # the type of the second is the name of the first
def test_equals_seqeval(pairs: list[list[tuple[str, str]]]) -> None:
    assert_equals_seqeval(*split(pairs))


@settings(max_examples=100, deadline=None)
@given(st.one_of(tag_pairs(IOB), tag_pairs(list(UPOS)), tag_pairs(ODD)))
def test_sentence_counts_sum_to_the_scores(pairs: list[list[tuple[str, str]]]) -> None:
    gold, predicted = split(pairs)
    counts = chunk_counts(gold, predicted)
    assert counts.shape == (len(gold), 3)
    right, guessed, true = counts.sum(axis=0)
    total = scores(gold, predicted)
    assert true == sum(row["support"] for row in total.per_class.values())
    assert total.f1 == pytest.approx(200 * right / max(1, guessed + true))


def test_iob_by_hand() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O"]]
    predicted = [["B-PER", "O", "O", "B-LOC"], ["B-LOC", "B-PER"]]
    result = scores(gold, predicted)
    assert (result.precision, result.recall) == pytest.approx((50, 200 / 3))
    assert result.accuracy == pytest.approx(400 / 6)
    assert result.per_class["LOC"] == {"f1": 100, "precision": 100, "recall": 100, "support": 2}
    assert result.per_class["PER"] == {"f1": 0, "precision": 0, "recall": 0, "support": 1}
    assert (result.sentences, result.words) == (2, 6)


def test_upos_runs_are_chunks_and_conjunctions_one_class() -> None:
    result = scores([["NOUN", "NOUN", "CCONJ", "VERB"]], [["NOUN", "NOUN", "SCONJ", "VERB"]])
    assert {name: row["support"] for name, row in result.per_class.items()} == {
        "CONJ": 1,
        "NOUN": 1,
        "VERB": 1,
    }
    assert result.f1 == 100 and result.accuracy == 75
    assert "CONJ" in scores([["CCONJ"]], [["CCONJ"]]).per_class


def test_fast_enough_for_model_selection() -> None:
    rng = np.random.default_rng(0)
    gold, predicted = ([list(rng.choice(UPOS, 20)) for _ in range(5000)] for _ in range(2))
    gold, predicted = ([[str(tag) for tag in s] for s in side] for side in (gold, predicted))
    best = min(_seconds(lambda: scores(gold, predicted)) for _ in range(3))
    assert best < 0.3, f"100,000 words took {best:.2f} s"


def _seconds(action) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([["O"]], [["O"], ["O"]], "1 gold sentences but 2 predicted"),
        ([["O", "O"]], [["O"]], "sentence 1 has 2 gold tags but 1 predicted"),
        ([["O"]], [[""]], "a tag of sentence 1 is empty"),
        ([], [], "no words"),
        ([[]], [[]], "no words"),
    ],
)
def test_what_cannot_be_scored(gold: list[list[str]], predicted: list[list[str]], message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        scores(gold, predicted)


def read_tags(path: Path) -> list[list[str]]:
    with open_binary(path) as file:
        blocks = file.read().decode("utf-8").split("\n\n")
    return [[line.split("\t")[1] for line in block.strip("\n").split("\n")] for block in blocks if block.strip()]


def supports(gold: list[list[str]]) -> dict[str, int]:
    return {name: row["support"] for name, row in scores(gold, gold).per_class.items()}


def test_pos_supports_are_the_papers(shared_data: Path) -> None:
    languages = ("fo", "got", "gsw", "qpm", "hsb", "orv", "cu")
    gold = [tags for lang in languages for tags in read_tags(shared_data / "pos" / lang / "test.tsv.xz")]
    assert supports(gold) == PAPER_POS
    assert sum(PAPER_POS.values()) == 94782


def test_ner_supports_are_the_papers(shared_data: Path) -> None:
    languages = ("ha", "ig", "rw", "lg", "luo", "as", "bho")  # the paper's table leaves pcm out
    gold = [tags for lang in languages for tags in read_tags(shared_data / "ner" / lang / "test.tsv.xz")]
    assert supports(gold) == PAPER_NER


def test_real_tags_equal_seqeval(shared_data: Path) -> None:
    rng = np.random.default_rng(1)
    for task, lang in (("pos", "gsw"), ("ner", "luo")):
        gold = read_tags(shared_data / task / lang / "test.tsv.xz")
        tags = sorted({tag for sentence in gold for tag in sentence})
        predicted = [[str(rng.choice(tags)) if rng.random() < 0.3 else tag for tag in s] for s in gold]
        assert_equals_seqeval(gold, predicted)
