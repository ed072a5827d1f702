"""On a GPU, where shapes that come again are replayed as graphs, a tagger says what it says on a CPU."""

import numpy as np
import pytest
import torch

from small_tagger import MADE, small_tagger
from zgul.ensemble.em import EMConfig
from zgul.methods.tagger import GRAPHED_TOKENS, Tagger

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SENTENCES = MADE.sentences("s0", 12)


def apart(one: Tagger, other: Tagger, sentences=SENTENCES, **options) -> float:
    pairs = zip(one.predict(sentences, **options), other.predict(sentences, **options), strict=True)
    return max(float(np.abs(a.probabilities - b.probabilities).max()) for a, b in pairs)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("method", ["zgul", "madx-multi", "sft-m", "cpg"])
def test_the_same_as_on_a_cpu_however_often_it_is_asked(method: str, folded: bool) -> None:
    there, here = small_tagger(method).to("cuda"), small_tagger(method)
    if folded:
        there.fold(), here.fold()
    for _ in range(5):  # plainly, captured, replayed
        assert apart(there, here, strategy="plain" if method == "zgul" else None) < 1e-4
    assert there._captured is not None and (there._captured.step._graphs or method == "cpg")


def test_a_language_that_comes_later_is_not_read_by_an_old_graph() -> None:
    there, here = small_tagger("zgul").to("cuda"), small_tagger("zgul")
    for _ in range(4):
        apart(there, here, strategy="plain")
    for language in ("target", "s1"):
        for _ in range(4):
            assert apart(there, here, MADE.sentences(language, 12), strategy="plain") < 1e-4


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("em", [EMConfig(steps=3, lr=1.0), EMConfig(steps=1, lr=2.0, skip_below=1.2)])
def test_em_is_replayed_too(em: EMConfig, precision: str) -> None:
    there, here = small_tagger("zgul").to("cuda").fold(), small_tagger("zgul").fold()
    there, near = there.using(precision=precision), 1e-3 if precision == "float32" else 0.1
    for _ in range(5):
        assert apart(there, here, em=em) < near
        assert apart(there, here, MADE.sentences("target", 7), em=em) < near
    keys = list(there._captured.step._graphs)
    assert any(key[0] is not None for key in keys), "no step of EM was captured"


def test_weights_and_settled_sentences_are_not_replayed() -> None:
    there, here = small_tagger("zgul").to("cuda"), small_tagger("zgul")
    for em in (EMConfig(steps=3, lr=1.0, patience=1), EMConfig(steps=2, lr=1.0, positions="all")):
        assert apart(there, here, em=em) < 1e-3
    assert apart(there, here, em=EMConfig(steps=3, lr=1.0), weights=True) < 1e-3
    assert there._captured is None


def test_large_batches_need_no_graph() -> None:
    there, here = small_tagger("zgul").to("cuda"), small_tagger("zgul")
    many = [sentence for _ in range(GRAPHED_TOKENS // 64) for sentence in SENTENCES]
    assert apart(there, here, many, strategy="plain") < 1e-4
