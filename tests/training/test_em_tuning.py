"""EM settings: one run for each rate gives what a run for each setting would; ties go to fewer steps."""

from dataclasses import replace
from typing import Any

import pytest

from small_tagger import MADE, small_tagger
from zgul.encoders.batches import Batch
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.evaluation import scores
from zgul.fast.engine import Engine
from zgul.tagger import Tagger
from zgul.training.em_tuning import EMTable, Grid, best_setting, em_strategy, em_table

SMALL = Grid(steps=(1, 3), rates=(1.0, 1000.0))


def certain_at_first(tagger: Tagger, strategy: str) -> list[Any]:
    """Sentences whose tags are what the tagger says without EM, so that every change is seen."""
    sentences = MADE.sentences("s1", 12)
    predictions = tagger.predict(sentences, em=EMConfig(steps=0), strategy=strategy)
    for sentence, prediction in zip(sentences, predictions, strict=True):
        sentence.tags = prediction.tags
    return sentences


@pytest.mark.parametrize("decode", ["words", "sequence"])
@pytest.mark.parametrize(("method", "strategy"), [("zgul", "em"), ("zgul", "em-tied"), ("madx-multi", "emea")])
def test_the_table_is_what_each_setting_alone_would_score(method: str, strategy: str, decode: str) -> None:
    labels = ["O", "B-X", "I-X", "B-Y", "I-Y"] if decode == "sequence" else None
    tagger = replace(small_tagger(method, labels=labels), decode=decode)  # random weights: EM changes many tags
    sentences = certain_at_first(tagger, strategy)
    gold = [sentence.tags or [] for sentence in sentences]
    done: list[int] = []
    table = em_table(tagger, sentences, SMALL, strategy=strategy, on_batch=done.append)
    assert sum(done) == len(sentences), "all rates at once"
    assert (table.language, table.sentences, table.base) == ("s1", 12, EMConfig(tied=strategy != "em"))

    def f1(steps: int, rate: float) -> float:
        predicted = tagger.predict(sentences, strategy=strategy, em=replace(table.base, steps=steps, lr=rate))
        return scores(gold, [prediction.tags for prediction in predicted]).f1

    assert table.without == f1(0, 1.0) == 100
    assert table.f1 == {(steps, rate if steps else 0.0): f1(steps, rate) for steps in (0, 1, 3) for rate in SMALL.rates}
    assert len(set(table.f1.values())) > 1, "EM moves something here"


def test_the_release_starts_from_probabilities() -> None:
    tagger = small_tagger()
    sentences = certain_at_first(tagger, "em")
    table = em_table(tagger, sentences, Grid((1,), (0.0,)), start="probabilities")
    assert table.base.start == "probabilities"
    assert table.f1[1, 0.0] != table.without == 100, "softmax of a softmax: even a rate of nothing changes tags"


def test_a_grid_that_does_not_fit_goes_on_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger, sentences = small_tagger(), MADE.sentences("s1", 12)
    whole, real = em_table(tagger, sentences, SMALL), Engine.grid

    def grid(self: Engine, batch: Batch, *arguments: Any) -> None:
        if len(batch) > limit:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        real(self, batch, *arguments)

    monkeypatch.setattr(Engine, "grid", grid)
    limit = 3
    with pytest.warns(ZgulWarning, match=r"out of memory: continuing with \d+ sentences at a time"):
        assert em_table(tagger, sentences, SMALL).f1 == whole.f1
    limit = 0
    with pytest.warns(ZgulWarning), pytest.raises(ZgulError, match="even with one of the sentences at a time"):
        em_table(tagger, sentences, SMALL)


def table_of(**f1: float) -> EMTable:
    """``s5_r01=70.0`` is 70 with 5 steps at rate 0.1; ``none`` is no EM."""
    keys = {"none": (0, 0.0), "s1_r01": (1, 0.1), "s1_r3": (1, 3.0), "s5_r01": (5, 0.1), "s5_r1": (5, 1.0)}
    keys |= {"s10_r01": (10, 0.1), "s1_r100": (1, 100.0)}
    return EMTable("is", 10, EMConfig(), {keys[name]: value for name, value in f1.items()})


def test_the_best_mean_wins_and_ties_go_to_fewer_steps_and_smaller_rates() -> None:
    first = table_of(none=50, s1_r01=60, s5_r01=70, s5_r1=61, s10_r01=70)
    assert best_setting([first]) == EMConfig(steps=5, lr=0.1)
    second = table_of(none=50, s1_r01=60, s5_r01=40, s5_r1=59, s10_r01=40)
    assert best_setting([first, second]) == EMConfig(steps=1, lr=0.1), "60 + 60 equals 61 + 59: fewer steps"
    assert best_setting([table_of(s10_r01=50, s1_r100=50, s1_r3=50)]) == EMConfig(steps=1, lr=3.0)


def test_no_em_may_be_the_best_and_wins_ties() -> None:
    assert best_setting([table_of(none=50, s1_r01=50, s5_r01=49)]) == EMConfig(steps=0, lr=0.0)
    assert best_setting([table_of(none=50, s1_r01=50.1)]).steps == 1
    tied = replace(table_of(none=50, s1_r01=60), base=EMConfig(tied=True, start="probabilities"))
    assert best_setting([tied]) == EMConfig(steps=1, lr=0.1, tied=True, start="probabilities")


def test_the_grid_is_the_papers_and_what_the_mean_needs() -> None:
    assert Grid().steps == (1, 5, 10) and Grid().rates == (0.05, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0)


def test_methods_without_em_have_nothing_to_choose() -> None:
    tagger = small_tagger("sft-m")
    assert em_strategy(tagger) is None
    with pytest.raises(ZgulError, match="SFT-M has no EM"):
        em_table(tagger, MADE.sentences("s0", 2))
    with pytest.raises(ZgulError, match="There are none"):
        em_table(small_tagger(), [])
    with pytest.raises(ZgulError, match=r"ZGUL has no EM \(plain\)"):
        em_table(small_tagger(), MADE.sentences("s0", 2), strategy="plain")
    assert em_strategy(small_tagger("madx-multi")) == "emea" and em_strategy(small_tagger()) == "em"
    assert em_strategy(replace(small_tagger(), strategy="em-tied")) == "em-tied"
