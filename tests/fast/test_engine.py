"""The fast engine equals the plain code: methods, strategies, shapes, EM settings, precisions and devices."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from small_tagger import MADE, mixed_sentences, small_batch, small_tagger
from threads import in_threads
from zgul.corpora.sentence import Sentence
from zgul.encoders.batches import Batch, PieceEncoder
from zgul.ensemble.em import EMConfig
from zgul.errors import ZgulError
from zgul.fast.engine import Engine, engine
from zgul.fast.folding import FoldedWeighting, WideWeighting, fold
from zgul.methods import METHODS, MethodOptions
from zgul.methods.model import Inferred, infer
from zgul.tagger import Tagger

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))
KINDS: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in METHODS} | {
    "zgul, standardised": ("zgul", {}),  # one adapter with AdapterHub's ln_before
    "zgul, additive": ("zgul", {"l_scores": "additive"}),
    "zgul, max": ("zgul", {"combine": "max"}),
    "zgul, low-rank": ("zgul", {"encoder_rank": 2}),
    "zgul, wide": ("zgul", {}),  # adapters that are wider together than the encoder
    "zgul, modern": ("zgul", {}),  # on a ModernBERT
    "sft-m, modern": ("sft-m", {}),
    "zgul, first block": ("zgul", {"invertible": "first"}),
    "zgul, mixed blocks, low-rank": ("zgul", {"invertible": "mixed", "encoder_rank": 2}),
    "zgul-no-f, mixed blocks": ("zgul-no-f", {"invertible": "mixed"}),
    "madx-multi, first block": ("madx-multi", {"invertible": "first"}),
    "madx-multi, mixed blocks, low-rank": ("madx-multi", {"invertible": "mixed", "encoder_rank": 2}),
}
EM = {
    "no EM": None,
    "T=1": EMConfig(steps=1, lr=5.0),
    "T=4": EMConfig(steps=4, lr=2.0),
    "tied": EMConfig(steps=2, lr=5.0, tied=True),
    "probabilities": EMConfig(steps=2, lr=2.0, start="probabilities"),
    "all positions": EMConfig(steps=2, lr=0.1, positions="all"),
}
# The largest difference of label probabilities and of weights, and the EM settings that are tried
NEAR = {"float64": 1e-9, "float32": 2e-4, "bfloat16": 0.1}
TRIED = {"float64": list(EM), "float32": ["no EM", "T=4"], "bfloat16": ["no EM", "T=1"]}
CASES = [
    (kind, precision, em)
    for kind, (method, _) in KINDS.items()
    for precision, tried in TRIED.items()
    for em in tried
    if em == "no EM" or any(map(METHODS[method].uses_em, METHODS[method].strategies))
]


@pytest.fixture(autouse=True)
def little_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all positions count, add fewer than the 128 of the authors' release: it is only slower."""
    for module in ("ensemble.em", "methods.model"):
        monkeypatch.setattr(f"zgul.{module}.PADDED", 40)


@cache
def tagger_of(kind: str, precision: str = "float32", device: str = "cpu") -> Tagger:
    """A tagger with random weights. Where digits are few they are small, else softmaxes flip."""
    method, options = KINDS[kind]
    tagger = small_tagger(
        method,
        options=MethodOptions(dropout=0.0, **options),
        double=precision == "float64",
        scale=0.1 if precision == "bfloat16" else 0.4,
        standardise="standardised" in kind,
        modern="modern" in kind,
        size=12 if "wide" in kind else None,
    )
    if "wide" in kind:
        make_invertible(tagger.model.weighting)
    return tagger.to(device)


