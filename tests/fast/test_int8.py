"""int8: against a slow loop that rounds and multiplies by hand, the same in every batch, and near float32."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import zgul
from small_tagger import mixed_sentences, small_batch, small_tagger
from zgul.encoders.batches import Batch
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError
from zgul.fast.engine import OPEN, engine
from zgul.fast.int8 import GELU_ZERO, MIDDLE, RELU_ZERO, Columns, Rounding, expected_error, measure, random_pieces
from zgul.methods.model import Model
from zgul.tagger import Tagger

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

TEXT = "Hetta er ein lítil roynd. Hon býr í Havn og arbeiðir á skúlanum."


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are stored in a folder of the tests; the embedded encoder stays where it is."""
    own = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr("zgul.fast.int8.cache_dir", lambda: own)


@cache
def tagger_of(method: str) -> Tagger:
    tagger = small_tagger(method, scale=0.2)
    if tagger.model.bank is not None:
        tagger.model.bank.activations = ["relu"] * len(tagger.model.bank)  # as the shipped adapters have it
    return tagger


@cache
def in_int8(method: str) -> Any:
    return engine(tagger_of(method).model, precision="int8")


# --- the slow loop: one sentence, one token, one row of a matrix at a time


def rounded(x: Tensor, rounding: Rounding) -> Tensor:
    codes = [min(255, max(0, round(float(v / s)) + rounding.zero)) for v, s in zip(x, rounding.step, strict=True)]
    return torch.tensor([float((c - rounding.zero) * s) for c, s in zip(codes, rounding.step, strict=True)])


def product(x: Tensor, rounding: Rounding, weight: Tensor, bias: Tensor) -> Tensor:
    """``W x + b`` with x in 8 bits, and the rows of W, after its columns took x's steps, in 8 bits."""
    x, rows = rounded(x, rounding), []
    for row, add in zip(weight, bias, strict=True):
        scaled = row * rounding.step
        step = scaled.abs().max().clamp(min=1e-12) / 127
        rows.append(float(((scaled / step).round() * step / rounding.step) @ x + add))
    return torch.tensor(rows)


def by_hand(model: Any, batch: Batch, row: int) -> Tensor:
    """Label scores [T, C] of one sentence, in the order of the formulas of docs/architecture.md."""
    measured, encoder = measure(model, ends_of(batch)), model.encoder
    length = int(batch.mask[row].sum())
    hidden = encoder.embed(batch.input_ids[row : row + 1, :length])[0]
    by_language = model.languages(batch)[0]

    def many(
        x: Tensor, name: str, weight: Tensor, bias: Tensor, zero: int = MIDDLE, whole: Tensor | None = None
    ) -> Tensor:
        """``whole`` is the matrix that ``weight`` is a part of. All its parts read the same codes."""
        rounding = Rounding.of(measured[name], zero, weight if whole is None else whole)
        return torch.stack([product(token, rounding, weight, bias) for token in x])

    for i, layer in enumerate(encoder.layers):
        name = f"encoder.layers.{i}"
        parts = (layer.query, layer.key, layer.value)
        whole = torch.cat([part.weight for part in parts])
        q, k, v = (many(hidden, f"{name}.query", part.weight, part.bias, whole=whole) for part in parts)
        heads = [x.view(length, encoder.config.heads, -1).transpose(0, 1) for x in (q, k, v)]
        scores = heads[0] @ heads[1].mT / heads[0].shape[-1] ** 0.5
        context = (scores.softmax(-1) @ heads[2]).transpose(0, 1).reshape(length, -1)
        x = layer.attention_norm(many(context, f"{name}.attended", layer.attended.weight, layer.attended.bias) + hidden)
        inner = F.gelu(many(x, f"{name}.inner", layer.inner.weight, layer.inner.bias))
        total = many(inner, f"{name}.outer", layer.outer.weight, layer.outer.bias, GELU_ZERO) + x
        if model.bank is not None:
            own, bottlenecks = by_language[i][batch.languages[row, :length]], measured[f"weighting.{i}"]
            total = total + ensemble(model, i, layer.norm(total), own, bottlenecks, many)
        for task in model.task[i : i + 1]:
            inner = F.relu(many(layer.norm(total), f"task.{i}.down", task.down.weight, task.down.bias))
            total = total + many(inner, f"task.{i}.up", task.up.weight, task.up.bias, RELU_ZERO)
        hidden = layer.norm(total)
    return many(hidden, "head", model.head.weight, model.head.bias)


def ends_of(batch: Batch) -> tuple[int, int]:
    return int(batch.input_ids[0, 0]), int(batch.input_ids[0][batch.mask[0]][-1])


