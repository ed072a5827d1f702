"""Without padding: the same numbers and the same gradients where they count, nothing elsewhere."""

import pytest
import torch

from small_tagger import MADE, small_tagger
from zgul.corpora.encode import Batch
from zgul.encoders.packing import Packing
from zgul.methods.tagger import Tagger


def batch_for(tagger: Tagger, padding: int) -> Batch:
    """Sentences of two languages and several lengths; with padding also an empty row."""
    sentences = MADE.sentences("target", 4) + MADE.sentences("s1", 3)
    encoded = tagger.pieces.encode(sentences, languages=tagger.prepare(["target", "s1"]))
    rows = [*range(7), -1] if padding else [0]
    length = int(encoded.lengths[: len(rows)].max() if padding else encoded.lengths[0])
    return encoded.batch(torch.tensor(rows), length + 2 + padding)


@pytest.mark.parametrize("method", ["zgul", "madx-multi", "cpg", "sft-m"])
@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("rounded", [False, True])
def test_a_model_gives_the_same_scores(method: str, padding: int, rounded: bool) -> None:
    tagger = small_tagger(method, double=True, depth=3)
    batch = batch_for(tagger, padding)
    with torch.no_grad():
        padded = tagger.model(batch)
        packed = tagger.model(batch, packing=Packing(batch.mask, batch.words, rounded=rounded))
    torch.testing.assert_close(packed[batch.words], padded[batch.words], rtol=0, atol=1e-12)
    assert (packed[~batch.words] == 0).all()


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("rounded", [False, True])
def test_the_encoder_gives_the_same_states_and_gradients(padding: int, rounded: bool) -> None:
    tagger = small_tagger(double=True, depth=3)
    encoder, batch = tagger.parts.encoder, batch_for(tagger, padding)
    weight = encoder.model.embeddings.word_embeddings.weight.requires_grad_()
    found = []
    for packing in (None, Packing(batch.mask, batch.mask, rounded=rounded)):
        states = encoder(batch.input_ids, batch.mask, packing)[batch.mask]
        found.append((states, *torch.autograd.grad((states**3).sum(), weight)))
    for padded, packed in zip(*found, strict=True):
        torch.testing.assert_close(packed, padded, rtol=0, atol=1e-10)


@pytest.mark.parametrize("rounded", [False, True])
def test_there_and_back(rounded: bool) -> None:
    mask = torch.tensor([[True, True, False], [True, False, False], [True, True, True]])
    wanted = mask & torch.tensor([False, True, True])
    packing, values = Packing(mask, wanted, rounded=rounded), torch.arange(18.0).view(3, 3, 2)
    packed = packing.pack(values)
    assert packed.shape == (1, 8 if rounded else 6, 2) and packing.rows.tolist() == [0, 0, 1, 2, 2, 2]
    assert torch.equal(packing.unpack(packed)[mask], values[mask])
    assert torch.equal(packing.spread(packed, last=False), values * mask[..., None])
    assert torch.equal(packing.spread(packing.select(packed)), values * wanted[..., None])


def test_rounded_numbers_of_pieces_are_few_and_not_much_more() -> None:
    sizes = {}
    for count in range(1, 1025):
        mask = torch.ones(1, count, dtype=torch.bool)
        sizes[count] = Packing(mask, mask, rounded=True).pack(mask).shape[1]
    assert all(0 <= size - count < max(8, count / 16) for count, size in sizes.items())
    assert len(set(sizes.values())) <= 64
