"""A whole training run: saved, interrupted and resumed bit for bit, refused where something is wrong."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from tiny_group import sentences, write_group
from zgul.adapters.bank import LanguageAdapter
from zgul.adapters.storage import save_adapters
from zgul.errors import ZgulError, ZgulWarning
from zgul.methods.base import MethodOptions
from zgul.methods.tagger import Tagger
from zgul.tensors import load_tensors
from zgul.training.config import NoiseConfig, TrainingConfig
from zgul.training.em_settings import EMTable
from zgul.training.run import find_adapters, leave_one_out, resolve, train


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A data folder in which a made-up family stands for the Germanic group, and an encoder folder."""
    return write_group(tmp_path_factory.mktemp("run"))


def config(place: Path, **more) -> TrainingConfig:
    values = {
        "group": "germanic",
        "data": str(place / "data"),
        "encoder": str(place / "encoder"),
        "adapters": "new",
        "epochs": 2,
        "batch_size": 8,
        "accumulate": 2,
        "lr": 1e-2,
        "em_sentences": 10,
        "device": "cpu",
    }
    return TrainingConfig(**values | more)


def trained_tensors(tagger: Tagger) -> dict[str, torch.Tensor]:
    return {name: value for name, value in tagger.model.named_parameters() if name in tagger.trained}


def assert_same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys() and first
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_a_run_is_saved_with_its_configuration_and_em_settings(place, tmp_path):
    reports = []
    tagger = train(config(place), tmp_path / "out", reports.append)
    assert not (tmp_path / "out" / "checkpoint.safetensors").exists()
    saved = yaml.safe_load((tmp_path / "out" / "train.yaml").read_text())
    assert TrainingConfig.from_dict(saved) == resolve(config(place))
    assert saved["sources"] == ["en", "is", "de"] and saved["task"] == "pos"
    loaded = Tagger.from_pretrained(tmp_path / "out")
    assert_same(trained_tensors(tagger), trained_tensors(loaded))
    assert loaded.em == tagger.em and set(loaded.em) == {"fo", "got", "gsw", ""}
    assert loaded.about["em"]["targets"]["fo"]["on"] == ["is dev"]
    assert loaded.about["em"]["targets"]["fo"]["sentences"] == 10
    assert loaded.about["sentences"] == {"en": 60, "is": 60, "de": 60}
    assert "data" not in loaded.about["training"], "where the data lay is nobody else's business"
    assert any("dev_f1" in entry for entry in reports)
    assert any(entry.get("stage") == "EM settings on is" for entry in reports)
    history = json.loads((tmp_path / "out" / "history.json").read_text())
    assert tagger.about["dev_f1"] == max(entry["dev_f1"] for entry in history)


@pytest.mark.parametrize("at", [1, 7, 12, 20])
def test_interrupted_and_resumed_equals_uninterrupted(place, tmp_path, at):
    """Ctrl-C after any step: at the first, at an evaluation, in the second epoch."""
    run = config(place, em_sentences=0, noise=NoiseConfig(sentences=0.5), eval_every=7)
    whole = train(run, tmp_path / "whole")
    from zgul.training.stepper import Stepper

    steps = 0
    original = Stepper.step

    def step(self, batch):
        nonlocal steps
        steps += 1
        if steps == at:
            signal.raise_signal(signal.SIGINT)
        return original(self, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "step", step)
        with pytest.raises(KeyboardInterrupt):
            train(run, tmp_path / "parts")
    assert steps == at, "the step that Ctrl-C fell in is finished, and no other is begun"
    assert (tmp_path / "parts" / "checkpoint.safetensors").is_file()
    assert not (tmp_path / "parts" / "config.json").exists()
    torch.manual_seed(99)  # nothing may hang on the random state of this process
    resumed = train(run, tmp_path / "parts", resume=True)
    assert_same(trained_tensors(whole), trained_tensors(resumed))
    histories = [(tmp_path / name / "history.json").read_text() for name in ("whole", "parts")]
    assert histories[0] == histories[1]
    assert_same(*(load_tensors(tmp_path / name / "model.safetensors") for name in ("whole", "parts")))


