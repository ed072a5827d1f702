"""Masked-LM training of adapters: what is masked, who reads what, where the inverse stands, that it learns."""

import pytest
import torch

from small_tagger import MADE, WIDTH, small_adapters
from zgul.adapters.bank import Bank, LanguageAdapter
from zgul.adapters.mlm import (
    MaskedLM,
    MLMConfig,
    MLMHead,
    _mixture,
    _schedule,
    mask_pieces,
    masked_scores,
    pack,
    specialise,
    train_masked_lm,
)
from zgul.corpora.encode import IGNORED, PieceEncoder
from zgul.encoders.encoder import Encoder
from zgul.errors import ZgulError


@pytest.fixture
def encoder() -> Encoder:
    from family import tiny_encoder

    return Encoder(tiny_encoder(MADE, layers=2, width=WIDTH)[0]).eval().requires_grad_(False)


@pytest.fixture
def pieces(encoder: Encoder) -> PieceEncoder:
    from family import tiny_tokenizer

    return PieceEncoder(tiny_tokenizer(MADE), encoder.max_pieces)


def head_of(encoder: Encoder, seed: int = 0) -> MLMHead:
    torch.manual_seed(seed)
    head = MLMHead(encoder.width, encoder.model.config.vocab_size)
    for weight in head.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return head


def test_text_is_packed_without_padding_and_nothing_is_lost(pieces: PieceEncoder) -> None:
    lines = [*MADE.text("s0", 30), "", "   "]
    blocks = pack(pieces, lines, 16)
    assert (blocks[:, 0] == pieces.begin).all() and (blocks[:, -1] == pieces.end).all()
    expected: list[int] = []
    for line in lines:
        if line.strip():
            expected += [p for w in line.split() for p in pieces.pieces(w)] + [pieces.end]
    body = blocks[:, 1:-1].flatten().tolist()
    assert body == expected[: len(body)] and len(expected) - len(body) < 14
    assert pack(pieces, ["pa"], 16).shape == (0, 16)


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
def test_many_languages_at_once_are_what_each_is_alone(encoder, pieces, invertible: bool) -> None:
    adapters = small_adapters(invertible=invertible)
    encoder.double()
    head = head_of(encoder).double()
    ids = torch.cat([pack(pieces, MADE.text(source, 20), 12)[:4] for source in MADE.sources]).long()

    def model(chosen: list[LanguageAdapter]) -> MaskedLM:
        return MaskedLM(encoder, head, Bank(chosen, width=WIDTH, depth=2).double(), pieces)

    with torch.no_grad():
        together = model(adapters).hidden(ids)
        for n, adapter in enumerate(adapters):
            alone = model([adapter]).hidden(ids[4 * n : 4 * n + 4])
            torch.testing.assert_close(together[4 * n : 4 * n + 4], alone, rtol=0, atol=1e-10)
        assert not torch.allclose(together, MaskedLM(encoder, head, None, pieces).hidden(ids), atol=1e-3)


@torch.no_grad()
def test_mixing_is_a_weighted_mean_of_two_adapters(encoder, pieces) -> None:
    """A block read with a share of its own adapter: u = share u_own + (1 - share) u_other, layer by layer."""
    adapters = small_adapters()
    encoder.double()
    bank = Bank(adapters, width=WIDTH, depth=2).double()
    model = MaskedLM(encoder, head_of(encoder).double(), bank, pieces)
    ids = torch.cat([pack(pieces, MADE.text(source, 20), 12)[:2] for source in MADE.sources]).long()
    order, share = torch.tensor([2, 0, 1]), torch.tensor([1.0, 0.3, 0.5, 1.0, 0.0, 0.7])
    got = model.hidden(ids, order, share)
    for row in range(6):
        own, other = row // 2, int(order[row // 2])
        hidden = encoder.embed(ids[row : row + 1])
        for index in range(2):
            x, f = encoder.layer(index, hidden, None)
            h = encoder.norm(index, f + x)
            mine, theirs = (adapters[n].layers[index].double()(h) for n in (own, other))
            hidden = encoder.norm(index, f + float(share[row]) * mine + (1 - float(share[row])) * theirs + x)
        torch.testing.assert_close(got[row], hidden[0], rtol=0, atol=1e-7)
    torch.testing.assert_close(got[[0, 3]], model.hidden(ids)[[0, 3]], rtol=0, atol=1e-9)


def test_mixtures_are_drawn_in_their_share() -> None:
    import numpy as np

    order, share = _mixture(np.random.default_rng(0), 4, 4000, 0.5)
    assert sorted(order.tolist()) == [0, 1, 2, 3] and share.dtype == torch.float32
    assert (share < 1).float().mean().item() == pytest.approx(0.5, abs=0.05) and share.min() >= 0.3
    assert (_mixture(np.random.default_rng(0), 4, 100, 0.0)[1] == 1).all()


