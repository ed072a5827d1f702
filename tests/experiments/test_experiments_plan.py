"""The plan: which runs there are, and what changes a run's hash."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from small_experiment import SMALL, write_experiment
from zgul.errors import ZgulError, ZgulWarning
from zgul.experiments import checksums
from zgul.experiments.estimate import Estimate, total
from zgul.experiments.plan import TEXT, TRAINED, Inputs, Protocol, choose, few_split, is_embedded, paper_plan
from zgul.methods import METHODS
from zgul.paper.rows import ROWS
from zgul.paper.store import DONE, Store


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return write_experiment(tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    return SMALL


def hashes(inputs: Inputs, protocol: Protocol, **options: str) -> list[str]:
    return [run.hash for run in paper_plan(inputs, protocol, **options)]


def test_every_part_is_there(inputs, protocol):
    runs = paper_plan(inputs, protocol)
    assert len({run.hash for run in runs}) == len({run.name for run in runs}) == len(runs)
    assert Counter(run.part for run in runs) == {
        "zero-shot": 8,
        "treated": 8,
        "few-shot": 3 * 2 * 3,  # methods, targets with a dev set, sizes that it has sentences for
        "unlabelled": 1 + 3 + 1 + 5,  # half of the text: three variants; all of it: five
    }
    assert all(set(run.needs) <= {other.hash for other in runs} for run in runs)


def test_the_rows_are_the_papers(inputs, protocol):
    runs = [run for run in paper_plan(inputs, protocol) if run.part in ("zero-shot", "treated")]
    titles = {row["row"] for run in runs for row in run.rows}
    of_text = {row.title for row in ROWS if "++" in row.title or row.strategy == "tgt"}
    assert {row.title for row in ROWS} - of_text <= titles
    for run in runs:
        for row in run.rows:
            assert METHODS[run.method].check_strategy(row["strategy"])
            assert METHODS[run.method].uses_em(row["strategy"]) == (row["em"] is not None)


def test_treatment_is_the_same_for_all(inputs, protocol):
    plain, treated = (
        {run.method: run.config for run in paper_plan(inputs, protocol) if run.part == part}
        for part in ("zero-shot", "treated")
    )
    for method in TRAINED:
        changed = {name for name in plain[method] if plain[method][name] != treated[method][name]}
        assert changed == {"unannotated", "label_set_per_corpus", "noise"}
    assert len({str((run["unannotated"], run["noise"])) for run in treated.values()}) == 1


def test_examples_never_come_from_the_test_file(inputs, tmp_path):
    assert few_split(inputs.data, "pos", "fo") == "dev"
    assert few_split(inputs.data, "pos", "gsw") is None  # it has a test file alone
    (tmp_path / "pos" / "fo").mkdir(parents=True)
    for split in ("test", "dev", "few"):
        (tmp_path / "pos" / "fo" / f"{split}.tsv").touch()
    assert few_split(tmp_path, "pos", "fo") == "few"


def test_the_defaults_are_the_papers(inputs):
    run = next(run for run in paper_plan(inputs, Protocol(groups=("germanic",))) if run.method == "zgul")
    config = run.training()
    assert (config.rounds, config.batch_size, config.accumulate, config.lr) == (5, 32, 4, 1e-4)
    assert (config.em_sentences, config.limit, config.noise.sentences) == (300, 0, 0.0)
    assert Protocol().rate("sft-m", "xlm-roberta-base") == 5e-5
    assert Protocol().rate("sft-m", "embedded") == 2e-4
    assert Protocol().rate("zgul", "small.q4.safetensors") == 5e-4
    assert Protocol(rates=(("", 1.0), ("cpg", 2.0))).rate("cpg", "embedded") == 2.0
    assert Protocol(rates=(("", 1.0), ("cpg", 2.0))).rate("zgul", "embedded") == 1.0
    assert not is_embedded("folder")


def test_a_hash_is_the_same_for_the_same(inputs, protocol, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.copytree(inputs.data.parent, moved)
    there = Inputs(moved / "data", str(moved / "encoder"), "new")
    assert hashes(inputs, protocol) == hashes(there, protocol) == hashes(inputs, protocol)
    more_seeds = hashes(inputs, replace(protocol, seeds=(0, 1)))
    assert set(hashes(inputs, protocol)) < set(more_seeds)


@pytest.mark.parametrize(
    "change", [{"epochs": 3}, {"limit": 10}, {"rates": (("", 1.0),)}, {"em_rates": (1.0,)}, {"test_limit": 3}]
)
def test_a_hash_changes_with_the_protocol(inputs, protocol, change):
    before, after = (
        {run.hash for run in paper_plan(inputs, told) if run.method == "zgul"}
        for told in (protocol, replace(protocol, **change))
    )
    assert not before & after


def test_a_hash_changes_with_data_encoder_adapters_device_and_code(inputs, protocol, tmp_path, monkeypatch):
    shutil.copytree(inputs.data.parent, tmp_path / "copy")
    other = Inputs(tmp_path / "copy" / "data", str(tmp_path / "copy" / "encoder"), "new")
    test = other.data / "pos" / "fo" / "test.tsv"
    test.write_text(test.read_text().replace("NOUN", "VERB", 1))
    before, after = ({run.name: run.hash for run in paper_plan(told, protocol)} for told in (inputs, other))
    same = {name for name in before if before[name] == after[name]}
    assert same == {name for name in before if " got, " in name or f" {TEXT} " in name} - {
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
    assert checksums.normalised(one) == checksums.normalised(other)
    assert checksums.normalised(one) != checksums.normalised(one.replace("return x", "return -x"))
    assert checksums.normalised('class A:\n    """Only says."""\n') == "class A:\n    pass"
    assert len(checksums.of_code()) == 64


def test_only(inputs, protocol):
    runs = paper_plan(inputs, protocol)
    assert {run.method for run in choose(runs, ["zero-shot/zgul,treated/cpg"])} == {"zgul", "cpg"}
    assert choose(runs, []) == runs
    few = choose(runs, ["few-shot/cpg/fo"])
    assert {(run.part, run.method) for run in few} == {("few-shot", "cpg"), ("zero-shot", "cpg")}  # and what it needs
    tgt = choose(runs, ["unlabelled/madx-multi"])
    assert {run.method for run in tgt} == {"madx-multi", TEXT}
    with pytest.raises(ZgulError, match="--only zguul: no run has it"):
        choose(runs, ["zguul"])
    with pytest.raises(ZgulError, match="no run fits"):
        choose(runs, ["treated/text"])


def test_what_is_missing_is_left_out_and_said(inputs, tmp_path):
    with pytest.warns(ZgulWarning, match="slavic is left out"):
        paper_plan(inputs, Protocol(groups=("germanic", "slavic")))
    with pytest.raises(ZgulError, match="data of no group"), pytest.warns(ZgulWarning):
        paper_plan(replace(inputs, data=tmp_path), Protocol(groups=("slavic",)))
    shutil.copytree(inputs.data, tmp_path / "data")
    (tmp_path / "data" / "pos" / "gsw" / "test.tsv").unlink()
    with pytest.warns(ZgulWarning, match="gsw is left out"):
        runs = paper_plan(replace(inputs, data=tmp_path / "data"), Protocol(groups=("germanic",)))
    assert runs[0].languages == ["fo", "got"]


def test_mistakes_are_explained(inputs):
    with pytest.raises(ZgulError, match="no group 'celtic'"):
        Protocol(groups=("celtic",))
    with pytest.raises(ZgulError, match="at least one seed"):
        Protocol(seeds=())
    with pytest.raises(ZgulError, match="shares of the text"):
        Protocol(shares=(0.0,))
    with pytest.raises(ZgulError, match="no language adapters at"):
        paper_plan(replace(inputs, adapters="nowhere"), Protocol(groups=("germanic",)))
    with pytest.raises(ZgulError, match="no such file"):
        paper_plan(replace(inputs, encoder="nowhere.q4.safetensors"), Protocol(groups=("germanic",)))


def test_the_second_encoder_is_named_and_told_apart(inputs, protocol):
    named = replace(inputs, encoder="some/hub-name", adapters="{lang}/wiki@ukp")
    run = paper_plan(named, protocol)[0]
    assert run.config["encoder"] == "hub-name" and run.checksums["encoder"] == "some/hub-name"
    assert next(r for r in paper_plan(named, protocol) if r.method == "zgul").config["adapters"] == "{lang}/wiki@ukp"


def test_estimates_come_from_what_was_measured(inputs, protocol, tmp_path):
    from zgul.experiments.jobs import as_stored

    runs = paper_plan(inputs, protocol)
    rough = Estimate(inputs, protocol)
    assert all(rough.seconds(run) > 0 for run in runs)
    store = Store(tmp_path, create=True)
    store.plan([as_stored(runs[0])])
    store.finish(runs[0].hash, 123.0, {})
    assert store.status(runs[0].hash) == DONE
    known = Estimate(inputs, protocol, store)
    assert known.seconds(runs[0]) == 123.0
    assert known.seconds(runs[1]) == rough.seconds(runs[1])
    seconds, size = total(known, runs, 2)
    assert seconds == pytest.approx(sum(map(known.seconds, runs)) / 2)
    assert size > 10**8
