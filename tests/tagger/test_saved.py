"""Saved taggers say the same, load beside each other, and what is damaged or does not fit is refused by name."""

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from family import tiny_encoder
from small_tagger import LABELS, MADE, WIDTH, small_adapters, small_tagger
from zgul import tensors
from zgul.adapters.storage import save_adapters
from zgul.encoders.encoder import LAYER, Encoder
from zgul.encoders.tokenizer import PieceTokenizer
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError
from zgul.methods import MethodOptions
from zgul.tagger import Tagger, load_tagger, save_tagger
from zgul.training.config import TrainingConfig
from zgul.training.labelled_data import labelled_data
from zgul.training.trainer import Trainer

KINDS: dict[str, dict[str, Any]] = {
    "sft-m": {},
    "madx-multi": {},
    "cpg": {},
    "zgul": {},
    "zgul-no-l": {},
    "zgul-no-f": {},
    "zgul additive": {"l_scores": "additive"},
    "zgul max": {"combine": "max"},
    "zgul low-rank": {"encoder_rank": 2},
    "madx-multi mixed": {"invertible": "mixed"},
}


def encoder(width: int = WIDTH) -> tuple[Encoder, PieceTokenizer]:
    return tiny_encoder(MADE, layers=2, width=width)


def tagger_of(kind: str) -> Tagger:
    return small_tagger(kind.split()[0], options=MethodOptions(dropout=0.0, **KINDS[kind]))


def results(tagger: Tagger) -> list[tuple[list[str], list[float]]]:
    sentences = [s for language in ("target", "s1") for s in MADE.sentences(language, 10)]
    return [(p.tags, p.probabilities.tolist()) for p in tagger.predict(sentences)]


def assert_same_results(first: Tagger, second: Tagger, tolerance: float) -> None:
    for (tags, p), (other_tags, q) in zip(results(first), results(second), strict=True):
        assert tags == other_tags
        np.testing.assert_allclose(p, q, atol=tolerance)


# --- saved and loaded


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tagger_says_the_same(tmp_path: Path, kind: str, merged: bool) -> None:
    em = {"": EMConfig(steps=2, lr=3.0), "s1": EMConfig(steps=1, lr=1.0)}
    tagger = replace(tagger_of(kind), em=em, about={"made": "here"})
    save_tagger(tagger, tmp_path / "tagger", merged=merged)
    loaded = load_tagger(tmp_path / "tagger", encoder=encoder())
    assert (loaded.em, loaded.about, loaded.labels) == (tagger.em, tagger.about, tagger.labels)
    assert loaded.method == tagger.method and loaded.parts.options == tagger.parts.options
    assert loaded.trained_names == tagger.trained_names and loaded.strategy == tagger.strategy
    assert_same_results(tagger, loaded, 1e-4 if merged else 1e-6)


def test_a_tagger_that_was_loaded_in_inference_mode_can_do_em(tmp_path: Path) -> None:
    """Programs wrap all their work in it, loading included."""
    tagger = replace(small_tagger(), em={"": EMConfig(steps=2, lr=5.0)})
    save_tagger(tagger, tmp_path)
    with torch.inference_mode():
        loaded = load_tagger(tmp_path, encoder=encoder())
        assert results(loaded) == results(tagger)
    assert results(replace(loaded)) == results(tagger)


def test_settings_of_inference_are_saved(tmp_path: Path) -> None:
    tagger = Tagger.new(
        "madx-multi",
        encoder=encoder(),
        task="ner",
        labels=["O", "B-X"],
        sources=MADE.sources,
        adapters=small_adapters(),
        strategy="uniform",
        related_letters=True,
    )
    save_tagger(replace(tagger, decode="sequence", strip_marks=True), tmp_path)
    loaded = load_tagger(tmp_path, encoder=encoder())
    assert (loaded.strategy, loaded.task, loaded.decode) == ("uniform", "ner", "sequence") and loaded.strip_marks
    assert loaded.pieces.related_letters and loaded.bank_languages == MADE.sources


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("zgul")])
def test_merging_leaves_matrices_out(tmp_path: Path, kind: str) -> None:
    """W_k always; W_v where there is a C to take it."""
    tagger = tagger_of(kind)
    save_tagger(tagger, tmp_path, merged=True)
    names = set(load_file(tmp_path / "model.safetensors"))
    assert not any(".key." in name for name in names if name.startswith("weighting.fusion"))
    joined = any(name.startswith("weighting.combine") for name in tagger.trained_names)
    assert any(name.startswith("weighting.value") for name in names) != joined
    assert {name for name in tagger.trained_names if not name.startswith("weighting.")} <= names


