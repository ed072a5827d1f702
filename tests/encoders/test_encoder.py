"""The encoder gives what the Hugging Face models give, for every family that it can hold."""

import copy
from typing import Any

import pytest
import torch
import transformers
from torch.testing import assert_close

from zgul.encoders.encoder import Encoder, LowRankLinear, masked_attention, state_for_hub
from zgul.encoders.folder import config_for_hub, config_from_hub
from zgul.errors import ZgulError

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}
FAMILIES = {
    "bert": (transformers.BertModel, transformers.BertConfig),
    "roberta": (transformers.RobertaModel, transformers.RobertaConfig),
    "xlm-roberta": (transformers.XLMRobertaModel, transformers.XLMRobertaConfig),
    "camembert": (transformers.CamembertModel, transformers.CamembertConfig),
}


@pytest.fixture(params=FAMILIES)
def theirs(request: pytest.FixtureRequest) -> Any:
    """A random Hugging Face model, in double precision."""
    cls, config = FAMILIES[request.param]
    torch.manual_seed(0)
    model = cls(config(**SIZES), add_pooling_layer=False).eval().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


def ours(model: Any) -> Encoder:
    return Encoder.from_hub(config_from_hub(model.config.to_dict()), model.state_dict())


def inputs(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.arange(8)[None] < torch.tensor([8, 5, 1])[:, None]
    ids = torch.randint(5, 50, (3, 8), generator=torch.Generator().manual_seed(1))
    return ids.masked_fill(~mask, model.config.pad_token_id), mask


@torch.no_grad()
def test_hidden_states_are_those_of_transformers(theirs: Any) -> None:
    ids, mask = inputs(theirs)
    expected = theirs(ids, attention_mask=mask.long()).last_hidden_state
    assert_close(ours(theirs)(ids, mask)[mask], expected[mask], rtol=0, atol=1e-10)
    assert ours(theirs)(ids[:0], mask[:0]).shape == (0, *expected.shape[1:]), "no sentence at all"


@torch.no_grad()
def test_each_layer_ends_in_its_own_norm(theirs: Any) -> None:
    ids, mask = inputs(theirs)
    states = theirs(ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    encoder = ours(theirs)
    assert_close(encoder.embed(ids)[mask], states[0][mask])
    for index in range(encoder.depth):
        x, f = encoder.layer(index, states[index], masked_attention(mask))
        assert_close(encoder.layer_norm(index, f + x)[mask], states[index + 1][mask], rtol=0, atol=1e-10)


@torch.no_grad()
def test_padding_changes_nothing(theirs: Any) -> None:
    ids, mask = inputs(theirs)
    encoder = ours(theirs)
    together = encoder(ids, mask)
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        alone = ids[row : row + 1, :length]
        assert_close(together[row, :length], encoder(alone, torch.ones_like(alone, dtype=torch.bool))[0])


@torch.no_grad()
def test_attention_without_a_mask_sees_every_position(theirs: Any) -> None:
    encoder, hidden = ours(theirs), torch.randn(2, 5, 16, dtype=torch.float64)
    whole = torch.ones(2, 5, dtype=torch.bool)
    for bare, masked in zip(
        encoder.layer(0, hidden, masked_attention(None)), encoder.layer(0, hidden, masked_attention(whole)), strict=True
    ):
        assert_close(bare, masked)


@torch.no_grad()
def test_the_longest_input_fits_and_one_more_does_not(theirs: Any) -> None:
    encoder = ours(theirs)
    assert encoder.max_pieces == (20 if theirs.config.model_type == "bert" else 20 - theirs.config.pad_token_id - 1)
    ids = torch.full((1, encoder.max_pieces + 1), 7)
    expected = theirs(ids[:, 1:]).last_hidden_state
    assert_close(encoder(ids[:, 1:], torch.ones(1, encoder.max_pieces, dtype=torch.bool)), expected)
    with pytest.raises(RuntimeError):
        encoder(ids, torch.ones_like(ids, dtype=torch.bool))


def test_tensors_go_back_under_their_hugging_face_names(theirs: Any) -> None:
    encoder = ours(theirs)
    state = state_for_hub(encoder)
    for name, value in theirs.named_parameters():
        assert torch.equal(state.pop(name), value), name
    assert not state
    config = type(theirs.config)(**config_for_hub(encoder.config))
    assert config_from_hub(config.to_dict()) == encoder.config


def test_old_names_and_the_prefixes_of_whole_models_are_understood(theirs: Any) -> None:
    prefix = "bert." if theirs.config.model_type == "bert" else "roberta."
    old = {
        prefix + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in theirs.state_dict().items()
    }
    old |= {"cls.predictions.bias": torch.zeros(50), prefix + "pooler.dense.weight": torch.zeros(16, 16)}
    encoder = Encoder.from_hub(config_from_hub(theirs.config.to_dict()), old)
    ids, mask = inputs(theirs)
    assert torch.equal(encoder(ids, mask), ours(theirs)(ids, mask))
    assert not encoder.training and not any(parameter.requires_grad for parameter in encoder.parameters())


def test_other_activations_are_refused() -> None:
    config = transformers.BertConfig(**SIZES, hidden_act="silu").to_dict()
    with pytest.raises(ZgulError, match="activation 'silu' is not one of gelu, relu"):
        Encoder(config_from_hub(config))


def test_low_rank_updates_start_as_nothing_train_only_themselves_and_merge(theirs: Any) -> None:
    ids, mask = inputs(theirs)
    plain, encoder = ours(theirs), ours(copy.deepcopy(theirs))
    encoder.add_low_rank(2)
    encoder.double()
    assert_close(encoder(ids, mask), plain(ids, mask))
    trained = [name for name, parameter in encoder.named_parameters() if parameter.requires_grad]
    assert len(trained) == 2 * 6 * encoder.depth and all(name.endswith((".a", ".b")) for name in trained)
    with torch.no_grad():
        for module in encoder.modules():
            if isinstance(module, LowRankLinear):
                module.b.normal_(std=0.1)
        updated = encoder(ids, mask)
        assert not torch.allclose(updated, plain(ids, mask), atol=1e-3)
        merged = encoder.merged()
        assert_close(merged(ids, mask)[mask], updated[mask], rtol=0, atol=1e-10)
        assert torch.equal(encoder(ids, mask), updated), "the encoder itself stays as it is"
    assert not any(isinstance(module, LowRankLinear) for module in merged.modules())
    assert not any(parameter.requires_grad for parameter in merged.parameters())
    assert {name for name, _ in merged.named_parameters()} == {name for name, _ in plain.named_parameters()}
    assert merged.words.weight is encoder.words.weight, "what has no update is shared"
    assert torch.equal(encoder.without_updates()(ids, mask), plain(ids, mask))


def test_dropout_reaches_attention_and_hidden_states(theirs: Any) -> None:
    encoder, hidden = ours(theirs).train(), torch.randn(1, 4, 16, dtype=torch.float64)
    ids, mask = inputs(theirs)
    assert torch.equal(encoder(ids, mask), encoder(ids, mask)), "none by default"
    encoder.dropout = 0.5
    assert not torch.allclose(encoder(ids, mask), encoder(ids, mask))
    seen: list[float] = []

    def attend(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, heads: int, dropout: float, rotary: Any
    ) -> torch.Tensor:
        seen.append(dropout)
        return value

    encoder.layer(0, hidden, attend)
    encoder.eval()
    encoder.layer(0, hidden, attend)
    assert seen == [0.5, 0.0]
    assert torch.equal(encoder(ids, mask), encoder(ids, mask))
