"""The plan: which runs there are, and what changes a run's hash."""

import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from zgul.errors import ZgulError, ZgulWarning
from zgul.methods import METHODS
from zgul.paper import provenance
from zgul.paper.experiments import Estimate, Experiment
from zgul.paper.export import export_results
from zgul.paper.plan import (
    TEXT_RUN,
    VARIANTS,
    Inputs,
    Protocol,
    paper_plan,
    rates,
    select_runs,
    tuned_settings,
    tuning_plan,
)
from zgul.paper.rows import ROWS, TRAINED
from zgul.paper.store import DONE, Store, StoredRun


def hashes(inputs: Inputs, protocol: Protocol, **options: str) -> list[str]:
    return [run.hash for run in paper_plan(inputs, protocol, **options)]


def test_every_part_is_there(inputs, protocol):
    runs = paper_plan(inputs, protocol)
    assert len({run.hash for run in runs}) == len({run.name for run in runs}) == len(runs)
    assert Counter(run.part for run in runs) == {
        "zero-shot": 8,
        "variants": 3,
        "few-shot": 3 * 2 * 3,  # methods, targets with a dev set, sizes that it has sentences for
        "unlabelled": 1 + 3 + 1 + 5,  # half of the text: three variants; all of it: five
    }
    assert all(set(run.needs) <= {other.hash for other in runs} for run in runs)


def test_the_rows_are_the_papers(inputs, protocol):
    runs = [run for run in paper_plan(inputs, protocol) if run.part == "zero-shot"]
    titles = {row["row"] for run in runs for row in run.rows}
    of_text = {row.title for row in ROWS if "++" in row.title or row.strategy == "tgt"}
    assert {row.title for row in ROWS} - of_text <= titles
    for run in runs:
        for row in run.rows:
            assert METHODS[run.method].check_strategy(row["strategy"])
            assert METHODS[run.method].uses_em(row["strategy"]) == (row["em"] is not None)


def test_variants_change_one_thing_of_zgul(inputs, protocol):
    runs = paper_plan(replace(inputs, adapters="shipped"), protocol)
    (plain,) = (run for run in runs if run.part == "zero-shot" and run.method == "zgul")
    for run in (run for run in runs if run.part == "variants"):
        changed = {name for name in plain.config if plain.config[name] != run.config[name]}
        assert changed == set(VARIANTS[run.extra["variant"]])
        assert {row["row"] for row in run.rows} == {"ZGUL", "ZGUL w/o EM"}


def done(run, f1: float) -> StoredRun:
    return replace(run.stored(), status=DONE, facts={"dev_f1": [f1 / 2, f1]})


def test_rates_are_tuned_in_a_group_that_has_data_or_not_at_all(inputs):
    protocol = Protocol(groups=("slavic", "african", "germanic"), seeds=(3, 4))
    with pytest.warns(ZgulWarning, match="left out"):  # the made-up data has the Germanic group alone
        assert {run.group for run in tuning_plan(inputs, protocol)} == {"germanic"}
    assert tuning_plan(inputs, replace(protocol, lr=1e-3)) == tuning_plan(inputs, replace(protocol, tune=False)) == []


def test_the_rule_of_tuning(inputs):
    protocol = Protocol(groups=("germanic",), seeds=(3, 4))
    first = tuning_plan(inputs, protocol)
    assert len(first) == 3 * 3 + 5 * 2  # of this encoder: three rates for methods that train it, two for adapters
    assert {run.seed for run in first} == {3} and not any(run.rows or run.languages for run in first)
    assert not [name for run in first for name in run.checksums if name.endswith("/test")]  # no target is read
    finished = [done(run, run.extra["rate"] * 1e6 if run.method == "zgul" else 50.0) for run in first]
    assert tuning_plan(inputs, protocol, finished[1:]) == first  # one is missing: nothing is chosen yet
    both = tuning_plan(inputs, protocol, finished)
    second = both[len(first) :]
    assert both[: len(first)] == first and {run.method for run in second} == {
        m for m in TRAINED if METHODS[m].needs_bank
    }
    assert {run.extra["reduction"] for run in second} == {4.0}
    assert {run.extra["rate"] for run in second if run.method == "zgul"} == {1e-4}  # the best
    assert {run.extra["rate"] for run in second if run.method == "madx"} == {5e-5}  # of equals the smaller
    finished += [done(run, 200.0 if run.method == "zgul" else 1.0) for run in second]
    settings = tuned_settings(finished)
    assert settings["pos", "zgul"] == (1e-4, 4.0) and settings["pos", "madx"] == (5e-5, 3.0)
    configs = {run.method: run.config for run in paper_plan(inputs, protocol, settings) if run.part == "zero-shot"}
    assert (configs["zgul"]["lr"], configs["zgul"]["options"]["reduction"]) == (1e-4, 4.0)
    assert (configs["madx"]["lr"], configs["madx"]["options"]["reduction"]) == (5e-5, 3.0)