def test_a_merged_tagger_can_be_trained_further_and_saved_again(tmp_path: Path) -> None:
    save_tagger(small_tagger(), tmp_path / "merged", merged=True, bits=9)
    loaded = load_tagger(tmp_path / "merged", encoder=encoder())
    before = {name: value.clone() for name, value in loaded.model.named_parameters()}
    config = TrainingConfig(sources=tuple(MADE.sources), epochs=2, batch_size=8, accumulate=1, lr=1e-2)
    train = [sentence for source in MADE.sources for sentence in MADE.sentences(source, 8)]
    data = labelled_data(train, train[:4], config)
    Trainer(loaded, replace(data, labels=loaded.labels, allowed=torch.ones(3, 9, dtype=torch.bool)), config).run()
    for name in ("weighting.value.0.weight", "weighting.fusion.1.key.weight", "weighting.combine.0.weight"):
        assert not torch.equal(loaded.model.get_parameter(name), before[name]), "what was left out learns again"
    trained = replace(loaded)  # its engine is that of the new weights
    save_tagger(trained, tmp_path / "again", merged=True)
    assert_same_results(trained, load_tagger(tmp_path / "again", encoder=encoder()), 1e-4)


@pytest.mark.parametrize("bits", [16, 9, 8])
def test_fewer_bits_are_near(tmp_path: Path, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "SMALL", 0)  # its matrices are
    tagger = small_tagger("zgul-no-l")
    for kept in (32, bits):
        save_tagger(tagger, tmp_path / str(kept), bits=kept)
    if bits == 16:  # coded matrices as small as these are not smaller
        sizes = [(tmp_path / str(kept) / "model.safetensors").stat().st_size for kept in (32, bits)]
        assert sizes[1] < sizes[0] * 0.7
    loaded = load_tagger(tmp_path / str(bits), encoder=encoder())
    pairs = zip(results(tagger), results(loaded), strict=True)
    same = [a == b for (tags, _), (other, _) in pairs for a, b in zip(tags, other, strict=True)]
    assert np.mean(same) > (0.99 if bits == 16 else 0.97)


@pytest.mark.parametrize("kind", ["sft-m", "zgul", "zgul low-rank"])
def test_the_encoder_can_be_inside(tmp_path: Path, kind: str) -> None:
    tagger = tagger_of(kind)
    save_tagger(tagger, tmp_path, encoder=True)
    assert_same_results(tagger, load_tagger(tmp_path), 1e-6)


def test_an_encoder_without_a_name_must_be_given_again(tmp_path: Path) -> None:
    tagger = small_tagger("sft-m")
    save_tagger(tagger, tmp_path / "without")
    with pytest.raises(ZgulError, match=r"Give it \(load_tagger\(.*encoder=.*or save the tagger with encoder=True"):
        load_tagger(tmp_path / "without")
    save_tagger(tagger, tmp_path / "with", encoder=True)
    save_tagger(load_tagger(tmp_path / "with"), tmp_path / "again")
    with pytest.raises(ZgulError, match="which has no name"):
        load_tagger(tmp_path / "again")
    assert_same_results(tagger, load_tagger(tmp_path / "again", encoder=encoder()), 1e-6)
    by_name = load_tagger(tmp_path / "again", encoder=str(tmp_path / "with" / "encoder"))
    assert_same_results(tagger, by_name, 1e-6)


