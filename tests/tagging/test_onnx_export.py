"""An exported tagger gives the same tags in onnxruntime as the tagger itself without EM."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from small_tagger import MADE, small_tagger
from zgul.cli import app
from zgul.corpora.data_folder import DataFolder
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import PieceEncoder
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import read_json
from zgul.methods.base import MethodOptions
from zgul.tagger import Tagger
from zgul.tagging import onnx_export
from zgul.tagging.loading import load_shipped
from zgul.tagging.onnx_export import export_onnx
from zgul.tagging.serving import serving

pytest.importorskip("onnxscript", reason="needs zgul[onnx]")
OnnxTagger = pytest.importorskip("zgul.tagging.onnx_example", reason="needs zgul[onnx]").OnnxTagger

SENTENCES = MADE.sentences("target", 12)


def onnx_tags(folder: Path, sentences: list[Sentence]) -> list[list[str]]:
    tagger = OnnxTagger(folder)
    return [tagger.tag(sentence.words) for sentence in sentences]


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    torch.manual_seed(0)  # some of its weights are drawn from the global generator
    return small_tagger(options=MethodOptions(encoder_rank=2))


@pytest.fixture(scope="module")
def made(tagger: Tagger, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of ZGUL; exporting takes seconds, so that tests share it."""
    folder = tmp_path_factory.mktemp("onnx") / "made"
    with pytest.warns(ZgulWarning, match="tuned with 10 steps"):
        export_onnx(tagger, folder, language="target")
    return folder


def test_zgul_with_low_rank_updates_of_the_encoder(tagger: Tagger, made: Path) -> None:
    assert read_json(made / "config.json")["tagger"]["strategy"] == "plain"
    expected = [prediction.tags for prediction in tagger.predict(SENTENCES, strategy="plain")]
    assert onnx_tags(made, SENTENCES) == expected
    assert len({tag for tags in expected for tag in tags}) > 2, "a tagger that always says the same shows nothing"


@pytest.mark.parametrize(
    ("method", "strategy", "options"),
    [
        ("zgul", "plain", MethodOptions(combine="max", l_scores="additive", invertible="mixed")),
        ("madx-multi", "uniform", MethodOptions(invertible="first")),
        ("sft-m", "plain", MethodOptions()),
    ],
)
def test_same_tags_as_the_tagger(method: str, strategy: str, options: MethodOptions, tmp_path: Path) -> None:
    other = small_tagger(method, options=options)
    export_onnx(other, tmp_path / "made", language="target", strategy=strategy)
    expected = [prediction.tags for prediction in other.predict(SENTENCES, strategy=strategy)]
    assert onnx_tags(tmp_path / "made", SENTENCES) == expected
    assert len({tag for tags in expected for tag in tags}) > 2


@pytest.mark.parametrize("method", ["cpg", "madx-multi"])
def test_the_languages_differ_in_the_file(method: str, tmp_path: Path) -> None:
    other = small_tagger(method)
    found = []
    for language in ("target", "s2"):
        strategy = "rel" if method == "madx-multi" else None
        sentences = [replace(sentence, language=language) for sentence in SENTENCES]
        export_onnx(other, tmp_path / language, language=language, strategy=strategy)
        found.append(onnx_tags(tmp_path / language, SENTENCES))
        assert found[-1] == [prediction.tags for prediction in other.predict(sentences, strategy=strategy)]
    assert found[0] != found[1]


