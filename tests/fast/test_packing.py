"""Without padding: the same numbers and the same gradients where there are pieces, nothing elsewhere."""

import pytest
import torch

from small_tagger import mixed_sentences, small_batch, small_tagger
from zgul.encoders.encoder import masked_attention
from zgul.ensemble.em import Alpha, EMConfig, minimise_entropy
from zgul.fast.packing import PackedAlpha, PackedReader, Packing, plain_attention

MASK = torch.tensor([[True, True, False], [True, False, False], [True, True, True]])


def test_there_and_back() -> None:
    packing, values = Packing(MASK), torch.arange(18.0).view(3, 3, 2)
    packed = packing.pack(values)
    assert packed.tolist() == [values[b, t].tolist() for b, t in MASK.nonzero().tolist()]
    assert packing.sentences.tolist() == [0, 0, 1, 2, 2, 2]
    assert torch.equal(packing.unpack(packed), values * MASK[..., None])


def test_the_gradients_of_packing_are_those_of_selecting() -> None:
    values = torch.randn(3, 3, 2, dtype=torch.float64, requires_grad=True)
    packing, weight = Packing(MASK), torch.randn(6, 2, dtype=torch.float64)
    (packed,) = torch.autograd.grad((packing.pack(values) ** 2 * weight).sum(), values)
    (selected,) = torch.autograd.grad((values[MASK] ** 2 * weight).sum(), values)
    assert torch.equal(packed, selected)
    assert torch.autograd.gradcheck(lambda v: packing.unpack(packing.pack(v)), values)


def test_attention_is_that_of_a_padded_batch() -> None:
    packing = Packing(MASK)
    states = [torch.randn(3, 3, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    weight, results = torch.randn(6, 8, dtype=torch.float64), []
    padded = masked_attention(MASK)(*states, 2, 0.0)[MASK]
    packed = packing.attention()(*(packing.pack(state) for state in states), 2, 0.0)
    for found in (padded, packed):
        gradients = torch.autograd.grad((found * weight).sum(), states)
        results.append([found, *(gradient[MASK] for gradient in gradients)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("longest", [0, 512])  # neither, or all sentences are short enough for plain products
def test_both_ways_of_attention_agree(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    packing = Packing(MASK)
    states = [torch.randn(6, 8, requires_grad=True) for _ in range(3)]
    expected = packing.attention()(*states, 2, 0.0)
    monkeypatch.setattr("zgul.fast.packing.SHORT", longest)
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    assert plain_attention(states[0], 3) == bool(longest)
    found = packing.attention()(*states, 2, 0.0)
    gradients = [torch.autograd.grad(context.square().sum(), states) for context in (expected, found)]
    for one, other in zip((expected, *gradients[0]), (found, *gradients[1]), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_attention_over_nothing_is_finite(dtype: torch.dtype) -> None:
    packing = Packing(torch.tensor([[True, True], [False, False]]))
    states = [torch.randn(2, 8).to(dtype).requires_grad_() for _ in range(3)]
    found = packing.attention()(*states, 2, 0.0)
    assert found.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(found.float().sum(), states))


@pytest.mark.parametrize("method", ["zgul", "madx-multi", "cpg", "sft-m"])
@pytest.mark.parametrize("padding", [0, 3])
def test_a_model_gives_the_same_scores_and_gradients(method: str, padding: int) -> None:
    tagger = small_tagger(method, double=True, depth=3)
    batch = small_batch(tagger, mixed_sentences(), padding=padding, empty=1 if padding else 0)
    weight = tagger.model.task[0].up.weight if len(tagger.model.task) else tagger.model.encoder.words.weight
    results = []
    for logits in (tagger.model(batch), PackedReader(tagger.model, Packing(batch.mask), batch)(batch)):
        results.append((logits[batch.mask], *torch.autograd.grad((logits[batch.mask] ** 3).sum(), weight)))
    for padded, packed in zip(*results, strict=True):
        torch.testing.assert_close(packed, padded, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("config", [EMConfig(steps=2, lr=5.0), EMConfig(steps=2, lr=5.0, tied=True)])
def test_em_moves_packed_scores_as_padded_ones(config: EMConfig) -> None:
    tagger = small_tagger(double=True)
    batch = small_batch(tagger, mixed_sentences(), padding=2)
    packing = Packing(batch.mask)
    plain, packed = Alpha(config), PackedAlpha(config, packing)
    expected = minimise_entropy(tagger.model, batch, plain)
    found = minimise_entropy(PackedReader(tagger.model, packing, batch), batch, packed)
    torch.testing.assert_close(found[batch.mask], expected[batch.mask], rtol=0, atol=1e-11)
    for one, other in zip(packed.mean_weights(), plain.mean_weights(), strict=True):
        torch.testing.assert_close(one, other[batch.mask], rtol=0, atol=1e-11)
