"""What each method builds, freezes and trains, and how it chooses adapters."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from family import tiny_encoder
from small_tagger import LABELS, MADE, WIDTH, mixed_sentences, small_adapters, small_batch, small_tagger
from zgul.encoders.encoder import masked_attention
from zgul.errors import ZgulError
from zgul.languages import features as uriel
from zgul.methods import METHODS, MethodOptions, Parts, find_method
from zgul.methods.cpg import GeneratedAdapters
from zgul.methods.madx import RULED_OUT
from zgul.methods.model import infer, softmax_scores
from zgul.tagger import Tagger
from zgul.training.config import TrainingConfig
from zgul.training.labelled_data import labelled_data
from zgul.training.trainer import Trainer

ENCODER = "encoder."
TRAINED = {  # the modules that a method trains; everything else must stay as it is
    "sft-en": {"encoder", "head"},
    "sft-m": {"encoder", "head"},
    "madx": {"task", "head"},
    "madx-multi": {"task", "head"},
    "cpg": {"encoder", "generator", "head"},
    "zgul": {"weighting", "task", "head"},
    "zgul-no-l": {"weighting", "task", "head"},
    "zgul-no-f": {"weighting", "task", "head"},
}
REAL = ["en", "is", "de"]  # languages that URIEL knows, in place of the made-up sources


def real_tagger(method: str, **options: object) -> Tagger:
    """A small tagger whose sources have codes of real languages."""
    adapters = small_adapters()
    for adapter, code in zip(adapters, REAL, strict=True):
        adapter.language = code
    return Tagger.new(
        method,
        encoder=tiny_encoder(MADE, width=WIDTH),
        task="pos",
        labels=LABELS,
        sources=REAL,
        adapters=adapters,
        options=MethodOptions(**options),
    )


def test_every_method_is_listed_here() -> None:
    assert set(METHODS) == set(TRAINED)
    assert all(find_method(name).name == name for name in METHODS)


@pytest.mark.parametrize("name", TRAINED)
def test_training_changes_what_is_trained_and_nothing_else(name: str) -> None:
    tagger = small_tagger(name, random=False) if name != "madx" else real_tagger(name, dropout=0.0)
    assert {part.split(".")[0] for part in tagger.trained_names} == TRAINED[name]
    train = [s for source in MADE.sources for s in MADE.sentences(source, 8)]
    if name == "madx":  # is trained on English alone: let s0 play it
        train = train[:8]
        for sentence in train:
            sentence.language = "en"
    before = {key: value.clone() for key, value in tagger.model.state_dict().items()}
    config = TrainingConfig(
        method=name, sources=tuple(tagger.parts.sources), epochs=2, batch_size=8, accumulate=1, lr=1e-2, select="last"
    )
    Trainer(tagger, labelled_data(train, [], config), config).run()
    after = tagger.model.state_dict()
    unused = (".key.bias", "encoder.positions", "encoder.types", "encoder.words")  # may, but need not, change
    for key, value in before.items():
        if key not in tagger.trained_names:
            assert torch.equal(value, after[key]), f"{key} is frozen"
        elif not any(part in key for part in unused):
            assert not torch.equal(value, after[key]), f"{key} is trained"


def test_options_may_train_the_encoder_too() -> None:
    little = small_tagger("zgul", options=MethodOptions(encoder_rank=2)).trained_names
    assert all(name.endswith((".a", ".b")) for name in little if name.startswith(ENCODER))
    assert sum(name.startswith(ENCODER) for name in little) == 2 * 6 * 2
    whole = small_tagger("madx-multi", options=MethodOptions(train_encoder=True))
    assert sum(name.startswith(ENCODER) for name in whole.trained_names) == len(list(whole.parts.encoder.parameters()))


@pytest.mark.parametrize(
    ("name", "views", "absent"),
    [("zgul", 2, None), ("zgul-no-l", 1, "weighting.lang2vec"), ("zgul-no-f", 1, "weighting.fusion")],
)
def test_ablations_leave_their_part_out(name: str, views: int, absent: str | None) -> None:
    tagger = small_tagger(name)
    names = [key for key, _ in tagger.model.named_parameters()]
    assert any("weighting.combine" in key for key in names) == (views == 2)
    if absent:
        assert not any(key.startswith(absent) for key in tagger.trained_names)
    if name == "zgul-no-l":
        assert not any("vectors" in key for key in tagger.trained_names)
    prediction = tagger.predict(MADE.sentences("target", 1), strategy="plain", weights=True)[0]
    assert prediction.weights is not None and prediction.weights.shape[1:] == (views, 3)


@pytest.mark.parametrize(
    "options",
    [
        MethodOptions(dropout=0.0, l_scores="additive"),
        MethodOptions(dropout=0.0, combine="max"),
        MethodOptions(dropout=0.0, l_scores="additive", combine="max", fusion_dropout=0.1),
    ],
)
def test_the_releases_options_train_and_infer(options: MethodOptions) -> None:
    tagger, paper = small_tagger(options=options, random=False), small_tagger(random=False)
    assert (options.combine == "linear") == any("combine" in name for name in tagger.trained_names)
    assert (options.l_scores == "bilinear") == any("bilinear" in name for name in tagger.trained_names)
    assert tagger.trained_names != paper.trained_names
    config = TrainingConfig(
        method="zgul", sources=tuple(MADE.sources), epochs=4, batch_size=8, accumulate=1, lr=1e-2, options=options
    )
    sentences = [s for source in MADE.sources for s in MADE.sentences(source, 20)]
    history = Trainer(tagger, labelled_data(sentences, sentences, config), config).run()
    assert history[-1]["loss"] < history[0]["loss"]
    test = MADE.sentences("target", 4)
    assert [len(p.tags) for p in tagger.predict(test)] == [len(s) for s in test]


@pytest.mark.parametrize(("features", "size"), [("syntax", 103), ("all", 289)])
def test_uriels_features_in_both_sizes(features: str, size: int) -> None:
    tagger = real_tagger("zgul", features=features)
    assert tagger.model.weighting.vectors.project.in_features == size
    table = tagger.language_table(["fo", "en"])
    assert table.rows == {"fo": 0, "en": 1}
    assert torch.equal(table.values, torch.tensor(np.stack([uriel("fo", features), uriel("en", features)])))
    assert torch.equal(tagger.model.weighting.vectors.bank_features[0], table.values[1])


@pytest.mark.parametrize(
    "wrong", [{"features": "phonology"}, {"l_scores": "cosine"}, {"combine": "min"}, {"invertible": "last"}]
)
def test_options_that_do_not_exist(wrong: dict[str, str]) -> None:
    with pytest.raises(ZgulError, match=f"{next(iter(wrong))} is one of"):
        MethodOptions(**wrong)


def test_methods_and_strategies_that_do_not_exist() -> None:
    with pytest.raises(ZgulError, match=r"There is no method 'zgull'\. Choose one of: sft-en"):
        find_method("zgull")
    with pytest.raises(ZgulError, match=r"SFT-M has no strategy 'em'\. Choose one of: plain"):
        small_tagger("sft-m").predict(MADE.sentences("s0", 1), strategy="em")
    with pytest.raises(ZgulError, match=r"ZGUL has no strategy 'rel'\. Choose one of: em, plain, em-tied"):
        small_tagger("zgul").language_table(["target"], "rel")


# --- MADX: whose adapter reads a language


def readers(tagger: Tagger, languages: list[str], strategy: str) -> list[str]:
    """The language whose adapter reads each language, by the language table."""
    table = tagger.language_table(languages, strategy)
    assert table.rows == {language: row for row, language in enumerate(languages)}
    assert set(table.values.unique().tolist()) == {RULED_OUT, 0.0} and ((table.values == 0).sum(dim=1) == 1).all()
    return [tagger.bank_languages[int(place)] for place in table.values.argmax(dim=1)]


def test_madx_reads_each_source_with_its_own_adapter() -> None:
    tagger = small_tagger("madx-multi", double=True)
    together = tagger.predict(MADE.sentences("s2", 2) + MADE.sentences("s0", 2), strategy="rel", weights=True)
    for prediction, own in zip(together, [2, 2, 0, 0], strict=True):
        assert (prediction.weights[:, 0].argmax(axis=-1) == own).all()
        assert sorted(set(prediction.weights.flatten().tolist())) == [0.0, 1.0]


def test_madx_strategies() -> None:
    tagger = small_tagger("madx-multi")
    for strategy in ("uniform", "emea"):
        assert not tagger.language_table(["target"], strategy).values.any()
    assert readers(tagger, ["target", "s1"], "rel") == ["s0", "s1"], "s0 is the target's nearest, s1 reads itself"
    assert readers(tagger, ["s2"], "tgt") == ["s2"]
    with pytest.raises(ZgulError, match=r"needs a language adapter for 'target'.*zgul adapter train --lang target"):
        tagger.language_table(["target"], "tgt")
    with pytest.raises(ZgulError, match="needs a language adapter for 'en'; the bank has s0, s1, s2"):
        tagger.language_table(["target"], "en")


@pytest.mark.parametrize("method", ["madx", "madx-multi"])
def test_madx_reads_everything_with_english_or_by_relatedness(method: str) -> None:
    tagger = real_tagger(method)
    assert readers(tagger, ["fo", "de", "gsw"], "en") == ["en"] * 3
    assert readers(tagger, ["fo", "de", "gsw"], "rel") == ["is", "de", "de"]
    assert tagger.strategy == ("en" if method == "madx" else "rel")


def test_madx_with_the_targets_own_adapter() -> None:
    adapters = small_adapters()
    own = small_adapters(seed=5)[0]
    own.language = "target"
    tagger = Tagger.new(
        "madx-multi",
        encoder=tiny_encoder(MADE, width=WIDTH),
        task="pos",
        labels=LABELS,
        sources=MADE.sources,
        adapters=[own, *adapters],
    )
    assert tagger.bank_languages == [*MADE.sources, "target"], "the sources stand first"
    assert readers(tagger, ["target"], "tgt") == ["target"]


def test_most_related_by_given_features_or_by_uriel() -> None:
    made = {language: MADE.features(language) for language in MADE.languages}
    parts = Parts(small_tagger().parts.encoder, LABELS, list(reversed(MADE.sources)), features=made)
    assert parts.most_related("target") == "s0" and parts.most_related("s2") == "s2"
    real = Parts(parts.encoder, LABELS, REAL)
    assert real.most_related("fo") == "is" and real.most_related("gsw") == "de"
    some = Parts(parts.encoder, LABELS, REAL, features={"fo": MADE.features("target")})
    with pytest.raises(ZgulError, match="differ in number"):
        some.most_related("fo")


# --- invertible blocks


@torch.no_grad()
@pytest.mark.parametrize("invertible", ["first", "mixed"])
def test_invertible_blocks_act_before_the_first_layer(invertible: str) -> None:
    tagger = small_tagger("madx-multi", options=MethodOptions(dropout=0.0, invertible=invertible), double=True)
    batch = small_batch(tagger, MADE.sentences("s1", 3), strategy="rel")
    plain = tagger.model.encoder.embed(batch.input_ids)
    expected = tagger.model.bank.invertible[0 if invertible == "first" else 1](plain)
    found = tagger.model.embed(batch, *tagger.model.languages(batch), softmax_scores)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_zgul_takes_the_mean_of_mixed_blocks() -> None:
    """Fusion and lang2vec have no view of them."""
    tagger = small_tagger("zgul", options=MethodOptions(dropout=0.0, invertible="mixed"), double=True)
    batch = small_batch(tagger, MADE.sentences("s1", 3))
    plain = tagger.model.encoder.embed(batch.input_ids)
    expected = torch.stack([block(plain) for block in tagger.model.bank.invertible]).mean(dim=0)
    found = tagger.model.embed(batch, *tagger.model.languages(batch), softmax_scores)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_invertible_blocks_are_asked_for_but_absent() -> None:
    tagger = small_tagger("madx-multi")
    tagger.model.invertible = "first"
    with pytest.raises(ZgulError, match=r"no invertible blocks\. Use invertible='off'"):
        tagger.predict(MADE.sentences("s0", 1))


# --- the layer, and CPG, against loops


@torch.no_grad()
def test_plain_fine_tuning_is_the_encoder_and_a_head() -> None:
    tagger = small_tagger("sft-m", double=True)
    batch = small_batch(tagger, MADE.sentences("s0", 3))
    expected = tagger.model.head(tagger.model.encoder(batch.input_ids, batch.mask))
    torch.testing.assert_close(tagger.model(batch)[batch.mask], expected[batch.mask], rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_madx_layer_is_language_adapter_then_task_adapter() -> None:
    tagger = small_tagger("madx-multi", double=True)
    batch = small_batch(tagger, MADE.sentences("s1", 3), strategy="rel")
    encoder, adapter = tagger.model.encoder, tagger.model.bank.extract("s1")
    hidden = encoder.embed(batch.input_ids)
    for index in range(2):
        x, f = encoder.layer(index, hidden, masked_attention(batch.mask))
        norm = encoder.layers[index].norm
        z = f + adapter.layers[index].double()(norm(f + x))
        t = z + tagger.model.task[index](norm(z + x))
        hidden = norm(t + x)
    torch.testing.assert_close(tagger.model(batch), tagger.model.head(hidden), rtol=0, atol=1e-10)


@torch.no_grad()
def test_cpg_is_an_adapter_generated_for_each_language() -> None:
    torch.manual_seed(0)
    features = torch.rand(3, 7, dtype=torch.float64)
    generator = GeneratedAdapters(7, 6, 2, MethodOptions(cpg_rank=4, cpg_bottleneck=5, dropout=0.3)).double().eval()
    for weight in generator.parameters():
        torch.nn.init.normal_(weight)
    f, languages = torch.randn(2, 4, 6, dtype=torch.float64), torch.randint(3, (2, 4))
    vectors = generator.by_language(features)
    for layer in range(2):
        found = generator(layer, f, F.one_hot(languages, 3).double(), vectors)
        for b in range(2):
            for t in range(4):
                l = generator.vector(features[languages[b, t]])
                down = sum(l[k] * generator.down[layer, k] for k in range(4))
                up = sum(l[k] * generator.up[layer, k] for k in range(4))
                inner = F.gelu(f[b, t] @ down + l @ generator.down_bias[layer])
                expected = inner @ up + l @ generator.up_bias[layer]
                torch.testing.assert_close(found[b, t], expected, rtol=0, atol=1e-9)


@torch.no_grad()
def test_a_cpg_layer_adds_the_generated_adapter_to_the_feed_forward_output() -> None:
    tagger = small_tagger("cpg", double=True)
    batch = small_batch(tagger, MADE.sentences("s1", 2))
    encoder, generator = tagger.model.encoder, tagger.model.generator
    vectors = generator.by_language(batch.table.double())
    spoken = F.one_hot(batch.languages, len(batch.table)).double()
    hidden = encoder.embed(batch.input_ids)
    for index in range(2):
        x, f = encoder.layer(index, hidden, masked_attention(batch.mask))
        hidden = encoder.layers[index].norm(f + generator(index, f, spoken, vectors) + x)
    torch.testing.assert_close(tagger.model(batch), tagger.model.head(hidden), rtol=0, atol=1e-10)


def test_cpg_reads_languages_it_was_not_trained_on() -> None:
    tagger = small_tagger("cpg")
    both = tagger.predict(MADE.sentences("target", 2) + MADE.sentences("s1", 2))
    alone = tagger.predict(MADE.sentences("target", 2))
    assert [p.tags for p in both[:2]] == [p.tags for p in alone]


# --- plain inference


@pytest.mark.parametrize("method", ["sft-m", "cpg"])
def test_methods_without_a_bank_have_no_weights(method: str) -> None:
    tagger = small_tagger(method)
    found = infer(tagger.model, small_batch(tagger, mixed_sentences()), weights=True)
    assert found.before is None and found.after is None and not found.logits.requires_grad


def test_weights_without_em_are_the_models_own() -> None:
    tagger = small_tagger(double=True)
    batch = small_batch(tagger, mixed_sentences())
    bare, found = infer(tagger.model, batch), infer(tagger.model, batch, weights=True)
    assert bare.before is None and found.before is not None
    assert torch.equal(found.before, found.after) and torch.equal(found.logits, bare.logits)


# --- the head


def test_an_untrained_head_says_how_often_each_label_is() -> None:
    model = small_tagger(labels=["O", "B-PER", "I-PER"], task="ner").model
    shares = torch.tensor([0.75, 0.25, 0.0])
    model.start_head_at(shares)
    torch.testing.assert_close(model.head.bias.softmax(dim=0), shares, rtol=0, atol=1e-3)
    assert model.head.bias.isfinite().all(), "a label that never occurs is unlikely, not impossible"


# --- parts


def test_parts_that_do_not_fit() -> None:
    short = small_adapters()
    for adapter in short:
        adapter.layers = adapter.layers[:1]
    with pytest.raises(ZgulError, match="made for an encoder of 1 layers of width 16; this encoder has 2"):
        Parts(small_tagger().parts.encoder, LABELS, MADE.sources, short).bank()
    with pytest.raises(ZgulError, match="no language adapter for s2"):
        Parts(small_tagger().parts.encoder, LABELS, MADE.sources, small_adapters()[:2]).bank()