def test_loading_and_tagging_import_nothing_slow(tmp_path: Path) -> None:
    """torch's compiler takes two seconds, transformers one. Some operations without memory import the first."""
    save_tagger(small_tagger(), tmp_path, encoder=True)
    code = f"""
import sys
from zgul.corpora.sentence import Sentence
from zgul.tagger import load_tagger
load_tagger({str(tmp_path)!r}).predict([Sentence(["pakile", "jah"], None, "s0")])
print(sorted({{"torch._dynamo", "sympy", "transformers", "scipy"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- loading touches nothing that was there before


@pytest.mark.parametrize("kind", ["sft-m", "cpg", "zgul", "zgul low-rank"])
def test_a_given_encoder_stays_as_it_is_and_is_shared(tmp_path: Path, kind: str) -> None:
    first = tagger_of(kind)
    second = tagger_of(kind)
    with torch.no_grad():
        for name in second.trained_names:
            second.model.get_parameter(name).add_(0.05)
    for name, tagger in (("first", first), ("second", second)):
        save_tagger(tagger, tmp_path / name)
    given = encoder()
    before = {name: value.clone() for name, value in given[0].state_dict().items()}
    loaded = [load_tagger(tmp_path / name, encoder=given) for name in ("first", "second", "first")]
    for expected, tagger in zip((first, second, first), loaded, strict=True):
        assert_same_results(expected, tagger, 1e-6)
    assert {name: value.shape for name, value in given[0].state_dict().items()} == {
        name: value.shape for name, value in before.items()
    }
    assert all(torch.equal(value, before[name]) for name, value in given[0].state_dict().items())
    assert not any(parameter.requires_grad for parameter in given[0].parameters()) and given[0].dropout == 0.0
    if kind.startswith("zgul"):
        assert len({tagger.model.encoder.words.weight.data_ptr() for tagger in loaded}) == 1, "one copy in memory"


# --- the bank


@pytest.mark.parametrize("invertible", ["off", "mixed"])
def test_without_its_bank_a_tagger_takes_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invertible: str
) -> None:
    tagger = small_tagger("madx-multi", options=MethodOptions(dropout=0.0, invertible=invertible))
    save_tagger(tagger, tmp_path / "tagger", bank=False)
    assert not (tmp_path / "tagger" / "bank.safetensors").exists()
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path / "own"))
    own = small_adapters(invertible=invertible != "off")
    save_adapters(tmp_path / "own" / "adapters.safetensors", own[::-1])
    assert_same_results(tagger, load_tagger(tmp_path / "tagger", encoder=encoder()), 1e-6)
    with torch.no_grad():
        next((own[1].invertible or own[1].layers[1]).parameters())[0, 0] += 1e-3
    monkeypatch.setenv("ZGUL_TAGGERS", str(tmp_path / "other"))
    save_adapters(tmp_path / "other" / "adapters.safetensors", own)
    refused(tmp_path / "tagger", r"without its language adapters, and the package has others.*bank=True")
    change_config(tmp_path / "tagger", bank_checksum=None)
    load_tagger(tmp_path / "tagger", encoder=encoder())  # made by hand, without a checksum


def test_a_damaged_bank(saved: Path) -> None:
    (saved / "bank.safetensors").write_bytes(b"nothing")
    refused(saved, r"bank\.safetensors is not a complete safetensors file")


# --- what does not fit


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "tagger"
    save_tagger(small_tagger(), folder)
    return folder


@pytest.fixture
def saved(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "tagger"))


def change_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in (config | values).items() if value is not None}))


def change_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    path = folder / "model.safetensors"
    held = load_file(path)
    change(held)
    save_file(held, path)


def refused(folder: Path, match: str, width: int = WIDTH) -> None:
    with pytest.raises(ZgulError, match=match):
        load_tagger(folder, encoder=encoder(width))


def test_folders_that_are_no_tagger(tmp_path: Path, saved: Path) -> None:
    refused(tmp_path / "nowhere", r"no such folder\. A tagger is a folder with config\.json")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", r"config\.json cannot be read \(No such file")
    (saved / "model.safetensors").unlink()
    refused(saved, r"model\.safetensors: no such file")
    for text, message in (
        ("{", "is not valid JSON"),
        ("[]", "must contain a JSON object"),
        ("[" * 10**5, "too deeply"),
    ):
        (saved / "config.json").write_text(text)
        refused(saved, message)


def test_other_formats(saved: Path) -> None:
    for found in (1, 99, None, "2"):
        change_config(saved, format=found, zgul="9.9")
        refused(
            saved, rf"saved in format {found!r} by zgul 9\.9\. This is zgul .* reads format 2\. Convert it with scri"
        )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("labels", 5, "labels is 5, not a list"),
        ("labels", None, "labels is missing, not a list"),
        ("labels", ["NOUN", 5], "one of labels is 5, not text"),
        ("sources", "en", "sources is 'en', not a list"),
        ("method", ["zgul"], r"method is \['zgul'\], not text"),
        ("merged", "no", "merged is 'no', not true or false"),
        ("related_letters", 1, "related_letters is 1, not true or false"),
        ("options", [], r"options is \[\], not object"),
        ("encoder", "x", "encoder is 'x', not object"),
        ("encoder", {"name": "x", "width": 16}, "encoder.depth is missing, not a whole number"),
        ("encoder", {"name": "x", "width": True, "depth": 2}, "encoder.width is True, not a whole number"),
        ("em", 5, "em is 5, not object"),
        ("em", {"fo": 5}, "em.fo is 5, not object"),
        ("features", None, "features is missing, not object"),
        ("features", {"s0": "x" * 90}, "features.s0 is 'x{39}, not a list"),
        ("features", {"s0": [1, "x"]}, "one of features.s0 is 'x', not a number"),
        ("features", {"s0": [1, True]}, "one of features.s0 is True, not a number"),
        ("features", {"s0": [1, 2], "s1": [1]}, "features must be finite numbers, equally many for each language"),
        ("features", {"s0": [], "s1": []}, "features must be finite numbers, equally many for each language"),
        ("features", {"s0": [float("nan")]}, "features must be finite numbers"),
        ("features", {"s0": [10**29, 10**31]}, "features must be finite numbers"),
        ("features", {"s0": [1e300]}, "features must be finite numbers"),
        ("bank", "outside", "bank is 'outside', not one of inside, shipped, none"),
        ("task", "chunks", "task is 'chunks', not one of pos, ner"),
        ("decode", "crf", "decode is 'crf', not one of words, sequence"),
        ("about", 5, "about is 5, not object"),
    ],
)
def test_a_field_of_another_kind_is_named(saved: Path, key: str, value: object, message: str) -> None:
    change_config(saved, **{key: value})
    refused(saved, f"config.json is damaged: {message}")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("options", {"magic": 1}, r"options: There is no option 'magic'.*Use the zgul version it was made with"),
        ("options", {"reduction": "three"}, "options: reduction must be a number, not 'three'"),
        ("options", {"encoder_rank": 1.5}, "options: encoder_rank must be a whole number, not 1.5"),
        ("options", {"features": 5}, "options: features must be text, not 5"),
        ("options", {"train_encoder": 1}, "options: train_encoder must be true or false, not 1"),
        ("em", {"fo": {"steps": "a"}}, "em.fo: steps must be a whole number, not 'a'"),
        ("em", {"fo": {"steps": 10**9}}, "em.fo: steps must be at least 0 and at most 1000"),
        ("em", {"": {"tied": 0}}, "em.: tied must be true or false"),
        ("em", {"": {"layers": 2}}, "em.: There is no option 'layers'"),
    ],
)
def test_settings_that_this_version_does_not_know(saved: Path, key: str, value: object, message: str) -> None:
    change_config(saved, **{key: value})
    refused(saved, message)


def test_methods_and_strategies_that_do_not_exist(saved: Path) -> None:
    change_config(saved, method="zgul-2")
    refused(saved, "There is no method 'zgul-2'")
    change_config(saved, method="zgul", strategy="rel")
    refused(saved, "ZGUL has no strategy 'rel'. Choose one of: em, plain, em-tied")


def test_an_encoder_of_another_size(saved: Path) -> None:
    refused(saved, r"trained on an encoder of 2 layers of width 16\. The one given has 2 of width 32", width=32)


def test_a_label_set_that_does_not_fit(saved: Path) -> None:
    change_config(saved, labels=[*LABELS, "X"])
    refused(saved, r"config\.json names 10 labels, but the weights were trained for 9")


def test_weights_of_another_shape(saved: Path) -> None:
    change_tensors(saved, lambda held: held.update({"task.0.down.bias": torch.zeros(2)}))
    refused(saved, r"task.0.down.bias has shape \[2\], this model needs \[5\]")


@pytest.mark.parametrize(
    ("name", "shape"), [("head.bias", []), ("weighting.fusion.0.score", [2, 3, 4]), ("weighting.combine.0.weight", [])]
)
def test_weights_that_are_no_matrix(tmp_path: Path, name: str, shape: list[int]) -> None:
    save_tagger(small_tagger(), tmp_path, merged=True)
    change_tensors(tmp_path, lambda held: held.update({name: torch.zeros(shape)}))
    refused(tmp_path, rf"is damaged: {name} is no matrix or vector\. Save the tagger again")


def test_damaged_weights(saved: Path) -> None:
    whole = (saved / "model.safetensors").read_bytes()
    change_tensors(saved, lambda held: held["head.bias"].fill_(torch.nan))
    refused(saved, r"head.bias holds numbers that are not finite\. The file is damaged")
    for length in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        (saved / "model.safetensors").write_bytes(whole[:length])
        refused(saved, "is not a complete safetensors file")
    (saved / "model.safetensors").write_bytes(whole)
    change_tensors(saved, lambda held: held.pop("head.bias"))
    refused(saved, r"does not fit its config\.json: 1 tensors are missing and 0 unknown .head\.bias")
    (saved / "model.safetensors").write_bytes(whole)
    change_tensors(saved, lambda held: held.update({"heads": torch.zeros(1)}))
    refused(saved, r"0 tensors are missing and 1 unknown .heads")


def test_a_config_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without it is no tagger, so nothing half-written is ever loaded."""

    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zgul.tagger.saved.save_adapters", full)
    with pytest.raises(OSError, match="No space left"):
        save_tagger(small_tagger(), tmp_path / "tagger")
    refused(tmp_path / "tagger", r"config\.json cannot be read \(No such file")


