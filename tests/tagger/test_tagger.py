"""A tagger in use: predicting, folding, saving, loading, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from family import tiny_encoder
from small_tagger import LABELS, MADE, WIDTH, small_adapters, small_tagger
from zgul import tensors
from zgul.adapters.bank import LanguageAdapter
from zgul.adapters.storage import save_adapters
from zgul.corpora.encode import Batch
from zgul.corpora.sentence import Sentence
from zgul.ensemble.em import EMConfig, minimise_entropy
from zgul.ensemble.weighting import Folded
from zgul.errors import ZgulError, ZgulWarning
from zgul.graphs import GraphedStep
from zgul.methods import METHODS, MethodOptions
from zgul.methods.model import Model
from zgul.methods.tagger import Tagger, _Captured, _one_of_few, valid_iob2

EVERY = [
    (name, strategy)
    for name, made in METHODS.items()
    for strategy in made.strategies
    if strategy not in ("en", "tgt") and name not in ("madx",)
]


def encoder(width: int = WIDTH):
    return tiny_encoder(MADE, layers=2, width=width)


def mixed_sentences() -> list[Sentence]:
    """Of several languages and lengths, one empty."""
    found = [s for language in ("target", "s0", "s1") for s in MADE.sentences(language, 3)]
    return [*found[:4], Sentence([], [], "target"), *found[4:]]


@pytest.mark.parametrize(("name", "strategy"), EVERY)
def test_many_at_once_are_what_they_are_one_by_one(name: str, strategy: str) -> None:
    tagger = small_tagger(name, double=True)
    tagger.em = {"": EMConfig(steps=2, lr=5.0), "s1": EMConfig(steps=3, lr=20.0), "s0": EMConfig(steps=0)}
    sentences = mixed_sentences()
    weights = tagger.model.bank is not None
    heard: list[int] = []
    together = tagger.predict(sentences, strategy=strategy, weights=weights, max_tokens=64, on_batch=heard.append)
    assert sum(heard) == len(sentences) - 1, "an empty sentence is in no batch"
    for sentence, prediction in zip(sentences, together, strict=True):
        alone = tagger.predict([sentence], strategy=strategy, weights=weights)[0]
        assert prediction.tags == alone.tags and len(alone.tags) == len(sentence)
        np.testing.assert_allclose(prediction.probabilities, alone.probabilities, atol=1e-6)
        if weights and len(sentence):
            np.testing.assert_allclose(prediction.weights, alone.weights, atol=1e-6)
            np.testing.assert_allclose(prediction.weights.sum(axis=-1), 1, atol=1e-6)


@pytest.mark.parametrize("name", ["zgul", "cpg", "madx-multi", "sft-m"])
def test_nothing_in_nothing_out(name: str) -> None:
    tagger = small_tagger(name)
    assert tagger.predict([]) == []
    for empty in (Sentence([], language="target"), Sentence([], word_languages=[])):
        (prediction,) = tagger.predict([empty])
        assert prediction.tags == [] and prediction.probabilities.shape == (0,)


def test_each_language_is_read_with_its_own_em_settings() -> None:
    tagger = small_tagger(double=True)
    tagger.em = {"": EMConfig(steps=1, lr=1.0), "s1": EMConfig(steps=0)}
    sentences = [*MADE.sentences("target", 2), *MADE.sentences("s1", 2)]
    predictions = tagger.predict(sentences, weights=True)
    moved = [not np.allclose(p.weights, p.weights_before, atol=1e-9) for p in predictions]
    assert moved == [True, True, False, False]
    given = tagger.predict(sentences, weights=True, em=EMConfig(steps=1, lr=1.0))
    assert all(not np.allclose(p.weights, p.weights_before, atol=1e-9) for p in given), "a setting that is given wins"
    assert tagger.em_for("s1", "plain") is None and tagger.em_for("xx", "em-tied") == EMConfig(1, 1.0, tied=True)


def test_a_sentence_needs_a_language() -> None:
    for name in ("zgul", "sft-m"):
        with pytest.raises(ZgulError, match="a sentence has no language"):
            small_tagger(name).predict([Sentence(["paki"])])


def test_long_sentences_are_cut_and_joined() -> None:
    tagger = small_tagger("sft-m", double=True)
    words = [word for s in MADE.sentences("s0", 40) for word in s.words]
    (prediction,) = tagger.predict([Sentence(words, None, "s0")])
    assert len(prediction.tags) == len(words)
    encoded = tagger.pieces.encode([Sentence(words, None, "s0")])
    assert len(encoded) > 2
    cuts = np.cumsum(
        [int(encoded.first[a : a + n].sum()) for a, n in zip(encoded.starts, encoded.lengths, strict=True)]
    )
    parts = [Sentence(list(part), None, "s0") for part in np.split(np.array(words), cuts[:-1])]
    assert [tag for p in tagger.predict(parts) for tag in p.tags] == prediction.tags


@pytest.mark.parametrize("view", ["lang2vec", "one-hot"])
def test_code_switched_words_are_read_in_their_own_language(view: str) -> None:
    """The global weights of each word are those that a sentence wholly in its language gets."""
    tagger = small_tagger("zgul" if view == "lang2vec" else "madx-multi", double=True)
    strategy = "plain" if view == "lang2vec" else "rel"
    words = MADE.sentences("s0", 3)[2].words
    codes = [("target", "s1", "s2")[n % 3] for n in range(len(words))]
    (mixed,) = tagger.predict([Sentence(words, None, "target", codes)], strategy=strategy, weights=True)
    for code in set(codes):
        (whole,) = tagger.predict([Sentence(words, None, code)], strategy=strategy, weights=True)
        for n, own in enumerate(codes):
            if own == code:
                np.testing.assert_allclose(mixed.weights[n, -1], whole.weights[n, -1], atol=1e-12)
    rows = {tuple(row.round(6)) for row in mixed.weights[:, -1]}
    assert len(rows) == 3, "three languages, three weightings"


def test_probabilities_are_those_of_the_chosen_tags() -> None:
    tagger = small_tagger("sft-m", double=True)
    sentence = MADE.sentences("s0", 1)[0]
    encoded = tagger.pieces.encode([sentence], languages=tagger.prepare(["s0"]))
    batch = encoded.batch(torch.tensor([0]), int(encoded.lengths[0]) + 2)
    with torch.no_grad():
        p = tagger.model(batch)[batch.words].softmax(dim=-1)
    (prediction,) = tagger.predict([sentence])
    assert prediction.tags == [LABELS[int(best)] for best in p.argmax(dim=-1)]
    np.testing.assert_allclose(prediction.probabilities, p.amax(dim=-1), atol=1e-6)


# --- memory and devices


def out_of_memory_above(limit: int, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> list[int]:
    """Batches of more sentences than ``limit`` run out of memory; gives the sizes that were tried."""
    tried: list[int] = []
    real = Model.forward

    def forward(self: Model, batch: Batch, *arguments, **options):
        tried.append(len(batch.rows))
        if len(batch.rows) > limit:
            raise error(
                "CUDA out of memory" if error is not RuntimeError else "DefaultCPUAllocator: can't allocate memory"
            )
        return real(self, batch, *arguments, **options)

    monkeypatch.setattr(Model, "forward", forward)
    return tried


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError, RuntimeError])
@pytest.mark.parametrize("strategy", ["plain", "em"])
def test_out_of_memory_halves_the_batch_and_goes_on(strategy: str, error, monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = small_tagger(double=True)
    tagger.em = {"": EMConfig(steps=2, lr=5.0)}
    sentences = mixed_sentences()
    expected = tagger.predict(sentences, strategy=strategy, weights=True)
    heard: list[int] = []
    tried = out_of_memory_above(2, monkeypatch, error)
    with pytest.warns(ZgulWarning, match=r"out of memory: going on with \d+ tokens at a time"):
        found = tagger.predict(sentences, strategy=strategy, weights=True, on_batch=heard.append)
    assert tried[0] > 4 and sum(heard) == len(sentences) - 1 and max(heard) <= 2
    for one, other in zip(found, expected, strict=True):
        assert one.tags == other.tags
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-6)
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)
    tried.clear()
    tagger.predict(sentences, strategy=strategy)
    assert max(tried) <= 2, "the next call starts with what fits"


def test_memory_that_is_too_small_for_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = small_tagger()
    out_of_memory_above(0, monkeypatch, torch.OutOfMemoryError)
    with (
        pytest.warns(ZgulWarning),
        pytest.raises(ZgulError, match=r"out of memory even with one sentence of \d+ pieces alone.*--no-em"),
    ):
        tagger.predict(MADE.sentences("s0", 4))


def test_other_errors_are_not_taken_for_full_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_, **__):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Model, "forward", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        small_tagger("sft-m").predict(MADE.sentences("s0", 4))


@pytest.mark.parametrize("device", ["potato", "cuda:99", torch.device("cuda:99"), ""])
def test_devices_that_are_not_here(device) -> None:
    with pytest.raises(ZgulError, match=r"there is no device '.*' here; use cpu, cuda or auto"):
        small_tagger("sft-m").to(device)
    assert small_tagger("sft-m").to("cpu").device.type == "cpu"


def test_ner_comes_out_as_valid_iob2() -> None:
    assert valid_iob2(["I-A", "I-A", "O", "I-B", "B-A", "I-B"]) == ["B-A", "I-A", "O", "B-B", "B-A", "B-B"]
    labels = ["O", "B-PER", "I-PER", "I-LOC"]
    tagger = small_tagger("sft-m", task="ner", labels=labels)
    for prediction in tagger.predict(MADE.sentences("s0", 20)):
        assert prediction.tags == valid_iob2(prediction.tags)


# --- folding, saving, loading

KINDS = {
    "sft-m": None,
    "madx-multi": None,
    "cpg": None,
    "zgul": None,
    "zgul-no-l": None,
    "zgul-no-f": None,
    "zgul additive": MethodOptions(dropout=0.0, l_scores="additive"),
    "zgul max": MethodOptions(dropout=0.0, combine="max"),
    "zgul low-rank": MethodOptions(dropout=0.0, encoder_rank=2),
    "madx-multi mixed": MethodOptions(dropout=0.0, invertible="mixed"),
}


def results(tagger: Tagger) -> list[tuple[list[str], list[float]]]:
    sentences = [s for language in ("target", "s1") for s in MADE.sentences(language, 10)]
    return [(p.tags, p.probabilities.tolist()) for p in tagger.predict(sentences)]


def assert_same_results(first: Tagger, second: Tagger, tolerance: float) -> None:
    for (tags, p), (other_tags, q) in zip(results(first), results(second), strict=True):
        assert tags == other_tags
        np.testing.assert_allclose(p, q, atol=tolerance)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tagger_says_the_same(tmp_path: Path, kind: str, folded: bool) -> None:
    tagger = small_tagger(kind.split()[0], options=KINDS[kind])
    tagger.em = {"": EMConfig(steps=2, lr=3.0), "s1": EMConfig(steps=1, lr=1.0)}
    tagger.about = {"made": "here"}
    tagger.save_pretrained(tmp_path / "tagger", folded=folded)
    loaded = Tagger.from_pretrained(tmp_path / "tagger", encoder=encoder())
    assert (loaded.em, loaded.about, loaded.labels) == (tagger.em, tagger.about, tagger.labels)
    assert loaded.method == tagger.method and loaded.parts.options == tagger.parts.options
    is_folded = isinstance(loaded.model.weighting, Folded)
    assert is_folded == (folded and kind.startswith("zgul") and kind != "zgul max")
    assert_same_results(tagger, loaded, 1e-4 if folded else 0)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("zgul")])
def test_folding_in_double_precision_changes_nothing(kind: str) -> None:
    whole = small_tagger(kind.split()[0], options=KINDS[kind], double=True)
    folded = small_tagger(kind.split()[0], options=KINDS[kind], double=True).fold()
    assert not any(weight.requires_grad for weight in folded.model.parameters())
    rows = whole.prepare(["target"], "plain"), folded.prepare(["target"], "plain")
    encoded = whole.pieces.encode(MADE.sentences("target", 5), languages=rows[0])
    batch = encoded.batch(torch.arange(5), int(encoded.lengths.max()) + 2)
    with torch.no_grad():
        torch.testing.assert_close(folded.model(batch), whole.model(batch), rtol=0, atol=1e-10)


def test_a_folded_tagger_can_be_saved_again(tmp_path: Path) -> None:
    tagger = small_tagger()
    tagger.save_pretrained(tmp_path / "whole")
    Tagger.from_pretrained(tmp_path / "whole", encoder=encoder()).fold().save_pretrained(tmp_path / "folded")
    assert_same_results(tagger, Tagger.from_pretrained(tmp_path / "folded", encoder=encoder()), 1e-4)
    little = small_tagger(options=KINDS["zgul low-rank"]).fold()
    with pytest.raises(ZgulError, match="save the tagger before folding it"):
        little.save_pretrained(tmp_path / "little")
    assert not (tmp_path / "little").exists()


@pytest.mark.parametrize("bits", [16, 9, 8])
def test_fewer_bits_are_near(tmp_path: Path, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "SMALL", 0)  # its matrices are
    tagger = small_tagger("zgul-no-l")
    for kept in (32, bits):
        tagger.save_pretrained(tmp_path / str(kept), bits=kept)
    if bits == 16:  # coded matrices as small as these are not smaller
        sizes = [(tmp_path / str(kept) / "model.safetensors").stat().st_size for kept in (32, bits)]
        assert sizes[1] < sizes[0] * 0.7
    loaded = Tagger.from_pretrained(tmp_path / str(bits), encoder=encoder())
    pairs = zip(results(tagger), results(loaded), strict=True)
    same = [a == b for (tags, _), (other, _) in pairs for a, b in zip(tags, other, strict=True)]
    assert np.mean(same) > (0.99 if bits == 16 else 0.97)


def test_the_encoder_can_be_inside(tmp_path: Path) -> None:
    tagger = small_tagger("sft-m")
    tagger.save_pretrained(tmp_path, encoder=True)
    assert_same_results(tagger, Tagger.from_pretrained(tmp_path), 0)


def test_the_encoder_of_a_folded_tagger_can_be_inside(tmp_path: Path) -> None:
    """Folding joins its matrices and lays them out anew; they are saved as any others."""
    tagger = small_tagger().fold()
    tagger.save_pretrained(tmp_path, encoder=True)
    assert_same_results(tagger, Tagger.from_pretrained(tmp_path), 1e-5)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    small_tagger().save_pretrained(tmp_path / "tagger")
    return tmp_path / "tagger"


def change_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in (config | values).items() if value is not None}))


def change_tensors(folder: Path, change) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


def refused(folder: Path, match: str, width: int = WIDTH) -> None:
    with pytest.raises(ZgulError, match=match):
        Tagger.from_pretrained(folder, encoder=encoder(width))


def test_folders_that_are_no_tagger(tmp_path: Path, saved: Path) -> None:
    refused(tmp_path / "nowhere", "no such folder; a tagger is a folder with config.json")
    refused(tmp_path, "config.json: no such file")
    (saved / "model.safetensors").unlink()
    refused(saved, "model.safetensors: no such file")
    (saved / "config.json").write_text("{")
    refused(saved, "is not valid JSON")
    (saved / "config.json").write_text("[]")
    refused(saved, "must hold a JSON object")


def test_other_formats_and_settings(saved: Path) -> None:
    change_config(saved, format=99, zgul="9.9")
    refused(saved, "saved in format 99 by zgul 9.9; this is zgul .* which reads format 1")
    change_config(saved, format=1, labels=None)
    refused(saved, "config.json lacks labels")
    change_config(saved, labels=LABELS, features=None)
    refused(saved, "config.json lacks features")


def test_settings_that_this_version_does_not_know(saved: Path) -> None:
    options = json.loads((saved / "config.json").read_text())["options"]
    change_config(saved, options=options | {"magic": 1})
    refused(saved, "has settings that zgul .* does not know: magic")
    change_config(saved, options=options, method="zgul-2")
    refused(saved, "there is no method 'zgul-2'")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("labels", 5, "labels is 5, not a list"),
        ("labels", ["NOUN", 5], "one of labels is 5, not text"),
        ("sources", "en", "sources is 'en', not a list"),
        ("method", ["zgul"], r"method is \['zgul'\], not text"),
        ("folded", "no", "folded is 'no', not true or false"),
        ("options", [], r"options is \[\], not an object"),
        ("options", {"reduction": "three"}, "options.reduction is 'three', not a number"),
        ("options", {"encoder_rank": 1.5}, "options.encoder_rank is 1.5, not a whole number"),
        ("options", {"features": 5}, "options.features is 5, not text"),
        ("options", {"train_encoder": 1}, "options.train_encoder is 1, not true or false"),
        ("encoder", "x", "encoder is 'x', not an object"),
        ("encoder", {"name": "x", "width": 16}, "encoder.depth is None, not a whole number"),
        ("encoder", {"name": "x", "width": True, "depth": 2}, "encoder.width is True, not a whole number"),
        ("em", 5, "em is 5, not an object"),
        ("em", {"fo": 5}, "em.fo is 5, not an object"),
        ("em", {"fo": {"steps": "a"}}, "em.fo.steps is 'a', not a whole number"),
        ("em", {"": {"tied": 0}}, "em..tied is 0, not true or false"),
        ("features", {"s0": "x" * 90}, "features.s0 is 'x{39}…, not a list"),
        ("features", {"s0": [1, "x"]}, "one of features.s0 is 'x', not a number"),
        ("bank", "outside", "bank is 'outside', not one of inside, shipped, none"),
        ("about", 5, "about is 5, not an object"),
    ],
)
def test_a_key_of_another_kind_is_named(saved: Path, key: str, value: object, told: str) -> None:
    change_config(saved, **{key: value})
    refused(saved, f"config.json is damaged: {told}")


def test_a_key_that_is_null_is_named(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(config | {"options": None}))
    refused(saved, "options is None, not an object")


def test_an_encoder_without_a_name_must_be_given_again(tmp_path: Path) -> None:
    tagger = small_tagger("sft-m")
    tagger.save_pretrained(tmp_path / "without")
    with pytest.raises(ZgulError, match=r"give the encoder \(.*encoder=.*or save the tagger with encoder=True"):
        Tagger.from_pretrained(tmp_path / "without")
    tagger.save_pretrained(tmp_path / "with", encoder=True)
    Tagger.from_pretrained(tmp_path / "with").save_pretrained(tmp_path / "again")
    with pytest.raises(ZgulError, match="which has no name"):
        Tagger.from_pretrained(tmp_path / "again")
    assert_same_results(tagger, Tagger.from_pretrained(tmp_path / "again", encoder=encoder()), 0)


@pytest.mark.parametrize("invertible", ["off", "mixed"])
def test_without_its_bank_a_tagger_takes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invertible: str
) -> None:
    tagger = small_tagger("madx-multi", options=MethodOptions(dropout=0.0, invertible=invertible))
    tagger.save_pretrained(tmp_path / "tagger", bank=False)
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path / "own"))
    own = small_adapters(invertible=invertible != "off")
    save_adapters(tmp_path / "own" / "adapters.safetensors", own[::-1])
    assert_same_results(tagger, Tagger.from_pretrained(tmp_path / "tagger", encoder=encoder()), 0)
    with torch.no_grad():
        next((own[1].invertible or own[1].layers[1]).parameters())[0, 0] += 1e-3
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path / "other"))
    save_adapters(tmp_path / "other" / "adapters.safetensors", own)
    refused(tmp_path / "tagger", r"without its language adapters \(bank=False\), and those .* are others.*bank=True")
    change_config(tmp_path / "tagger", bank_checksum=None)
    Tagger.from_pretrained(tmp_path / "tagger", encoder=encoder())  # saved before there were checksums


def test_an_encoder_of_another_size(saved: Path) -> None:
    refused(saved, "trained on an encoder of 2 layers of width 16; the one given has 2 of width 32", width=32)


def test_a_label_set_that_does_not_fit(saved: Path) -> None:
    change_config(saved, labels=[*LABELS, "X"])
    refused(saved, "config.json names 10 labels, but its weights were trained for 9")


def test_weights_of_another_shape(saved: Path) -> None:
    change_tensors(saved, lambda tensors: tensors.update({"task.0.down.bias": torch.zeros(2)}))
    refused(saved, r"task.0.down.bias has shape \[2\], this model needs \[5\]")


def test_damaged_weights(saved: Path) -> None:
    whole = (saved / "model.safetensors").read_bytes()
    change_tensors(saved, lambda tensors: tensors["head.bias"].fill_(torch.nan))
    refused(saved, "head.bias holds numbers that are not finite; this file is damaged")
    for length in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        (saved / "model.safetensors").write_bytes(whole[:length])
        refused(saved, "is not a complete safetensors file")
    (saved / "model.safetensors").write_bytes(whole)
    change_tensors(saved, lambda tensors: tensors.pop("head.bias"))
    refused(saved, "does not fit its config.json: 1 tensors missing, 0 unknown .head.bias")
    (saved / "model.safetensors").write_bytes(whole)
    change_tensors(saved, lambda tensors: tensors.update({"heads": torch.zeros(1)}))
    refused(saved, "0 tensors missing, 1 unknown .heads")


def test_a_damaged_bank(saved: Path) -> None:
    (saved / "bank.safetensors").write_bytes(b"nothing")
    refused(saved, "bank.safetensors is not a complete safetensors file")


@pytest.mark.parametrize("share", [0.2, 0.7], ids=["few are uncertain", "most are"])
@pytest.mark.parametrize("weights", [False, True])
def test_uncertain_sentences_of_several_batches_are_as_each_alone(share: float, weights: bool) -> None:
    tagger, sentences = small_tagger(double=True), MADE.sentences("target", 30)
    entropies = []
    for sentence in sentences:
        batch = next(tagger.pieces.encode([sentence], languages=tagger.prepare(["target"])).batches())
        entropies.append(float(minimise_entropy(tagger.model, batch, EMConfig(steps=0)).entropy[0]))
    bound = float(np.quantile(entropies, 1 - share))
    em = EMConfig(steps=3, lr=2.0, skip_below=bound)
    done = []
    found = tagger.predict(sentences, em=em, max_tokens=64, weights=weights, on_batch=done.append)
    assert sum(done) == len(sentences)
    moved = 0
    for sentence, entropy, together in zip(sentences, entropies, found, strict=True):
        alone = replace(em, skip_below=0.0, steps=0 if entropy < bound else 3)
        (one,) = tagger.predict([sentence], em=alone, weights=weights)
        assert together.tags == one.tags
        np.testing.assert_allclose(together.probabilities, one.probabilities, atol=1e-6)
        if weights:
            np.testing.assert_allclose(together.weights, one.weights, atol=1e-6)
            np.testing.assert_allclose(together.weights_before, one.weights_before, atol=1e-6)
            moved += bool(np.abs(together.weights - together.weights_before).max() > 1e-6)
    assert not weights or moved == sum(entropy >= bound for entropy in entropies)


def test_nothing_is_dropped_though_the_encoder_is_shared_with_a_model_that_learns() -> None:
    tagger, sentences = small_tagger("sft-m", options=MethodOptions(dropout=0.5)), MADE.sentences("s0", 5)
    before = tagger.predict(sentences)
    tagger.parts.encoder.train()
    for one, other in zip(tagger.predict(sentences), before, strict=True):
        assert np.array_equal(one.probabilities, other.probabilities)


def test_few_shapes_do_for_many_batches() -> None:
    found = [_one_of_few(count) for count in range(1, 300)]
    assert all(count <= few <= 1.5 * count for count, few in enumerate(found, start=1))
    assert sorted(set(found)) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384]


def test_a_batch_is_never_given_a_shorter_shape() -> None:
    tagger = small_tagger()
    tagger.parts.encoder.max_pieces = 29
    for length, expected in ((9, 16), (24, 24), (25, 29), (29, 29), (32, 32)):  # batches are rounded up to 8, too
        batch = Batch(*(torch.zeros(5, length, dtype=torch.long) for _ in range(5)), *torch.zeros(2, 5).long())
        assert tagger._shape(batch) == (6, expected)


@pytest.mark.parametrize("few", [False, True])
def test_small_batches_in_shapes_for_graphs_get_the_same_tags(few: bool, monkeypatch) -> None:
    """The way that a GPU goes, here without graphs; ``few``: some sentences are certain enough without EM."""
    tagger, sentences, em = small_tagger(), MADE.sentences("target", 11), EMConfig(steps=2, lr=3.0)
    if few:
        batch = next(iter(tagger.pieces.encode(sentences, languages=tagger.prepare(["target"])).batches(10**6)))
        entropy = minimise_entropy(tagger.model, batch, EMConfig(steps=0)).entropy[0]
        em = replace(em, skip_below=float(entropy.sort().values[4:6].mean()))
    expected = tagger.predict(sentences, em=em)
    calls: list[tuple[EMConfig | None, torch.Size]] = []
    scores = tagger._scores

    def noted(em: EMConfig | None, **parts: torch.Tensor) -> torch.Tensor:
        calls.append((em, parts["mask"].shape))
        return scores(em, **parts)

    monkeypatch.setattr(tagger, "_replays", lambda batch, em: True)
    monkeypatch.setattr(tagger, "label_scores", lambda batch: tagger._replayed(batch, None))
    monkeypatch.setattr(tagger, "_scores", noted)
    found = tagger.predict(sentences, em=em)
    for one, other in zip(found, expected, strict=True):
        assert one.tags == other.tags
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-5)
    rows = {how: sum(shape[0] for em, shape in calls if (em is None) == (how == "first")) for how in ("first", "em")}
    assert rows["em"] and (0 < rows["em"] < rows["first"] if few else not rows["first"])
    assert all(shape[0] == _one_of_few(shape[0]) and shape[1] % 8 == 0 for _, shape in calls)


@pytest.mark.parametrize("method", ["zgul", "madx-multi", "cpg"])
def test_what_a_graph_would_read_is_known_to_be_another(method: str) -> None:
    tagger = small_tagger(method)
    tagger.prepare(["s0"])
    captured = _Captured(("float32", 0), tagger._held(), GraphedStep(lambda: torch.zeros(1)))
    assert captured.good_for(("float32", 0), tagger._held())
    assert not captured.good_for(("bfloat16", 0), tagger._held())
    tagger.prepare(["s1", "target"])
    assert not captured.good_for(("float32", 0), tagger._held())
    captured.held = tagger._held()
    tagger.fold()
    assert not captured.good_for(("float32", 0), tagger._held())


def test_a_folded_tagger_is_folded_again_when_its_bank_has_changed(monkeypatch) -> None:
    monkeypatch.setattr("zgul.ensemble.weighting.SAFE", {torch.float32: 1e9})
    tagger, sentences = small_tagger(), MADE.sentences("target", 4)
    wide = [LanguageAdapter.new(f"more{n}", WIDTH, 2, size=16) for n in range(2)]
    for adapter in wide:
        assert tagger.model.bank is not None
        tagger.model.bank.add(adapter)
    tagger.fold()
    weighting = tagger.model.weighting
    assert isinstance(weighting, Folded) and weighting.wide and weighting.condition < 1e9
    for adapter in wide:
        tagger.model.bank.remove(adapter.language)
    tagger.fold()
    assert not weighting.wide
    expected = small_tagger().predict(sentences, strategy="plain")
    for one, other in zip(tagger.predict(sentences, strategy="plain"), expected, strict=True):
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-4)