def test_an_early_stop_is_not_trained_past_when_resumed(place, tmp_path):
    run = config(place, epochs=30, lr=0.0, patience=2, em_sentences=0)
    whole = train(run, tmp_path / "whole")
    assert whole.about["steps"] < 30 * 12

    def stop_late(entry):
        if str(entry.get("stage")).startswith("EM settings"):
            raise KeyboardInterrupt

    run = config(place, epochs=30, lr=0.0, patience=2)
    with pytest.raises(KeyboardInterrupt):  # while EM settings are chosen: training is over, nothing is lost
        train(run, tmp_path / "parts", stop_late)
    assert (tmp_path / "parts" / "checkpoint.safetensors").is_file()
    again = []
    assert train(run, tmp_path / "parts", again.append, resume=True).about["steps"] == whole.about["steps"]
    assert not any("loss" in entry for entry in again), "no step was taken again"


def test_a_checkpoint_of_another_configuration_is_refused(place, tmp_path):
    def stop(entry):
        if "dev_f1" in entry:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        train(config(place), tmp_path, stop)
    with pytest.raises(ZgulError, match="unfinished run; go on with --resume"):
        train(config(place), tmp_path)
    with pytest.raises(ZgulError, match="another configuration"):
        train(config(place, lr=0.5), tmp_path, resume=True)
    saved = TrainingConfig.from_dict(TrainingConfig.from_yaml(tmp_path / "train.yaml"))
    assert saved == resolve(config(place)), "what is refused leaves the run as it can be resumed"
    checkpoint = tmp_path / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(ZgulError, match="not a complete safetensors file"):
        train(config(place), tmp_path, resume=True)


