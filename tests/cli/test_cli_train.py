"""``zgul train`` as a user calls it."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from command_line import zgul
from tiny_group import write_group
from zgul.cli import app
from zgul.corpora.sentence import Sentence
from zgul.errors import ZgulError
from zgul.tagger import load_tagger
from zgul.tensors import load_tensors


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return write_group(tmp_path_factory.mktemp("train"))


def options(place: Path) -> list[object]:
    """What every run here has in common."""
    common = "--group germanic --adapters new --epochs 1 --batch-size 8 --accumulate 2 --em-sentences 5 --device cpu"
    return ["train", *common.split(), "--data", place / "data", "--encoder", place / "encoder"]


def saved(folder: Path) -> dict:
    return yaml.safe_load((folder / "train.yaml").read_text())


def test_train_says_what_it_did_and_what_comes_next(place, tmp_path):
    shown = zgul(*options(place), "--output", tmp_path / "out")
    assert "ZGUL (POS), sources en, is, de" in shown and "F1 on the sources' dev sets" in shown
    assert "EM settings by the dev set of the most related source" in shown and "fo: " in shown
    assert "zgul evaluate --model" in shown
    assert load_tagger(tmp_path / "out").strategy == "em"


def test_the_command_line_wins_over_yaml_and_set_over_both(place, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("lr: 1e-3\nseed: 3\nepochs: 9\nnoise: {words: 0.2}\noptions: {combine: linear, dropout: 0.2}\n")
    more = ["--config", file, "--noise", "0.5", "--unannotated", "PUNCT", "--label-set-per-corpus", "--limit", "30"]
    more += ["--leave-out", "is", "--set", "options.combine=max", "--set", "weight_decay=1e-2"]
    zgul(*options(place), *more, "--output", tmp_path / "out")
    values = saved(tmp_path / "out")
    assert (values["lr"], values["seed"], values["epochs"]) == (1e-3, 3, 1)
    assert values["noise"] == {"sentences": 0.5, "words": 0.2, "edits": 1, "ciphers": 0.0, "romanised": 0.0}
    assert values["options"]["combine"] == "max" and values["options"]["dropout"] == 0.2
    assert values["weight_decay"] == 0.01 and values["unannotated"] == ["PUNCT"] and values["label_set_per_corpus"]
    tagger = load_tagger(tmp_path / "out")
    assert tagger.parts.sources == ("en", "de") and tagger.about["sentences"] == {"en": 30, "de": 30}
    assert "PUNCT" not in tagger.labels

    zgul("train", "--config", tmp_path / "out" / "train.yaml", "--output", tmp_path / "again")
    first, again = (load_tensors(tmp_path / name / "model.safetensors") for name in ("out", "again"))
    assert first.keys() == again.keys() and all((first[name] == again[name]).all() for name in first)


@pytest.mark.filterwarnings("ignore:EM settings for gsw")
def test_em_settings_from_the_targets_dev_set_are_labelled(place, tmp_path):
    shown = zgul(*options(place), "--em-by", "target", "--output", tmp_path)
    assert "not zero-shot" in shown and "fo dev (its own)" in shown
    assert saved(tmp_path)["em_by"] == "target"


def test_leave_one_out_prints_a_table_and_keeps_nothing_unless_asked(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = zgul(*options(place), "--leave-one-out", "--method", "madx-multi")
    assert "Icelandic" in shown and "German" in shown and "mean" in shown and "uniform" in shown and "tgt" not in shown
    assert not list(tmp_path.iterdir())
    zgul(*options(place), "--leave-one-out", "--method", "sft-m", "--output", "kept")
    kept = {path.name for path in (tmp_path / "kept").iterdir()}
    assert kept == {"leave_one_out.json", "leave_one_out.yaml", "without-is", "without-de"}
    assert set(json.loads((tmp_path / "kept" / "leave_one_out.json").read_text())) == {"is", "de"}


def test_the_encoder_can_be_saved_inside(place, tmp_path):
    zgul(*options(place), "--save-encoder", "--method", "sft-m", "--output", tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "moved")
    assert load_tagger(tmp_path / "moved").method.name == "sft-m"


def test_bits_say_how_a_tagger_is_saved(place, tmp_path):
    command = [*options(place), "--em-sentences", "0", "--limit", "16", "--output"]
    zgul(*command, tmp_path / "32")
    zgul(*command, tmp_path / "16", "--bits", "16")
    exact, rough = (load_tensors(tmp_path / name / "model.safetensors") for name in ("32", "16"))
    assert exact.keys() == rough.keys()
    assert all(rough[name].allclose(exact[name], rtol=1e-3, atol=1e-6) for name in exact)
    whole, half = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("32", "16"))
    assert half < 0.6 * whole
    assert load_tagger(tmp_path / "16").trained_names, "it can be trained further"


@pytest.mark.slow
def test_nine_bits_give_a_tagger_as_small_as_shipped_ones(place, tmp_path):
    """On the embedded encoder, where 32 bits take 40 megabytes."""
    command = [*options(place), "--encoder", "embedded", "--adapters", "shipped", "--em-sentences", "0", "--limit", "4"]
    zgul(*command, "--bits", "9", "--output", tmp_path)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 10e6
    assert json.loads((tmp_path / "config.json").read_text())["merged"]
    tagger = load_tagger(tmp_path)
    assert len(tagger.predict([Sentence(["Ein", "Haus"], language="de")])[0].tags) == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--method", "zgull"], "method is one of sft-en, sft-m"),
        (["--group", "romance"], "no group 'romance'"),
        (["--set", "options.combin=max"], "no option 'options.combin'. Did you mean 'options.combine'"),
        (["--set", "options.combine=sum"], "combine is one of linear, max"),
        (["--set", "epochs"], "--set takes NAME=VALUE"),
        (["--set", "lr.x=1"], "lr must be a number"),
        (["--set", "epochs=[1"], "the value is not valid YAML"),
        (["--set", "epochs=!!timestamp x"], "the value is not valid YAML"),
        (["--set", "epochs=" + "[" * 900], "the value is not valid YAML"),
        (["--set", "epochs=many"], "epochs must be a whole number"),
        (["--config", "absent.yaml"], "absent.yaml: no such file"),
        (["--em-by", "guess"], "em_by is one of source, loso, target"),
        (["--noise", "2"], "noise.sentences must be at least 0 and at most 1"),
        (["--set", "epochs=-1"], "epochs must be at least 0"),
        (["--lr", "nan"], "lr must be at least 0"),
        (["--bits", "8"], "saved in 32, 16, 9 bits a number, not in 8"),
        (["--config", "."], "this is a folder; a file is needed here"),
        (["--sources", "en,xxyyzz"], "xxyyzz"),
    ],
)
def test_mistakes_are_named(place, tmp_path, more, message):
    with pytest.raises(ZgulError, match=message.replace("(", r"\(")):
        zgul(*options(place), "--output", tmp_path / "out", *more)
    assert not (tmp_path / "out" / "config.json").exists()


def test_a_group_has_a_place_by_default(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    more = ["--method", "sft-m", "--limit", "4"]
    assert "zgul evaluate --model out/germanic-sft-m" in zgul(*options(place), *more)
    with pytest.raises(ZgulError, match="germanic-sft-m"):  # and what is there stays
        zgul(*options(place), *more)
    with pytest.raises(ZgulError, match="--output DIR"):
        zgul("train", "--sources", "en,is", "--task", "pos", "--data", place / "data")


START = [sys.executable, "-c", "from zgul.cli import main; main()"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_leaves_a_checkpoint_and_says_how_to_resume(place, tmp_path, number):
    """In a process of its own, as a user has it. The resumed run equals one that was never stopped."""
    command = [str(part) for part in [*options(place), "--epochs", "8", "--eval-every", "5", "--em-sentences", "0"]]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    process = subprocess.Popen(
        [*START, *command, "--output", str(parts)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # the parent may ignore Ctrl-C
    )
    deadline = time.monotonic() + 60
    while not (parts / "checkpoint.safetensors").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert f"Continue with: zgul train --output {parts} --resume" in said
    assert "Traceback" not in said
    with pytest.raises(ZgulError, match="Continue it with --resume"):
        zgul(*command, "--output", parts)
    zgul("train", "--output", parts, "--resume")
    zgul(*command, "--output", whole)
    first, second = (load_tensors(folder / "model.safetensors") for folder in (whole, parts))
    assert first.keys() == second.keys() and all((first[name] == second[name]).all() for name in first)
    with pytest.raises(ZgulError, match="trained to the end already"):
        zgul("train", "--output", parts, "--resume")


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2> >(true)"])
def test_closed_and_broken_streams_do_not_stop_it(place, tmp_path, redirection):
    more = ["--method", "sft-m", "--limit", "4", "--em-sentences", "0", "--output", tmp_path / "out"]
    command = shlex.join([*START, *map(str, [*options(place), *more])])
    done = subprocess.run(["bash", "-c", f"{command} {redirection}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and (tmp_path / "out" / "config.json").is_file()


def test_ctrl_c_while_sources_are_left_out_says_how_to_resume(place, tmp_path, monkeypatch):
    from zgul.training import run

    command = [*options(place), "--leave-one-out", "--method", "sft-m", "--output", tmp_path]
    real = run.dev_sentences
    monkeypatch.setattr(run, "dev_sentences", lambda *_: signal.raise_signal(signal.SIGINT))
    stopped = CliRunner().invoke(app, list(map(str, command)))
    monkeypatch.setattr(run, "dev_sentences", real)
    assert stopped.exit_code == 130
    again = f"zgul train --output {tmp_path} --resume --leave-one-out"
    assert f"the work so far is saved. Continue with: {again}" in stopped.stderr
    assert "Icelandic" in zgul(*again.split()[1:])
    stopped = CliRunner().invoke(app, ["train", "--output", str(tmp_path), "--resume", "--leave-one-out", "--lr", "9"])
    assert "another configuration" in str(stopped.exception)
    assert "Icelandic" in zgul(*again.split()[1:]), "what was refused has changed nothing"
