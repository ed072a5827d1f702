"""Doing runs: all parts give scores; what is done is kept; what was killed goes on to the same numbers."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from family import random_encoder, tiny_tokenizer
from tiny_group import MADE
from zgul import encoders
from zgul.encoders.encoder import EncoderConfig
from zgul.errors import ZgulError
from zgul.evaluation import scores
from zgul.paper import execution
from zgul.paper.execution import WEIGHTS, Executor, Resources
from zgul.paper.experiments import Experiment, Outcome, run_paper
from zgul.paper.plan import TEXT_RUN, Inputs, Protocol, paper_plan, select_runs
from zgul.paper.store import DONE, FAILED, RUNNING, Store
from zgul.progress import Status
from zgul.training.adapter_training import save_head
from zgul.training.labelled_data import load_labelled
from zgul.training.masked_lm import MLMHead


def execute(
    folder: Path, inputs: Inputs, protocol: Protocol, only: list[str], workers: int = 0, **options: Any
) -> Outcome:
    return run_paper(Experiment(inputs, protocol, folder, only), workers=workers, **options)


def numbers(folder: Path) -> dict[tuple[str, str, str], tuple[float, float, str]]:
    """What a store says, without times."""
    store = Store(folder)
    names = {run.hash: run.name for run in store.runs(status=DONE)}
    return {
        (names[score.run], score.row, score.language): (score.f1, score.accuracy, json.dumps(score.em, sort_keys=True))
        for score in store.scores()
        if score.run in names
    }


@pytest.fixture(scope="module")
def finished(inputs, protocol, tmp_path_factory) -> Path:
    """All parts done without interruption."""
    folder = tmp_path_factory.mktemp("finished")
    outcome = execute(folder, inputs, protocol, [])
    assert outcome.failed == {} and outcome.done == len(paper_plan(inputs, protocol))
    return folder


def test_every_row_has_a_score_for_every_language(finished, inputs, protocol):
    found = numbers(finished)
    for run in paper_plan(inputs, protocol):
        for row in run.rows:
            for language in run.languages:
                expected = not (row["em"] == "target" and language == "gsw")  # gsw has no dev set to choose on
                assert ((run.name, row["row"], language) in found) == expected


def test_a_score_is_that_of_its_tags(finished):
    store = Store(finished)
    for score in store.scores(row="ZGUL"):
        gold = store.gold("germanic", score.language)
        tags = store.predictions(score.run, score.row, score.language)
        assert len(tags) == len(gold) == score.sentences == 8
        again = scores([sentence.tags for sentence in gold], tags)
        assert (again.f1, again.accuracy, again.words) == (score.f1, score.accuracy, score.words)
        assert score.correct == round(again.accuracy * again.words / 100)


def test_the_rows_use_the_em_they_are_called_after(finished):
    zero_shot = {run.hash for run in Store(finished).runs(part="zero-shot")}
    by_row = {score.row: score.em for score in Store(finished).scores(language="fo") if score.run in zero_shot}
    assert by_row["ZGUL"]["on"] == "is dev" and by_row["ZGUL"]["start"] == "scores" and not by_row["ZGUL"]["tied"]
    assert by_row["ZGUL, EM on target dev"]["on"] == "fo dev"
    assert by_row["ZGUL, EM tied by layer"]["tied"] and by_row["MADX^multi-EMEA"]["tied"]
    assert by_row["ZGUL, EM from probabilities"]["start"] == "probabilities"
    control = by_row["ZGUL, EM T=1 lr=0 from probabilities"]
    assert (control["steps"], control["lr"], control["start"]) == (1, 0.0, "probabilities")
    assert by_row["ZGUL w/o EM"] is None and by_row["SFT-M"] is None


def test_facts_of_a_run(finished):
    store = Store(finished)
    (zgul,) = store.runs(part="zero-shot", method="zgul")
    assert zgul.seconds > 0 and zgul.facts["trainable"] > 0 and len(zgul.facts["dev_f1"]) == 2
    for kind in ("weights", "weights_untrained"):
        for view in ("fusion", "lang2vec"):
            for target in ("fo", "got", "gsw"):
                weights = zgul.facts[kind][view][target]
                assert set(weights) == {"en", "is", "de"}
                assert sum(weights.values()) == pytest.approx(1, abs=1e-4)
    (multi,) = store.runs(part="zero-shot", method="madx-multi")
    assert set(multi.facts["weights"]) == {"emea"}
    text = store.runs(method=TEXT_RUN)
    assert {run.extra["share"]: run.facts["lines"] for run in text}[0.5] < max(run.facts["lines"] for run in text)
    assert set(text[0].facts["masked_accuracy"]) == {"before", "adapter", "encoder"}


def test_no_examples_is_the_zero_shot_model_and_few_change_it(finished):
    found = numbers(finished)
    for row, method in (("ZGUL", "zgul"), ("CPG", "cpg"), ("SFT-M", "sft-m")):
        zero = found[f"zero-shot germanic {method} seed 0", row, "fo"]
        assert found[f"few-shot germanic {method} seed 0, fo, 0 examples", row, "fo"] == zero
    store = Store(finished)
    tags = [
        store.predictions(run.hash, "SFT-M", "fo")
        for run in store.runs(part="few-shot", method="sft-m")
        if run.extra["language"] == "fo"
    ]
    assert len(tags) == 3 and tags[0] != tags[1] != tags[2]
    assert len({f1 for f1, _, _ in found.values()}) > 10


def test_few_shot_runs_do_not_see_one_another(finished, inputs, protocol, tmp_path):
    alone = replace(protocol, examples=(8,))
    execute(tmp_path, inputs, alone, ["few-shot/zgul/fo"])
    name = ("few-shot germanic zgul seed 0, fo, 8 examples", "ZGUL", "fo")
    assert numbers(tmp_path)[name] == numbers(finished)[name]


def test_weights_go_when_nobody_needs_them(finished):
    assert not list((finished / "runs").rglob("*.safetensors"))


def test_what_is_done_is_not_repeated(finished, inputs, protocol, monkeypatch):
    monkeypatch.setattr(Executor, "execute", lambda *_: pytest.fail("a finished run was started"))
    outcome = execute(finished, inputs, protocol, [])
    assert outcome.done == 0 and outcome.failed == {}


def test_shared_data_is_what_training_would_read(inputs, protocol):
    resources = Resources(inputs, replace(protocol, dev_limit=0))
    config = next(run for run in paper_plan(inputs, protocol) if run.method == "zgul").training()
    ours, theirs = resources.labelled(config), load_labelled(replace(config, data=str(inputs.data)))
    assert ours.train == theirs.train and ours.dev == theirs.dev and ours.labels == theirs.labels
    assert torch.equal(ours.allowed, theirs.allowed) and ours.noise == theirs.noise
    assert resources.labelled(config).train[0] is ours.train[0]  # files are read once


def test_dev_sentences_with_labels_that_few_training_sentences_lack_are_left_out(inputs, protocol):
    resources = Resources(inputs, protocol)
    config = replace(next(run for run in paper_plan(inputs, protocol) if run.method == "sft-en").training(), limit=1)
    data = resources.labelled(config)
    assert 0 < len(data.dev) < protocol.dev_limit
    assert {tag for sentence in data.dev for tag in sentence.tags} <= set(data.labels)


def test_a_failing_run_is_recorded_and_the_others_go_on(inputs, protocol, tmp_path, monkeypatch):
    plain = execution.new_tagger

    def broken(config: Any, *arguments: Any, **options: Any) -> Any:
        if config.method == "cpg":
            raise RuntimeError("something broke")
        return plain(config, *arguments, **options)

    monkeypatch.setattr(execution, "new_tagger", broken)
    only = ["zero-shot/cpg", "zero-shot/sft-m", "few-shot/fo/cpg"]
    outcome = execute(tmp_path, inputs, protocol, only)
    assert outcome.done == 1 and len(outcome.failed) == 4
    store = Store(tmp_path)
    (cpg,) = store.runs(part="zero-shot", method="cpg")
    assert cpg.status == FAILED and "something broke" in cpg.error
    assert {run.error for run in store.runs(part="few-shot")} == {f"it needs {cpg.name}, which failed"}
    assert [run.method for run in store.runs(status=DONE)] == ["sft-m"]

    monkeypatch.undo()  # mended: the next start does what failed
    assert execute(tmp_path, inputs, protocol, only).done == 4
    assert not Store(tmp_path).runs(status=FAILED)


def test_what_needs_a_failed_run_fails_with_it(inputs, protocol, tmp_path, monkeypatch):
    def broken(*_: Any) -> None:
        raise ZgulError("no text today")

    monkeypatch.setattr(execution, "read_text", broken)
    outcome = execute(tmp_path, inputs, replace(protocol, shares=(1.0,)), ["unlabelled/sft-m"])
    assert outcome.done == 0
    assert {error.splitlines()[0] for error in outcome.failed.values()} == {
        "ZgulError: no text today",
        "it needs unlabelled germanic text seed 0, fo, 100% of the text, which failed",
    }


def test_weights_that_are_not_there_are_made_again(finished, inputs, protocol, tmp_path):
    execute(tmp_path, inputs, protocol, ["zero-shot/sft-m"])
    (base,) = Store(tmp_path).runs()
    assert not (Store(tmp_path).run_folder(base.hash) / WEIGHTS).exists()  # no run that was asked for needs them
    before = numbers(tmp_path)
    assert execute(tmp_path, inputs, protocol, ["few-shot/sft-m/fo"]).failed == {}
    after = numbers(tmp_path)
    assert {name: after[name] for name in before} == before
    assert after == {name: numbers(finished)[name] for name in after}


def test_a_model_that_is_let_go_is_gone(inputs, protocol, tmp_path, monkeypatch):
    """Or the memory of a GPU would fill from run to run."""
    store = Store(tmp_path, create=True)
    executor = Executor(store, inputs, protocol)
    whole = {run.hash: run for run in paper_plan(inputs, protocol)}
    models = []
    made = execution.new_tagger

    def remembered(*arguments: Any, **options: Any) -> Any:
        tagger = made(*arguments, **options)
        models.append(weakref.ref(tagger.model))
        return tagger

    monkeypatch.setattr(execution, "new_tagger", remembered)
    for run in select_runs(list(whole.values()), ["zero-shot/zgul,zero-shot/cpg,few-shot/cpg/fo"]):
        store.plan([run.stored()])
        executor.execute(run, whole)
    assert len(models) == 3 and models[-1]() is not None  # the three few-shot runs shared a model
    executor.release()
    assert [model() for model in models] == [None] * 3


def test_a_second_encoder_of_another_kind(inputs, protocol, tmp_path):
    """XLM-R, whose positions and specials differ, small and random."""
    tokenizer = tiny_tokenizer(MADE)
    size = tokenizer.backend.get_vocab_size()
    config = EncoderConfig(
        size, 16, 2, 2, 32, 66, pad=tokenizer.pad, first_position=tokenizer.pad + 1, model_type="xlm-roberta"
    )
    encoders.save(random_encoder(config), tokenizer, tmp_path / "xlmr")
    other = replace(inputs, encoder=str(tmp_path / "xlmr"))
    outcome = execute(tmp_path / "out", other, protocol, ["zero-shot/zgul,zero-shot/sft-m,unlabelled/sft-m"])
    assert outcome.failed == {} and outcome.done == 6
    assert {run.config["encoder"] for run in Store(tmp_path / "out").runs()} == {"xlmr"}


def test_a_head_from_a_file_is_used(inputs, protocol, tmp_path):
    small = replace(protocol, shares=(1.0,))
    encoder, _ = Resources(inputs, small).encoder
    save_head(tmp_path / "head.safetensors", MLMHead(encoder.width, len(encoder.words.weight)), "encoder")
    given = replace(inputs, head=str(tmp_path / "head.safetensors"))
    assert execute(tmp_path / "out", given, small, ["text"]).failed == {}
    (with_head,), (without,) = (
        [run for run in paper_plan(there, small) if run.method == TEXT_RUN] for there in (given, inputs)
    )
    assert with_head.hash != without.hash
    assert set(Store(tmp_path / "out").facts(with_head.hash)["masked_accuracy"]) == {"before", "adapter", "encoder"}


def test_em_settings_by_a_source_left_out_of_training(inputs, protocol, tmp_path):
    execute(tmp_path, inputs, replace(protocol, em_by="loso"), ["zero-shot/zgul"])
    (run,) = Store(tmp_path).runs()
    chosen = run.facts["em"]["ZGUL"]
    assert chosen["fo"]["on"] == "is dev, left out of training" and "left out" not in chosen["gsw"]["on"].replace(
        ", left out of training", ""
    )
    assert run.facts["em"]["ZGUL, EM on target dev"]["fo"]["on"] == "fo dev"


# --- processes

ONLY = ["zero-shot/zgul", "zero-shot/sft-m", "few-shot/zgul/fo", "zero-shot/cpg"]


@pytest.mark.slow
def test_worker_processes_give_the_same_numbers(finished, inputs, protocol, tmp_path):
    seen: list[Status] = []
    outcome = execute(tmp_path, inputs, protocol, ONLY, workers=2, report=seen.append)
    assert outcome.failed == {} and outcome.done == 6
    assert seen[-1].done == seen[-1].total == 6 and max(status.figures.get(RUNNING, 0) for status in seen) == 2
    found = numbers(tmp_path)
    assert len(found) > 20 and found == {name: numbers(finished)[name] for name in found}


COMMAND = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from small_experiment import SMALL, inputs_in
from test_execution import ONLY, execute
if __name__ == "__main__":
    outcome = execute(Path({output!r}), inputs_in(Path({folder!r})), SMALL, ONLY, workers={workers})
    print(outcome.done, len(outcome.failed))
"""