@torch.no_grad()
def test_the_inverse_stands_between_the_heads_transform_and_the_embeddings(encoder, pieces, monkeypatch) -> None:
    """As in MAD-X: embeddings, block, encoder, dense and norm of the head, inverse block, embeddings again."""
    adapters = small_adapters(invertible=True)[:1]
    bank = Bank(adapters, width=WIDTH, depth=2)
    head = head_of(encoder)
    model = MaskedLM(encoder, head, bank, pieces)
    ids = pack(pieces, MADE.text("s0", 20), 12)[:3].long()
    torch.manual_seed(4)
    scores, truth = model(ids)
    torch.manual_seed(4)
    shown, places, expected_truth = mask_pieces(ids, 0.15, model.mask_id, model.vocabulary, model.specials)
    block = bank.invertible[0]
    hidden = block(encoder.embed(shown))
    for index in range(2):
        x, f = encoder.layer(index, hidden, None)
        f = f + adapters[0].layers[index](encoder.norm(index, f + x))
        hidden = encoder.norm(index, f + x)
    picked = torch.stack([hidden[row, places[row]] for row in range(3)])
    guess = block.inverse(head.norm(torch.nn.functional.gelu(head.dense(picked))))
    expected = guess @ encoder.model.embeddings.word_embeddings.weight.t() + head.bias
    torch.testing.assert_close(scores, expected.flatten(0, 1), rtol=1e-4, atol=1e-4)
    assert torch.equal(truth, expected_truth.flatten())
    wrong = head(block.inverse(picked), encoder.model.embeddings.word_embeddings.weight)
    assert not torch.allclose(scores, wrong.flatten(0, 1), atol=1e-2), "the order matters"


@pytest.mark.parametrize("mix", [0.0, 0.5])
def test_training_lowers_the_loss_and_moves_only_what_it_should(encoder, pieces, mix: float) -> None:
    text = [pack(pieces, MADE.text(source, 150), 16) for source in MADE.sources]
    torch.manual_seed(0)
    head = MLMHead(WIDTH, encoder.model.config.vocab_size)
    first = train_masked_lm(MaskedLM(encoder, head, None, pieces), [torch.cat(text)], MLMConfig(60, 32, lr=1e-2))
    assert first[-1]["loss"] < 0.9 * first[0]["loss"]
    head.requires_grad_(False)
    frozen = {name: value.clone() for name, value in [*encoder.named_parameters(), *head.named_parameters()]}
    adapters = [LanguageAdapter.new(source, WIDTH, 2, activation="gelu") for source in MADE.sources]
    bank = Bank(adapters, width=WIDTH, depth=2).requires_grad_(True)
    model = MaskedLM(encoder, head, bank, pieces)
    reports: list[dict] = []
    history = train_masked_lm(model, text, MLMConfig(150, 16, lr=1e-2, mix=mix), report=reports.append)
    assert history == reports and history[-1]["step"] == 150
    assert sum(entry["loss"] for entry in history[-3:]) < sum(entry["loss"] for entry in history[:3])
    assert all(
        torch.equal(value, frozen[name]) for name, value in [*encoder.named_parameters(), *head.named_parameters()]
    )
    held = pack(pieces, MADE.text("s0", 60, seed=9), 16)
    plain, own = (
        masked_scores(MaskedLM(encoder, head, chosen, pieces), held)
        for chosen in (None, Bank([bank.extract("s0")], width=WIDTH, depth=2))
    )
    assert own[1] < plain[1], "its adapter lowers the perplexity of a language's new text"
    assert masked_scores(MaskedLM(encoder, head, None, pieces), held) == plain, "the same places are asked again"


def test_the_same_seed_gives_the_same_adapters(encoder, pieces) -> None:
    text = [pack(pieces, MADE.text(source, 40), 16) for source in MADE.sources]
    found = []
    for seed in (0, 0, 1):
        adapters = [LanguageAdapter.new(source, WIDTH, 2) for source in MADE.sources]
        for adapter in adapters:
            for layer in adapter.layers:
                torch.nn.init.ones_(layer.down.weight)
        bank = Bank(adapters, width=WIDTH, depth=2).requires_grad_(True)
        train_masked_lm(MaskedLM(encoder, head_of(encoder), bank, pieces), text, MLMConfig(5, 4, mix=0.5, seed=seed))
        found.append(bank.up.detach().clone())
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


def test_adapters_may_start_from_a_shared_one(encoder) -> None:
    shared = small_adapters()[1]
    copies = specialise(shared, ["a", "b"])
    assert [copy.language for copy in copies] == ["a", "b"] and shared.language == "s1"
    x = torch.randn(2, WIDTH)
    torch.testing.assert_close(copies[0].layers[1](x), shared.layers[1](x))
    copies[0].layers[1].up.bias.data += 1
    torch.testing.assert_close(copies[1].layers[1](x), shared.layers[1](x))


def test_the_schedule_warms_up_and_ends_near_nothing() -> None:
    config = MLMConfig(steps=100, warmup=0.1)
    rates = [_schedule(step, config) for step in range(100)]
    assert rates[0] == pytest.approx(0.1) and max(rates) == pytest.approx(1.0) and rates[-1] < 0.02


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"blocks": 0}, {"masked": 0.0}, {"masked": 1.0}, {"mix": 1.5}])
def test_settings_that_make_no_sense(wrong: dict) -> None:
    with pytest.raises(ZgulError, match="masked-LM training needs"):
        MLMConfig(**wrong)


def test_a_loss_that_is_no_number(encoder, pieces) -> None:
    head = head_of(encoder)
    head.bias.data[5] = torch.inf
    model = MaskedLM(encoder, head, None, pieces)
    with pytest.raises(ZgulError, match="the loss is no longer a number at step 1; lower --lr"):
        train_masked_lm(model, [pack(pieces, MADE.text("s0", 20), 16)], MLMConfig(steps=5, blocks=2))
