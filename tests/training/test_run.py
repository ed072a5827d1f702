"""A whole training run: saved, interrupted and resumed bit for bit, refused where something is wrong."""

import json
import shutil
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tiny_group import sentences, write_group
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.adapters.storage import save_adapters
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import Batch
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.methods import MethodOptions
from zgul.options import read_yaml
from zgul.progress import Status
from zgul.tagger import Tagger, load_tagger
from zgul.tensors import load_tensors
from zgul.training.config import NoiseConfig, TrainingConfig
from zgul.training.em_tuning import EMTable
from zgul.training.labelled_data import labelled_data
from zgul.training.optimiser import Stepper
from zgul.training.run import Saving, dev_sentences, leave_one_out, new_tagger, resolve, train
from zgul.training.trainer import Trainer


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in which a made-up family stands for the Germanic group, and an encoder folder."""
    return write_group(tmp_path_factory.mktemp("run"))


RESUME, OVERWRITE = Saving(resume=True), Saving(overwrite=True)


def config(place: Path, **more: Any) -> TrainingConfig:
    values: dict[str, Any] = {
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


@pytest.mark.parametrize("call", range(1, 5))
def test_killed_between_two_files_the_history_is_whole(
    call: int, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by make chaos: the history of the last evaluation was written after the checkpoint that leaves it out."""
    chosen = config(place, em_sentences=0, limit=16)
    train(chosen, tmp_path / "whole")
    calls = 0

    def die(self: Trainer, **options: bool) -> None:
        nonlocal calls
        save(self, **options)
        calls += 1
        if calls == call:
            raise MemoryError

    save = Trainer._save
    monkeypatch.setattr(Trainer, "_save", die)
    with pytest.raises(MemoryError):
        train(chosen, tmp_path / "killed")
    monkeypatch.undo()
    train(chosen, tmp_path / "killed", saving=RESUME)
    whole, killed = ((tmp_path / name / "history.json").read_text() for name in ("whole", "killed"))
    assert killed == whole


def trained_tensors(tagger: Tagger) -> dict[str, torch.Tensor]:
    return {name: value for name, value in tagger.model.named_parameters() if name in tagger.trained_names}


def assert_same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> None:
    assert first.keys() == second.keys() and first
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


@pytest.mark.parametrize("adapters", ["new", "file"])
def test_two_fresh_taggers_of_one_seed_are_equal(place: Path, tmp_path: Path, adapters: str) -> None:
    if adapters == "file":
        adapters = str(tmp_path / "adapters.safetensors")
        save_adapters(Path(adapters), [LanguageAdapter.new(code, 16, 2) for code in ("en", "is", "de")])
    one, two, other = (
        dict(new_tagger(resolve(config(place, adapters=adapters, seed=seed)), ["A", "B"]).model.named_parameters())
        for seed in (1, 1, 2)
    )
    assert "bank.down" in one
    assert_same(one, two)
    assert torch.equal(one["bank.down"], other["bank.down"]) == (adapters != "new")
    assert not torch.equal(one["head.weight"], other["head.weight"])


def test_a_run_is_saved_with_its_configuration_and_em_settings(place: Path, tmp_path: Path) -> None:
    heard: list[Status] = []
    tagger = train(config(place), tmp_path / "out", report=heard.append)
    assert not (tmp_path / "out" / "checkpoint.safetensors").exists()
    saved = read_yaml(tmp_path / "out" / "train.yaml")
    assert TrainingConfig.from_dict(saved) == resolve(config(place))
    assert saved["sources"] == ["en", "is", "de"] and saved["task"] == "pos"
    loaded = load_tagger(tmp_path / "out")
    assert_same(trained_tensors(tagger), trained_tensors(loaded))
    assert loaded.em == tagger.em and set(loaded.em) == {"fo", "got", "gsw", ""}
    about: Any = loaded.about
    assert about["em"]["targets"]["fo"]["on"] == ["is dev"] and about["em"]["targets"]["fo"]["sentences"] == 10
    assert about["em"]["strategy"] == "em" and about["em"]["targets"]["fo"]["f1"] >= 0
    assert about["sentences"] == {"en": 60, "is": 60, "de": 60}
    assert "data" not in about["training"], "where the data lay does not matter to others"
    assert any("dev F1" in status.figures for status in heard)
    assert any(status.stage == "EM settings on is" and status.done == status.total for status in heard)
    history = json.loads((tmp_path / "out" / "history.json").read_text())
    assert about["dev_f1"] == max(entry["dev_f1"] for entry in history)
    test = sentences("fo", 5)
    assert [p.tags for p in loaded.predict(test)] == [p.tags for p in tagger.predict(test)]


