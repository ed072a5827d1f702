"""An exported tagger gives the same tags in onnxruntime as the tagger itself without EM."""

import shutil
import subprocess
import sys
import venv
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from small_tagger import MADE, small_tagger
from zgul.cli import app
from zgul.corpora.data_folder import DataFolder
from zgul.corpora.sentence import Sentence
from zgul.encoders import prune
from zgul.encoders.batches import MARKED, STRESS_MARKS, PieceEncoder
from zgul.encoders.embedded import load_embedded
from zgul.errors import ZgulError, ZgulWarning
from zgul.files import read_json
from zgul.methods.base import MethodOptions
from zgul.tagger import Tagger
from zgul.tagging import onnx_example, onnx_export
from zgul.tagging.langid import scripts_in, scripts_of
from zgul.tagging.loading import load_shipped
from zgul.tagging.onnx_export import export_onnx, pieces_to_keep
from zgul.tagging.serving import serving

pytest.importorskip("onnxscript", reason="needs zgul[onnx]")
OnnxTagger = onnx_example.OnnxTagger

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
    export_onnx(other, tmp_path / "made", language="target", strategy=strategy, precision="float32")
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
    export_onnx(tagger, tmp_path / "made", language="target", precision="float32")
    expected = [prediction.tags for prediction in tagger.predict(sentences)]
    assert expected == [prediction.tags for prediction in tagger.predict(SENTENCES)], "the marks are left out"
    assert onnx_tags(tmp_path / "made", sentences) == expected
    assert read_json(tmp_path / "made" / "config.json")["letters"]["\u0483"] == ""


def test_words_are_read_without_marks_alike(tmp_path: Path) -> None:
    tagger = replace(small_tagger("sft-m"), strip_marks=True)
    export_onnx(tagger, tmp_path / "made", language="target", precision="float32")
    assert read_json(tmp_path / "made" / "config.json")["marks"] == STRESS_MARKS
    tokenizer = load_embedded()[1]
    exported = object.__new__(OnnxTagger)
    exported.config = {"marks": STRESS_MARKS, "marked": MARKED, "blank": tokenizer.blank, "unknown": tokenizer.unknown}
    exported.tokenizer, exported.letters = tokenizer.backend, {}
    pieces, full = PieceEncoder(tokenizer, 512), ["produljénje", "sporāzum", "за\u0301мок", "über", "हिन्दी", "\u0301"]
    for words, changes in ((full, True), ([*full[:1], *"abcd"], False), ([], False)):
        (read,) = pieces.without_marks([words])
        assert exported.pieces(words) == [cut.tolist() for cut in pieces.pieces(read)]
        assert (read != words) is changes


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
    command = [sys.executable, "-I", str(made / "tag.py")]
    printed = subprocess.run([*command, " ".join(words), "hawa"], capture_output=True, text=True, check=True).stdout
    (prediction,) = tagger.predict(SENTENCES[:1], strategy="plain")
    rows = [line.split("\t") for line in printed.splitlines() if line[:1].isdigit()]
    assert [(row[1], row[3]) for row in rows[:-1]] == list(zip(words, prediction.tags, strict=True))
    assert all(len(row) == 10 for row in rows) and printed.count("# newdoc") == 2 and rows[-1][:2] == ["1", "hawa"]
    given = subprocess.run(command, input=" ".join(words), capture_output=True, text=True, check=True).stdout
    assert printed.startswith(given.rstrip("\n"))
    too_long = subprocess.run([*command, " ".join(["hawa"] * 200)], capture_output=True, text=True, check=False)
    assert "cut the sentence" in too_long.stderr
    example = Path(onnx_export.__file__).with_name("onnx_example.py").read_text(encoding="utf-8")
    assert "zgul" not in example and "torch" not in example


def test_texts_are_cut_into_sentences_and_words() -> None:
    found = onnx_example.split('Hon kom. "Ja!" segði hann… og fór (í\nHavn).\n\nङ हिन्दी पाठ। क')
    assert [[word for word, _ in sentence] for sentence in found] == [
        ["Hon", "kom", "."],
        ['"', "Ja", "!", '"', "segði", "hann", "…", "og", "fór", "(", "í", "Havn", ")", "."],
        ["ङ", "हिन्दी", "पाठ", "।"],
        ["क"],
    ]
    assert [spaced for _, spaced in found[0]] == [True, False, True]


def test_words_and_texts_are_told_apart(tagger: Tagger, made: Path) -> None:
    words, own = SENTENCES[0].words, OnnxTagger(made)
    (prediction,) = tagger.predict(SENTENCES[:1], strategy="plain")
    assert own.tag_all([words, [], words]) == [prediction.tags, [], prediction.tags]
    with pytest.raises(ValueError, match="has spaces in it"):
        own.tag([" ".join(words)])
    text = " ".join(words)
    assert own.conllu([text, "", text]).count(f"# text = {text}\n") == 2


