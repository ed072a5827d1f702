"""EM settings: one run per rate gives what a run for each setting would; ties go to fewer steps."""

import numpy as np
import pytest
import torch

from family import FUNCTION_WORDS, MARKED, family, tiny_encoder
from zgul.adapters.bank import LanguageAdapter
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.evaluation import scores
from zgul.methods.tagger import Tagger
from zgul.training.data import sample
from zgul.training.em_settings import EMTable, Grid, best_setting, choose_em, em_strategy, em_table

MADE = family(0, n_languages=4)


def tagger_of(method: str) -> Tagger:
    """Untrained, with random weights, so that EM changes many tags."""
    tagger = Tagger.new(
        method,
        encoder=tiny_encoder(MADE, width=16),
        task="pos",
        labels=sorted(set(MARKED) | set(FUNCTION_WORDS)),
        sources=MADE.sources,
        adapters=[LanguageAdapter.new(source, 16, 2) for source in MADE.sources],
        features={language: MADE.features(language) for language in MADE.languages},
    )
    generator = torch.Generator().manual_seed(0)
    for name, weight in tagger.model.named_parameters():
        if not name.startswith("encoder"):
            weight.data = torch.randn(weight.shape, generator=generator) * 0.4
    return tagger


@pytest.mark.parametrize(("method", "strategy"), [("zgul", "em"), ("zgul", "em-tied"), ("madx-multi", "emea")])
def test_the_table_is_what_each_setting_alone_would_score(method: str, strategy: str) -> None:
    tagger = tagger_of(method)
    sentences = MADE.sentences("s1", 12)
    plain = tagger.predict(sentences, strategy=strategy, em=EMConfig(steps=0))
    for sentence, prediction in zip(sentences, plain, strict=True):
        sentence.tags = prediction.tags  # what is certainly right at first, so that every change is seen
    gold = [sentence.tags for sentence in sentences]
    seen: list[int] = []
    grid = Grid(steps=(1, 3), rates=(1.0, 1000.0))
    table = em_table(tagger, sentences, grid, strategy=strategy, on_batch=seen.append)
    assert sum(seen) == 2 * len(sentences), "progress is told once for each rate"

    def f1(steps: int, rate: float) -> float:
        em = EMConfig(steps=steps, lr=rate, tied=strategy != "em")
        predicted = tagger.predict(sentences, strategy=strategy, em=em)
        return scores(gold, [prediction.tags for prediction in predicted]).f1

    assert table.without == f1(0, 1.0) == 100
    assert table.f1 == {(steps, rate): f1(steps, rate) for steps in (1, 3) for rate in (1.0, 1000.0)}
    assert len(set(table.f1.values())) > 1, "EM moves something here"


def test_a_grid_that_does_not_fit_goes_on_in_smaller_batches(monkeypatch) -> None:
    from zgul.training import em_settings

    tagger, sentences, grid = tagger_of("zgul"), MADE.sentences("s1", 12), Grid(steps=(1, 3), rates=(1.0, 1000.0))
    whole, tried, real = em_table(tagger, sentences, grid), [], em_settings.minimise_entropy

    def minimise(model, batch, *args, **more):
        tried.append(len(batch.rows))
        if len(batch.rows) > limit:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return real(model, batch, *args, **more)

    monkeypatch.setattr(em_settings, "minimise_entropy", minimise)
    limit = 3
    with pytest.warns(ZgulWarning, match="out of memory: going on with 512 tokens at a time"):
        assert em_table(tagger, sentences, grid).f1 == whole.f1
    assert sum(rows > limit for rows in tried[len(tried) // 2 :]) == 0, "the second rate starts with what fits"
    limit = 0
    with pytest.warns(ZgulWarning), pytest.raises(ZgulError, match="even with one sentence at a time"):
        em_table(tagger, sentences, grid)


def test_the_best_mean_wins_and_ties_go_to_fewer_steps() -> None:
    first = EMTable("is", 10, 50.0, {(1, 0.1): 60.0, (5, 0.1): 70.0, (5, 1.0): 61.0, (10, 0.1): 70.0})
    assert best_setting([first]) == EMConfig(steps=5, lr=0.1)
    second = EMTable("de", 10, 50.0, {(1, 0.1): 60.0, (5, 0.1): 40.0, (5, 1.0): 59.0, (10, 0.1): 40.0})
    assert best_setting([first, second]) == EMConfig(steps=1, lr=0.1), "60 + 60 equals 61 + 59: fewer steps"
    flat = EMTable("is", 10, 50.0, dict.fromkeys([(10, 0.1), (1, 100.0), (1, 3.0)], 50.0))
    assert best_setting([flat]) == EMConfig(steps=1, lr=3.0)


def test_choose_em_takes_the_tables_best() -> None:
    tagger, sentences = tagger_of("zgul"), MADE.sentences("s0", 8)
    table = em_table(tagger, sentences, Grid(rates=(0.1, 10.0)))
    chosen = choose_em(tagger, sentences, Grid(rates=(0.1, 10.0)))
    assert table.f1[chosen.steps, chosen.lr] == max(table.f1.values())


def test_the_grid_is_the_papers_and_what_the_mean_needs() -> None:
    assert Grid().steps == (1, 5, 10) and Grid().rates == (0.05, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0)


def test_methods_without_em_have_nothing_to_choose() -> None:
    tagger = tagger_of("sft-m")
    assert em_strategy(tagger) is None
    with pytest.raises(ZgulError, match="SFT-M has no EM"):
        choose_em(tagger, MADE.sentences("s0", 2))
    with pytest.raises(ZgulError, match="there are none"):
        choose_em(tagger_of("zgul"), [])
    assert em_strategy(tagger_of("madx-multi")) == "emea"


def test_the_sample_is_seeded() -> None:
    sentences = MADE.sentences("s0", 50)
    assert sample(sentences, 10, 1) == sample(sentences, 10, 1) != sample(sentences, 10, 2)
    assert sample(sentences, 100, 1) == sentences
    places = [sentences.index(sentence) for sentence in sample(sentences, 10, 1)]
    assert places == sorted(places) and len(np.unique(places)) == 10
