"""The opened layer loop gives what the Hugging Face models give themselves."""

import copy
from typing import Any

import pytest
import torch
import transformers
from torch.nn import functional as F
from torch.testing import assert_close

from zgul.encoders.encoder import SHORT, Encoder, LowRankLinear, attend

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
def model(request: pytest.FixtureRequest) -> Any:
    cls, config = FAMILIES[request.param]
    torch.manual_seed(0)
    model = cls(config(**SIZES), add_pooling_layer=False).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


def inputs(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.arange(8)[None] < torch.tensor([8, 5, 1])[:, None]
    ids = torch.randint(5, 50, (3, 8), generator=torch.Generator().manual_seed(1))
    return ids.masked_fill(~mask, model.config.pad_token_id), mask


@torch.no_grad()
def test_the_plain_encoder(model: Any) -> None:
    ids, mask = inputs(model)
    expected = model(ids, attention_mask=mask.long()).last_hidden_state
    assert_close(Encoder(model).eval()(ids, mask)[mask], expected[mask], rtol=1e-5, atol=1e-5)
    assert Encoder(model).eval()(ids[:0], mask[:0]).shape == (0, *expected.shape[1:]), "no sentence at all"
    full = ids[:1]
    assert_close(Encoder(model).eval()(full), model(full).last_hidden_state, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_each_layer_ends_in_its_own_norm(model: Any) -> None:
    ids, mask = inputs(model)
    states = model(ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
    encoder = Encoder(model).eval()
    assert_close(encoder.embed(ids), states[0])
    for index in range(encoder.depth):
        x, f = encoder.layer(index, states[index], mask[:, None, None, :])
        assert_close(encoder.norm(index, f + x)[mask], states[index + 1][mask], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_padding_changes_nothing(model: Any) -> None:
    ids, mask = inputs(model)
    encoder = Encoder(model).eval()
    together = encoder(ids, mask)
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        assert_close(together[row, :length], encoder(ids[row : row + 1, :length])[0], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_the_longest_input_fits_and_one_more_does_not(model: Any) -> None:
    encoder = Encoder(model).eval()
    assert encoder.max_pieces == (20 if model.config.model_type == "bert" else 20 - model.config.pad_token_id - 1)
    assert encoder(torch.full((1, encoder.max_pieces), 7)).shape == (1, encoder.max_pieces, 16)
    with pytest.raises((IndexError, RuntimeError)):
        encoder(torch.full((1, encoder.max_pieces + 1), 7))


def test_low_rank_starts_as_nothing_trains_only_itself_and_merges(model: Any) -> None:
    ids, mask = inputs(model)
    plain = Encoder(copy.deepcopy(model)).eval()
    encoder = Encoder(model).eval()
    encoder.requires_grad_(False)
    encoder.add_low_rank(2)
    assert_close(encoder(ids, mask), plain(ids, mask))
    trained = [name for name, parameter in encoder.named_parameters() if parameter.requires_grad]
    assert len(trained) == 2 * 6 * encoder.depth and all(name.endswith((".a", ".b")) for name in trained)
    with torch.no_grad():
        for module in encoder.modules():
            if isinstance(module, LowRankLinear):
                module.b.normal_(std=0.1)
        moved = encoder(ids, mask)
        assert not torch.allclose(moved, plain(ids, mask), atol=1e-3)
        encoder.merge_low_rank()
        assert_close(encoder(ids, mask)[mask], moved[mask], rtol=1e-4, atol=1e-4)
    assert not any(isinstance(module, LowRankLinear) for module in encoder.modules())
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    assert {name for name, _ in encoder.named_parameters()} == {name for name, _ in plain.named_parameters()}


def test_dropout_reaches_attention_and_hidden_states(model: Any) -> None:
    ids, mask = inputs(model)
    encoder = Encoder(model).train()
    encoder.set_dropout(0.0)
    assert_close(encoder(ids, mask), encoder(ids, mask))
    encoder.set_dropout(0.5)
    assert not torch.allclose(encoder(ids, mask), encoder(ids, mask))
    x = torch.randn(1, 4, 16)
    for part in encoder.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    encoder.model.encoder.layer[0].attention.self.dropout.p = 0.5
    assert not torch.allclose(encoder.layer(0, x, None)[0], encoder.layer(0, x, None)[0])


@pytest.mark.parametrize("length", [1, SHORT, SHORT + 1])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_torchs_for_short_and_long_sentences(length: int, masked: bool) -> None:
    torch.manual_seed(0)
    states = [torch.randn(3, 2, length, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    mask = (
        (torch.arange(length) < torch.tensor([[length], [1], [(length + 1) // 2]]))[:, None, None] if masked else None
    )
    out, want = torch.randn(3, 2, length, 8, dtype=torch.float64), []
    for found in (attend(*states, mask), F.scaled_dot_product_attention(*states, attn_mask=mask)):
        want.append([found, *torch.autograd.grad((found * out).sum(), states)])
    for one, other in zip(*want, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_joined_projections_are_the_models_own_and_give_the_same(model: Any) -> None:
    encoder = Encoder(copy.deepcopy(model).double()).eval()
    ids, mask = inputs(model)
    with torch.no_grad():
        before = encoder(ids, mask)
        encoder.join()
        assert_close(encoder(ids, mask)[mask], before[mask], rtol=0, atol=1e-12)
        assert encoder(ids[:0], mask[:0]).shape == (0, *before.shape[1:]), "no sentence at all"
        theirs = encoder.model(ids, attention_mask=mask.long()).last_hidden_state
    assert_close(theirs[mask], before[mask], rtol=0, atol=1e-12)
    for layer, joined in zip(encoder.model.encoder.layer, encoder.joined, strict=True):
        key = layer.attention.self.key.weight
        assert key.untyped_storage().data_ptr() == joined.weight.untyped_storage().data_ptr(), "no second copy"