def start(script: Path, folder: Path, output: Path, workers: int) -> subprocess.Popen[str]:
    here = Path(__file__).parent
    paths = [str(here), str(here.parent)]
    script.write_text(COMMAND.format(paths=paths, folder=str(folder), output=str(output), workers=workers))
    return subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env={**os.environ})


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_killed_and_started_again_gives_the_numbers_of_an_uninterrupted_run(finished, inputs, tmp_path, workers):
    output = tmp_path / "output"
    kills = 0
    for patience in (0.0, 0.6, 1.5, 1.0, 60.0):  # seconds from the first sign of work to the kill
        process = start(tmp_path / "command.py", Path(inputs.data).parent, output, workers)
        seen = time.monotonic() + 60
        before = _progress(output)
        while process.poll() is None and time.monotonic() < seen and _progress(output) == before:
            time.sleep(0.05)
        try:
            process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        said, _ = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
    assert kills >= 2 and process.returncode == 0 and said.split()[1] == "0"
    found = numbers(output)
    assert len(found) > 20 and found == {name: numbers(finished)[name] for name in found}


def _progress(output: Path) -> list[str]:
    """Signs of work: checkpoints, weights, scores."""
    signs = sorted(f"{path.name} {path.stat().st_mtime_ns}" for path in (output / "runs").glob("*/*"))
    try:
        return [*signs, str(len(Store(output).scores()))]
    except ZgulError:  # no file, or no tables in it yet
        return signs