def ensemble(model: Any, i: int, h: Tensor, own: Tensor, bottlenecks: Columns, many: Any) -> Tensor:
    bank, weighting = model.bank, model.weighting
    _, n, r, _ = bank.up.shape
    whole = torch.cat([bank.down[i].flatten(0, 1), weighting.into[i]])
    a = F.relu(many(h, f"bank.{i}", bank.down[i].flatten(0, 1), bank.down_bias[i].flatten(), whole=whole))
    both = many(h, f"bank.{i}", weighting.into[i], weighting.into_bias[i], whole=whole)
    fusion = (both[:, : n * r] * a).view(-1, n, r).sum(-1) + both[:, n * r :]
    weights = [fusion.softmax(-1), own.softmax(-1)]
    scaled = torch.cat([(a.view(-1, n, r) * w[..., None]).flatten(1) for w in weights], dim=1)
    twice = Rounding(Rounding.of(bottlenecks, RELU_ZERO).step.repeat(2), RELU_ZERO)
    mixed = [product(token, twice, weighting.leave[i].mT, weighting.mix_bias[i]) for token in scaled]
    return torch.stack(mixed) + torch.cat(weights, dim=1) @ weighting.leave_bias[i]


@pytest.mark.parametrize("method", ["zgul", "sft-m"])
@torch.no_grad()
def test_the_session_computes_what_the_slow_loop_computes(method: str) -> None:
    tagger, fast = tagger_of(method), in_int8(method)
    batch = small_batch(tagger, mixed_sentences()[:3], padding=2)
    scores = fast(batch).logits
    for row in range(2):
        length = int(batch.mask[row].sum())
        expected = by_hand(fast.model, batch, row)
        away = (scores[row, :length] - expected).abs()
        # a number between two codes may fall on either side
        assert away.mean() < 0.01 * expected.std() and away.max() < 0.1 * expected.std()
        assert not scores[row, length:].any()


# --- promises


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 9))
def test_a_sentence_gives_the_same_bits_in_every_batch(rows: list[int], padding: int) -> None:
    tagger, fast, sentences = tagger_of("zgul"), in_int8("zgul"), mixed_sentences()
    together = small_batch(tagger, [sentences[row] for row in rows], padding=padding)
    scores = fast(together).logits
    for place, row in enumerate(rows):
        alone = small_batch(tagger, [sentences[row]])
        length = int(alone.mask.sum())
        assert torch.equal(scores[place, :length], fast(alone).logits[0, :length])


def test_scores_are_near_those_of_float32() -> None:
    tagger = tagger_of("zgul")
    batch = small_batch(tagger, mixed_sentences())
    exact, rough = engine(tagger.model)(batch).logits, in_int8("zgul")(batch).logits
    assert not torch.equal(exact, rough)
    assert (exact - rough)[batch.words].abs().mean() < 0.1 * exact[batch.words].std()


