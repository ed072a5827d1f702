"""Whole rows on tiny shapes, and what is written about them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from benchmarks.harness import Result
from benchmarks.setup import CPU, Context, encode, random_tagger, with_random_pieces
from benchmarks.tricks import MODES, SHIPPED, TRICKS, WIDE, Place

from benchmarks import __main__ as command
from benchmarks import report, rows, tricks
from small_tagger import MADE, small_tagger
from zgul.encoders.encoder import EncoderConfig
from zgul.files import read_json

SHAPE = EncoderConfig(vocabulary=10_000, width=32, depth=2, heads=4, inner=48, positions=128, types=2)
TINY = replace(CPU, rounds=2, forward=(2, 8), bert=SHAPE)
ABOUT = dict.fromkeys(("device", "threads", "system", "python", "torch", "transformers", "date"), "x")
ABOUT |= {"commit": "abc", "command": "python -m benchmarks"}


@pytest.fixture
def context(monkeypatch):
    monkeypatch.setattr("benchmarks.peers.PYTHON", Path("nowhere"))  # without `adapters`
    return Context(torch.device("cpu"), TINY)


def test_the_rows_on_one_forward_pass(context):
    peer, plain, count = rows.run(context, ["forward", "count"])
    assert "written by us" in peer.against and "is not here" in peer.notes[0]  # says what it is, and why
    assert peer.value > 0 and plain.value > 0 and "apart" in peer.compared and "apart" in plain.compared
    assert {"zgul", "Stack(Fuse), ours", "transformers", "our loop"} == set(peer.times)
    assert "operations alone" in plain.notes[0]
    assert all(len(seconds) == 2 for seconds in count.times.values())


def test_rows_without_data_say_so(context):
    names = ["em", "em-bf16", "tag-bf16", "adaptive", "training", "stream", "tricks"]
    for result in rows.run(replace(context, encoder="nowhere.q4.safetensors"), names):
        assert result.value is None and result.reason.startswith("not measured: ")


def test_every_trick_is_switched_off_alone(context, monkeypatch):
    shipped, wide = small_tagger(), random_tagger(SHAPE, 2)
    made = [replace(sentence, language="target") for sentence in MADE.sentences("target", 6, 3)]
    corpora = (encode(shipped, made), with_random_pieces(encode(shipped, made), wide))
    places = [
        Place(name, tagger, list(corpus.batches(256)))
        for name, tagger, corpus in zip((SHIPPED, WIDE), (shipped, wide), corpora, strict=True)
    ]
    missing = Result("x", "trick: x", "", "", reason="not measured: here")
    monkeypatch.setattr(tricks, "measured_places", lambda context: places)
    monkeypatch.setattr(tricks, "adaptive_trick", lambda context: missing)
    monkeypatch.setattr(tricks, "memory_trick", lambda context: missing)
    results = {result.measure: result for result in rows.run(context, ["tricks"])}
    for trick in TRICKS:
        if trick.gpu_only:
            assert f"trick: {trick.name}" not in results
            continue
        result = results[f"trick: {trick.name}"]
        assert set(result.details["gains"]) == {f"{place.name}, {mode}" for place in places for mode in trick.modes}
        assert result.value > 0 and result.compared.count("apart") == 2 * len(trick.modes)
    assert set(MODES) == {"tagging", "EM"}


def results() -> list[Result]:
    good = Result("em", "EM", "the release", "≥ 12×", compared="tags: all 5 equal", notes=["A note."])
    good.times = {"release": [2.0, 4.0], "zgul": [0.1, 0.2]}
    good.judge([20.0, 20.5], lambda value: value >= 12)
    missed = Result("start", "a process", "imports", "≤ 2.5×").judge([3.0], lambda value: value <= 2.5)
    plain = Result("tag-bf16", "bf16", "itself", "none").judge([1.6], lambda value: None)
    trick = Result("trick-folding", "trick: folding", "itself", "≥ 1.1×").judge([1.2], lambda value: True)
    trick.details["gains"] = {"shipped tagger, EM": 1.2}
    return [good, missed, plain, trick, Result("mlm", "MLM", "a loop", "", reason="not measured: needs a GPU")]


def test_results_are_stored_as_json_and_table(tmp_path):
    path = report.store(tmp_path, ABOUT, results(), "cpu")
    stored = json.loads(path.read_text())
    assert stored["rows"][0]["times"]["zgul"]["rounds"] == [0.1, 0.2]
    table = (tmp_path / "cpu.md").read_text()
    assert "| EM | the release | ≥ 12× | **20.2×** | 20 to 20.5 | yes |" in table
    assert "| a process | imports | ≤ 2.5× | **3×** |  | **no** |" in table
    assert "| bf16 | itself | none | **1.6×** |  |  |" in table
    assert "| MLM | a loop |  | not measured: needs a GPU |  |  |" in table
    assert "- Outputs first: tags: all 5 equal.\n- Medians: release 3 s, zgul 0.15 s.\n- A note.\n" in table


def test_rows_of_another_commit_do_not_stay(tmp_path):
    good, missed, *_ = results()
    report.store(tmp_path, ABOUT, [good], "cpu")
    again = ABOUT | {"command": "python -m benchmarks --rows start"}
    path = report.store(tmp_path, again, [missed], "cpu")
    assert [row["key"] for row in read_json(path)["rows"]] == ["em", "start"]
    both = "    python -m benchmarks\n    python -m benchmarks --rows start\n"
    assert both in path.with_suffix(".md").read_text(), "each command that measured a row is named"
    report.store(tmp_path, ABOUT | {"commit": "def"}, [missed], "cpu")
    assert [row["key"] for row in read_json(path)["rows"]] == ["start"]
    assert read_json(path)["machine"]["command"] == "python -m benchmarks"


def test_the_page_has_before_and_after_and_says_what_is_missing(tmp_path):
    good, missed, *others = results()
    report.store(tmp_path / "before", ABOUT | {"commit": "old"}, [good, missed], "cpu")
    report.store(tmp_path / "before", ABOUT | {"commit": "old"}, [good], "cuda")
    report.store(tmp_path, ABOUT, [good, *others], "cpu")
    page = tmp_path / "page.md"
    names = [f"{device} {part}" for device in ("cpu", "cuda") for part in ("machine", "rows", "tricks")] + ["service"]
    page.write_text("Prose.\n" + "".join(f"<!-- bench: {name} -->\nold text\n<!-- end -->\n" for name in names))
    written = report.write_page(tmp_path, page).read_text()
    assert written.startswith("Prose.\n") and "old text" not in written
    assert "| EM tagging, T = 10 | the release's procedure | ≥ 12× | 20.2× | 20.2× |" in written
    assert "| ≤ 2.5× | **3×**, missed | not measured yet |" in written
    assert "- Now: not measured yet. All numbers below are of the old code." in written
    assert "| trick | shipped tagger, EM |\n| --- | --- |\n| folding | 1.20× |" in written
    assert written.count("zgul at commit old") == 2 and written.count("zgul at commit abc") == 1
    assert report.write_page(tmp_path, page).read_text() == written


def test_the_page_has_the_service_under_load(tmp_path):
    measured = {"machine": ABOUT, "clients": 50, "seconds": 60.4, "requests": 1234, "errors": ["one"], "met": False}
    measured |= {"p50_seconds": 1.5, "p99_seconds": 2.25, "share": 0.71, "cpu_share": 0.93, "words_a_second": 355.0}
    measured |= {"words_a_cpu_second": 465.0, "load_average": [1.0, 2.0, 3.0]}
    measured |= {f"words_a_{kind}second_of_zgul_tag": [500.0, 510.0] for kind in ("", "cpu_")}
    (tmp_path / "service.json").write_text(json.dumps(measured))
    page = tmp_path / "page.md"
    page.write_text("<!-- bench: service -->\nold text\n<!-- end -->\n")
    written = report.write_page(tmp_path, page).read_text()
    assert "old text" not in written and "| 50 clients, 60 seconds |" in written
    assert "| errors | 1 |" in written and "(p99) | 2.25 |" in written and "| **0.71**, missed |" in written


def test_the_command_runs_a_row_and_prints_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.peers.PYTHON", Path("nowhere"))
    monkeypatch.setattr(command, "CPU", TINY)
    command.main(["--rows", "forward", "--output", str(tmp_path), "--data", str(tmp_path / "none")])
    assert "| ZGUL forward without EM" in capsys.readouterr().out
    assert (tmp_path / "cpu.json").is_file()
