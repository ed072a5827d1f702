"""``zgul evaluate`` as a user calls it."""

import json
import shutil
import warnings
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from command_line import zgul
from tiny_group import sentences, write_group
from zgul.corpora import columns
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError, ZgulWarning
from zgul.evaluation import scores
from zgul.fast.adaptive import AdaptiveEM
from zgul.tagger import load_tagger
from zgul.training.config import TrainingConfig
from zgul.training.run import train

KEYS = {"f1", "accuracy", "precision", "recall", "per_class", "sentences", "words", "seconds"}
KEYS |= {"confusions", "worst_words", "em", "skip_below", "strategy", "method"}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A trained ZGUL and SFT-M beside their data."""
    folder = write_group(tmp_path_factory.mktemp("evaluate"))
    for method in ("zgul", "sft-m", "madx-multi"):
        values = {"method": method, "group": "germanic", "epochs": 2, "lr": 1e-2, "em_sentences": 5, "device": "cpu"}
        paths = {"data": str(folder / "data"), "encoder": str(folder / "encoder"), "adapters": "new"}
        train(TrainingConfig(**values, **paths, batch_size=8, accumulate=2), folder / method)
    return folder


def evaluate(*arguments: object) -> str:
    return zgul("evaluate", *arguments)


def test_json_is_all_there_is_on_stdout(place):
    result = json.loads(evaluate("--model", place / "zgul", "--lang", "Faroese", "--data", place / "data", "--json"))
    assert set(result) >= KEYS
    assert (result["lang"], result["task"], result["model"]) == ("fo", "pos", str(place / "zgul"))
    test = list(columns.read(place / "data" / "pos" / "fo" / "test.tsv", "pos", "fo"))
    tagger = load_tagger(place / "zgul")
    expected = scores([s.tags for s in test], [p.tags for p in tagger.predict(test)])
    assert {name: result[name] for name in asdict(expected)} == asdict(expected)
    assert result["computed_in"] == "float32"
    assert (result["sentences"], result["words"]) == (20, expected.words) and result["seconds"] > 0
    assert result["em"]["steps"] == tagger.em["fo"].steps and result["em"]["lr"] == tagger.em["fo"].lr


def test_em_can_be_left_out_or_set(place):
    common = ["--model", place / "zgul", "--lang", "fo", "--data", place / "data", "--json"]
    without = json.loads(evaluate(*common, "--no-em"))
    plain = json.loads(evaluate(*common, "--strategy", "plain"))
    assert without["em"]["steps"] == 0 and plain["em"] is None and without["f1"] == plain["f1"]
    forced = json.loads(evaluate(*common, "--em-steps", "3", "--em-lr", "7.5", "--strategy", "em-tied"))
    assert forced["em"] == asdict(EMConfig(3, 7.5, tied=True)) and forced["skip_below"] == 0
    release = ["--em-start", "probabilities", "--em-positions", "all"]
    assert json.loads(evaluate(*common, "--em-steps", "3", *release))["em"] == asdict(
        replace(load_tagger(place / "zgul").em["fo"], steps=3, start="probabilities", positions="all")
    )
    adaptive = json.loads(evaluate(*common, "--em-steps", "30", "--em-lr", "2.0", "--adaptive"))
    assert adaptive["em"] == asdict(AdaptiveEM().cheaper(EMConfig(30, 2.0)))
    assert adaptive["skip_below"] == AdaptiveEM().skip_below


def test_every_form_of_file_gives_the_same(place, tmp_path):
    test = sentences("fo", 6)
    columns.write(tmp_path / "a.tsv", test)
    (tmp_path / "a.txt").write_text((tmp_path / "a.tsv").read_text().replace("\t", " "))
    columns.write(tmp_path / "a.tsv.xz", test)
    lines = []
    for sentence in test:
        for number, (word, tag) in enumerate(zip(sentence.words, sentence.tags, strict=True), start=1):
            lines.append(f"{number}\t{word}\t_\t{tag}" + "\t_" * 6)
        lines.append("")
    (tmp_path / "a.conllu").write_text("\n".join(lines) + "\n")
    common = ["--model", place / "sft-m", "--lang", "fo", "--json", "--data"]
    found = [json.loads(evaluate(*common, tmp_path / name)) for name in ("a.tsv", "a.txt", "a.tsv.xz", "a.conllu")]
    assert len({result["f1"] for result in found}) == 1 and {result["words"] for result in found} == {
        sum(map(len, test))
    }


def test_the_table_is_for_people(place):
    common = ["--model", place / "madx-multi", "--lang", "fo", "--data", place / "data"]
    shown = evaluate(*common, "--strategy", "emea", "--em-steps", "2")
    lines = shown.splitlines()
    assert "MADX^multi (emea), POS, Faroese" in lines[0]
    result = json.loads(evaluate(*common, "--strategy", "emea", "--em-steps", "2", "--json"))
    assert f"accuracy {result['accuracy']:.1f}   F1 {result['f1']:.1f}" in shown.split("class")[0], "they lead"
    assert "EM ran: 2 steps, rate" in shown and "words a second" in shown.replace("\n", " ")
    assert "all (micro)" in shown and "neighbouring words of one class count" in shown
    assert "CONJ is CCONJ and SCONJ" in shown
    worst, mistake = result["worst_words"][0], result["confusions"][0]
    cells = [line.split() for line in lines]
    assert [mistake["gold"], mistake["predicted"], str(mistake["words"])] in cells
    mostly = [worst["gold"], "as", worst["predicted"]]
    assert [worst["word"], *mostly, str(worst["wrong"]), str(worst["total"])] in cells


def test_it_is_said_why_em_did_not_run(place, tmp_path):
    def reason(*arguments):
        shown = " ".join(evaluate("--lang", "fo", "--data", place / "data", *arguments).split())
        return shown.split("EM did not run: ")[1].split(".")[0]

    assert reason("--model", place / "sft-m") == "the strategy 'plain' has none"
    assert reason("--model", place / "zgul", "--no-em") == "you switched it off"
    assert reason("--model", place / "zgul", "--em-steps", "0") == "you switched it off"
    config = json.loads((place / "zgul" / "config.json").read_text())
    config["em"]["fo"]["steps"] = 0
    shutil.copytree(place / "zgul", tmp_path / "untuned")
    (tmp_path / "untuned" / "config.json").write_text(json.dumps(config))
    assert reason("--model", tmp_path / "untuned") == "the tagger was tuned to no steps for Faroese"


def test_a_shipped_tagger_is_scored_as_users_get_it(place, monkeypatch):
    monkeypatch.setenv("ZGUL_TAGGERS", str(place))
    own = EMConfig(**json.loads((place / "zgul" / "config.json").read_text())["em"]["fo"])
    common = ["--model", "zgul", "--lang", "fo", "--data", place / "data", "--json"]
    assert json.loads(evaluate(*common))["em"] == asdict(AdaptiveEM().cheaper(own))
    assert json.loads(evaluate(*common))["skip_below"] == AdaptiveEM().skip_below
    full = json.loads(evaluate(*common, "--em-steps", "4"))
    assert full["em"] == asdict(replace(own, steps=4)) and full["skip_below"] == 0
    shown = evaluate("--model", "zgul", "--lang", "fo", "--data", place / "data", "--adaptive", "--em-steps", "9")
    assert "for sentences of at least 0.3 nats a word" in " ".join(shown.split())


def test_a_shipped_tagger_can_be_named(place, monkeypatch):
    monkeypatch.setenv("ZGUL_TAGGERS", str(place))
    result = json.loads(evaluate("--model", "sft-m", "--lang", "fo", "--data", place / "data", "--json"))
    assert (result["model"], result["method"]) == ("sft-m", "sft-m")


def test_tags_that_the_tagger_never_gives_are_named(place, tmp_path):
    (tmp_path / "test.tsv").write_text("pa\tNOUN\nna\tX\nmi\tX\n\n")
    with pytest.warns(ZgulWarning, match=r"They count as mistakes: X \(2 words\)"):
        evaluate("--model", place / "sft-m", "--lang", "fo", "--data", tmp_path / "test.tsv")


def test_untagged_sentences_are_left_out(place, tmp_path):
    tagged, bare = (f"1\tpa\t_\t{tag}" + "\t_" * 6 + "\n\n" for tag in ("NOUN", "_"))
    (tmp_path / "some.conllu").write_text(tagged + bare)
    common = ["--model", place / "sft-m", "--lang", "fo", "--json", "--data"]
    with pytest.warns(ZgulWarning, match="1 sentences without POS tags are left out"):
        assert json.loads(evaluate(*common, tmp_path / "some.conllu"))["sentences"] == 1
    (tmp_path / "none.conllu").write_text(bare)
    with pytest.raises(ZgulError, match="has no POS tags"):
        evaluate(*common, tmp_path / "none.conllu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "absent", "--data", "."], "absent is neither a tagger's folder"),
        (["--model", "{place}/zgul", "--data", "absent.tsv"], "absent.tsv: no such file"),
        (["--model", "{place}/zgul", "--data", "{place}/data", "--task", "ner"], "is a tagger for pos, not for ner"),
        (["--model", "{place}/zgul", "--data", "{place}/data", "--task", "parse"], "no task 'parse'"),
        (["--model", "{place}/zgul", "--data", "{place}/data", "--split", "dav"], "has the splits: dev test"),
        (["--data", "{place}/data", "--task", "both"], "--task pos or --task ner"),
        (["--model", "{place}/zgul", "--data", "{place}/data", "--decode", "crf"], "decode is one of words, sequence"),
        (["--data", "{place}/data", "--strategy", "guess"], "No method has a strategy 'guess'"),
        (["--model", "{place}/zgul", "--data", "{place}/data", "--precision", "half"], "precision is one of auto"),
        (["--model", "{place}/zgul", "--data", "{place}/data", "--em-start", "zero"], "start is one of scores"),
        (["--model", "{place}/zgul", "--data", "{place}/data", "--device", "gpu0"], "no device 'gpu0' here"),
    ],
)
def test_mistakes_are_named(place, arguments, message):
    with pytest.raises(ZgulError, match=message):
        evaluate("--lang", "fo", *(argument.format(place=place) for argument in arguments))


def test_an_empty_file_is_refused(place, tmp_path):
    (tmp_path / "empty.tsv").write_text("")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ZgulError, match="contains no sentences"):
            evaluate("--model", place / "zgul", "--lang", "fo", "--data", tmp_path / "empty.tsv")


def test_without_a_model_the_tagger_that_ships_is_taken(place, tmp_path, monkeypatch):
    shutil.copytree(place / "sft-m", tmp_path / "germanic-pos")
    shutil.copytree(place / "sft-m", tmp_path / "all-pos")
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path))
    common = ["--task", "pos", "--data", place / "data" / "pos" / "fo" / "test.tsv", "--json"]
    result = json.loads(evaluate("--lang", "Faroese", *common))
    own = json.loads(evaluate("--model", place / "sft-m", "--lang", "fo", *common))
    assert result["model"] == "germanic-pos" and result["f1"] == own["f1"]
    with pytest.warns(ZgulWarning, match="Basque"):
        assert json.loads(evaluate("--lang", "Basque", *common))["model"] == "all-pos"
