"""``zgul experiment``: plan, run, go on, export; mistakes are explained."""

import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from small_experiment import write_experiment
from zgul.cli import app
from zgul.errors import ZgulError
from zgul.paper import provenance
from zgul.paper.execution import Executor
from zgul.paper.export import Export
from zgul.paper.store import DONE, Store

SMALL = (
    "--no-tune --limit 8 --dev-limit 4 --test-limit 4 --epochs 1 --batch-size 8 "
    "--em-sentences 2 --em-rates 10 --em-steps 1"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiment")
    write_experiment(folder)
    return folder


def run(folder, *options: str, output=None):
    given = ["--data", folder / "data", "--encoder", folder / "encoder", "--adapters", "new", "--seeds", "0"]
    given += ["--output", output or folder / "results", *options]
    return CliRunner().invoke(app, ["experiment", "paper", *map(str, given)])


def test_the_plan_is_shown_and_nothing_is_run(folder, tmp_path):
    result = run(folder, "--dry-run", output=tmp_path / "out")
    assert result.exit_code == 0, result.output
    for word in ("zero-shot", "variants", "few-shot", "unlabelled", "zgul-no-l", "time left"):
        assert word in result.output
    assert not (tmp_path / "out").exists()


def test_one_killed_before_it_had_made_its_tables_goes_on(folder, tmp_path):
    (tmp_path / "results.sqlite").touch()
    result = run(folder, "--dry-run", output=tmp_path)
    assert result.exit_code == 0 and "time left" in result.output


def test_run_go_on_and_export(folder, tmp_path):
    options = ["--only", "zero-shot/sft-m", "--jobs", "0", *SMALL.split()]
    result = run(folder, *options)
    assert result.exit_code == 0, result.output
    assert "1 runs done" in result.output and "Next: zgul report" in result.output
    store = Store(folder / "results")
    (done,) = store.runs()
    assert done.status == DONE and done.config["limit"] == 8
    meta = store.meta
    assert meta["protocol"]["limit"] == 8 and meta["encoder"] == "encoder" and "pos/fo/test" in meta["checksums"]
    assert str(folder) not in str(meta)  # a folder of this machine is nobody's business

    again = run(folder, *options)
    assert "0 runs done" in again.output and Store(folder / "results").runs() == [done]
    planned = run(folder, *options, "--dry-run")
    assert "1 runs, 1 done" in planned.output

    written = CliRunner().invoke(app, ["experiment", "export", str(folder / "results"), str(tmp_path / "a.json")])
    assert written.exit_code == 0, written.output
    assert [score.row for score in Export(tmp_path / "a.json").scores()] == ["SFT-M"] * 3
    assert str(folder) not in (tmp_path / "a.json").read_text()


def test_other_code_takes_the_place_of_what_was_done_and_the_same_can_be_claimed(folder, tmp_path, monkeypatch):
    options = ["--only", "zero-shot/sft-en", "--jobs", "0", *SMALL.split()]
    run(folder, *options, output=tmp_path)
    (first,) = Store(tmp_path).runs(status=DONE)
    monkeypatch.setattr(provenance, "of_code", lambda: "other code")
    run(folder, *options, "--same-code", output=tmp_path)
    assert [found.hash for found in Store(tmp_path).runs()] == [first.hash]
    run(folder, *options, output=tmp_path)
    (second,) = Store(tmp_path).runs(status=DONE)
    assert second.hash != first.hash
    assert {score.run for score in Store(tmp_path).scores()} == {second.hash}
    monkeypatch.undo()
    run(folder, *options, output=tmp_path)  # back again: what was done then counts again
    assert [found.hash for found in Store(tmp_path).runs(status=DONE)] == [first.hash]


def test_a_folder_holds_results_of_one_protocol_and_of_the_same_data(folder, tmp_path):
    options = ["--only", "zero-shot/sft-en", "--jobs", "0", *SMALL.split()]
    run(folder, *options, output=tmp_path / "out")
    before = Store(tmp_path / "out").runs()
    for dry in ([], ["--dry-run"]):
        refused = run(folder, *options, "--test-limit", "2", "--few-epochs", "3", *dry, output=tmp_path / "out")
        assert isinstance(refused.exception, ZgulError)
        assert "1 finished runs of another protocol (test_limit was 4 and is 2)" in str(refused.exception)
    more = run(folder, *options, "--seeds", "0,1", "--text-steps", "7", "--dry-run", output=tmp_path / "out")
    assert "2 runs, 1 done" in more.output  # more seeds, and settings of parts that have no runs yet
    shutil.copytree(folder / "data", tmp_path / "data")
    shutil.copy(folder / "data" / "pos" / "fo" / "dev.tsv", tmp_path / "data" / "pos" / "fo" / "test.tsv")
    refused = run(folder, *options, "--data", str(tmp_path / "data"), output=tmp_path / "out")
    assert "pos/fo/test has changed" in str(refused.exception)
    assert Store(tmp_path / "out").runs() == before


def test_a_damaged_file_of_examples_stops_only_the_runs_that_read_it(folder, tmp_path):
    shutil.copytree(folder / "data", tmp_path / "data")
    (tmp_path / "data" / "pos" / "fo" / "few.tsv.xz").write_bytes(b"not what its name says")
    given = ["--data", str(tmp_path / "data"), "--dry-run", *SMALL.split()]
    assert "1 runs, 0 done" in run(folder, *given, "--only", "zero-shot/sft-en", output=tmp_path / "out").output
    assert "few-shot" in run(folder, *given, output=tmp_path / "out").output


def test_parts_with_commas_and_tuning_among_them(folder, tmp_path):
    given = ["--dry-run", *SMALL.removeprefix("--no-tune ").split()]
    result = run(folder, *given, "--only", "tuning,zero-shot/sft-en", output=tmp_path)
    assert result.exit_code == 0 and "tuning" in result.output and "few-shot" not in result.output


def test_a_failed_run_ends_in_an_error(folder, tmp_path, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(Executor, "execute", broken)
    result = run(folder, "--only", "zero-shot/sft-en", "--jobs", "0", *SMALL.split(), output=tmp_path)
    assert result.exit_code == 1
    assert "1 runs failed. They are tried again" in result.output and "out of luck" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "one"], "seeds must be a whole number, not 'one'"),
        (["--only", "zguul"], "no run fits"),
        (["--adapters", "nowhere"], "No language adapters at"),
        (["--data", "nowhere"], "no such folder"),
        (["--output", __file__, "--dry-run"], "is a file. Give a folder with --output"),
    ],
)
def test_mistakes_are_explained(folder, options, message):
    result = run(folder, *options)
    assert isinstance(result.exception, ZgulError) and message in str(result.exception)


def test_it_runs_as_a_module():
    result = subprocess.run([sys.executable, "-m", "zgul", "experiment", "paper", "--help"], capture_output=True)
    assert result.returncode == 0 and b"--dry-run" in result.stdout