def test_sentences_that_int8_leaves_open_are_read_in_float32() -> None:
    tagger = tagger_of("zgul")
    batch = small_batch(tagger, mixed_sentences(), padding=3)
    exact, rough = engine(tagger.model)(batch).logits, in_int8("zgul")(batch).logits
    best = [rough[row][batch.words[row]].topk(2).values for row in range(len(batch))]
    near = [float((two[:, 0] - two[:, 1] < OPEN).float().mean()) for two in best]
    middle = sorted(near)[len(near) // 2]
    found = engine(tagger.model, precision="int8", may_be_open=middle)(batch).logits
    for row, mask in enumerate(batch.mask):
        expected = exact if near[row] > middle else rough
        assert torch.allclose(found[row][mask], expected[row][mask], atol=1e-5)
    assert min(near) <= middle < max(near)
    everything = engine(tagger.model, precision="int8", may_be_open=-1.0)(batch).logits
    assert torch.allclose(everything[batch.mask], exact[batch.mask], atol=1e-5)


def test_em_and_weights_are_those_of_float32() -> None:
    tagger, fast = tagger_of("zgul"), in_int8("zgul")
    batch, exact = small_batch(tagger, mixed_sentences()), engine(tagger.model)
    em = EMConfig(steps=2, lr=5.0)
    assert torch.equal(fast(batch, em).logits, exact(batch, em).logits)
    ours, plain = fast(batch, weights=True), exact(batch, weights=True)
    assert ours.after is not None and plain.after is not None and torch.equal(ours.after, plain.after)


def test_other_models_are_refused_with_advice() -> None:
    for other in (tagger_of("madx-multi"), tagger_of("cpg"), small_tagger("zgul")):  # the last has adapters with GELU
        with pytest.raises(ZgulError, match="--precision float32"):
            engine(other.model, precision="int8")


def test_auto_is_int8_where_it_is_fast_and_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zgul.fast.engine.fast_in_int8", lambda: True)
    assert engine(tagger_of("zgul").model, precision="auto").precision == "int8"
    assert engine(tagger_of("madx-multi").model, precision="auto").precision == "float32"  # it cannot be written so
    monkeypatch.setattr("zgul.fast.engine.fast_in_int8", lambda: False)
    slow = engine(tagger_of("zgul").model, precision="auto")
    batch = small_batch(tagger_of("zgul"), mixed_sentences())
    assert slow.precision == "float32"
    assert torch.equal(slow(batch).logits, engine(tagger_of("zgul").model)(batch).logits)


@pytest.mark.parametrize(("about", "chosen"), [({"int8": True}, "int8"), ({"int8": False}, "float32"), ({}, "float32")])
def test_auto_is_int8_only_where_it_was_measured_to_keep_f1(
    about: dict[str, bool], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zgul.fast.engine.fast_in_int8", lambda: True)
    assert replace(tagger_of("zgul"), about=about, precision="auto").engine.precision == chosen
    assert replace(tagger_of("zgul"), about=about, precision="int8").engine.precision == "int8"


@pytest.mark.parametrize(("noted", "share"), [(0.1, 0.1), (None, 1.0), ("half", 1.0)])
def test_as_many_words_may_be_open_as_was_measured(noted: object, share: float) -> None:
    assert replace(tagger_of("zgul"), about={"int8_open": noted}, precision="int8").engine.may_be_open == share


def test_a_session_is_made_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: Model, ends: tuple[int, int]) -> bytes:
        raise AssertionError("nothing was tagged in int8")

    monkeypatch.setattr("zgul.fast.int8._stored", refuse)
    batch, fast = small_batch(tagger_of("zgul"), mixed_sentences()), engine(tagger_of("zgul").model, precision="int8")
    fast(batch, weights=True)
    with pytest.raises(AssertionError, match="nothing was tagged"):
        fast(batch)


def test_a_graph_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zgul.fast.int8.cache_dir", lambda: tmp_path)
    model = tagger_of("zgul").model
    batch = small_batch(tagger_of("zgul"), mixed_sentences())
    first = engine(model, precision="int8")(batch).logits
    (path,) = tmp_path.glob("int8-*.onnx")
    written = path.stat().st_mtime_ns
    assert torch.equal(engine(model, precision="int8")(batch).logits, first)
    assert path.stat().st_mtime_ns == written
    engine(tagger_of("sft-m").model, precision="int8")(small_batch(tagger_of("sft-m"), mixed_sentences()))
    assert len(list(tmp_path.glob("int8-*.onnx"))) == 2


def test_columns_of_every_size_are_rounded_well() -> None:
    largest = torch.tensor([1e-3, 1.0, 100.0])
    columns = Columns(largest, largest.square() / 9)
    for zero in (MIDDLE, GELU_ZERO, RELU_ZERO):
        rounding = Rounding.of(columns, zero)
        assert (rounding.step * (255 - zero) >= largest).all()
    assert (Rounding.of(columns, MIDDLE).step < largest / 60).all()
    assert (Rounding.of(columns, GELU_ZERO).step * GELU_ZERO >= 0.17 - 1e-6).all()  # the lowest output of GELU


def test_steps_are_chosen_for_the_product() -> None:
    """One column is much larger than the others. The steps that were chosen change W x less than the smallest steps."""
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(500, 32, generator=chance) * torch.cat([torch.tensor([60.0]), torch.ones(31)])
    weight = torch.randn(16, 32, generator=chance)
    columns = Columns(x.abs().amax(dim=0), x.square().mean(dim=0))
    exact, nothing = x @ weight.mT, torch.zeros(16)

    def error(rounding: Rounding) -> float:
        found = torch.stack([product(row, rounding, weight, nothing) for row in x[:100]])
        return float((found - exact[:100]).square().sum(dim=1).mean())

    smallest, chosen = Rounding.of(columns, MIDDLE), Rounding.of(columns, MIDDLE, weight)
    assert (chosen.step >= smallest.step * 0.999).all()
    assert error(chosen) < 0.7 * error(smallest)
    for rounding in (smallest, chosen):
        assert 0.8 < error(rounding) / expected_error(columns, weight, rounding.step) < 1.2


def test_the_pieces_that_are_measured_are_always_the_same() -> None:
    encoder = tagger_of("zgul").model.encoder
    first, second = (list(random_pieces(encoder, (1, 2))) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert {int(batch.max()) < encoder.config.vocabulary for batch in first} == {True}
    with_ends = torch.cat([(batch[:, 0] == 1) & (batch[:, -1] == 2) for batch in first]).float().mean()
    assert 0.7 < with_ends < 0.9  # and some sentences have none


@pytest.mark.slow
def test_the_shipped_tagger_keeps_its_tags() -> None:
    exact, rough = (zgul.load("fo", "pos", em=False, precision=name).tag(TEXT) for name in ("float32", "int8"))
    tags, others = ([tag for s in found.sentences for tag in s.layers["pos"].tags] for found in (exact, rough))
    assert np.mean([a == b for a, b in zip(tags, others, strict=True)]) > 0.9
    assert replace(exact, sentences=[]) == replace(rough, sentences=[])


def test_the_model_is_left_alone() -> None:
    model: Model = tagger_of("zgul").model
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in in_int8("zgul").model.modules())
    assert model.weighting is not in_int8("zgul").model.weighting
