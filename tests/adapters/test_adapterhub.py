"""AdapterHub's files: every version of the format, and everything that must be refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from zgul.adapters.adapterhub import read_adapter, reduction_factor, write_adapter
from zgul.adapters.bank import LanguageAdapter
from zgul.adapters.language_adapter import ACTIVATIONS, Bottleneck, Invertible
from zgul.errors import ZgulError

WIDTH, DEPTH = 8, 2
OLD_CONFIG = {
    "adapter_residual_before_ln": False,
    "invertible_adapter": {"block_type": "nice", "reduction_factor": 2},
    "ln_after": False,
    "ln_before": False,
    "mh_adapter": False,
    "non_linearity": "gelu",
    "original_ln_after": True,
    "original_ln_before": True,
    "output_adapter": True,
    "reduction_factor": 2,
    "residual_before_ln": True,
}
Tensors = dict[str, torch.Tensor]


def make(
    sizes: int | list[int] = 4, activation: str = "relu", *, invertible: bool = True, standardise: bool = False
) -> LanguageAdapter:
    sizes = [sizes] * DEPTH if isinstance(sizes, int) else sizes
    layers = [Bottleneck(WIDTH, size, activation, standardise) for size in sizes]
    adapter = LanguageAdapter("en", layers, Invertible(WIDTH, activation=activation) if invertible else None)
    with torch.no_grad():
        for module in [*layers, *([adapter.invertible] if adapter.invertible else [])]:
            for parameter in module.parameters():
                parameter.normal_()
    return adapter


def assert_same(read: LanguageAdapter, made: LanguageAdapter) -> None:
    x = torch.randn(3, WIDTH)
    assert len(read.layers) == len(made.layers)
    for a, b in zip(read.layers, made.layers, strict=True):
        assert a.activation == b.activation
        assert_close(a(x), b(x))
    assert (read.invertible is None) == (made.invertible is None)
    if read.invertible is not None and made.invertible is not None:
        assert_close(read.invertible(x), made.invertible(x))


def edit(
    folder: Path,
    *,
    config: Callable[[dict[str, Any]], object] | None = None,
    tensors: Callable[[Tensors], Tensors | None] | None = None,
) -> Path:
    """Change a written folder in place."""
    if config:
        path = folder / "adapter_config.json"
        held = json.loads(path.read_text())
        config(held)
        path.write_text(json.dumps(held))
    if tensors:
        held = load_file(folder / "adapter.safetensors")
        save_file(tensors(held) or held, folder / "adapter.safetensors")
    return folder


def old_folder(folder: Path, adapter: LanguageAdapter, legacy: bool = True) -> Path:
    """A folder as the first adapter-transformers wrote it: old names, no version, a nested block, a .bin."""
    write_adapter(adapter, folder)
    tensors = {
        key.replace(".adapters.", ".layer_text_lang_adapters.").replace(
            "invertible_adapters", "invertible_lang_adapters"
        ): value
        for key, value in load_file(folder / "adapter.safetensors").items()
    }
    (folder / "adapter.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_adapter.bin", _use_new_zipfile_serialization=not legacy)
    config = {"config": OLD_CONFIG, "hidden_size": WIDTH, "model_name": "m", "name": "en", "type": "text_lang"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.integers(1, 11), min_size=DEPTH, max_size=DEPTH),
    st.sampled_from(sorted(ACTIVATIONS)),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["bert", "roberta", "xlm-roberta"]),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    activation: str,
    invertible: bool,
    standardise: bool,
    safe: bool,
    model_type: str,
) -> None:
    adapter = make(sizes, activation, invertible=invertible, standardise=standardise)
    folder = tmp_path_factory.mktemp("adapter")
    write_adapter(adapter, folder, model_type=model_type, model_name="some-encoder", safe=safe)
    assert len(list(folder.iterdir())) == 2
    read = read_adapter(folder)
    assert (read.language, read.about["model_name"]) == ("en", "some-encoder")
    assert_same(read, adapter)


@given(st.integers(1, 2000), st.integers(1, 4000))
def test_a_reduction_factor_gives_the_size_back(width: int, size: int) -> None:
    assert int(width // reduction_factor(width, size)) == size


def test_usual_factors_are_written_as_whole_numbers(tmp_path: Path) -> None:
    assert [reduction_factor(768, size) for size in (384, 256, 48)] == [2, 3, 16]
    config = json.loads((write_adapter(make(), tmp_path) / "adapter_config.json").read_text())
    assert config["config"]["reduction_factor"] == 2
    assert config["config"]["inv_adapter_reduction_factor"] == 2
    assert config["version"]


def test_writing_again_in_the_other_form_leaves_one_file(tmp_path: Path) -> None:
    write_adapter(make(2), tmp_path)
    newer = make(4)
    write_adapter(newer, tmp_path, safe=False)
    assert_same(read_adapter(tmp_path), newer)
    assert not (tmp_path / "adapter.safetensors").exists()


@pytest.mark.parametrize("legacy", [True, False])
def test_the_oldest_files(tmp_path: Path, legacy: bool) -> None:
    """No version: ``gelu`` is the tanh one; old names of keys; the invertible block nested."""
    adapter = make(activation="gelu_new")
    read = read_adapter(old_folder(tmp_path, adapter, legacy))
    assert read.activation == "gelu_new"
    assert_same(read, adapter)


def test_gelu_with_a_version_is_gelu_and_gelu_orig_without_one_too(tmp_path: Path) -> None:
    write_adapter(make(activation="gelu"), tmp_path)
    assert read_adapter(tmp_path).activation == "gelu"
    edit(tmp_path, config=lambda c: c.pop("version"))
    assert read_adapter(tmp_path).activation == "gelu_new"
    edit(tmp_path, config=lambda c: c["config"].update(non_linearity="gelu_orig"))
    assert read_adapter(tmp_path).activation == "gelu"


def test_a_norm_before_shifts_the_index_and_is_computed(tmp_path: Path) -> None:
    adapter = make(standardise=True, invertible=False)
    write_adapter(adapter, tmp_path)
    scale, shift = torch.randn(WIDTH), torch.randn(WIDTH)

    def with_norm(tensors: Tensors) -> None:
        for key in tensors:
            if "adapter_down.0" in key or "adapter_norm_before" in key:
                tensors[key] = scale.clone() if key.endswith("weight") else shift.clone()

    edit(tmp_path, tensors=with_norm)
    x = torch.randn(5, WIDTH)
    layer = adapter.layers[0]
    normed = torch.nn.functional.layer_norm(x, (WIDTH,), scale, shift)
    expected = layer.up(torch.relu(layer.down(normed)))
    assert_close(read_adapter(tmp_path).layers[0](x), expected)
    # a file that names the norm only once is the same adapter
    edit(tmp_path, tensors=lambda t: {k: v for k, v in t.items() if "adapter_norm_before" not in k})
    assert_close(read_adapter(tmp_path).layers[0](x), expected)


@pytest.mark.parametrize("factor", [2, 2.0, "2", {"default": 2}, {"0": 2, "1": 2}, {"1": 2, "default": "2"}])
def test_reduction_factors_as_number_text_or_by_layer(tmp_path: Path, factor: object) -> None:
    adapter = make(4)
    edit(write_adapter(adapter, tmp_path), config=lambda c: c["config"].update(reduction_factor=factor))
    assert_same(read_adapter(tmp_path), adapter)


def test_keys_of_a_bare_encoder_have_no_prefix(tmp_path: Path) -> None:
    adapter = make()
    write_adapter(adapter, tmp_path)
    edit(tmp_path, tensors=lambda t: {key.removeprefix("bert."): value for key, value in t.items()})
    assert_same(read_adapter(tmp_path), adapter)


def test_name_and_width_may_be_absent_and_the_language_may_be_given(tmp_path: Path) -> None:
    adapter = make()
    write_adapter(adapter, tmp_path)
    edit(tmp_path, config=lambda c: (c.pop("name"), c.pop("hidden_size")))
    assert read_adapter(tmp_path).language == "en"
    read = read_adapter(str(tmp_path), "eng")
    assert read.language == "eng" and read.about["name"] == "en"


def test_half_precision_files_are_read_in_single(tmp_path: Path) -> None:
    write_adapter(make(), tmp_path)
    edit(tmp_path, tensors=lambda t: {key: value.half() for key, value in t.items()})
    assert read_adapter(tmp_path).layers[0].down.weight.dtype == torch.float32


def test_an_old_task_adapter_names_an_invertible_block_it_never_had(tmp_path: Path) -> None:
    adapter = make(invertible=False)
    write_adapter(adapter, tmp_path)
    inverse = {"block_type": "nice", "reduction_factor": 2}
    edit(
        tmp_path,
        config=lambda c: (
            c["config"].pop("inv_adapter"),
            c["config"].update(invertible_adapter=inverse),
            c.update(type="text_task"),
        ),
    )
    assert_same(read_adapter(tmp_path), adapter)
    edit(tmp_path, config=lambda c: c.update(type="text_lang"))
    with pytest.raises(ZgulError, match=r"It lacks invertible_adapters\.en\.F\.0\.weight"):
        read_adapter(tmp_path)


REFUSED_CONFIGS = {
    "mh_adapter": (True, "mh_adapter is true.*Pfeiffer's placement"),
    "output_adapter": (False, "output_adapter is false"),
    "original_ln_before": (False, "original_ln_before is false"),
    "original_ln_after": (False, "original_ln_after is false"),
    "ln_after": (True, "ln_after is true"),
    "residual_before_ln": ("post_add", 'residual_before_ln is "post_add"'),
    "is_parallel": (True, "is_parallel is true"),
    "use_gating": (True, "use_gating is true"),
    "phm_layer": (True, "phm_layer is true"),
    "scaling": ("learned", 'scaling is "learned"'),
    "leave_out": ([1], r"leave_out is \[1\]"),
    "architecture": ("lora", 'architecture is "lora"'),
    "non_linearity": ("swish", 'non_linearity is "swish", but zgul has only gelu, relu, gelu_new'),
    "inv_adapter": ("glow", 'inv_adapter is "glow", but zgul supports only'),
    "inv_adapter_reduction_factor": (0, "inv_adapter_reduction_factor must be a number above 0"),
    "reduction_factor": (None, "reduction_factor must be a number above 0 .*not null"),
}


@pytest.mark.parametrize("key", REFUSED_CONFIGS)
def test_other_architectures_are_refused(tmp_path: Path, key: str) -> None:
    value, message = REFUSED_CONFIGS[key]
    edit(write_adapter(make(), tmp_path), config=lambda c: c["config"].update({key: value}))
    with pytest.raises(ZgulError, match=message):
        read_adapter(tmp_path)


@pytest.mark.parametrize("factor", ["two", -1, float("nan"), {"0": 2}, {}])
def test_impossible_reduction_factors(tmp_path: Path, factor: object) -> None:
    edit(write_adapter(make(), tmp_path), config=lambda c: c["config"].update(reduction_factor=factor))
    with pytest.raises(ZgulError, match=r"reduction_factor must be a number above 0"):
        read_adapter(tmp_path)


def test_a_configuration_without_placement_is_refused(tmp_path: Path) -> None:
    edit(write_adapter(make(), tmp_path), config=lambda c: c["config"].pop("mh_adapter"))
    with pytest.raises(ZgulError, match=r"mh_adapter is null"):
        read_adapter(tmp_path)


UP = "bert.encoder.layer.1.output.adapters.en.adapter_up.weight"


def without(part: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {key: value for key, value in tensors.items() if part not in key}


def plus(key: str, value: torch.Tensor | None = None) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {**tensors, key: torch.zeros(1) if value is None else value}


REFUSED_TENSORS = {
    "missing": (
        without("layer.1.output.adapters.en.adapter_up.b"),
        "It lacks encoder.layer.1.output.adapters.en.adapter_up.bias",
    ),
    "missing layer": (
        without("layer.0."),
        "It lacks encoder.layer.0.output.adapters.en.adapter_up.weight",
    ),
    "no layers": (without("encoder."), "contains no layer of an adapter"),
    "no invertible": (without("invertible"), "It lacks invertible_adapters.en.F.0.weight"),
    "half an invertible": (
        without(".G.2."),
        "lacks invertible_adapters.en.G.2.bias, invertible_adapters.en.G.2.w",
    ),
    "extra": (
        plus("bert.encoder.layer.0.output.adapters.en.gate.bias"),
        "contains encoder.layer.0.output.adapters.en.gate.bias, which",
    ),
    "foreign": (plus("bert.pooler.dense.bias"), "bert.pooler.dense.bias do not belong to a Pfeiffer adapter"),
    "attention": (
        plus("bert.encoder.layer.0.attention.output.adapters.en.adapter_up.bias"),
        "do not belong to a Pfeiffer adapter",
    ),
    "two adapters": (
        plus("bert.encoder.layer.0.output.adapters.de.adapter_up.bias"),
        'configuration is for the adapter "en", the weights are for: de, en',
    ),
    "NaN": (plus(UP, torch.full((WIDTH, 4), torch.nan)), f"{UP} contains values that are NaN or infinite"),
    "infinite": (plus(UP, torch.full((WIDTH, 4), torch.inf)), "NaN or infinite"),
    "shape": (plus(UP, torch.zeros(WIDTH, 5)), r"adapter_up.weight has the shape \[8, 5\]. .* \[8, 4\]"),
}


@pytest.mark.parametrize("case", REFUSED_TENSORS)
def test_tensors_that_do_not_fit_are_refused(tmp_path: Path, case: str) -> None:
    change, message = REFUSED_TENSORS[case]
    edit(write_adapter(make(), tmp_path), tensors=change)
    with pytest.raises(ZgulError, match=message):
        read_adapter(tmp_path)


def test_without_a_width_an_incomplete_last_layer_is_named(tmp_path: Path) -> None:
    edit(
        write_adapter(make(), tmp_path),
        config=lambda c: c.pop("hidden_size"),
        tensors=without("layer.1.output.adapters.en.adapter_up"),
    )
    with pytest.raises(ZgulError, match=r"lacks encoder.layer.1.output.adapters.en.adapter_up.weight"):
        read_adapter(tmp_path)


def test_an_invertible_block_that_the_configuration_does_not_name(tmp_path: Path) -> None:
    edit(write_adapter(make(), tmp_path), config=lambda c: c["config"].update(inv_adapter=None))
    with pytest.raises(
        ZgulError, match=r"contains invertible_adapters.* and 5 more, which adapter_config.json does not"
    ):
        read_adapter(tmp_path)


def test_the_wrong_width_is_a_wrong_shape(tmp_path: Path) -> None:
    edit(write_adapter(make(), tmp_path), config=lambda c: c.update(hidden_size=16))
    with pytest.raises(ZgulError, match=r"has the shape"):
        read_adapter(tmp_path)


@pytest.mark.parametrize("name", ["adapter.safetensors", "pytorch_adapter.bin"])
@pytest.mark.parametrize("content", [b"", b"not weights", None])
def test_damaged_files(tmp_path: Path, name: str, content: bytes | None) -> None:
    write_adapter(make(), tmp_path, safe=name == "adapter.safetensors")
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-200] if content is None else content)
    with pytest.raises(ZgulError, match=r"damaged"):
        read_adapter(tmp_path)


class Bomb:
    """Pickles to a call."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("new_format", [True, False])
