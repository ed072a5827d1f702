"""The same hidden states as `adapters` 1.3.0, whose answers ``make oracle`` recorded beside this file."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.testing import assert_close

from zgul.adapters.adapterhub import read_adapter, write_adapter
from zgul.adapters.bank import Bank
from zgul.encoders.batches import Batch
from zgul.encoders.encoder import Encoder
from zgul.encoders.folder import config_from_hub
from zgul.ensemble.weighting import ByLanguage, Weighting, ZGULWeighting
from zgul.fast.engine import engine
from zgul.methods.madx import RULED_OUT
from zgul.methods.model import Model

ORACLE = Path(__file__).parent / "oracle"
MODELS = ("bert", "xlm-roberta")
LANGUAGES = ["en", "de", "am", "is"]  # in the order in which they were fused


class Recording:
    """One model's tensors, and its encoder built again."""

    def __init__(self, name: str) -> None:
        self.name = name
        with safe_open(ORACLE / f"{name}.safetensors", "pt") as file:
            config = json.loads(file.metadata()["config"])
        self.tensors = load_file(ORACLE / f"{name}.safetensors")
        self.encoder = Encoder.from_hub(config_from_hub(config), self.below("encoder."))

    def below(self, prefix: str) -> dict[str, Tensor]:
        return {key.removeprefix(prefix): v for key, v in self.tensors.items() if key.startswith(prefix)}

    def bank(self, languages: list[str]) -> Bank:
        adapters = [read_adapter(ORACLE / self.name / language, language) for language in languages]
        return Bank(adapters, width=self.encoder.width, depth=self.encoder.depth)

    def batch(self, languages: int = 1, row: int = 0) -> Batch:
        """The recorded sentences in the language of this row; each of these languages has an adapter of its own."""
        ids, mask = self.tensors["input_ids"], self.tensors["mask"]
        zeros = torch.zeros_like(ids)
        table = torch.where(torch.eye(languages, dtype=torch.bool), 0.0, RULED_OUT)
        return Batch(ids, mask, mask, zeros + row, zeros, zeros[:, 0], zeros[:, 0], table)

    def model(self, bank: Bank | None, weighting: Weighting | None, *, task: bool, invertible: str) -> Model:
        """A model whose label scores are its hidden states."""
        width = self.encoder.width
        model = Model(
            self.encoder,
            width,
            bank=bank,
            weighting=weighting,
            task_size=width // 3 if task else 0,
            invertible=invertible,
        )
        nn.init.eye_(model.head.weight)
        for index, layer in enumerate(model.task):
            layer.load_state_dict(self.task.layers[index].state_dict())
        return model.eval()

    @property
    def task(self) -> Any:
        return read_adapter(ORACLE / self.name / "task")

    def fusion(self) -> ZGULWeighting:
        """AdapterFusion is ZGUL without lang2vec."""
        features = torch.zeros(len(LANGUAGES), 3)
        weighting = ZGULWeighting(features, width=self.encoder.width, depth=self.encoder.depth, views=("fusion",))
        for index in range(self.encoder.depth):
            recorded = self.below(f"fusion.{index}.")
            weighting.value[index].load_state_dict({"weight": recorded.pop("value.weight")})
            weighting.fusion[index].load_state_dict(recorded)
        return weighting

    def assert_recorded(self, got: Tensor, key: str) -> None:
        mask = self.tensors["mask"]
        assert_close(got[mask], self.tensors[key][mask], rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module", params=MODELS)
def recording(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


@pytest.mark.parametrize("task", [False, True])
@pytest.mark.parametrize("language", LANGUAGES)
@torch.no_grad()
def test_stack_is_a_one_hot_weighting(recording: Recording, language: str, task: bool) -> None:
    key = f"hidden.stack.{language}" + (".task" if task else "")
    alone = recording.model(recording.bank([language]), ByLanguage(), task=task, invertible="first")
    recording.assert_recorded(alone(recording.batch()), key)
    # among others, each language through its own invertible block
    row = LANGUAGES.index(language)
    among = recording.model(recording.bank(LANGUAGES), ByLanguage(), task=task, invertible="mixed")
    recording.assert_recorded(among(recording.batch(4, row)), key)
    recording.assert_recorded(engine(among)(recording.batch(4, row)).logits, key)


@torch.no_grad()
def test_each_sentence_of_a_batch_in_its_own_language(recording: Recording) -> None:
    model = recording.model(recording.bank(LANGUAGES), ByLanguage(), task=True, invertible="mixed")
    batch = recording.batch(4)
    batch.languages = torch.tensor([2, 0, 3])[:, None].expand_as(batch.languages)
    got = model(batch)
    for sentence, language in enumerate(["am", "en", "is"]):
        mask = recording.tensors["mask"][sentence]
        expected = recording.tensors[f"hidden.stack.{language}.task"][sentence]
        assert_close(got[sentence][mask], expected[mask], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_the_invertible_block_matters(recording: Recording) -> None:
    off = recording.model(recording.bank(["en"]), ByLanguage(), task=False, invertible="off")
    mask = recording.tensors["mask"]
    assert not torch.allclose(off(recording.batch())[mask], recording.tensors["hidden.stack.en"][mask], atol=1e-2)


@torch.no_grad()
def test_files_of_the_first_version_compute_the_same(recording: Recording) -> None:
    model = recording.model(recording.bank(["old"]), ByLanguage(), task=False, invertible="first")
    recording.assert_recorded(model(recording.batch()), "hidden.stack.old")


@torch.no_grad()
def test_a_task_adapter_without_language_adapters(recording: Recording) -> None:
    model = recording.model(None, None, task=True, invertible="off")
    recording.assert_recorded(model(recording.batch()), "hidden.task")


@pytest.mark.parametrize("task", [False, True])
@torch.no_grad()
def test_fuse_is_zgul_without_lang2vec(recording: Recording, task: bool) -> None:
    """The invertible block is the first adapter's."""
    model = recording.model(recording.bank(LANGUAGES), recording.fusion(), task=task, invertible="first")
    key = "hidden.fuse" + (".task" if task else "")
    recording.assert_recorded(model(recording.batch()), key)
    recording.assert_recorded(engine(model)(recording.batch()).logits, key)


@torch.no_grad()
def test_fusion_weights(recording: Recording) -> None:
    model = recording.model(recording.bank(LANGUAGES), recording.fusion(), task=False, invertible="first")
    seen: dict[int, Tensor] = {}

    def choose(layer: int, compute: Any) -> Tensor:
        seen[layer] = compute().softmax(dim=-1)
        return seen[layer]

    model(recording.batch(), choose=choose)
    for layer, weights in seen.items():
        recording.assert_recorded(weights[:, :, 0], f"weights.{layer}")


@pytest.mark.parametrize("language", [*LANGUAGES, "old"])
@torch.no_grad()
def test_masked_lm_applies_the_inverse_before_the_decoder(recording: Recording, language: str) -> None:
    bank = recording.bank([language])
    hidden = recording.model(bank, ByLanguage(), task=False, invertible="first")(recording.batch())
    head = recording.below("head.")  # 0 is a dense layer, 2 a norm, 3 the decoder
    y = nn.functional.gelu(hidden @ head["0.weight"].T + head["0.bias"])
    eps = recording.encoder.config.eps
    y = nn.functional.layer_norm(y, y.shape[-1:], head["2.weight"], head["2.bias"], eps)
    invertible = bank.extract(language).invertible
    assert invertible is not None
    scores = invertible.inverse(y) @ head["3.weight"].T + head["3.bias"]
    mask = recording.tensors["mask"]
    assert_close(scores[mask], recording.tensors[f"mlm.stack.{language}"][mask], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("language", ["en", "de", "am"])
def test_what_is_written_is_what_adapters_writes(recording: Recording, language: str, tmp_path: Path) -> None:
    """The same keys, shapes and numbers, and no option that `adapters` does not know."""
    source = ORACLE / recording.name / language
    safe = (source / "adapter.safetensors").exists()
    write_adapter(read_adapter(source), tmp_path, model_type=recording.name, safe=safe)
    theirs, ours = _weights(source), _weights(tmp_path)
    assert theirs.keys() == ours.keys()
    for key, value in theirs.items():
        assert torch.equal(value, ours[key])
    their_config, our_config = (
        json.loads((folder / "adapter_config.json").read_text()) for folder in (source, tmp_path)
    )
    assert our_config.keys() <= their_config.keys()
    for key, value in our_config["config"].items():
        assert their_config["config"][key] == value
    for key in ("name", "model_type", "hidden_size"):
        assert our_config[key] == their_config[key]


def _weights(folder: Path) -> dict[str, Tensor]:
    safe = folder / "adapter.safetensors"
    if safe.exists():
        return load_file(safe)
    loaded: dict[str, Tensor] = torch.load(folder / "pytorch_adapter.bin", weights_only=True)
    return loaded