def test_a_finished_model_is_not_overwritten(place, tmp_path):
    run = config(place, epochs=1, em_sentences=0, method="sft-m")
    train(run, tmp_path)
    with pytest.raises(ZgulError, match="holds a finished model"):
        train(run, tmp_path)
    with pytest.raises(ZgulError, match="trained to the end"):
        train(run, tmp_path, resume=True)
    train(run, tmp_path, overwrite=True)
    with pytest.warns(ZgulWarning, match="no checkpoint"):
        train(run, tmp_path / "new", resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(ZgulError, match="is a file"):
        train(run, tmp_path / "file")
    with pytest.raises(ZgulError, match=r"train.yaml cannot be written .*; choose another --output"):
        train(run, tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "zgull"}, "there is no method 'zgull'"),
        ({"group": "romance"}, "there is no group 'romance'; there are: germanic"),
        ({"group": "", "sources": ()}, "say what to train on"),
        ({"group": "", "sources": ("en", "qqqq")}, "qqqq"),
        ({"leave_out": ("sw",)}, "sw cannot be left out"),
        ({"leave_out": ("en",), "method": "sft-en"}, "nothing to train on without en"),
        ({"data": ""}, "--data DIR"),
        ({"data": "no/such"}, "zgul data fetch --group germanic"),
        ({"group": "slavic"}, "no pos data for 'ru'"),
        ({"device": "cuda:99"}, "no device"),
        ({"adapters": "no/such"}, "no language adapters at"),
        ({"extra_adapters": ("fo",), "adapters": "bank"}, "no language adapter for fo"),
        ({"adapters": "wide"}, "made for an encoder of 2 layers of width 32"),
        ({"encoder": "./no/such"}, "no such folder"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_it_starts(place, tmp_path, change, message):
    for name, width in (("bank", 16), ("wide", 32)):
        bank = [LanguageAdapter.new(language, width, 2) for language in ("en", "is", "de")]
        save_adapters(tmp_path / f"{name}.safetensors", bank)
    if change.get("adapters") in ("bank", "wide"):
        change = change | {"adapters": str(tmp_path / f"{change['adapters']}.safetensors")}
    with pytest.raises(ZgulError, match=message):
        train(config(place, **change), tmp_path / "out")
    assert not (tmp_path / "out" / "config.json").exists()


def test_labels_that_training_lacks_count_as_mistakes_on_dev(place, tmp_path):
    folder = tmp_path / "pos" / "en"
    folder.mkdir(parents=True)
    (folder / "train.tsv").write_text("a\tNOUN\n\n")
    (folder / "dev.tsv").write_text("a\tNOUN\n\nb\tVERB\n\n")
    with pytest.warns(ZgulWarning, match="dev data has labels that the training data lacks: VERB"):
        tagger = train(config(place, group="", sources=("en",), data=str(tmp_path), method="sft-m"))
    assert tagger.labels == ["NOUN"] and tagger.about["dev_f1"] == 50


def test_adapters_are_found_wherever_they_lie(place, tmp_path):
    from zgul.adapters.adapterhub import write_adapter
    from zgul.encoders import Encoder, load

    encoder = Encoder(load(place / "encoder")[0])
    made = {language: LanguageAdapter.new(language, 16, 2, size=4) for language in ("en", "is", "de", "fo")}
    for adapter in made.values():
        for layer in adapter.layers:
            torch.nn.init.normal_(layer.up.weight)
    save_adapters(tmp_path / "mixed" / "two.safetensors", [made["en"], made["fo"]])
    write_adapter(made["is"], tmp_path / "mixed" / "is")
    write_adapter(made["de"], tmp_path / "alone")

    found = find_adapters(f"{tmp_path / 'mixed'},{tmp_path / 'alone'}", ["is", "de", "en"], encoder)
    assert [adapter.language for adapter in found] == ["is", "de", "en"], "fo was not asked for"
    for adapter in found:
        assert torch.equal(adapter.layers[1].up.weight, made[adapter.language].layers[1].up.weight)
    with pytest.raises(ZgulError, match="no language adapter for cs"):
        find_adapters(str(tmp_path / "mixed"), ["en", "cs"], encoder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ZgulError, match="holds no language adapters"):
        find_adapters(str(tmp_path / "empty"), ["en"], encoder)


def test_a_target_adapter_joins_the_bank(place, tmp_path):
    """MADX^multi-Tgt and ZGUL++: the target's adapter stands beside those of the sources."""
    run = config(place, epochs=1, em_sentences=0, extra_adapters=("fo",), method="madx-multi")
    tagger = train(run, tmp_path)
    assert tagger.model.bank.languages == ["en", "is", "de", "fo"]
    loaded = Tagger.from_pretrained(tmp_path)
    assert len(loaded.predict(sentences("fo", 3), strategy="tgt")) == 3


def test_em_settings_by_the_targets_own_dev_set_are_labelled_so(place):
    with pytest.warns(ZgulWarning, match="EM settings for gsw are chosen on de"):
        tagger = train(config(place, epochs=1, em_by="target", em_sentences=5))
    assert "not zero-shot" in tagger.about["em"]["by"]
    assert tagger.about["em"]["targets"]["fo"]["on"] == ["fo dev (its own)"]
    assert tagger.about["em"]["targets"]["gsw"]["on"] == ["de dev"]
    assert "fo dev" not in str(tagger.about["em"]["targets"][""]["on"]), "other languages stay zero-shot"


def test_em_settings_by_leaving_a_source_out(place, tmp_path):
    pytest.importorskip("tensorboard", reason="needs zgul[tensorboard]")
    stages = []
    run = config(place, epochs=1, em_by="loso", em_sentences=5, tensorboard=True)
    tagger = train(run, tmp_path, lambda status: stages.append(status.get("stage")))
    assert {"without is", "EM settings on is"} <= set(stages)
    assert tagger.parts.sources == ["en", "is", "de"]
    assert "trained without it" in tagger.about["em"]["by"]


def test_em_by_loso_judges_a_source_with_a_tagger_that_never_saw_it(place, monkeypatch):
    judged = []

    def table(tagger, dev, **_):
        judged.append((dev[0].language, tagger.parts.sources, set(tagger.about["sentences"])))
        return EMTable(dev[0].language, len(dev), 50.0, {(1, 0.1): 50.0})

    monkeypatch.setattr("zgul.training.run.em_table", table)
    train(config(place, epochs=1, em_by="loso", em_sentences=5))
    assert sorted(judged) == [("de", ["en", "is"], {"en", "is"}), ("is", ["en", "de"], {"en", "de"})]


def test_leave_one_source_out(place, tmp_path):
    result = leave_one_out(config(place, epochs=1, em_sentences=5), tmp_path)
    assert list(result) == ["is", "de"] and list(result["is"]) == ["em", "plain", "em-tied"]
    kept = Tagger.from_pretrained(tmp_path / "without-is")
    assert kept.parts.sources == ["en", "de"] and set(kept.about["sentences"]) == {"en", "de"}
    assert kept.about["em"]["targets"]["is"]["on"] == ["de dev"], "chosen without looking at the source left out"
    with pytest.raises(ZgulError, match="needs two sources"):
        leave_one_out(config(place, group="", sources=("en",)))


def test_leave_one_source_out_goes_on_with_the_source_it_was_stopped_in(place, tmp_path, monkeypatch):
    run = config(place, epochs=1, em_sentences=5)
    whole = leave_one_out(run, tmp_path / "whole")

    def stop_in_the_second(entry):
        if entry.get("stage") == "without de" and "dev_f1" in entry:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave_one_out(run, tmp_path / "parts", stop_in_the_second)
    with pytest.raises(ZgulError, match="without-is holds a finished model"):
        leave_one_out(replace(run, seed=4), tmp_path / "parts")
    with pytest.raises(ZgulError, match=r"leave_one_out.yaml belongs to a run with another configuration"):
        leave_one_out(replace(run, seed=4), tmp_path / "parts", resume=True)
    trained, stages = [], set()
    monkeypatch.setattr(
        "zgul.training.run.train",
        lambda config, *a, **k: trained.append((config.leave_out, k)) or train(config, *a, **k),
    )
    resumed = leave_one_out(run, tmp_path / "parts", lambda entry: stages.add(entry["stage"]), resume=True)
    assert resumed == whole
    assert [left_out for left_out, _ in trained] == [("de",)] and trained[0][1]["resume"]
    assert "without is" not in stages
    assert leave_one_out(run, tmp_path / "parts", resume=True) == whole, "all are loaded"
    (tmp_path / "parts" / "leave_one_out.yaml").unlink()
    with pytest.raises(ZgulError, match=r"without-is/train.yaml belongs to a run with another configuration"):
        leave_one_out(replace(run, seed=4), tmp_path / "parts", resume=True)
    trained.clear()
    leave_one_out(replace(run, seed=4), tmp_path / "parts", overwrite=True)
    assert len(trained) == 2


def test_going_on_and_replacing_exclude_each_other(place, tmp_path):
    with pytest.raises(ZgulError, match="give one of them"):
        train(config(place), tmp_path, resume=True, overwrite=True)


def test_tensorboard_has_the_course_of_training(place, tmp_path):
    pytest.importorskip("tensorboard", reason="needs zgul[tensorboard]")
    train(config(place, epochs=1, em_sentences=0, tensorboard=True), tmp_path)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    history = json.loads((tmp_path / "history.json").read_text())
    for name in ("dev_f1", "loss"):
        logged = {event.step: event.value for event in events.Scalars(name)}
        assert logged[history[-1]["step"]] == pytest.approx(history[-1][name])
    assert len(events.Scalars("dev_f1")) == len(history)
    assert len(events.Scalars("loss")) == history[-1]["step"], "on a CPU of every step"
    with pytest.raises(ZgulError, match="--output"):
        train(config(place, tensorboard=True))


def test_tensorboard_missing_is_said_before_training(place, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(ZgulError, match=r"pip install 'zgul\[tensorboard\]'"):
        train(config(place, tensorboard=True), tmp_path)


def test_every_option_of_a_method_reaches_it(place):
    options = MethodOptions(combine="max", reduction=4.0, l_scores="additive")
    tagger = train(config(place, epochs=1, em_sentences=0, options=options, unannotated=("PUNCT",)))
    assert tagger.parts.options == options and "PUNCT" not in tagger.labels