def test_the_head_starts_with_how_often_each_label_is(place: Path) -> None:
    tagger = train(config(place, epochs=1, lr=0.0, em_sentences=0))
    shares = tagger.model.head.bias.detach().softmax(dim=0)
    assert float(shares.max()) > 0.2 and float(shares.min()) > 1e-3 and len(tagger.labels) == 9


@pytest.mark.parametrize("bits", [16, 9])
def test_a_run_may_be_saved_small(place: Path, tmp_path: Path, bits: int) -> None:
    run = config(place, epochs=1, em_sentences=0)
    tagger = train(run, tmp_path, saving=Saving(bits=bits, save_encoder=True))
    loaded = load_tagger(tmp_path)
    assert (tmp_path / "encoder").is_dir() and loaded.labels == tagger.labels
    assert json.loads((tmp_path / "config.json").read_text())["merged"] == (bits == 9)
    with pytest.raises(ZgulError, match="saved in 32, 16, 9 bits a number, not in 8"):
        train(run, tmp_path / "other", saving=Saving(bits=8))


@pytest.fixture(scope="module")
def uninterrupted(place: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainingConfig, Tagger, Path]:
    folder = tmp_path_factory.mktemp("whole")
    run = config(place, em_sentences=0, noise=NoiseConfig(sentences=0.5), eval_every=7)
    return run, train(run, folder), folder


@pytest.mark.parametrize("at", [1, 7, 12, 20])
def test_interrupted_and_resumed_equals_uninterrupted(
    uninterrupted: tuple[TrainingConfig, Tagger, Path], tmp_path: Path, at: int
) -> None:
    """Ctrl-C after any step: at the first, at an evaluation, in the second epoch."""
    run, whole, folder = uninterrupted
    steps = 0
    original = Stepper.step

    def step(self: Stepper, batch: Batch) -> torch.Tensor:
        nonlocal steps
        steps += 1
        if steps == at:
            signal.raise_signal(signal.SIGINT)
        return original(self, batch)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may ignore Ctrl-C (nohup)
    try:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Stepper, "step", step)
            train(run, tmp_path / "parts")
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps == at, "the step that Ctrl-C fell in is finished, and no other is begun"
    assert (tmp_path / "parts" / "checkpoint.safetensors").is_file()
    assert not (tmp_path / "parts" / "config.json").exists()
    torch.manual_seed(99)  # nothing may hang on the random state of this process
    resumed = train(run, tmp_path / "parts", saving=RESUME)
    assert_same(trained_tensors(whole), trained_tensors(resumed))
    folders = folder, tmp_path / "parts"
    assert len({(each / "history.json").read_text() for each in folders}) == 1
    assert_same(*(load_tensors(each / "model.safetensors") for each in folders))


