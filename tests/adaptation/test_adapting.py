"""Adapting from raw text and from labels: what comes out, what is undone, and how a stopped run goes on."""

import multiprocessing
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import zgul
from standin import words
from zgul.adaptation import adapting, judging, rounds
from zgul.adaptation.adapting import Adaptation, AdaptConfig, Step, parse_budget
from zgul.adaptation.rounds import Lesson, Plan, Round
from zgul.adaptation.student import Student, one_hot
from zgul.corpora import Sentence, columns
from zgul.encoders.batches import EncodedCorpus
from zgul.errors import ZgulError, ZgulWarning
from zgul.progress import Status
from zgul.tagging.delta import NOTE, TENSORS, load_delta
from zgul.tagging.loading import load_named, load_shipped


def sentences(count: int, seed: int = 5) -> list[Sentence]:
    return [Sentence(one.words, one.tags, "fo") for one in words().sentences("s0", count, seed)]


def test_labels_make_a_better_tagger(labelled: Path, tmp_path: Path) -> None:
    config = AdaptConfig(few_epochs=30, few_lr=1e-2, rank=4)
    result = zgul.adapt("fo", labelled=labelled, dev=sentences(40), output=tmp_path / "out", config=config)
    assert result.worth_it and [step.name for step in result.steps] == ["labelled sentences"]
    assert result.dev_before is not None and result.dev_after is not None
    assert result.dev_after > result.dev_before + 5
    assert 0 < result.changed <= 100 and result.examples and "Use it" in result.verdict
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [NOTE, TENSORS]
    tagger = zgul.load("fo", model=tmp_path / "out")
    assert tagger.tag("sapuri ha sasike").sentences[0].upos


def test_text_gives_the_language_an_adapter_of_its_own(text: Path, tmp_path: Path, quick: AdaptConfig) -> None:
    result = zgul.adapt("Faroese", text=text, output=tmp_path / "out", config=quick)
    assert result.text["kept"] == 80 and result.text["held_out"] == 4
    (step,) = result.steps
    assert {"masked accuracy before", "masked accuracy after", "steady after", "changed"} <= set(step.figures)
    if step.kept:
        assert load_named(str(tmp_path / "out")).bank_languages == ["en", "is", "de", "fo"]
        assert load_delta(tmp_path / "out").like == "is"


def test_labelled_sentences_of_the_sources_are_learnt_beside_the_text(
    text: Path, tmp_path: Path, quick: AdaptConfig
) -> None:
    totals: dict[str, int] = {}

    def keep(status: Status) -> None:
        totals[status.stage] = status.total

    zgul.adapt("fo", text=text, output=tmp_path / "alone", config=quick, report=keep)
    alone = totals["round 1"]
    for code in ("en", "is", "de"):
        columns.write(tmp_path / "data" / "pos" / code / "train.tsv", words().sentences("s1", 40))
    zgul.adapt("fo", text=text, data=tmp_path / "data", output=tmp_path / "out", config=quick, report=keep)
    assert alone < totals["round 1"] <= 2 * alone
    with pytest.raises(ZgulError, match="no such folder"):
        zgul.adapt("fo", text=text, data=tmp_path / "nothing", output=tmp_path / "other", config=quick)
    assert not (tmp_path / "other").exists()


def test_what_does_not_help_is_undone_and_the_result_tags_like_the_shipped_tagger(
    labelled: Path, tmp_path: Path
) -> None:
    config = AdaptConfig(few_epochs=1, few_lr=1e-12)
    result = zgul.adapt("fo", labelled=labelled, output=tmp_path / "out", config=config)
    assert not result.worth_it and "No step helped" in result.verdict and result.changed == 0
    assert not (tmp_path / "out" / TENSORS).exists()
    some = sentences(8)
    pairs = zip(
        load_named(str(tmp_path / "out")).predict(some), load_shipped("germanic-pos").predict(some), strict=True
    )
    assert all(one.tags == other.tags and (one.probabilities == other.probabilities).all() for one, other in pairs)


def adapted(**given: object) -> Adaptation:
    return Adaptation("fo", "pos", **{"base": "germanic-pos", "shipped": "germanic-pos", "output": "out"} | given)