def test_a_pickle_with_code_is_not_run(tmp_path: Path, new_format: bool) -> None:
    write_adapter(make(), tmp_path, safe=False)
    target = tmp_path / "was-run"
    torch.save({"a": Bomb(target)}, tmp_path / "pytorch_adapter.bin", _use_new_zipfile_serialization=new_format)
    with pytest.raises(ZgulError, match=r"more than plain tensors.*posix mkdir.*do not trust it"):
        read_adapter(tmp_path)
    assert not target.exists()


@pytest.mark.parametrize("content", [[1, 2], {"a": "text"}])
def test_a_pickle_of_something_else(tmp_path: Path, content: object) -> None:
    write_adapter(make(), tmp_path, safe=False)
    torch.save(content, tmp_path / "pytorch_adapter.bin")
    with pytest.raises(ZgulError, match=r"not a dictionary of named tensors"):
        read_adapter(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "must contain a JSON object"),
        ("{}", "config must be an object"),
        ('{"config": "pfeiffer"}', "config must be an object"),
    ],
)
def test_broken_configurations(tmp_path: Path, text: str, message: str) -> None:
    write_adapter(make(), tmp_path)
    (tmp_path / "adapter_config.json").write_text(text)
    with pytest.raises(ZgulError, match=message):
        read_adapter(tmp_path)


def test_folders_that_hold_no_adapter(tmp_path: Path) -> None:
    with pytest.raises(ZgulError, match=r"contains no adapter.safetensors and no pytorch_adapter.bin"):
        read_adapter(tmp_path)
    write_adapter(make(), tmp_path)
    (tmp_path / "adapter_config.json").unlink()
    with pytest.raises(ZgulError, match=r"contains no adapter_config.json"):
        read_adapter(tmp_path)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ZgulError, match=r"not for the model type 'gpt2'"):
        write_adapter(make(), tmp_path, model_type="gpt2")
    adapter = make()
    adapter.language = "a.b"
    with pytest.raises(ZgulError, match=r"must not contain dots"):
        write_adapter(adapter, tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_write_that_fails_leaves_the_old_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = make()
    write_adapter(adapter, tmp_path)
    before = shutil.copytree(tmp_path, tmp_path.parent / "before")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match=r"disk full"):
        write_adapter(make(2), tmp_path, safe=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in before.iterdir())
    assert_same(read_adapter(tmp_path), adapter)