def test_an_early_stop_is_not_trained_past_when_resumed(place: Path, tmp_path: Path) -> None:
    run = config(place, epochs=30, lr=0.0, patience=2, em_sentences=0)
    whole = train(run, tmp_path / "whole")
    assert whole.about["steps"] < 30 * 12

    def stop_late(status: Status) -> None:
        if status.stage.startswith("EM settings"):
            raise KeyboardInterrupt

    run = config(place, epochs=30, lr=0.0, patience=2, em_sentences=3)
    with pytest.raises(KeyboardInterrupt):  # while EM settings are chosen: training is over, nothing is lost
        train(run, tmp_path / "parts", report=stop_late)
    assert (tmp_path / "parts" / "checkpoint.safetensors").is_file()
    again: list[Status] = []
    resumed = train(run, tmp_path / "parts", report=again.append, saving=RESUME)
    assert resumed.about["steps"] == whole.about["steps"]
    assert not any("loss" in status.figures for status in again), "no step was taken again"


def test_a_checkpoint_of_another_configuration_is_refused(place: Path, tmp_path: Path) -> None:
    def stop(status: Status) -> None:
        if "dev F1" in status.figures:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        train(config(place), tmp_path, report=stop)
    with pytest.raises(ZgulError, match=r"unfinished run\. Continue it with --resume"):
        train(config(place), tmp_path)
    with pytest.raises(ZgulError, match="another configuration"):
        train(config(place, lr=0.5), tmp_path, saving=RESUME)
    saved = TrainingConfig.from_dict(read_yaml(tmp_path / "train.yaml"))
    assert saved == resolve(config(place)), "what is refused leaves the run as it can be resumed"
    checkpoint = tmp_path / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(ZgulError, match="not a complete safetensors file"):
        train(config(place), tmp_path, saving=RESUME)