def test_sequences_are_decoded_alike(tmp_path: Path) -> None:
    tagger = small_tagger("sft-m", task="ner", labels=["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    words = [prediction.tags for prediction in tagger.predict(SENTENCES)]
    tagger = replace(tagger, decode="sequence")
    export_onnx(tagger, tmp_path / "made", language="target")
    expected = [prediction.tags for prediction in tagger.predict(SENTENCES)]
    assert onnx_tags(tmp_path / "made", SENTENCES) == expected != words


def test_unknown_letters_are_read_alike(tmp_path: Path) -> None:
    plain = small_tagger("sft-m")
    pieces = PieceEncoder(plain.pieces.tokenizer, plain.parts.encoder.max_pieces, related_letters=True)
    tagger = replace(plain, pieces=pieces)
    known = {letter for letter in "aeiou" if not pieces.unknown_share([letter])}
    strange = str.maketrans({letter: letter + "\u0483" for letter in known})  # with a mark that no vocabulary here has
    sentences = [Sentence([word.translate(strange) for word in s.words], None, "target") for s in SENTENCES]
    export_onnx(tagger, tmp_path / "made", language="target")
    expected = [prediction.tags for prediction in tagger.predict(sentences)]
    assert expected == [prediction.tags for prediction in tagger.predict(SENTENCES)], "the marks are left out"
    assert onnx_tags(tmp_path / "made", sentences) == expected
    assert read_json(tmp_path / "made" / "config.json")["letters"]["\u0483"] == ""


def test_entities_begin_with_b_and_odd_words_have_a_tag(tmp_path: Path) -> None:
    tagger = small_tagger("sft-m", task="ner", labels=["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    export_onnx(tagger, tmp_path / "made", language="target")
    odd = Sentence([SENTENCES[0].words[0], "\u200d", "", "7%", *SENTENCES[1].words], language="target")
    sentences = [*SENTENCES, odd, Sentence([odd.words[0]], language="target")]
    expected = [prediction.tags for prediction in tagger.predict(sentences, strategy="plain")]
    assert onnx_tags(tmp_path / "made", sentences) == expected
    assert any(tag.startswith("B-") for tags in expected for tag in tags)


def test_the_example_runs_by_itself(tagger: Tagger, made: Path) -> None:
    words = SENTENCES[0].words
    command = [sys.executable, "-I", str(made / "tag.py"), *words]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (prediction,) = tagger.predict(SENTENCES[:1], strategy="plain")
    assert printed.splitlines() == [f"{word}\t{tag}" for word, tag in zip(words, prediction.tags, strict=True)]
    too_long = subprocess.run([*command, *["hawa"] * 200], capture_output=True, text=True, check=False)
    assert "cut the sentence" in too_long.stderr
    text = subprocess.run([*command[:3], " ".join(words)], capture_output=True, text=True, check=False)
    assert "has spaces in it. tag takes the words of one sentence; for several, tag_all" in text.stderr
    several = f"from tag import *; print(OnnxTagger(Path('.')).tag_all([{words}, {words}]))"
    call = [sys.executable, "-c", several]
    both = subprocess.run(call, capture_output=True, text=True, check=True, cwd=made, env={"PYTHONPATH": "."}).stdout
    assert both.strip() == str([prediction.tags] * 2)
    example = Path(onnx_export.__file__).with_name("onnx_example.py").read_text(encoding="utf-8")
    assert "zgul" not in example and "torch" not in example


def test_batches_with_padding(tagger: Tagger, made: Path) -> None:
    """What the README of an export says of batches is so."""
    encoded = tagger.pieces.encode(SENTENCES, languages=tagger.language_table(["target"], "plain"))
    batch = encoded.batch(torch.arange(len(SENTENCES)), int(encoded.lengths.max()) + 2)
    run = OnnxTagger(made).session.run
    found = run(["logits"], {"input_ids": batch.input_ids.numpy(), "attention_mask": batch.mask.long().numpy()})[0]
    with torch.no_grad():
        expected = tagger.model(batch)
    torch.testing.assert_close(torch.from_numpy(found)[batch.words], expected[batch.words], rtol=0, atol=1e-4)


def test_only_an_earlier_export_is_replaced(made: Path, tmp_path: Path) -> None:
    tagger = small_tagger("sft-m")
    shutil.copytree(made, tmp_path / "made")
    export_onnx(tagger, tmp_path / "made", language="target")
    assert read_json(tmp_path / "made" / "config.json")["tagger"]["method"] == "sft-m"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made"], "nothing temporary is left"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text('{"format": 1}')
    with pytest.raises(ZgulError, match="holds other files"):
        export_onnx(tagger, tmp_path / "other", language="target")
    with pytest.raises(ZgulError, match="is a file"):
        export_onnx(tagger, tmp_path / "other" / "config.json", language="target")


def test_a_file_that_computes_something_else_is_not_kept(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(onnx_export, "TOLERANCE", 0.0)
    with pytest.raises(ZgulError, match="other label scores"):
        export_onnx(small_tagger("sft-m"), tmp_path / "made", language="target")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(ZgulError, match="minimises entropy"):
        export_onnx(small_tagger(), tmp_path / "made", language="target", strategy="em")
    monkeypatch.setattr(onnx_export, "NEEDED", ("onnx", "no_such_package"))
    with pytest.raises(ZgulError, match=r"needs no_such_package\..* pip install 'zgul\[onnx\]'"):
        export_onnx(small_tagger(), tmp_path / "made", language="target")


def test_on_the_command_line(taggers: Path, tmp_path: Path) -> None:
    with pytest.warns(ZgulWarning, match="tuned with 2 steps"):
        done = CliRunner().invoke(app, ["export", "--lang", "fo", "--task", "pos", "--onnx", str(tmp_path / "fo")])
    assert done.exit_code == 0, done.output
    made = {path.name for path in (tmp_path / "fo").iterdir()}
    assert made == {"model.onnx", "tokenizer.json", "config.json", "tag.py", "README.md"}
    config = read_json(tmp_path / "fo" / "config.json")
    assert (config["language"], config["task"]) == ("fo", "pos")
    both = CliRunner().invoke(app, ["export", "--lang", "fo", "--task", "both", "--onnx", str(tmp_path / "both")])
    assert isinstance(both.exception, ZgulError)


@pytest.mark.slow
@pytest.mark.parametrize(("language", "task"), [("fo", "pos"), ("luo", "ner")])
def test_shipped_taggers_on_real_sentences(language: str, task: str, shared_data: Path, tmp_path: Path) -> None:
    tagger = load_shipped(serving(language, task).name)
    sentences = DataFolder(shared_data).sentences(task, language, "test")[:60]
    export_onnx(tagger, tmp_path / "made", language=language)
    expected = [prediction.tags for prediction in tagger.predict(sentences, strategy="plain")]
    assert onnx_tags(tmp_path / "made", sentences) == expected