# --- taggers of before


@pytest.fixture(scope="module")
def converter() -> Any:
    path = Path(__file__).resolve().parents[2] / "scripts" / "convert_taggers.py"
    spec = importlib.util.spec_from_file_location("convert_taggers", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def old_name(name: str) -> str:
    """The name of a low-rank update in format 1, where modules were named as in transformers."""
    if not name.startswith("encoder.layers."):
        return name
    _, _, layer, matrix, part = name.split(".")
    return f"encoder.model.encoder.layer.{layer}.{LAYER[matrix]}.{part}"


def write_format_1(tagger: Tagger, folder: Path, *, folded: bool, eight_bits: bool) -> None:
    """Save a tagger as zgul did before: folded matrices of all layers in one tensor, ``w = scale · int8``."""
    save_tagger(tagger, folder, merged=False)
    held = {old_name(name): value for name, value in load_file(folder / "model.safetensors").items()}
    if folded:
        layers = range(2)

        def take(pattern: str) -> torch.Tensor:
            return torch.stack([held.pop(pattern.format(layer)) for layer in layers])

        if "weighting.fusion.0.query.weight" in held:
            query, key = take("weighting.fusion.{}.query.weight"), take("weighting.fusion.{}.key.weight")
            held["weighting.score"] = (key.mT @ query).mT.contiguous()  # h @ score = W_kᵀ W_q h
            held["weighting.score_bias"] = (key.mT @ take("weighting.fusion.{}.query.bias")[..., None]).squeeze(-1)
            take("weighting.fusion.{}.key.bias")
        value = take("weighting.value.{}.weight")
        if "weighting.combine.0.weight" in held:
            halves = take("weighting.combine.{}.weight").chunk(2, dim=2)
            held["weighting.project"] = torch.cat([half @ value for half in halves], dim=2)
            held["weighting.mix_bias"] = take("weighting.combine.{}.bias")
        else:
            held["weighting.project"] = value
            held["weighting.mix_bias"] = torch.zeros(2, WIDTH)
    if eight_bits:
        for name in [name for name, tensor in held.items() if tensor.dim() > 1]:
            tensor = held[name]
            scale = tensor.abs().amax(dim=-1, keepdim=True).clamp(min=1e-8) / 127
            held[name] = (tensor / scale).round().to(torch.int8)
            held[f"{name}.scale"] = scale.half()
    save_file(held, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config |= {"format": 1, "folded": folded, "kin_letters": config.pop("related_letters")}
    del config["merged"]
    config["em"] = {code: em | {"layers": 0, "skip_below": 0.0} for code, em in config["em"].items()}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("kind", ["zgul", "zgul-no-l", "zgul-no-f", "zgul low-rank", "madx-multi"])
def test_a_tagger_of_format_1_is_refused_and_can_be_converted(
    converter: Any, tmp_path: Path, kind: str, folded: bool
) -> None:
    folded = folded and kind.startswith("zgul")
    tagger = replace(tagger_of(kind), em={"": EMConfig(steps=2, lr=3.0)})
    write_format_1(tagger, tmp_path / "old", folded=folded, eight_bits=False)
    refused(tmp_path / "old", r"saved in format 1 .*Convert it with scripts/convert_taggers\.py")
    converter.convert(tmp_path / "old", tmp_path / "new", bits=32)
    loaded = load_tagger(tmp_path / "new", encoder=encoder())
    assert loaded.em == tagger.em
    assert_same_results(tagger, loaded, 1e-4)


def test_old_8_bit_numbers_are_converted(converter: Any, tmp_path: Path) -> None:
    tagger = small_tagger()
    write_format_1(tagger, tmp_path / "old", folded=True, eight_bits=True)
    converter.convert(tmp_path / "old", tmp_path / "new", bits=9)
    loaded = load_tagger(tmp_path / "new", encoder=encoder())
    pairs = zip(results(tagger), results(loaded), strict=True)
    same = [a == b for (tags, _), (other, _) in pairs for a, b in zip(tags, other, strict=True)]
    assert np.mean(same) > 0.9
    with pytest.raises(SystemExit, match="has format 2, not 1"):
        converter.convert(tmp_path / "new", tmp_path / "again", bits=9)
