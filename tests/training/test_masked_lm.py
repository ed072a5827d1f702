"""Masked-LM training: what is masked, who reads what, where the inverse stands, and that it learns."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from family import tiny_encoder, tiny_tokenizer
from small_tagger import MADE, WIDTH, small_adapters
from zgul.adapters.bank import Bank
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.encoders.batches import IGNORED, PieceEncoder
from zgul.encoders.encoder import Encoder, masked_attention
from zgul.errors import ZgulError
from zgul.progress import Status
from zgul.training.masked_lm import (
    MaskedLM,
    MLMConfig,
    MLMHead,
    mask_pieces,
    masked_scores,
    pack_text,
    train_masked_lm,
)
from zgul.training.optimiser import Optimiser


@pytest.fixture
def encoder() -> Encoder:
    return tiny_encoder(MADE, layers=2, width=WIDTH)[0]


@pytest.fixture(scope="module")
def pieces() -> PieceEncoder:
    return PieceEncoder(tiny_tokenizer(MADE), 128)


def head_of(encoder: Encoder, seed: int = 0) -> MLMHead:
    torch.manual_seed(seed)
    head = MLMHead(encoder.width, encoder.config.vocabulary)
    for weight in head.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return head


def test_text_is_packed_without_padding_and_nothing_is_lost(pieces: PieceEncoder) -> None:
    lines = [*MADE.text("s0", 30), "", "   "]
    blocks = pack_text(pieces, lines, 16)
    assert (blocks[:, 0] == pieces.tokenizer.begin).all() and (blocks[:, -1] == pieces.tokenizer.end).all()
    expected: list[int] = []
    for line in lines:
        if line.strip():
            expected += [p for cut in pieces.pieces(line.split()) for p in cut.tolist()] + [pieces.tokenizer.end]
    body = blocks[:, 1:-1].flatten().tolist()
    assert body == expected[: len(body)] and len(expected) - len(body) < 14
    assert pack_text(pieces, ["pa"], 16).shape == (0, 16)


def test_masking_takes_its_share_never_a_special_and_says_what_stood_there() -> None:
    torch.manual_seed(0)
    specials = torch.tensor([0, 2, 3])
    ids = torch.randint(5, 1000, (400, 40))
    ids[:, 0], ids[:, -1], ids[::2, 7] = 2, 3, 3
    shown, places, truth = mask_pieces(ids, 0.15, 4, 1000, specials)
    assert places.shape == truth.shape == (400, 6), "k = 15% of 40"
    assert all(len(set(row)) == 6 for row in places.tolist())
    assert torch.equal(ids.gather(1, places), truth) and not torch.isin(truth, specials).any()
    changed = shown != ids
    allowed = torch.zeros_like(changed).scatter(1, places, torch.ones_like(places, dtype=torch.bool))
    assert not (changed & ~allowed).any(), "what was not chosen stays"
    at = shown.gather(1, places)
    masked, kept = (at == 4).float().mean().item(), (at == truth).float().mean().item()
    assert masked == pytest.approx(0.8, abs=0.03) and kept == pytest.approx(0.1, abs=0.03)
    counts = allowed.float().mean(dim=0)
    assert counts[0] == counts[-1] == 0 and counts[1:-1].std() < 0.05, "every place alike"


def test_a_row_with_too_few_pieces_leaves_its_specials_alone() -> None:
    ids = torch.tensor([[2, 9, 3, 3, 3, 3, 3, 3]])
    shown, places, truth = mask_pieces(ids, 0.5, 4, 10, torch.tensor([2, 3]))
    assert places.shape == (1, 4) and sorted(truth[0].tolist()) == [IGNORED] * 3 + [9]
    assert torch.equal(shown[:, 2:], ids[:, 2:]) and shown[0, 0] == 2


@pytest.mark.parametrize("invertible", [False, True])
def test_many_languages_at_once_are_what_each_is_alone(
    encoder: Encoder, pieces: PieceEncoder, invertible: bool
) -> None:
    adapters = small_adapters(invertible=invertible)
    encoder.double()
    head = head_of(encoder).double()
    ids = torch.cat([pack_text(pieces, MADE.text(source, 20), 12)[:4] for source in MADE.sources]).long()

    def model(chosen: list[LanguageAdapter]) -> MaskedLM:
        return MaskedLM(encoder, head, Bank(chosen, width=WIDTH, depth=2).double(), pieces)

    with torch.no_grad():
        together = model(adapters).hidden(ids)
        for n, adapter in enumerate(adapters):
            alone = model([adapter]).hidden(ids[4 * n : 4 * n + 4])
            torch.testing.assert_close(together[4 * n : 4 * n + 4], alone, rtol=0, atol=1e-10)
        assert not torch.allclose(together, MaskedLM(encoder, head, None, pieces).hidden(ids), atol=1e-3)


@torch.no_grad()
def test_the_inverse_stands_between_the_heads_transform_and_the_embeddings(
    encoder: Encoder, pieces: PieceEncoder
) -> None:
    """As in MAD-X: embeddings, block, encoder, dense and norm of the head, inverse block, embeddings again."""
    adapters = small_adapters(invertible=True)[:1]
    bank = Bank(adapters, width=WIDTH, depth=2)
    head = head_of(encoder)
    model = MaskedLM(encoder, head, bank, pieces)
    ids = pack_text(pieces, MADE.text("s0", 20), 12)[:3].long()
    torch.manual_seed(4)
    scores, truth = model(ids)
    torch.manual_seed(4)
    shown, places, expected_truth = mask_pieces(ids, 0.15, model.mask_id, model.vocabulary, model.specials)
    block = bank.invertible[0]
    hidden = block(encoder.embed(shown))
    for index in range(2):
        x, f = encoder.layer(index, hidden, masked_attention(None))
        f = f + adapters[0].layers[index](encoder.layer_norm(index, f + x))
        hidden = encoder.layer_norm(index, f + x)
    picked = torch.stack([hidden[row, places[row]] for row in range(3)])
    guess = block.inverse(head.norm(torch.nn.functional.gelu(head.dense(picked))))
    expected = guess @ encoder.words.weight.t() + head.bias
    torch.testing.assert_close(scores, expected.flatten(0, 1), rtol=1e-4, atol=1e-4)
    assert torch.equal(truth, expected_truth.flatten())
    wrong = head.decode(head.transform(block.inverse(picked)), encoder.words.weight)
    assert not torch.allclose(scores, wrong.flatten(0, 1), atol=1e-2), "the order matters"


def test_training_lowers_the_loss_and_moves_only_what_it_should(encoder: Encoder, pieces: PieceEncoder) -> None:
    text = [pack_text(pieces, MADE.text(source, 150), 16) for source in MADE.sources]
    torch.manual_seed(0)
    head = MLMHead(WIDTH, encoder.config.vocabulary)
    first: list[Status] = []
    config = MLMConfig(60, 32, lr=1e-2)
    train_masked_lm(MaskedLM(encoder, head, None, pieces), [torch.cat(text)], config, report=first.append)
    assert first[-1].figures["loss"] < 0.9 * first[0].figures["loss"]
    head.requires_grad_(False)
    frozen = [value.clone() for value in [*encoder.parameters(), *head.parameters()]]
    adapters = [LanguageAdapter.new(source, WIDTH, 2, activation="gelu") for source in MADE.sources]
    bank = Bank(adapters, width=WIDTH, depth=2).requires_grad_(True)
    model = MaskedLM(encoder, head, bank, pieces)
    heard: list[Status] = []
    train_masked_lm(model, text, MLMConfig(150, 16, lr=1e-2), stage="bank", report=heard.append)
    losses = [status.figures["loss"] for status in heard]
    assert heard == [Status("bank", n, 150, {"loss": loss}) for n, loss in enumerate(losses, start=1)]
    assert sum(losses[-3:]) < sum(losses[:3])
    for value, before in zip([*encoder.parameters(), *head.parameters()], frozen, strict=True):
        assert torch.equal(value, before)
    held = pack_text(pieces, MADE.text("s0", 60, seed=9), 16)
    plain, own = (
        masked_scores(MaskedLM(encoder, head, chosen, pieces), held)
        for chosen in (None, Bank([bank.extract("s0")], width=WIDTH, depth=2))
    )
    assert own[1] < plain[1], "its adapter lowers the perplexity of a language's new text"
    assert masked_scores(MaskedLM(encoder, head, None, pieces), held) == plain, "the same places are asked again"


def test_the_same_seed_gives_the_same_adapters(encoder: Encoder, pieces: PieceEncoder) -> None:
    text = [pack_text(pieces, MADE.text(source, 40), 16) for source in MADE.sources]
    found = []
    for seed in (0, 0, 1):
        adapters = [LanguageAdapter.new(source, WIDTH, 2) for source in MADE.sources]
        for adapter in adapters:
            for layer in adapter.layers:
                torch.nn.init.ones_(layer.down.weight)
        bank = Bank(adapters, width=WIDTH, depth=2).requires_grad_(True)
        train_masked_lm(MaskedLM(encoder, head_of(encoder), bank, pieces), text, MLMConfig(5, 4, seed=seed))
        found.append(bank.up.detach().clone())
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_adapters_may_start_from_a_shared_one() -> None:
    shared = small_adapters()[1]
    bank = Bank([replace(shared, language=code) for code in ("a", "b")], width=WIDTH, depth=2)
    bank.up_bias.data[1, 0] += 1
    x = torch.randn(2, WIDTH)
    assert shared.language == "s1"
    torch.testing.assert_close(bank.extract("b").layers[1](x), shared.layers[1](x))
    torch.testing.assert_close(bank.extract("a").layers[1](x), shared.layers[1](x) + 1)


def test_the_schedule_warms_up_and_ends_near_nothing(
    encoder: Encoder, pieces: PieceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    monkeypatch.setattr(Optimiser, "set_lr", lambda self, lr: rates.append(lr))
    model = MaskedLM(encoder, head_of(encoder), None, pieces)
    text = [pack_text(pieces, MADE.text("s0", 20), 16)]
    train_masked_lm(model, text, MLMConfig(steps=100, blocks=1, lr=0.5, warmup=0.1))
    assert len(rates) == 100 and rates[0] == pytest.approx(0.05)
    assert max(rates) == pytest.approx(0.5) and rates[-1] < 0.01


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"blocks": 0}, "blocks must be at least 1"),
        ({"masked": 0.0}, "masked must be above 0 and below 1"),
        ({"masked": 1.0}, "masked must be above 0 and below 1"),
        ({"warmup": 1.5}, "warmup must be at least 0 and at most 1"),
        ({"lr": -1.0}, "lr must be at least 0"),
        ({"seed": 2**64}, "seed must be at least 0 and below"),
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ZgulError, match=message):
        MLMConfig(**wrong)


def test_a_loss_that_is_no_number(encoder: Encoder, pieces: PieceEncoder) -> None:
    head = head_of(encoder)
    head.bias.data[5] = torch.inf
    model = MaskedLM(encoder, head, None, pieces)
    with pytest.raises(ZgulError, match=r"The loss is no longer a number at step 1\. Lower --lr"):
        train_masked_lm(model, [pack_text(pieces, MADE.text("s0", 20), 16)], MLMConfig(steps=5, blocks=2))


def test_a_tokenizer_without_a_mask_is_refused(encoder: Encoder, pieces: PieceEncoder) -> None:
    maskless = PieceEncoder(replace(pieces.tokenizer, mask=None), 128)
    with pytest.raises(ZgulError, match="has no mask piece"):
        MaskedLM(encoder, head_of(encoder), None, maskless)