def test_the_result_must_beat_the_adapted_tagger_that_ships() -> None:
    """Text starts from the tagger without it, but what a user has is the adapted one."""
    text = Step("raw text", True, {}, "")
    assert "fo-pos" not in adapted(steps=[text]).verdict
    assert "fo-pos ships" in adapted(shipped="fo-pos", steps=[text]).verdict
    assert "Use the shipped tagger fo-pos" in adapted(shipped="fo-pos").verdict
    names = Adaptation("ha", "ner", "african-ner", "african-ner", "out", steps=[text])
    assert "For names" in names.verdict and "For names" not in adapted(steps=[text]).verdict
    assert "For names" not in replace(names, dev_before=70.0, dev_after=71.0).verdict, "labels tell"
    scored = {"shipped": "fo-pos", "steps": [text], "dev_before": 80.0}
    assert "Use fo-pos" in adapted(**scored, dev_after=79.0).verdict
    assert "Use it" in adapted(**scored, dev_after=81.0).verdict
    labels = {"F1 before": 80.0, "F1 without labels": 79.0, "F1 after": 78.0}
    undone = adapted(shipped="fo-pos", steps=[text, Step("labelled sentences", False, labels, "")], labelled=9)
    assert undone.worth_it and "By your labelled sentences the result is worse than fo-pos" in undone.verdict


