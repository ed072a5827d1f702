"""Fusion's scores are (W_q h)·(W_k u_n), written out."""

import torch

from zgul.adapters.bank import Inner
from zgul.ensemble.fusion import Fusion


def test_the_weights_are_those_of_the_formula_with_its_key_bias() -> None:
    torch.manual_seed(0)
    fusion = Fusion(6).double()
    for weight in fusion.parameters():
        torch.nn.init.normal_(weight)
    h = torch.randn(2, 3, 6, dtype=torch.float64)
    a, up, bias = (torch.randn(*shape, dtype=torch.float64) for shape in ((2, 3, 4, 5), (4, 5, 6), (4, 6)))
    inner = Inner(a, up, bias)
    u = torch.stack(inner.outputs)
    literal = torch.empty(2, 3, 4, dtype=torch.float64)
    for b in range(2):
        for t in range(3):
            for n in range(4):
                query = fusion.query.weight @ h[b, t] + fusion.query.bias
                key = fusion.key.weight @ u[n, b, t] + fusion.key.bias
                literal[b, t, n] = query @ key
    scores = fusion(h, inner)
    torch.testing.assert_close(scores.softmax(dim=-1), literal.softmax(dim=-1), rtol=0, atol=1e-12)
    # the key bias adds the same to all adapters, and only that may be missing
    missing = literal - scores
    torch.testing.assert_close(missing, missing[..., :1].expand_as(missing), rtol=0, atol=1e-10)
    assert missing.abs().max() > 0.1


def test_one_adapter_gets_everything() -> None:
    inner = Inner(torch.randn(1, 2, 1, 3), torch.randn(1, 3, 4), torch.randn(1, 4))
    assert torch.equal(Fusion(4)(torch.randn(1, 2, 4), inner).softmax(dim=-1), torch.ones(1, 2, 1))