@torch.no_grad()
def make_invertible(weighting: Any, scale: float = 0.1) -> None:
    """Make W_v and the halves of C the identity, a little changed."""
    for linear in [*weighting.value, *weighting.combine]:
        identity = torch.eye(len(linear.weight)).repeat(1, linear.in_features // linear.out_features)
        linear.weight.copy_(identity + scale * torch.randn(identity.shape, generator=torch.Generator().manual_seed(2)))


def strategies_of(tagger: Tagger, em: bool) -> list[str]:
    """The strategies that the made-up family can be read with: it has no English and no adapter of the target.

    To the engine, em-tied is em with other settings.
    """
    possible = [strategy for strategy in tagger.method.strategies if strategy not in ("en", "tgt", "em-tied")]
    return [strategy for strategy in possible if tagger.method.uses_em(strategy)] if em else possible


def shapes() -> dict[str, list[Sentence]]:
    long = [word for sentence in MADE.sentences("s0", 3) for word in sentence.words]
    return {
        "one sentence": MADE.sentences("target", 1),
        "many lengths": mixed_sentences(),
        "one-word sentences": [Sentence([word], None, "s1") for word in ("jah", "pakile")],
        "a sentence cut into chunks": [Sentence(long, None, "s0"), *MADE.sentences("s1", 1)],
    }


@cache
def batches(kind: str, strategy: str, device: str = "cpu") -> dict[str, Batch]:
    tagger, made = tagger_of(kind), {}
    for name, sentences in shapes().items():
        more = {"padding": 3, "empty": 1} if name == "many lengths" else {}
        pieces = PieceEncoder(tagger.pieces.tokenizer, 24 if name == "a sentence cut into chunks" else 128)
        batch = small_batch(replace(tagger, pieces=pieces), sentences, strategy=strategy, **more)
        made[name] = Batch(**{key: value.to(device) for key, value in vars(batch).items()})
    assert len(made["a sentence cut into chunks"]) > len(shapes()["a sentence cut into chunks"])
    return made


def assert_near(found: torch.Tensor, expected: torch.Tensor, precision: str, what: object) -> None:
    apart = (found.double() - expected.double()).abs()
    assert apart.isfinite().all(), what
    assert apart.max() <= NEAR[precision], (what, apart.max())


def assert_same(found: Inferred, expected: Inferred, batch: Batch, precision: str, what: object) -> None:
    """Compare where there are words: the scores of padding mean nothing."""
    words = batch.words
    probabilities = [inferred.logits[words].double().softmax(dim=-1) for inferred in (found, expected)]
    assert_near(*probabilities, precision, what)
    for name in ("before", "after"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), what
        if one is not None:
            assert_near(one[words], other[words], precision, (what, name))


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize(("kind", "precision", "em"), CASES)
def test_the_engine_equals_the_plain_code(kind: str, precision: str, em: str, device: str) -> None:
    tagger = tagger_of(kind, precision, device)
    fast = engine(tagger.model, device, "float32" if precision == "float64" else precision)
    config = EM[em]
    for strategy in strategies_of(tagger, config is not None):
        for name, batch in batches(kind, strategy, device).items():
            what = kind, strategy, em, name
            expected = infer(tagger.model, batch, config, weights=True)
            assert_same(fast(batch, config, weights=True), expected, batch, precision, what)
            bare = replace(expected, before=None, after=None)
            for _ in range(4 if device == "cuda" else config is None):  # on a GPU: plainly twice, captured, replayed
                assert_same(fast(batch, config), bare, batch, precision, what)


def test_em_makes_a_difference_in_the_test_above() -> None:
    """Otherwise equal results would mean little."""
    tagger = tagger_of("zgul", "float64")
    batch = batches("zgul", "em")["many lengths"]
    plain = infer(tagger.model, batch).logits[batch.words].softmax(dim=-1)
    for config in EM.values():
        if config is not None:
            moved = infer(tagger.model, batch, config).logits[batch.words].softmax(dim=-1)
            assert (moved - plain).abs().max() > 1e-2


words = st.text("paktseiou", min_size=1, max_size=6)
sentences = st.lists(
    st.lists(st.tuples(words, st.sampled_from(MADE.languages)), min_size=1, max_size=15), min_size=1, max_size=5
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sentences,
    st.sampled_from(["zgul", "zgul, max", "madx-multi, mixed blocks, low-rank"]),
    st.sampled_from(sorted(EM)),
    st.integers(0, 9),
    st.integers(0, 2),
)
def test_any_batch(drawn: list[list[tuple[str, str]]], kind: str, em: str, padding: int, empty: int) -> None:
    tagger = tagger_of(kind, "float64")
    strategy = "emea" if kind.startswith("madx") else "em"
    mixed = [Sentence([w for w, _ in row], None, "s0", [language for _, language in row]) for row in drawn]
    batch = small_batch(tagger, mixed, strategy=strategy, padding=padding, empty=empty)
    expected = infer(tagger.model, batch, EM[em], weights=True)
    assert_same(engine(tagger.model)(batch, EM[em], weights=True), expected, batch, "float64", (kind, em))


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["zgul", "madx-multi, mixed blocks, low-rank"])
def test_several_rates_side_by_side(kind: str, tied: bool, device: str) -> None:
    """Every step of every rate is what a plain run of so many steps at this rate gives."""
    tagger = tagger_of(kind, "float64", device)
    strategy = "emea" if kind.startswith("madx") else "em"
    batch, config = batches(kind, strategy, device)["many lengths"], EMConfig(steps=3, tied=tied)
    rates = [0.5, 2.0, 0.0]
    found: list[tuple[int, torch.Tensor]] = []
    engine(tagger.model, device).grid(batch, config, rates, lambda t, logits: found.append((t, logits)))
    assert [t for t, _ in found] == [0, 1, 2, 3]
    for t, logits in found:
        assert logits.shape[:3] == (3, *batch.words.shape)
        for rate, own in zip(rates, logits, strict=True):
            expected = infer(tagger.model, batch, replace(config, steps=t, lr=rate)).logits
            torch.testing.assert_close(own[batch.words], expected[batch.words], rtol=0, atol=1e-9)


