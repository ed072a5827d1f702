"""The models with which the shipped adapters are trained and measured: two adapters mixed, and the mean of all."""

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from family import tiny_encoder, tiny_tokenizer
from small_tagger import MADE, WIDTH, small_adapters
from zgul.adapters.bank import Bank
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.encoders.batches import PieceEncoder
from zgul.encoders.encoder import Encoder, masked_attention
from zgul.training.masked_lm import MaskedLM, MLMHead, pack_text

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from embedded_adapters import MixedLM, UniformLM

ADAPTERS = small_adapters()


def made(kind: type[MaskedLM]) -> tuple[MaskedLM, Encoder, Tensor]:
    """A model, its encoder, and two blocks of each language."""
    encoder, pieces = tiny_encoder(MADE, layers=2, width=WIDTH)[0].double(), PieceEncoder(tiny_tokenizer(MADE), 128)
    bank = Bank(ADAPTERS, width=WIDTH, depth=2).double()
    ids = torch.cat([pack_text(pieces, MADE.text(source, 20), 12)[:2] for source in MADE.sources]).long()
    return kind(encoder, MLMHead(WIDTH, encoder.config.vocabulary).double(), bank, pieces), encoder, ids


def read(encoder: Encoder, ids: Tensor, shares: dict[int, float]) -> Tensor:
    """Hidden states of a block that is read with these shares of adapters, layer by layer."""
    hidden = encoder.embed(ids[None])
    for index in range(2):
        x, f = encoder.layer(index, hidden, masked_attention(None))
        h = encoder.layer_norm(index, f + x)
        outputs = [share * one(ADAPTERS[n], index)(h) for n, share in shares.items()]
        hidden = encoder.layer_norm(index, f + sum(outputs) + x)
    return hidden[0]


def one(adapter: LanguageAdapter, index: int) -> torch.nn.Module:
    return adapter.layers[index].double()


@torch.no_grad()
def test_mixing_is_a_weighted_mean_of_two_adapters() -> None:
    model, encoder, ids = made(MixedLM)
    model.order, share = torch.tensor([2, 0, 1]), [1.0, 0.3, 0.5, 1.0, 0.0, 0.7]
    model.share = torch.tensor(share)
    found = model.hidden(ids)
    for row in range(6):
        shares = {row // 2: share[row]} | {model.order.tolist().index(row // 2): 1 - share[row]}
        torch.testing.assert_close(found[row], read(encoder, ids[row], shares), rtol=0, atol=1e-7)


@torch.no_grad()
def test_mixtures_are_drawn_in_their_share() -> None:
    """Half of the blocks are read with 30 to 100% of their own adapter, the others with all of it."""
    model, _, ids = made(MixedLM)
    torch.manual_seed(0)
    orders, shares = [], []
    for _ in range(60):
        model(ids)
        orders.append(tuple(model.order.tolist()))
        shares.append(model.share)
    drawn = torch.cat(shares)
    assert all(sorted(order) == [0, 1, 2] for order in orders) and len(set(orders)) > 3
    assert (drawn < 1).float().mean().item() == pytest.approx(0.5, abs=0.1) and drawn.min() >= 0.3


@torch.no_grad()
def test_the_uniform_model_reads_with_the_mean_of_all() -> None:
    model, encoder, ids = made(UniformLM)
    expected = read(encoder, ids[0], dict.fromkeys(range(3), 1 / 3))
    torch.testing.assert_close(model.hidden(ids)[0], expected, rtol=0, atol=1e-7)