@pytest.mark.slow
def test_two_commands_share_a_store(finished, inputs, tmp_path):
    both = [start(tmp_path / f"{number}.py", Path(inputs.data).parent, tmp_path / "output", 0) for number in range(2)]
    said = [process.communicate()[0].split() for process in both]
    assert [failed for _, failed in said] == ["0", "0"]
    found = numbers(tmp_path / "output")
    assert len(found) > 20 and found == {name: numbers(finished)[name] for name in found}


@pytest.mark.slow
def test_a_dying_worker_costs_its_run_alone(inputs, protocol, tmp_path):
    """A run whose process is killed from outside fails; the others are done."""
    killed: list[str] = []

    def kill(status: Status) -> None:
        running = [run.name for run in Store(tmp_path).runs(status=RUNNING, method="zgul")]
        if running and not killed:
            killed.extend(running)
            (child,) = multiprocessing.active_children()
            os.kill(child.pid or 0, signal.SIGKILL)

    outcome = execute(tmp_path, inputs, protocol, ["zero-shot/zgul,zero-shot/sft-en"], workers=1, report=kill)
    assert list(outcome.failed) == killed and "SIGKILL" in outcome.failed[killed[0]]
    assert [run.method for run in Store(tmp_path).runs(status=DONE)] == ["sft-en"]


@pytest.mark.slow
def test_the_limit_of_time_stops_and_the_next_start_goes_on(inputs, protocol, tmp_path):
    only = ["zero-shot/sft-en"]
    assert execute(tmp_path, inputs, protocol, only, workers=1, minutes=0.0).stopped
    assert not Store(tmp_path).runs(status=DONE)
    assert execute(tmp_path, inputs, protocol, only, workers=1).done == 1