# --- what it is made of


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_stays_as_it_was(kind: str) -> None:
    tagger = tagger_of(kind)
    before = {name: (value, value.clone(), value.requires_grad) for name, value in tagger.model.named_parameters()}
    for precision in ("float32", "bfloat16"):
        fast = engine(tagger.model, precision=precision)
        fast(small_batch(tagger, mixed_sentences()), EMConfig(steps=1, lr=1.0) if tagger.bank_languages else None)
        assert not any(value.requires_grad for value in fast.model.parameters()) and not fast.model.training
    for name, value in tagger.model.named_parameters():
        held, values, trained = before[name]
        assert value is held and torch.equal(value, values) and value.requires_grad == trained
        assert value.grad is None


def test_weights_that_need_no_change_are_shared() -> None:
    tagger = tagger_of("zgul, low-rank")
    fast = engine(tagger.model)
    for name in ("encoder.words.weight", "encoder.layers.0.norm.weight", "bank.down", "head.weight", "task.0.up.bias"):
        assert fast.model.get_parameter(name).data_ptr() == tagger.model.get_parameter(name).data_ptr(), name
    assert engine(tagger.model, precision="bfloat16").model.head.weight.dtype == torch.bfloat16


def test_what_is_linear_is_folded_and_the_maximum_is_not() -> None:
    for kind in KINDS:
        folded = isinstance(fold(tagger_of(kind).model).weighting, FoldedWeighting | WideWeighting)
        assert folded == (KINDS[kind][0] == "zgul" and kind != "zgul, max"), kind


def test_wide_banks_have_a_form_of_their_own_where_it_is_exact_enough() -> None:
    for kind in KINDS:
        assert isinstance(fold(tagger_of(kind).model).weighting, WideWeighting) == ("wide" in kind), kind
    tagger = small_tagger("zgul", size=12)
    weighting: Any = tagger.model.weighting
    make_invertible(weighting, scale=0.0)
    for condition, precision, wide in ((50, "float32", True), (50, "bfloat16", False), (200, "float32", False)):
        with torch.no_grad():
            weighting.value[1].weight[0, 0] = condition
        assert isinstance(fold(tagger.model, precision).weighting, WideWeighting) == wide
        batch = small_batch(tagger, mixed_sentences())
        assert_same(engine(tagger.model)(batch), infer(tagger.model, batch), batch, "float32", condition)


def test_low_rank_updates_are_merged_whatever_the_weighting() -> None:
    for kind in ("madx-multi, mixed blocks, low-rank", "zgul, low-rank"):
        names = [name for name, _ in fold(tagger_of(kind).model).named_parameters()]
        assert not any(name.endswith((".a", ".b")) for name in names)


def test_precisions_and_devices_that_do_not_exist() -> None:
    with pytest.raises(ZgulError, match="precision is one of auto, float32, bfloat16, int8, not 'half'"):
        engine(tagger_of("zgul").model, precision="half")
    with pytest.raises(ZgulError, match="There is no device 'potato' here"):
        engine(tagger_of("zgul").model, "potato")


def test_batches_on_a_cpu_fill_its_caches() -> None:
    fast = engine(tagger_of("zgul").model)
    assert (fast.max_tokens, fast.shapes) == (1024, {"alike": 0.9})


# --- threads


def use_in_threads(fast: Engine, cases: list[tuple[Batch, EMConfig | None, bool]]) -> None:
    """Every thread runs every case several times and gets what one thread alone gets."""
    expected = [fast(*case) for case in cases]

    def work(seed: int) -> None:
        for number in range(len(cases) if fast.device.type == "cpu" else 3 * len(cases)):
            at = (number + seed) % len(cases)
            found = fast(*cases[at])
            torch.testing.assert_close(found.logits, expected[at].logits, rtol=0, atol=1e-5)

    in_threads(work)


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_several_threads_may_use_one_engine(device: str) -> None:
    tagger = tagger_of("zgul", device=device)
    made = list(batches("zgul", "em", device).values())
    cases = [
        (batch, config, weights) for batch in made for config in list(EM.values())[:3] for weights in (False, True)
    ]
    use_in_threads(engine(tagger.model, device), cases)
