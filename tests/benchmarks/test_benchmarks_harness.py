"""How the benchmarks measure: in turn, after comparing, and never without saying why not."""

import pytest
import torch
from benchmarks.harness import NotMeasured, Result, Unequal, assert_same, assert_same_tags, interleave, seconds_of
from benchmarks.machine import count_operations, describe_machine, multiplies_bf16
from benchmarks.setup import CPU, Context, choose
from torch.testing import assert_close

from benchmarks import rows
from zgul.corpora.sentence import Sentence


def test_contestants_take_turns_and_change_order():
    seen = []
    times = interleave({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, 3, warm=1)
    assert "".join(seen) == "ab" + "ab" + "ba" + "ab"
    assert len(times["a"]) == len(times["b"]) == 3
    assert 0 <= seconds_of(lambda: None) < 1


def test_a_ratio_is_the_median_of_the_rounds():
    result = Result("x", "", "", "", times={"slow": [10.0, 40.0, 9.0], "fast": [1.0, 2.0, 3.0]})
    result.judge(result.ratios("slow", "fast"), lambda value: value >= 10)
    assert (result.value, result.low, result.high, result.met) == (10.0, 3.0, 20.0, True)
    assert result.to_json()["times"]["slow"] == {"median": 10.0, "min": 9.0, "max": 40.0, "rounds": [10.0, 40.0, 9.0]}


def test_numbers_that_differ_are_refused():
    numbers = torch.tensor([1.0, -10.0])
    assert "1.0e-06 apart" in assert_same("x", numbers + 1e-5, numbers, 1e-5)
    with pytest.raises(Unequal, match=r"1.0e-01 apart .* 1e-02 allowed"):
        assert_same("x", numbers + 1, numbers, 1e-2)
    with pytest.raises(Unequal, match="finite"):
        assert_same("x", numbers, torch.tensor([1.0, torch.nan]), 1e9)
    with pytest.raises(Unequal, match="against"):
        assert_same("x", numbers, numbers[:1], 1e9)


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

    stored = []
    monkeypatch.setattr(rows, "ROWS", {"a": absent, "b": different})
    context = Context(torch.device("cpu"), CPU)
    first, second = rows.run(context, ["a", "b"], lambda results: stored.append(len(results)))
    assert first.reason == "not measured: no such peer" and first.value is None and first.met is None
    assert second.reason == "not timed, outputs differ: 1 of 3 tags differ" and second.met is False
    assert stored == [1, 2], "results are stored after each row"


def test_bf16_is_measured_where_the_cpu_has_it(monkeypatch):
    monkeypatch.setattr(rows, "multiplies_bf16", lambda device: False)
    (result,) = rows.run(Context(torch.device("cpu"), CPU), ["tag-bf16"])
    assert result.reason == "not measured: this CPU does not multiply in bf16"


def test_bf16_is_a_matter_of_the_cpus_flags(tmp_path, monkeypatch):
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr("benchmarks.machine.CPU_INFO", info)
    assert not multiplies_bf16(torch.device("cpu"))
    info.write_text("model name : Some CPU\nflags : fpu avx512_bf16\n")
    assert multiplies_bf16(torch.device("cpu"))
    assert describe_machine(torch.device("cpu"))["device"] == "Some CPU"


def test_fewer_sentences_are_the_first_of_more():
    sentences = [Sentence([str(n)]) for n in range(20)]
    assert choose(sentences, 3) == choose(sentences, 9)[:3]
    assert len(choose(sentences, 0)) == 20


def test_a_machine_is_described_without_its_paths(monkeypatch):
    monkeypatch.setattr("sys.argv", ["x", "--data", "/some/place/data", "--full"])
    about = describe_machine(torch.device("cpu"))
    assert about["torch"] == torch.__version__ and about["threads"] == str(torch.get_num_threads())
    assert about["command"] == "python -m benchmarks --data data --full"


def test_operations_of_products_and_attention_are_counted():
    x, weight = torch.randn(3, 5), torch.randn(7, 5)
    assert count_operations(lambda: torch.nn.functional.linear(x, weight)) == 2 * 3 * 5 * 7
    q = torch.randn(1, 2, 4, 8)
    attention = count_operations(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q))
    assert_close(attention, 2 * (2 * 2 * 4 * 4 * 8))