def test_int8_gives_the_tags_of_the_engine(tmp_path: Path) -> None:
    tagger = small_tagger("zgul", scale=0.2)
    assert tagger.model.bank is not None
    tagger.model.bank.activations = ["relu"] * len(tagger.model.bank)  # as the shipped adapters have it
    with pytest.warns(ZgulWarning, match="tuned with 10 steps"):
        export_onnx(tagger, tmp_path / "made", language="target", precision="int8")
    assert [one.name for one in OnnxTagger(tmp_path / "made").session.get_inputs()] == ["input_ids"]
    expected = replace(tagger, precision="int8").predict(SENTENCES, strategy="plain")
    tags = [tag for prediction in expected for tag in prediction.tags]
    found = [tag for sentence in onnx_tags(tmp_path / "made", SENTENCES) for tag in sentence]
    # the vocabulary of this tagger is rounded to 8 bits, so that a few tags may differ
    assert sum(map(str.__eq__, tags, found)) > 0.9 * len(tags) and len(set(tags)) > 2


def test_a_smaller_vocabulary_cuts_words_of_the_language_as_before() -> None:
    encoder, whole = load_embedded()
    kept = pieces_to_keep(whole, "fo", ["en", "is", "de"])
    assert len(kept) == onnx_export.MOST_PIECES
    _, smaller = prune(encoder, whole, kept)
    words = ["Skipið", "arbeiðsmarknaðarpolitikkur", "ÆÐUR", "2024", "—", "Þórshøfn", "café", "ß", "x²"]
    words += [piece.strip("▁") for piece in kept[-40_000:] if scripts_in(piece) == {"LATIN"}][::40]
    cut = [[one.backend.id_to_token(piece) for piece in ids] for one in (whole, smaller) for ids in one.tokenise(words)]
    assert cut[: len(words)] == cut[len(words) :]
    dropped = whole.backend.get_vocab().keys() - smaller.backend.get_vocab().keys()
    assert len(words) > 100 and len(dropped) > 100_000
    assert not [piece for piece in dropped if scripts_in(piece) <= {"LATIN"}]


def test_scripts() -> None:
    assert scripts_of("orv") == {"CYRILLIC"} and scripts_of("fo") == {"LATIN"} and scripts_of("xyz") == set()
    assert scripts_in("▁Þór9ʰ москва") == {"LATIN", "CYRILLIC"}


@pytest.mark.slow
@pytest.mark.network
def test_the_example_needs_onnxruntime_and_tokenizers_alone(made: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "own", with_pip=True)
    python = str(tmp_path / "own" / "bin" / "python")
    packages = [f"{name}=={metadata.version(name)}" for name in ("onnxruntime", "tokenizers")]
    installed = subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], capture_output=True, check=False)
    if installed.returncode:
        pytest.skip("no package index")
    assert subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode
    text = " ".join(SENTENCES[0].words)
    done = subprocess.run([python, "-I", str(made / "tag.py"), text], capture_output=True, text=True, check=True)
    assert done.stdout == OnnxTagger(made).conllu([text])


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
    shutil.copytree(made, tmp_path / ".made.part")  # of an export that was killed
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
        export_onnx(small_tagger("sft-m"), tmp_path / "made", language="target", precision="float32")
    monkeypatch.setattr(onnx_export, "INT8_TOLERANCE", 0.0)
    with pytest.raises(ZgulError, match="other label scores"):
        export_onnx(small_tagger("sft-m"), tmp_path / "made", language="target", precision="int8")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(ZgulError, match="minimises entropy"):
        export_onnx(small_tagger(), tmp_path / "made", language="target", strategy="em")
    with pytest.raises(ZgulError, match="one of auto, float32, int8"):
        export_onnx(small_tagger(), tmp_path / "made", language="target", precision="half")
    with pytest.raises(ZgulError, match="int8 is for ZGUL with narrow adapters"):
        export_onnx(small_tagger("madx-multi"), tmp_path / "made", language="target", precision="int8")
    monkeypatch.setattr(onnx_export, "NEEDED", {"float32": ("onnx", "no_such_package")})
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
    shipped = load_shipped(serving(language, task).name)
    tagger = replace(shipped, about=dict(shipped.about) | {"int8_open": 1.0})  # tag.py reads no sentence twice
    sentences = DataFolder(shared_data).sentences(task, language, "test")[:60]
    export_onnx(tagger, tmp_path / "made", language=language)
    precision = "int8" if task == "pos" else "float32"
    expected = [one.tags for one in replace(tagger, precision=precision).predict(sentences, strategy="plain")]
    assert task == "ner" or (tmp_path / "made" / "model.onnx").stat().st_size < 60_000_000
    assert onnx_tags(tmp_path / "made", sentences) == expected