def test_a_finished_model_is_not_overwritten(place: Path, tmp_path: Path) -> None:
    run = config(place, epochs=1, em_sentences=0, method="sft-m")
    train(run, tmp_path)
    with pytest.raises(ZgulError, match="holds a finished model"):
        train(run, tmp_path)
    with pytest.raises(ZgulError, match="trained to the end"):
        train(run, tmp_path, saving=RESUME)
    train(run, tmp_path, saving=OVERWRITE)
    with pytest.warns(ZgulWarning, match="no checkpoint"):
        train(run, tmp_path / "new", saving=RESUME)
    (tmp_path / "file").write_text("")
    with pytest.raises(ZgulError, match="is a file"):
        train(run, tmp_path / "file")
    with pytest.raises(ZgulError, match=r"train\.yaml cannot be written"):
        train(run, tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"group": "romance"}, r"There is no group 'romance'\. Choose one of: germanic"),
        ({"group": "", "sources": ()}, "Say what to train on"),
        ({"group": "", "sources": ("en", "qqqq")}, "qqqq"),
        ({"leave_out": ("sw",)}, "sw cannot be left out"),
        ({"leave_out": ("en",), "method": "sft-en"}, "nothing to train on without en"),
        ({"data": ""}, "--data DIR"),
        ({"data": "no/such"}, "zgul data fetch --group germanic"),
        ({"group": "slavic"}, "ru"),
        ({"device": "cuda:99"}, "no device"),
        ({"adapters": "no/such"}, "No language adapters at"),
        ({"extra_adapters": ("fo",), "adapters": "bank"}, "no language adapter for fo"),
        ({"adapters": "wide"}, "made for an encoder of 2 layers of width 32"),
        ({"encoder": "./no/such"}, "no such folder"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_it_starts(
    place: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    for name, width in (("bank", 16), ("wide", 32)):
        bank = [LanguageAdapter.new(language, width, 2) for language in ("en", "is", "de")]
        save_adapters(tmp_path / f"{name}.safetensors", bank)
    if change.get("adapters") in ("bank", "wide"):
        change = change | {"adapters": str(tmp_path / f"{change['adapters']}.safetensors")}
    with pytest.raises(ZgulError, match=message):
        train(config(place, **change), tmp_path / "out")
    assert not (tmp_path / "out" / "config.json").exists()


@pytest.mark.parametrize("change", [{"device": "cuda:99"}, {"adapters": "no/such"}, {"encoder": "./no/such"}])
def test_arguments_are_checked_before_the_data_is_read(place: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "pos" / "is").mkdir(parents=True)
    (tmp_path / "pos" / "is" / "train.tsv").write_text("not a labelled file\n", encoding="utf-8")
    with pytest.raises(ZgulError, match=r"no device|No language adapters|no such folder"):
        train(config(place, group="", sources=("is",), data=str(tmp_path), **change))


def test_without_dev_sets_the_last_weights_are_kept(place: Path, tmp_path: Path) -> None:
    for language in ("is", "en"):
        shutil.copytree(place / "data" / "pos" / language, tmp_path / "data" / "pos" / language)
        (tmp_path / "data" / "pos" / language / "dev.tsv").unlink()
    with pytest.warns(ZgulWarning, match="There is no dev set of is"):
        tagger = train(config(place, group="", sources=("is", "en"), data=str(tmp_path / "data"), epochs=2))
    assert tagger.about["dev_f1"] is None and tagger.em == {} and "em" not in tagger.about


def test_labels_that_training_lacks_count_as_mistakes_on_dev(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pos" / "en"
    folder.mkdir(parents=True)
    (folder / "train.tsv").write_text("a\tNOUN\n\n")
    (folder / "dev.tsv").write_text("a\tNOUN\n\nb\tVERB\n\n")
    with pytest.warns(ZgulWarning, match="dev data has labels that the training data lacks: VERB"):
        tagger = train(config(place, group="", sources=("en",), data=str(tmp_path), method="sft-m"))
    assert tagger.labels == ("NOUN",) and tagger.about["dev_f1"] == 50


def test_a_target_adapter_joins_the_bank(place: Path, tmp_path: Path) -> None:
    """MADX^multi-Tgt and ZGUL++: the target's adapter stands beside those of the sources."""
    run = config(place, epochs=1, em_sentences=0, extra_adapters=("fo",), method="madx-multi")
    tagger = train(run, tmp_path)
    assert tagger.bank_languages == ["en", "is", "de", "fo"]
    loaded = load_tagger(tmp_path)
    assert len(loaded.predict(sentences("fo", 3), strategy="tgt")) == 3


def test_em_settings_by_the_targets_own_dev_set_are_labelled_so(place: Path) -> None:
    with pytest.warns(ZgulWarning, match="EM settings for gsw are chosen on de"):
        tagger = train(config(place, epochs=1, em_by="target", em_sentences=5))
    assert "not zero-shot" in tagger.about["em"]["by"]
    assert tagger.about["em"]["targets"]["fo"]["on"] == ["fo dev (its own)"]
    assert tagger.about["em"]["targets"]["gsw"]["on"] == ["de dev"]
    assert "fo dev" not in str(tagger.about["em"]["targets"][""]["on"]), "other languages stay zero-shot"


def test_em_settings_by_leaving_a_source_out(place: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs zgul[tensorboard]")
    stages: list[str] = []
    run = config(place, epochs=1, em_by="loso", em_sentences=5, tensorboard=True)
    tagger = train(run, tmp_path, report=lambda status: stages.append(status.stage))
    assert {"without is: training", "EM settings on is"} <= set(stages)
    assert tagger.parts.sources == ("en", "is", "de")
    assert "trained without it" in tagger.about["em"]["by"]


def test_em_by_loso_judges_a_source_with_a_tagger_that_never_saw_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[tuple[str, list[str], set[str]]] = []

    def table(tagger: Tagger, dev: list[Any], **_: Any) -> EMTable:
        judged.append((dev[0].language, tagger.parts.sources, set(tagger.about["sentences"])))
        return EMTable(dev[0].language, len(dev), EMConfig(), {(0, 0.0): 50.0, (1, 0.1): 50.0})

    monkeypatch.setattr("zgul.training.run.em_table", table)
    train(config(place, epochs=1, em_by="loso", em_sentences=5))
    assert sorted(judged) == [("de", ("en", "is"), {"en", "is"}), ("is", ("en", "de"), {"en", "de"})]


def test_leave_one_source_out(place: Path, tmp_path: Path) -> None:
    result = leave_one_out(config(place, epochs=1, em_sentences=5), tmp_path)
    assert list(result) == ["is", "de"] and list(result["is"]) == ["em", "plain", "em-tied"]
    kept = load_tagger(tmp_path / "without-is")
    assert kept.parts.sources == ("en", "de") and set(kept.about["sentences"]) == {"en", "de"}
    assert kept.about["em"]["targets"]["is"]["on"] == ["de dev"], "chosen without looking at the source left out"
    with pytest.raises(ZgulError, match="needs two sources"):
        leave_one_out(config(place, group="", sources=("en",)))


def test_leave_one_source_out_goes_on_with_the_source_it_was_stopped_in(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = config(place, epochs=1, em_sentences=5)
    whole = leave_one_out(run, tmp_path / "whole")

    def stop_in_the_second(status: Status) -> None:
        if status.stage == "without de: training" and "dev F1" in status.figures:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave_one_out(run, tmp_path / "parts", report=stop_in_the_second)
    with pytest.raises(ZgulError, match="without-is holds a finished model"):
        leave_one_out(replace(run, seed=4), tmp_path / "parts")
    with pytest.raises(ZgulError, match=r"leave_one_out.yaml belongs to a run with another configuration"):
        leave_one_out(replace(run, seed=4), tmp_path / "parts", saving=RESUME)
    trained: list[tuple[tuple[str, ...], Saving]] = []
    stages: set[str] = set()

    def counted(config: TrainingConfig, *arguments: Any, **options: Any) -> Tagger:
        trained.append((config.leave_out, options["saving"]))
        return train(config, *arguments, **options)

    monkeypatch.setattr("zgul.training.run.train", counted)
    resumed = leave_one_out(run, tmp_path / "parts", report=lambda status: stages.add(status.stage), saving=RESUME)
    assert resumed == whole
    assert [left_out for left_out, _ in trained] == [("de",)] and trained[0][1].resume
    assert not any(stage.startswith("without is") for stage in stages)
    assert leave_one_out(run, tmp_path / "parts", saving=RESUME) == whole, "all are loaded"
    (tmp_path / "parts" / "leave_one_out.yaml").unlink()
    with pytest.raises(ZgulError, match=r"without-is/train.yaml belongs to a run with another configuration"):
        leave_one_out(replace(run, seed=4), tmp_path / "parts", saving=RESUME)
    trained.clear()
    leave_one_out(replace(run, seed=4), tmp_path / "parts", saving=OVERWRITE)
    assert len(trained) == 2


def test_leave_one_source_out_of_a_started_tagger_goes_on(place: Path, tmp_path: Path) -> None:
    """The finished taggers have the settings of the one that they started from, not those that were asked for."""
    own = config(place, group="", em_sentences=0, epochs=1, related_letters=True)
    train(replace(own, sources=("en",)), tmp_path / "first")
    further = replace(own, sources=("is", "de"), start=str(tmp_path / "first"), related_letters=False)
    whole = leave_one_out(further, tmp_path / "parts")
    assert leave_one_out(further, tmp_path / "parts", saving=RESUME) == whole


def test_going_on_and_replacing_exclude_each_other(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ZgulError, match="Give only one of them"):
        train(config(place), tmp_path, saving=Saving(resume=True, overwrite=True))


def test_tensorboard_has_the_course_of_training(place: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs zgul[tensorboard]")
    train(config(place, epochs=1, em_sentences=0, tensorboard=True), tmp_path)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    history = json.loads((tmp_path / "history.json").read_text())
    for name, key in (("dev F1", "dev_f1"), ("loss", "loss")):
        logged = {event.step: event.value for event in events.Scalars(name)}
        assert logged[history[-1]["step"]] == pytest.approx(history[-1][key])
    assert len(events.Scalars("dev F1")) == len(history)
    assert len(events.Scalars("loss")) == history[-1]["step"], "on a CPU of every step"
    with pytest.raises(ZgulError, match="--output"):
        train(config(place, tensorboard=True))


def test_tensorboard_missing_is_said_before_training(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ZgulError, match=r"pip install 'zgul\[tensorboard\]'"):
        train(config(place, tensorboard=True), tmp_path)


def test_every_option_of_a_method_reaches_it(place: Path) -> None:
    options = MethodOptions(combine="max", reduction=4.0, l_scores="additive")
    tagger = train(config(place, epochs=1, em_sentences=0, options=options, unannotated=("PUNCT",)))
    assert tagger.parts.options == options and "PUNCT" not in tagger.labels


def test_a_tagger_is_trained_further_on_another_source(place: Path, tmp_path: Path) -> None:
    first = train(config(place, sources=("en", "de"), em_sentences=0), tmp_path / "first")
    more = config(place, group="", sources=("is",), start=str(tmp_path / "first"), em_sentences=0, lr=1e-3, epochs=1)
    further = train(more, tmp_path / "further")
    assert further.labels == first.labels and further.bank_languages == ["en", "de"]  # the bank is kept
    assert further.about["training"]["sources"] == ["is"]
    before, after = (dict(tagger.model.named_parameters()) for tagger in (first, further))
    assert not torch.equal(before["head.weight"], after["head.weight"])
    assert bool(((before["head.weight"] - after["head.weight"]).abs() < 0.1).all())  # it started from the first one
    again = load_tagger(tmp_path / "further")
    dev = [sentence for sentence in dev_sentences(more, "is") if sentence.words][:5]
    assert [p.tags for p in again.predict(dev)] == [p.tags for p in further.predict(dev)]


def test_an_encoder_that_only_the_first_tagger_has_is_handed_on(place: Path, tmp_path: Path) -> None:
    own = config(place, em_sentences=0, epochs=1, related_letters=True)
    train(own, tmp_path / "first", saving=Saving(save_encoder=True))
    more = replace(own, start=str(tmp_path / "first"), encoder="embedded", related_letters=False)
    further = train(more, tmp_path / "further")
    shutil.rmtree(tmp_path / "first")
    dev = dev_sentences(own, "is")[:5]
    loaded = load_tagger(tmp_path / "further")
    assert [p.tags for p in loaded.predict(dev)] == [p.tags for p in further.predict(dev)]
    assert further.about["training"]["related_letters"] and further.about["training"]["encoder"] != "embedded"


def test_what_is_trained_further_must_be_a_tagger_of_the_task(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ZgulError, match="neither a tagger's folder"):
        train(config(place, start="nowhere"))
    train(config(place, em_sentences=0, epochs=1), tmp_path / "pos")
    with pytest.raises(ZgulError, match="is a tagger for pos, not for ner"):
        train(config(place, group="", task="ner", sources=("is",), start=str(tmp_path / "pos")))


def test_what_a_tagger_has_learnt_already_cannot_be_left_out(place: Path, tmp_path: Path) -> None:
    """Else a source would count as unseen although the weights come from a tagger that has read it."""
    train(config(place, em_sentences=0, epochs=1), tmp_path / "first")
    further = config(place, start=str(tmp_path / "first"), epochs=1, em_sentences=5)
    for work in (
        partial(train, replace(further, em_by="loso")),
        partial(train, replace(further, leave_out=("is",))),
        partial(leave_one_out, further),
    ):
        with pytest.raises(ZgulError, match=r"has learnt from is.* already, so nothing can be left out any more"):
            work()


def test_labels_that_the_tagger_does_not_know_are_left_out() -> None:
    made = [Sentence(["a", "b"], tags=["NOUN", "NEW"], language="en")]
    with pytest.warns(ZgulWarning, match="does not know these labels: NEW"):
        data = labelled_data(made, [], TrainingConfig(), labels=["VERB", "NOUN"])
    assert data.labels == ["VERB", "NOUN"]
