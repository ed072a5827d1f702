"""ModernBERTs give what transformers' model gives, and taggers can be trained on one."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.testing import assert_close

from family import tiny_encoder
from tiny_group import MADE, sentences, write_group
from zgul import encoders
from zgul.encoders.encoder import LowRankLinear, masked_attention, state_for_hub
from zgul.encoders.folder import config_for_hub, config_from_hub, load_folder
from zgul.encoders.modern import ModernEncoder
from zgul.encoders.rotary import Rotary
from zgul.errors import ZgulError
from zgul.tagger import load_tagger
from zgul.training.config import TrainingConfig
from zgul.training.run import train

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "local_attention": 6,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 500.0,
    "local_rope_theta": 20.0,
}
UNKNOWN_KIND = "rope_parameters in config.json are of a kind that zgul does not know"


@pytest.fixture
def theirs() -> Any:
    torch.manual_seed(0)
    model = transformers.ModernBertModel(transformers.ModernBertConfig(**SIZES, attn_implementation="eager")).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


def ours(model: Any) -> ModernEncoder:
    return ModernEncoder.from_hub(config_from_hub(model.config.to_dict()), model.state_dict())


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.arange(20)[None] < torch.tensor([20, 9, 1])[:, None]  # longer than the window of 3 on each side
    ids = torch.randint(5, 50, (3, 20), generator=torch.Generator().manual_seed(1))
    return ids.masked_fill(~mask, 0), mask


@torch.no_grad()
def test_hidden_states_are_those_of_transformers(theirs: Any) -> None:
    ids, mask = inputs()
    expected = theirs(ids, attention_mask=mask.long()).last_hidden_state
    assert_close(ours(theirs)(ids, mask)[mask], expected[mask], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_each_layer_gives_what_theirs_gives(theirs: Any) -> None:
    ids, mask = inputs()
    states = theirs(ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    encoder = ours(theirs)
    assert_close(encoder.embed(ids)[mask], states[0][mask])
    for index in range(encoder.depth - 1):  # they put the final norm into the last
        x, f = encoder.layer(index, states[index], masked_attention(mask))
        assert_close(encoder.output(index, f + x)[mask], states[index + 1][mask], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_adapters_read_what_the_next_layer_reads(theirs: Any) -> None:
    encoder, y = ours(theirs), torch.randn(5, 16)
    for index in range(encoder.depth - 1):
        assert torch.equal(encoder.layer_norm(index, y), theirs.layers[index + 1].attn_norm(y))
    assert torch.equal(encoder.layer_norm(encoder.depth - 1, y), theirs.final_norm(y))


@torch.no_grad()
def test_padding_changes_nothing_and_a_layer_sees_no_further_than_its_window(theirs: Any) -> None:
    encoder, (ids, mask) = ours(theirs), inputs()
    together = encoder(ids, mask)
    assert together.isfinite().all()
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        alone = ids[row : row + 1, :length]
        whole = torch.ones_like(alone, dtype=torch.bool)
        assert_close(together[row, :length], encoder(alone, whole)[0], rtol=1e-4, atol=1e-5)
    near = Rotary(20.0, window=3).limit(torch.ones(1, 1, 1, 6, dtype=torch.bool))[0, 0]
    assert near[0].tolist() == [True, True, True, True, False, False]


@torch.no_grad()
def test_products_of_rotated_vectors_depend_on_the_distance_alone() -> None:
    query, key = torch.randn(2, 8).expand(12, 2, 8).permute(1, 0, 2)[:, None, None].double()  # the same at 12 positions
    rotary = Rotary(50.0)
    products = (rotary.turn(query) @ rotary.turn(key).mT)[0, 0]  # [12, 12]
    for distance in range(-11, 12):
        on_line = products.diagonal(distance)
        assert_close(on_line, on_line[:1].expand_as(on_line), rtol=0, atol=1e-5)  # angles are float32
    assert_close(products[0, 0], (query[0, 0, 0] * key[0, 0, 0]).sum())
    assert not torch.allclose(products[0], products[0, :1].expand(12), atol=1e-2)


def test_tensors_and_configuration_go_back_to_transformers(theirs: Any) -> None:
    encoder = ours(theirs)
    state = state_for_hub(encoder)
    for name, value in theirs.named_parameters():
        assert torch.equal(state.pop(name), value), name
    assert not state
    config = transformers.ModernBertConfig(**config_for_hub(encoder.config))
    assert config_from_hub(config.to_dict()) == encoder.config
    assert [rotary.window for rotary in encoder.config.rotary] == [None, 3, 3, None]
    assert [rotary.theta for rotary in encoder.config.rotary] == [500.0, 20.0, 20.0, 500.0]


def test_low_rank_updates_reach_every_matrix(theirs: Any) -> None:
    encoder, (ids, mask) = ours(theirs), inputs()
    encoder.add_low_rank(2)
    updates = [module for module in encoder.modules() if isinstance(module, LowRankLinear)]
    assert len(updates) == 7 * encoder.depth
    with torch.no_grad():
        for module in updates:
            module.b.normal_(std=0.1)
        assert_close(encoder.merged()(ids, mask)[mask], encoder(ids, mask)[mask], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm_bias": True}, "norm_bias"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["half"] * 4}, "layer_types"),
        ({"local_attention": "far"}, "local_attention"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 10.0}}},
            UNKNOWN_KIND,
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_theta": "big"}}},
            UNKNOWN_KIND,
        ),
        ({"rope_parameters": [1]}, UNKNOWN_KIND),
        ({"norm_eps": 2}, "norm_eps"),
    ],
)
def test_configurations_that_cannot_be_read_are_refused(theirs: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        config_from_hub(theirs.config.to_dict() | change)


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    encoders.save(*tiny_encoder(MADE, width=16, modern=True), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for change, message in (
        ({"intermediate_size": 8}, r"mlp.Wi.0.weight is \[32, 16\]"),
        ({"num_hidden_layers": 3, "layer_types": None}, "config.json says 3 layers, and the weights have fewer"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ZgulError, match=message):
            load_folder(tmp_path)


def test_a_tagger_is_trained_saved_and_loaded_on_a_modernbert(tmp_path: Path) -> None:
    folder = write_group(tmp_path)
    encoders.save(*tiny_encoder(MADE, width=16, modern=True), folder / "modern")
    config = TrainingConfig(
        data=str(folder / "data"),
        group="germanic",
        encoder=str(folder / "modern"),
        adapters="new",
        epochs=1,
        lr=1e-2,
        em_sentences=10,
        device="cpu",
    )
    trained = train(config, tmp_path / "tagger")
    text = sentences("fo", 6)
    found = load_tagger(tmp_path / "tagger").predict(text)
    assert [each.tags for each in found] == [each.tags for each in trained.predict(text)]
    assert all(len(each.tags) == len(sentence.words) for each, sentence in zip(found, text, strict=True))