def test_the_score_before_is_that_of_the_adapted_tagger_that_ships(
    text: Path, labelled: Path, tmp_path: Path, quick: AdaptConfig, taggers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ships = tmp_path / "taggers"
    shutil.copytree(taggers, ships)
    monkeypatch.setenv("ZGUL_TAGGERS", str(ships))
    learnt = AdaptConfig(few_epochs=30, few_lr=1e-2, rank=4)
    zgul.adapt("fo", labelled=labelled, output=ships / "fo-pos", config=learnt)
    dev = sentences(40)
    result = zgul.adapt("fo", text=text, dev=dev, output=tmp_path / "out", config=quick)
    assert (result.base, result.shipped) == ("germanic-pos", "fo-pos")
    assert result.dev_before == judging.score(load_named("fo-pos"), dev)
    assert not result.worth_it or "Use fo-pos" in result.verdict


def test_sentences_that_are_learnt_are_not_judged(labelled: Path, tmp_path: Path, quick: AdaptConfig) -> None:
    twice = 2 * sentences(4)
    with pytest.raises(ZgulError, match="6 different labelled sentences"):
        zgul.adapt("fo", labelled=twice, output=tmp_path / "out")
    with pytest.warns(ZgulWarning, match="8 sentences are in --labelled and in --dev"):
        result = zgul.adapt("fo", labelled=2 * sentences(8), dev=sentences(8), output=tmp_path / "out", config=quick)
    assert result.labelled == 8


def test_the_bfloat16_of_frozen_matrices_changes_nothing() -> None:
    base, some = load_shipped("germanic-pos"), sentences(8)
    plain, teacher = (Student(base, "fo", rank=rank, adapter=False) for rank in (1, 0))
    plain.precision = "bfloat16"  # autocast rounds in each step
    teacher.use("bfloat16")
    assert torch.equal(plain.probabilities(some), teacher.probabilities(some))


def test_a_small_held_out_text_is_shaken_several_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 53 words, a single one made the difference of 1.9 points that undid all that was learnt."""
    counted: list[int] = []

    def count(student: Student, some: list[Sentence], words: object = None) -> torch.Tensor:
        counted.append(sum(map(len, some)))
        return torch.ones(counted[-1], 2)

    monkeypatch.setattr(Student, "probabilities", count)
    teacher = Student(load_shipped("germanic-pos"), "fo", rank=0, adapter=False)
    some = sentences(5)
    assert judging.check_held_out(teacher, teacher, some, 0).kept
    words = sum(map(len, some))
    assert words in counted and judging.ENOUGH <= max(counted) < judging.ENOUGH + words


def test_the_shipped_tagger_stays_as_it_is(labelled: Path, tmp_path: Path, quick: AdaptConfig) -> None:
    base = load_shipped("germanic-pos")
    before = {name: value.clone() for name, value in base.model.named_parameters()}
    zgul.adapt("fo", labelled=labelled, output=tmp_path / "out", config=quick)
    assert all(torch.equal(value, before[name]) for name, value in base.model.named_parameters())


@pytest.mark.parametrize("kills", [(3,), (9, 2), (1, 20)])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(
    text: Path,
    labelled: Path,
    tmp_path: Path,
    quick: AdaptConfig,
    kills: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "CHECKPOINT_EVERY", 0.0)
    given = {"text": text, "labelled": labelled, "config": quick}
    zgul.adapt("fo", output=tmp_path / "whole", **given)

    def stop_after(steps: int):  # type: ignore[no-untyped-def]
        left = [steps]

        def report(status: Status) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise SystemError("killed")  # no handler of ours expects it

        return report

    for steps in kills:
        with pytest.raises(SystemError, match="killed"):
            zgul.adapt("fo", output=tmp_path / "cut", report=stop_after(steps), resume=True, **given)
    result = zgul.adapt("fo", output=tmp_path / "cut", resume=True, **given)
    assert not (tmp_path / "cut" / adapting.WORK).exists()
    whole, cut = load_delta(tmp_path / "whole"), load_delta(tmp_path / "cut")
    assert whole.tensors.keys() == cut.tensors.keys()
    assert all(torch.equal(value, cut.tensors[name]) for name, value in whole.tensors.items())
    assert whole.about["steps"] == cut.about["steps"] and result.labelled == 20


def test_a_run_only_goes_on_with_the_same_text_and_options(
    text: Path, labelled: Path, tmp_path: Path, quick: AdaptConfig
) -> None:
    def stop(status: Status) -> None:
        if status.stage == "round 1":
            raise SystemError("killed")

    out = tmp_path / "out"
    with pytest.raises(SystemError):
        zgul.adapt("fo", text=text, output=out, config=quick, report=stop)
    with pytest.raises(ZgulError, match="unfinished run"):
        zgul.adapt("fo", text=text, output=out, config=quick)
    with pytest.raises(ZgulError, match="other options, text"):
        zgul.adapt("fo", text=text, output=out, config=replace(quick, seed=1), resume=True)
    zgul.adapt("fo", labelled=labelled, output=out, config=quick, overwrite=True)
    with pytest.raises(ZgulError, match="finished result"):
        zgul.adapt("fo", labelled=labelled, output=out, config=quick)


def test_the_verdict_says_that_little_fitted_into_the_budget(text: Path, tmp_path: Path, quick: AdaptConfig) -> None:
    """Also of a run that goes on after the round."""
    raw = Step("raw text", True, {}, "")
    for given in ({"steps": [raw]}, {}, {"steps": [raw], "dev_before": 80.0, "dev_after": 79.0}):
        few, enough = adapted(fitted=0.123, **given).verdict, adapted(fitted=0.5, **given).verdict
        assert few == f"{enough} Only 12% of the planned steps fitted into the budget; a larger --budget may help more."

    def stop(status: Status) -> None:
        if status.stage == "fold 1":
            raise SystemError("killed")

    given = {"output": tmp_path / "out", "text": text, "labelled": sentences(8), "config": replace(quick, epochs=50)}
    with pytest.raises(SystemError), pytest.warns(ZgulWarning, match="looks like"):
        zgul.adapt("fo", **given, budget=0.01, report=stop)
    result = zgul.adapt("fo", **given, resume=True)
    assert result.fitted == rounds.TRIED / 250 and "Only 2.4% of the planned steps" in result.verdict
    assert zgul.adapt("fo", text=text, output=tmp_path / "out2", config=quick, budget="5m").fitted == 1


def _adapt_until_killed(text: Path, output: Path, config: AdaptConfig) -> None:
    def report(status: Status) -> None:
        if status.stage == "round 1":
            os.kill(os.getpid(), signal.SIGKILL)

    zgul.adapt("fo", text=text, output=output, config=config, report=report)


def test_two_runs_in_one_folder_are_refused(text: Path, tmp_path: Path, quick: AdaptConfig) -> None:
    """Both would write into the same folder for work in progress."""
    out, refused = tmp_path / "new" / "out", list[str]()

    def start_another(status: Status) -> None:
        if not refused or (status.stage == "round 1" and len(refused) < 4):  # while text is read, and later
            for how in ({}, {"resume": True}, {"overwrite": True}):
                with pytest.raises(ZgulError, match=r"Another run is adapting in .*out\. .* another --output") as error:
                    zgul.adapt("fo", text=text, output=out, config=quick, **how)
                refused.append(str(error.value))

    zgul.adapt("fo", text=text, output=out, config=quick, report=start_another)
    assert len(refused) == 6 and {path.name for path in out.iterdir()} <= {NOTE, TENSORS}


def test_a_killed_run_leaves_no_lock(text: Path, tmp_path: Path, quick: AdaptConfig) -> None:
    out = tmp_path / "out"
    process = multiprocessing.get_context("spawn").Process(target=_adapt_until_killed, args=(text, out, quick))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL and (out / adapting.LOCK).is_file()
    with pytest.raises(ZgulError, match="unfinished run"):
        zgul.adapt("fo", text=text, output=out, config=quick)
    zgul.adapt("fo", text=text, output=out, config=quick, resume=True)
    assert not (out / adapting.LOCK).exists()
    early = tmp_path / "early"  # killed while it read text
    early.mkdir()
    (early / adapting.LOCK).touch()
    assert zgul.adapt("fo", text=text, output=early, config=quick).text["kept"] == 80


def test_a_budget_makes_fewer_steps(text: Path, tmp_path: Path, quick: AdaptConfig) -> None:
    totals: dict[str, int] = {}

    def keep(status: Status) -> None:
        totals[status.stage] = status.total

    config = replace(quick, epochs=20_000)  # five batches each
    zgul.adapt("fo", text=text, output=tmp_path / "out", config=config, budget=2.0, report=keep)
    assert rounds.TRIED <= totals["round 1"] < 20_000
    with pytest.warns(ZgulWarning, match=r"Only \d+ of the \d+ batches fit into the time"):
        zgul.adapt("fo", text=text, output=tmp_path / "out2", config=replace(quick, batch=1), budget=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_a_budget_is_kept_whatever_the_lengths_of_the_first_batches(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]  # a clock that only the steps move, each by its pieces with padding

    def step(self: Round, corpus: EncodedCorpus, rows: torch.Tensor) -> float:
        now[0] += len(rows) * corpus.padded_length(int(corpus.lengths[rows].max()) + 2, rounds.LENGTH_STEP)
        return 0.0

    monkeypatch.setattr(Round, "_step", step)
    monkeypatch.setattr(rounds, "time", SimpleNamespace(monotonic=lambda: now[0]))
    base, some = load_shipped("germanic-pos"), sentences(200)
    mixed = some[:100] + [Sentence(8 * one.words, 8 * (one.tags or []), "fo") for one in some[100:]]
    lesson = Lesson("round 1", mixed, one_hot(mixed, base.labels), epochs=40, lr=1e-3, batch=4, seed=seed)
    budget = 120_000.0
    part = Round(Student(base, "fo", rank=0, adapter=False), lesson, Plan(), seconds=budget)
    planned = part.total
    part.run()
    assert part.total < planned / 2 and now[0] == pytest.approx(budget, rel=0.05)


def test_a_gpu_reads_the_text_more_often_unless_the_user_says_otherwise() -> None:
    cpu, gpu = (AdaptConfig(lr=2e-4).on(torch.device(device)) for device in ("cpu", "cuda"))
    assert (cpu.epochs, cpu.batch, cpu.lr) == (3, 16, 2e-4)
    assert (gpu.epochs, gpu.batch, gpu.lr) == (8, 64, 2e-4)


def test_budgets_are_times() -> None:
    assert [parse_budget(text) for text in ("30m", "1h", "90s", "2", 5.0)] == [1800, 3600, 90, 120, 5]
    for wrong in ("soon", "0m", "-3", ""):
        with pytest.raises(ZgulError, match="budget"):
            parse_budget(wrong)


def test_mistakes_of_users_are_explained(text: Path, labelled: Path, tmp_path: Path, quick: AdaptConfig) -> None:
    out = tmp_path / "out"
    with pytest.raises(ZgulError, match="raw text"):
        zgul.adapt("fo", output=out)
    with pytest.raises(ZgulError, match="no such file"):
        zgul.adapt("fo", text=tmp_path / "missing.txt", output=out)
    short = tmp_path / "few.txt"
    short.write_text("ha wa ja\n", "utf-8")
    with pytest.raises(ZgulError, match="at least 60"):
        zgul.adapt("fo", text=short, output=tmp_path / "other")
    with pytest.raises(ZgulError, match=r"few\.txt is a file"):
        zgul.adapt("fo", labelled=labelled, output=short)
    with pytest.raises(ZgulError, match="cannot be written"):
        zgul.adapt("fo", labelled=labelled, output=short / "out")
    with pytest.raises(ZgulError, match="no such file"):
        zgul.adapt("fo", text="missing.txt", output=tmp_path / "new" / "out")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ZgulError, match="holds other files"):
        zgul.adapt("fo", labelled=labelled, output=tmp_path)
    with pytest.raises(ZgulError, match="no tag that the tagger knows"):
        zgul.adapt("fo", labelled=[Sentence([word], ["B-PER"]) for word in "abcdef"], output=tmp_path / "third")
    for few in ([], sentences(3)):
        with pytest.raises(ZgulError, match=f"At least 6 .* Here are {len(few)}"):  # before the text is learnt
            zgul.adapt("fo", text=text, labelled=few, output=tmp_path / "fourth")
    assert not (tmp_path / "fourth").exists()  # else the next try would be told of an unfinished run
    zgul.adapt("fo", labelled=labelled, output=tmp_path / "done", config=quick)
    for wrong in ({"text": tmp_path / "missing.txt"}, {"text": short}, {"labelled": sentences(3)}):
        with pytest.raises(ZgulError, match=r"no such file|t least"):
            zgul.adapt("fo", **wrong, output=tmp_path / "done", overwrite=True)
    with pytest.raises(ZgulError, match="adapted already"):
        zgul.adapt("fo", labelled=labelled, output=tmp_path / "again", model=tmp_path / "done")
