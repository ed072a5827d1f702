"""Taggers of format 1, built by hand under their old names, tag as before when they are converted."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from small_tagger import MADE, small_adapters, small_tagger
from zgul.adapters.storage import load_adapters, save_adapters
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError
from zgul.files import read_json, write_json
from zgul.methods import MethodOptions
from zgul.tagger import Tagger, load_tagger, save_tagger
from zgul.tensors import load_tensors, save_tensors

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from convert_taggers import convert, convert_adapters

OLD = {
    "words": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "types": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "layers.{}.query": "encoder.layer.{}.attention.self.query",
    "layers.{}.key": "encoder.layer.{}.attention.self.key",
    "layers.{}.value": "encoder.layer.{}.attention.self.value",
    "layers.{}.attended": "encoder.layer.{}.attention.output.dense",
    "layers.{}.attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
    "layers.{}.inner": "encoder.layer.{}.intermediate.dense",
    "layers.{}.outer": "encoder.layer.{}.output.dense",
    "layers.{}.norm": "encoder.layer.{}.output.LayerNorm",
}
FOLDED = {
    r"weighting\.fusion\.\d+\.score": "weighting.score",
    r"weighting\.fusion\.\d+\.score_bias": "weighting.score_bias",
    r"weighting\.(combine|value)\.\d+\.weight": "weighting.project",
    r"weighting\.combine\.\d+\.bias": "weighting.mix_bias",
}
SENTENCES = [replace(sentence, language="target") for sentence in MADE.sentences("target", 8)]
LOW_RANK = MethodOptions(dropout=0.0, encoder_rank=2)
WHOLE = MethodOptions(dropout=0.0, train_encoder=True)


def _old_name(name: str) -> str:
    match = re.fullmatch(r"encoder\.(layers\.(\d+)\.)?(\w+)\.(\w+)", name)
    if match is None:
        return name
    layer = "layers.{}." if match[1] else ""
    return f"encoder.model.{OLD[layer + match[3]].format(match[2])}.{match[4]}"


def _stacked(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The matrices of all layers in one tensor."""
    made = {name: value for name, value in state.items() if not any(re.fullmatch(p, name) for p in FOLDED)}
    for pattern, old in FOLDED.items():
        if layers := [state[name] for name in sorted(state) if re.fullmatch(pattern, name)]:
            made[old] = torch.stack(layers)
    return made


def _save_old(tagger: Tagger, folder: Path, *, bits: int, merged: bool) -> None:
    """Write a tagger as zgul did before 0.1.0."""
    save_tagger(tagger, folder, merged=merged, encoder=True)
    state = {_old_name(name): value for name, value in load_tensors(folder / "model.safetensors").items()}
    state = _stacked(state) if merged else state
    save_tensors(folder / "model.safetensors", state, bits=bits)
    config = read_json(folder / "config.json")
    config |= {"format": 1, "folded": config.pop("merged"), "kin_letters": config.pop("related_letters")}
    config["em"][""] |= {"layers": "all", "skip_below": 0.0, "patience": 0, "recompute": False}
    write_json(folder / "config.json", config)
    if tagger.parts.options.encoder_rank:  # the updates stood in the encoder's file, too
        path = folder / "encoder" / "model.safetensors"
        updates = {name.removeprefix("encoder.model."): value for name, value in state.items() if "model." in name}
        changed = {name.rpartition(".")[0] for name in updates}
        plain = load_tensors(path).items()
        named = {re.sub(r"\.(\w+)$", r".base.\1", n) if n.rpartition(".")[0] in changed else n: v for n, v in plain}
        save_tensors(path, named | updates, metadata={"format": "pt"})


@pytest.mark.parametrize("bits", [32, 16])
@pytest.mark.parametrize(
    ("method", "options", "merged"),
    [
        ("sft-m", None, False),
        ("cpg", None, False),
        ("madx-multi", None, False),
        ("zgul", None, False),
        ("zgul", None, True),
        ("zgul-no-l", None, True),
        ("zgul-no-f", None, True),
        ("zgul", LOW_RANK, False),
        ("zgul", WHOLE, False),
    ],
)
def test_a_converted_tagger_tags_as_before(tmp_path, method, options, merged, bits) -> None:
    tagger = replace(small_tagger(method, options=options), em={"": EMConfig(steps=2, lr=1.0)})
    before = [prediction.probabilities for prediction in tagger.predict(SENTENCES)]
    _save_old(tagger, tmp_path / "old", bits=bits, merged=merged)
    with pytest.raises(ZgulError, match="convert_taggers"):
        load_tagger(tmp_path / "old")
    convert(tmp_path / "old", tmp_path / "new")
    after = [prediction.probabilities for prediction in load_tagger(tmp_path / "new").predict(SENTENCES)]
    close = 1e-4 if bits == 32 else 2e-2
    np.testing.assert_allclose(np.concatenate(after), np.concatenate(before), atol=close)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("old", "new")]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.2), "numbers keep their bits"


def test_old_adapters_are_converted(tmp_path) -> None:
    old, new = tmp_path / "old.safetensors", tmp_path / "new.safetensors"
    adapters = small_adapters()
    save_adapters(old, adapters)
    coded: dict[str, Tensor] = {}
    for name, value in load_tensors(old).items():
        if value.dim() < 2:
            coded[name] = value
            continue
        coded[f"{name}.scale"] = value.abs().amax(dim=1, keepdim=True) / 127
        coded[name] = (value / coded[f"{name}.scale"]).round().to(torch.int8)
    names = ("language", "width", "activation", "standardise", "about")
    described = [{name: getattr(one, name) for name in names} | {"depth": 2, "invertible": False} for one in adapters]
    save_tensors(old, coded, metadata={"adapters": json.dumps(described)})
    with pytest.raises(ZgulError, match="convert_taggers"):
        load_adapters(old)
    convert_adapters(old, new)
    for adapter, converted in zip(adapters, load_adapters(new), strict=True):
        for layer, other in zip(adapter.layers, converted.layers, strict=True):
            torch.testing.assert_close(other.down.weight, layer.down.weight, atol=1e-2, rtol=0)
