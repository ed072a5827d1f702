"""How the benchmarks measure: in turn, after comparing, and never without saying why not."""

import pytest
import torch
from benchmarks.harness import (
    Machine,
    NotMeasured,
    Result,
    Timed,
    Times,
    Unequal,
    assert_as_exact,
    assert_same,
    assert_same_tags,
    clock,
    interleave,
    machine,
    profile,
    ratios,
    told_by_kind,
)
from benchmarks.setup import CPU, Context, choose, random_bert, random_model

from benchmarks import rows
from zgul.corpora.sentence import Sentence

NOWHERE = Machine({}, {"float32": 1e9}, 1e9)


def test_contestants_take_turns_and_change_order():
    seen = []
    found = interleave(
        {"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, 3, warm=1, clock=lambda run: run() or 2.0
    )
    assert "".join(seen) == "ab" + "ab" + "ba" + "ab"
    assert found["a"].seconds == [2.0, 2.0, 2.0]


def test_a_ratio_is_the_median_of_the_rounds():
    times = {"slow": Times([10.0, 40.0, 9.0]), "fast": Times([1.0, 2.0, 3.0])}
    result = Result("x", "", "", "").judge(ratios(times, "slow", "fast"), lambda value: value >= 10)
    assert (result.value, result.low, result.high, result.met) == (10.0, 3.0, 20.0, True)


def test_a_peer_tells_its_own_seconds():
    assert clock(Timed(lambda: 42.0)) == 42.0
    assert 0 <= clock(lambda: 42.0) < 1


def test_numbers_that_differ_are_refused():
    numbers = torch.tensor([1.0, -10.0])
    assert "1.0e-06 apart" in assert_same("x", numbers + 1e-5, numbers, 1e-5)
    with pytest.raises(Unequal, match=r"1.0e-01 apart .* 1e-02 allowed"):
        assert_same("x", numbers + 1, numbers, 1e-2)
    with pytest.raises(Unequal, match="finite"):
        assert_same("x", numbers, torch.tensor([1.0, torch.nan]), 1e9)
    with pytest.raises(Unequal, match="against"):
        assert_same("x", numbers, numbers[:1], 1e9)


def test_rounded_numbers_may_not_be_further_from_the_exact_ones_than_theirs():
    exact = torch.tensor([1.0, 2.0])
    assert "ours is 5.0e-03 apart, theirs 1.0e-02" in assert_as_exact("it", exact + 0.01, exact + 0.02, exact)
    with pytest.raises(Unequal, match=r"ours is 5\.0e-02 apart, theirs 1\.0e-02"):
        assert_as_exact("it", exact + 0.1, exact + 0.02, exact)


def test_a_random_model_is_the_same_wherever_the_encoder_was_before():
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    random_bert(**shape).to(torch.bfloat16)
    made = random_model(shape, 2)
    assert {value.dtype for value in made.tagger.model.parameters()} == {torch.float32}


def test_a_single_tag_that_differs_is_refused():
    assert_same_tags("tags", [["A"], ["B", "C"]], [["A"], ["B", "C"]])
    with pytest.raises(Unequal, match="1 of 3 tags differ"):
        assert_same_tags("tags", [["A"], ["B", "C"]], [["A"], ["B", "X"]])
    with pytest.raises(Unequal, match="3 tags against 1"):
        assert_same_tags("tags", [["A"], ["B", "C"]], [["A"]])


def test_what_cannot_be_measured_and_what_differs_is_in_the_table(monkeypatch):
    def absent(context):
        raise NotMeasured("no such peer")

    def different(context):
        raise Unequal("1 of 3 tags differ")

    monkeypatch.setattr(rows, "ROWS", {"a": rows.Row(absent, "A", "B"), "b": rows.Row(different, "C", "D")})
    first, second = rows.run(Context(torch.device("cpu"), NOWHERE, CPU), ["a", "b"])
    assert first.reason == "not measured: no such peer" and first.value is None and first.met is None
    assert second.reason == "not timed, outputs differ: 1 of 3 tags differ" and second.met is False


def test_fewer_sentences_are_the_first_of_more():
    sentences = [Sentence([str(n)]) for n in range(20)]
    assert choose(sentences, 3) == choose(sentences, 9)[:3]
    assert len(choose(sentences, 0)) == 20


def test_the_machine_is_described_and_its_speed_measured():
    found = machine(torch.device("cpu"), size=64)
    assert found.about["torch"] == torch.__version__ and found.about["threads"] == str(torch.get_num_threads())
    assert found.flops["float32"] > 0 and found.bandwidth > 0


def test_the_floor_is_the_larger_of_operations_and_bytes():
    assert NOWHERE.floor(4e9, 1e9, 8.0).to_json()["times_floor"] == 2.0
    assert NOWHERE.floor(1e9, 4e9, 8.0).to_json()["times_floor"] == 2.0


def test_a_profile_says_what_the_time_went_to() -> None:
    x = torch.randn(64, 512)
    found = profile(lambda: torch.nn.functional.gelu(torch.nn.functional.layer_norm(x @ x.mT @ x, (512,))) + x)
    assert {"products", "norms", "activations", "the rest"} <= set(found)
    told = told_by_kind({"norms": 0.001, "products": 0.003})
    assert told == "products 3 ms (75%), norms 1 ms (25%)"
