"""McNemar's test, the bootstrap and the spread over seeds against independent computations."""

import statistics
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2
from seqeval.metrics import f1_score

from zgul.errors import ZgulError
from zgul.evaluation import EXACT_BELOW, bootstrap_f1, mcnemar, mcnemar_counts, mean_std

counts = st.integers(0, 60)


@given(counts, counts)
def test_p_value_against_scipy(only_first: int, only_second: int) -> None:
    result = mcnemar_counts(only_first, only_second)
    total, smaller = only_first + only_second, min(only_first, only_second)
    if total < EXACT_BELOW:
        assert result.exact and result.statistic == smaller
        assert result.p == pytest.approx(binomtest(smaller, total, 0.5).pvalue if total else 1.0)
    else:
        statistic = max(0, abs(only_first - only_second) - 1) ** 2 / total
        assert not result.exact and result.statistic == pytest.approx(statistic)
        assert result.p == pytest.approx(chi2.sf(statistic, 1))
    mirrored = mcnemar_counts(only_second, only_first)
    assert (mirrored.p, mirrored.statistic) == (result.p, result.statistic)


def test_known_values() -> None:
    # 121 against 59 discordant pairs is the worked example of most textbooks: chi-square 20.67 corrected
    result = mcnemar_counts(121, 59)
    assert result.statistic == pytest.approx(20.672, abs=1e-3)
    assert result.p == pytest.approx(5.45e-6, rel=1e-2)
    assert mcnemar_counts(1, 9).p == pytest.approx(22 / 1024)
    assert mcnemar_counts(0, 0).p == 1.0


def test_mcnemar_counts_words() -> None:
    gold = [["NOUN", "VERB"], ["ADJ", "NOUN", "PUNCT"]]
    first = [["NOUN", "VERB"], ["NOUN", "NOUN", "PUNCT"]]
    second = [["VERB", "VERB"], ["ADJ", "VERB", "X"]]
    result = mcnemar(gold, first, second)
    assert (result.only_first, result.only_second) == (3, 1)


def noisy(gold: list[list[str]], share: float, rng: np.random.Generator) -> list[list[str]]:
    return [[str(rng.choice(["A1", "B2", "C3"])) if rng.random() < share else t for t in s] for s in gold]


@pytest.fixture(scope="module")
def systems() -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(3)
    gold = [[str(t) for t in rng.choice(["A1", "B2", "C3"], 6)] for _ in range(60)]
    return gold, noisy(gold, 0.2, rng), noisy(gold, 0.4, rng)


@pytest.mark.filterwarnings("ignore")  # seqeval warns of every tag
def test_bootstrap_against_a_slow_one(systems) -> None:
    gold, first, second = systems
    result = bootstrap_f1(gold, first, second, samples=400)
    rng = np.random.default_rng(0)
    slow = []
    for _ in range(400):
        # an order that keeps sentences apart does not matter to chunks, so seqeval can score the drawn lists
        drawn = rng.integers(len(gold), size=len(gold))
        g, a, b = ([side[i] for i in drawn] for side in systems)
        slow.append(100 * (f1_score(g, a) - f1_score(g, b)))
    assert result.f1 == pytest.approx(100 * (f1_score(gold, first) - f1_score(gold, second)))
    assert (result.low, result.high) == pytest.approx(tuple(np.quantile(slow, [0.025, 0.975])))
    assert result.low < result.f1 < result.high


def test_bootstrap_of_equal_systems_is_zero(systems) -> None:
    gold, first, _ = systems
    result = bootstrap_f1(gold, first, first, samples=20)
    assert (result.f1, result.low, result.high) == (0, 0, 0)


def test_bootstrap_is_fast(systems) -> None:
    gold, first, second = ([*side] * 70 for side in systems)  # 4,200 sentences, as many as Old East Slavic has
    start = time.process_time()
    bootstrap_f1(gold, first, second)
    assert time.process_time() - start < 3


def test_mean_std() -> None:
    spread = mean_std([77.1, 78.4, 76.9])
    assert spread.mean == pytest.approx(statistics.fmean([77.1, 78.4, 76.9]))
    assert spread.std == pytest.approx(statistics.stdev([77.1, 78.4, 76.9]))
    assert str(spread) == "77.5 ± 0.8"
    assert str(mean_std([50.0])) == "50.0" and mean_std([50.0]).std is None


def test_errors() -> None:
    with pytest.raises(ZgulError, match="no runs"):
        mean_std([])
    with pytest.raises(ZgulError, match="sentence 1 has 1 gold tags but 2"):
        mcnemar([["A"]], [["A"]], [["A", "B"]])
    with pytest.raises(ZgulError, match="1 gold sentences but 2"):
        bootstrap_f1([["A"]], [["A"], ["B"]], [["A"]])
    with pytest.raises(ZgulError, match="no words"):
        mcnemar([], [], [])
    with pytest.raises(ZgulError, match="confidence"):
        bootstrap_f1([["A"]], [["A"]], [["A"]], confidence=95)