def test_examples_never_come_from_the_test_file(inputs, protocol, tmp_path):
    def splits(there: Inputs) -> dict[str, str]:
        runs = paper_plan(there, protocol)
        return {run.extra["language"]: run.extra["split"] for run in runs if run.part == "few-shot"}

    assert splits(inputs) == {"fo": "dev", "got": "dev"}  # gsw has a test file alone
    shutil.copytree(inputs.data, tmp_path / "data")
    shutil.copy(tmp_path / "data/pos/fo/dev.tsv", tmp_path / "data/pos/fo/few.tsv")
    assert splits(replace(inputs, data=str(tmp_path / "data"))) == {"fo": "few", "got": "dev"}


def test_the_defaults_are_the_papers(inputs):
    run = next(run for run in paper_plan(inputs, Protocol(groups=("germanic",))) if run.method == "zgul")
    config = run.training()
    assert (config.rounds, config.batch_size, config.accumulate, config.lr) == (5, 32, 4, 1e-4)
    assert (config.em_sentences, config.limit, config.noise.sentences) == (300, 0, 0.0)
    assert rates("sft-m", "xlm-roberta-base")["default"] == 5e-5
    assert rates("sft-m", "embedded")["default"] == 2e-4
    assert rates("zgul", "folder/small.q4.safetensors")["default"] == 5e-4
    fixed = paper_plan(inputs, Protocol(groups=("germanic",), lr=2.0))
    assert {run.config["lr"] for run in fixed if run.part == "zero-shot"} == {2.0}


