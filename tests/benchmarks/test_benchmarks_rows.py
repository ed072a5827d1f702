"""Whole rows on tiny shapes, and what is written about them."""

import json
from dataclasses import replace

import pytest
import torch
from benchmarks.harness import Floor, Machine, Result, Times
from benchmarks.setup import CPU, Context

from benchmarks import __main__ as command
from benchmarks import report, rows

TINY = replace(
    CPU,
    rounds=2,
    forward=(2, 8),
    bert={"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48},
)
ABOUT = dict.fromkeys(("device", "threads", "system", "python", "torch", "transformers", "zgul", "date"), "x")
MACHINE = Machine(ABOUT | {"commit": "abc", "command": "python -m benchmarks"}, {"float32": 1e9}, 1e9)


@pytest.fixture
def context(monkeypatch):
    monkeypatch.setattr("benchmarks.peers.PYTHON", report.Path("nowhere"))  # without `adapters`
    return Context(torch.device("cpu"), MACHINE, TINY)


def test_the_rows_on_one_forward_pass(context):
    peer, plain, own, count = rows.run(context, ["forward", "count"])
    assert "written by us" in peer.against and "is not here" in peer.notes[0]  # says what it is, and why
    assert peer.value > 0 and plain.value > 0 and "apart" in peer.compared and "apart" in plain.compared
    assert {"zgul", "Stack(Fuse), ours", "transformers", "our loop", rows.OWN} <= set(peer.times)
    assert own.met is None and own.value > 0  # the same products on both sides: told, without a target
    assert all(len(times.seconds) == 2 for times in count.times.values())
    assert count.details["operations_per_adapter"] > 0


def test_rows_without_data_say_so(context):
    names = ["em", "em-bf16", "tag-bf16", "adaptive", "training", "stream"]
    for result in rows.run(replace(context, encoder="nowhere.q4.safetensors"), names):
        assert result.value is None and result.reason.startswith("not measured: ")


def test_bf16_is_measured_where_the_cpu_has_it(context, monkeypatch):
    monkeypatch.setattr(rows, "multiplies_bf16", lambda: False)
    assert rows.run(context, ["forward-bf16"])[0].reason == "not measured: this CPU does not multiply in bf16"
    monkeypatch.setattr(rows, "multiplies_bf16", lambda: True)
    machine = replace(MACHINE, flops=MACHINE.flops | {"bfloat16": 2e9})
    peer, plain, own = rows.run(replace(context, machine=machine), ["forward-bf16"])
    assert "from the result in fp32 ours is" in peer.compared and plain.value > 0 and own.value > 0


def results() -> list[Result]:
    good = Result("em", "EM", "the release", "≥ 12×", compared="tags: all 5 equal", notes=["A note."])
    good.times = {"release": Times([2.0, 4.0]), "zgul": Times([0.1, 0.2])}
    good.floor = Floor(1e9, 1e6, 0.05, 0.15)
    good.judge([20.0, 20.5], lambda value: value >= 12)
    missed = Result("memory", "memory", "autograd", "< 40%", unit="%").judge([59.0], lambda value: value < 40)
    told = Result("own", "forward", "itself", "none").judge([1.6], lambda value: None)
    return [good, missed, told, Result("mlm", "MLM", "a loop", "", reason="not measured: needs a GPU")]


def test_results_are_stored_as_json_table_and_chart(tmp_path):
    path = report.store(tmp_path, MACHINE, results(), "cpu")
    stored = json.loads(path.read_text())
    assert stored["rows"][0]["times"]["zgul"]["rounds"] == [0.1, 0.2]
    table = (tmp_path / "cpu.md").read_text()
    assert "| EM | the release | ≥ 12× | **20.2×** | 20 to 20.5 | yes | 3.0× |" in table
    assert "| memory | autograd | < 40% | **59%** |  | **no** |  |" in table
    assert "| forward | itself | none | **1.6×** |  |  |  |" in table
    assert "| MLM | a loop |  | not measured: needs a GPU | | | |" in table
    pytest.importorskip("matplotlib")
    assert "<svg" in (tmp_path / "cpu.svg").read_text()


@pytest.mark.parametrize("speeds", [{"zgul": 1e6, "release": 1e4}, 1e6])
def test_contestants_that_did_not_read_as_much_are_drawn_by_speed(tmp_path, speeds):
    pytest.importorskip("matplotlib")
    (good, *_) = results()
    good.details = {"tokens_per_second": speeds}
    report.store(tmp_path, MACHINE, [good], "cpu")
    drawn = (tmp_path / "cpu.svg").read_text()
    assert ("<!-- 100 -->" in drawn) == isinstance(speeds, dict), "a million tokens at 10,000 a second take 100 s"


def test_rows_of_another_commit_do_not_stay(tmp_path):
    good, missed, *_ = results()
    report.store(tmp_path, MACHINE, [good], "cpu")
    again = replace(MACHINE, about=MACHINE.about | {"command": "python -m benchmarks --rows memory"})
    path = report.store(tmp_path, again, [missed], "cpu")
    assert [row["key"] for row in report.read(path)["rows"]] == ["em", "memory"]
    both = "    python -m benchmarks\n    python -m benchmarks --rows memory\n"
    assert both in path.with_suffix(".md").read_text(), "each command that measured a row is told"
    later = replace(MACHINE, about=MACHINE.about | {"commit": "def"})
    report.store(tmp_path, later, [missed], "cpu")
    assert [row["key"] for row in report.read(path)["rows"]] == ["memory"]
    assert report.read(path)["machine"]["command"] == "python -m benchmarks"


def test_the_page_is_written_from_the_stored_results_of_each_machine(tmp_path):
    folder = tmp_path / "results"
    report.store(folder, MACHINE, results(), "cpu")
    report.store(folder, MACHINE, results()[:1], "cuda")
    (folder / "misses.md").write_text("## Missed\n")
    page = report.write_page(folder, tmp_path / "performance.md").read_text()
    assert page.endswith("## Missed\n")
    assert page.index("## CPU") < page.index("## GPU") and page.count("**20.2×**") == 2
    with pytest.raises(SystemExit, match="measure first"):
        report.write_page(tmp_path / "nothing", tmp_path / "performance.md")


def test_the_command_runs_a_row_and_prints_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.peers.PYTHON", report.Path("nowhere"))
    monkeypatch.setattr(command, "CPU", TINY)
    monkeypatch.setattr(command, "machine", lambda device: MACHINE)
    command.main(["--rows", "forward", "--output", str(tmp_path), "--data", str(tmp_path / "none")])
    assert "| ZGUL forward without EM" in capsys.readouterr().out
    assert (tmp_path / "cpu.json").is_file()
