"""Fusion's scores are (W_q h)·(W_k u_n), written out."""

import pytest
import torch

from zgul.adapters.bank import AdapterOutputs
from zgul.ensemble.fusion import Fusion


def test_the_weights_are_those_of_the_formula_with_its_key_bias() -> None:
    torch.manual_seed(0)
    fusion = Fusion(6).double()
    for weight in fusion.parameters():
        torch.nn.init.normal_(weight)
    h = torch.randn(2, 3, 6, dtype=torch.float64)
    a, up, bias = (torch.randn(*shape, dtype=torch.float64) for shape in ((2, 3, 4, 5), (4, 5, 6), (4, 6)))
    u = torch.einsum("btnr,nrd->nbtd", a, up) + bias[:, None, None]
    literal = torch.empty(2, 3, 4, dtype=torch.float64)
    for b in range(2):
        for t in range(3):
            for n in range(4):
                query = fusion.query.weight @ h[b, t] + fusion.query.bias
                key = fusion.key.weight @ u[n, b, t] + fusion.key.bias
                literal[b, t, n] = query @ key
    scores = fusion(h, AdapterOutputs(a, up, bias))
    torch.testing.assert_close(scores.softmax(dim=-1), literal.softmax(dim=-1), rtol=0, atol=1e-12)
    # the key bias adds the same to all adapters, and only that may be missing
    missing = literal - scores
    torch.testing.assert_close(missing, missing[..., :1].expand_as(missing), rtol=0, atol=1e-10)
    assert missing.abs().max() > 0.1


def test_one_adapter_gets_everything() -> None:
    outputs = AdapterOutputs(torch.randn(1, 2, 1, 3), torch.randn(1, 3, 4), torch.randn(1, 4))
    assert torch.equal(Fusion(4)(torch.randn(1, 2, 4), outputs).softmax(dim=-1), torch.ones(1, 2, 1))


def test_scores_are_dropped_only_in_training_and_where_the_release_is_followed() -> None:
    torch.manual_seed(0)
    outputs = AdapterOutputs(torch.randn(1, 200, 4, 3), torch.randn(4, 3, 4), torch.randn(4, 4))
    h = torch.randn(1, 200, 4)
    fusion = Fusion(4, dropout=0.5)
    assert (fusion(h, outputs) == 0).float().mean().item() == pytest.approx(0.5, abs=0.1)
    fusion.eval()
    assert torch.equal(fusion(h, outputs), fusion(h, outputs)) and (fusion(h, outputs) != 0).all()
    assert (Fusion(4).train()(h, outputs) != 0).all()