def test_a_hash_is_the_same_for_the_same(inputs, protocol, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.copytree(Path(inputs.data).parent, moved)
    there = replace(inputs, data=str(moved / "data"), encoder=str(moved / "encoder"))
    assert hashes(inputs, protocol) == hashes(there, protocol) == hashes(inputs, protocol)
    more_seeds = hashes(inputs, replace(protocol, seeds=(0, 1)))
    assert set(hashes(inputs, protocol)) < set(more_seeds)


@pytest.mark.parametrize("change", [{"epochs": 3}, {"limit": 10}, {"lr": 1.0}, {"em_rates": (1.0,)}, {"test_limit": 3}])
def test_a_hash_changes_with_the_protocol(inputs, protocol, change):
    before, after = (
        {run.hash for run in paper_plan(inputs, told) if run.method == "zgul"}
        for told in (protocol, replace(protocol, **change))
    )
    assert not before & after


def test_a_hash_changes_with_data_encoder_adapters_device_and_code(inputs, protocol, tmp_path, monkeypatch):
    shutil.copytree(Path(inputs.data).parent, tmp_path / "copy")
    other = replace(inputs, data=str(tmp_path / "copy" / "data"), encoder=str(tmp_path / "copy" / "encoder"))
    test = Path(other.data) / "pos" / "fo" / "test.tsv"
    test.write_text(test.read_text().replace("NOUN", "VERB", 1))
    before, after = ({run.name: run.hash for run in paper_plan(told, protocol)} for told in (inputs, other))
    same = {name for name in before if before[name] == after[name]}
    assert same == {name for name in before if " got, " in name or f" {TEXT_RUN} " in name} - {
        name for name in before if "few-shot" in name
    }

    config = Path(other.encoder) / "config.json"
    config.write_text(config.read_text() + "\n")
    assert not set(hashes(other, protocol)) & {*before.values(), *after.values()}
    assert not set(hashes(replace(inputs, device="cuda"), protocol)) & set(before.values())
    assert not set(hashes(inputs, protocol, code="another")) & set(before.values())
    shipped = {run.name: run.hash for run in paper_plan(replace(inputs, adapters="shipped"), protocol)}
    assert shipped["zero-shot germanic sft-m seed 0"] == before["zero-shot germanic sft-m seed 0"]  # it has none
    assert shipped["zero-shot germanic zgul seed 0"] != before["zero-shot germanic zgul seed 0"]


def test_comments_do_not_change_the_code():
    one = 'def f(x):\n    """Says."""\n    return x  # why\n'
    other = "def f( x ):\n\n    return x\n"
    assert provenance.normalised(one) == provenance.normalised(other)
    assert provenance.normalised(one) != provenance.normalised(one.replace("return x", "return -x"))
    assert provenance.normalised('class A:\n    """Only says."""\n') == "class A:\n    pass"
    assert len(provenance.of_code()) == 64


def test_all_code_that_a_run_executes_counts():
    files = {path.relative_to(provenance.ROOT).as_posix() for path in provenance.code_files()}
    for name in (
        "fast/engine.py",
        "devices.py",
        "tensors.py",
        "ensemble/em.py",
        "corpora/columns.py",
        "training/noise.py",
    ):
        assert name in files
    assert not [name for name in files if name.startswith(("adaptation/", "cli/", "serve/", "paper/report/"))]


def test_only(inputs, protocol):
    runs = paper_plan(inputs, protocol)
    assert {run.method for run in select_runs(runs, ["zero-shot/zgul,few-shot/cpg"])} == {"zgul", "cpg"}
    assert select_runs(runs, []) == runs
    few = select_runs(runs, ["few-shot/cpg/fo"])
    assert {(run.part, run.method) for run in few} == {("few-shot", "cpg"), ("zero-shot", "cpg")}  # and what it needs
    tgt = select_runs(runs, ["unlabelled/madx-multi"])
    assert {run.method for run in tgt} == {"madx-multi", TEXT_RUN}
    with pytest.raises(ZgulError, match="--only zguul: no run fits"):
        select_runs(runs, ["zguul"])
    assert select_runs(runs, ["variants/text"]) == []


def test_what_is_missing_is_left_out_and_said(inputs, tmp_path):
    with pytest.warns(ZgulWarning, match="slavic is left out"):
        paper_plan(inputs, Protocol(groups=("germanic", "slavic")))
    with pytest.raises(ZgulError, match="data of no group"), pytest.warns(ZgulWarning):
        paper_plan(replace(inputs, data=str(tmp_path)), Protocol(groups=("slavic",)))
    shutil.copytree(inputs.data, tmp_path / "data")
    (tmp_path / "data" / "pos" / "gsw" / "test.tsv").unlink()
    with pytest.warns(ZgulWarning, match="gsw is left out"):
        runs = paper_plan(replace(inputs, data=str(tmp_path / "data")), Protocol(groups=("germanic",)))
    assert runs[0].languages == ["fo", "got"]


def test_mistakes_are_explained(inputs):
    with pytest.raises(ZgulError, match=r"groups is one of germanic, .*, not 'celtic'"):
        Protocol(groups=("celtic",))
    with pytest.raises(ZgulError, match="at least one seed"):
        Protocol(seeds=())
    for name, given, problem in (
        ("em_steps", (), "at least one number of EM steps"),
        ("em_steps", (0, 5), "em_steps must be at least 1"),
        ("em_rates", (), "at least one EM learning rate"),
        ("em_rates", (-1.0,), "em_rates must be above 0"),
        ("examples", (-5,), "examples must be at least 0"),
    ):
        with pytest.raises(ZgulError, match=problem):
            Protocol(**{name: given})
    with pytest.raises(ZgulError, match="shares must be above 0 and at most 1"):
        Protocol(shares=(0.0,))
    with pytest.raises(ZgulError, match="No language adapters at"):
        paper_plan(replace(inputs, adapters="nowhere"), Protocol(groups=("germanic",)))
    with pytest.raises(ZgulError, match="no such file"):
        paper_plan(replace(inputs, encoder="nowhere.q4.safetensors"), Protocol(groups=("germanic",)))


def test_the_second_encoder_is_named_and_told_apart(inputs, protocol):
    named = replace(inputs, encoder="some/hub-name", adapters="{lang}/wiki@ukp")
    run = paper_plan(named, protocol)[0]
    assert run.config["encoder"] == "hub-name" and run.checksums["encoder"] == "some/hub-name"
    assert next(r for r in paper_plan(named, protocol) if r.method == "zgul").config["adapters"] == "{lang}/wiki@ukp"


def test_estimates_come_from_what_was_measured(inputs, protocol, tmp_path):
    runs = paper_plan(inputs, protocol)
    rough = Estimate(inputs, protocol)
    assert all(rough.seconds(run) > 0 for run in runs)
    store = Store(tmp_path, create=True)
    store.plan([runs[0].stored()])
    store.update(runs[0].hash, status=DONE, seconds=123.0, facts={})
    assert store.status(runs[0].hash) == DONE
    known = Estimate(inputs, protocol, store)
    assert known.seconds(runs[0]) == 123.0
    assert known.seconds(runs[1]) == rough.seconds(runs[1])
    assert known.total(runs, 2) == pytest.approx(sum(map(known.seconds, runs)) / 2)


def test_the_device_auto_is_the_gpu_if_there_is_one(inputs, protocol, monkeypatch):
    auto = replace(inputs, device="auto")
    for there, name in ((False, "cpu"), (True, "cuda")):
        monkeypatch.setattr(torch.cuda, "is_available", partial(bool, there))
        assert Estimate(auto, protocol).device == paper_plan(auto, protocol)[0].checksums["device"] == name
    assert replace(inputs, device="cuda:1").device_kind == "cuda"


def test_rates_tuned_elsewhere(inputs, tmp_path):
    protocol = Protocol(groups=("germanic",), seeds=(0,))
    tried = tuning_plan(inputs, protocol)
    store = Store(tmp_path / "tuned", create=True)
    store.plan(done(run, 90 - abs(run.extra["rate"] - 1e-4)) for run in tried)
    store.close()
    export_results(tmp_path / "tuned", tmp_path / "tuned.json.gz")
    for place in (tmp_path / "tuned", tmp_path / "tuned.json.gz"):
        runs = Experiment(inputs, protocol, tmp_path / "out", ["zero-shot"], tuned=place).plan()
        assert {run.part for run in runs} == {"zero-shot"}
        assert {run.config["lr"] for run in runs if run.method == "zgul"} == {1e-4}
        assert {run.config["lr"] for run in runs if run.method == "sft-m"} == {5e-5}  # the nearest of its grid
    Store(tmp_path / "empty", create=True).close()
    with pytest.raises(ZgulError, match="holds no tuning runs"):
        Experiment(inputs, protocol, tmp_path / "out", tuned=tmp_path / "empty").plan()
