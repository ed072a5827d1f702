"""What each method builds, freezes and trains, and how it chooses adapters."""

import pytest
import torch
from torch.nn import functional as F

from small_tagger import LABELS, MADE, WIDTH, small_adapters, small_tagger
from zgul.corpora.encode import Batch
from zgul.encoders.encoder import Encoder
from zgul.ensemble.weighting import OneHot, Uniform
from zgul.errors import ZgulError
from zgul.methods import METHODS, MethodOptions, Parts, method
from zgul.methods.cpg import GeneratedAdapters
from zgul.methods.tagger import Tagger
from zgul.training.config import TrainingConfig
from zgul.training.data import labelled_data
from zgul.training.loop import Trainer

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


def batch_of(tagger: Tagger, languages: list[str], rows: dict[str, int]) -> Batch:
    sentences = [s for language in languages for s in MADE.sentences(language, 2)]
    encoded = tagger.pieces.encode(sentences, languages=rows)
    return encoded.batch(torch.arange(len(encoded)), int(encoded.lengths.max()) + 2)


def test_every_method_is_listed_here() -> None:
    assert set(METHODS) == set(TRAINED)


@pytest.mark.parametrize("name", TRAINED)
def test_training_changes_what_is_trained_and_nothing_else(name: str) -> None:
    tagger = small_tagger(name, random=False)
    assert {part.split(".")[0] for part in tagger.trained} == TRAINED[name]
    train = [s for source in MADE.sources for s in MADE.sentences(source, 8)]
    if name == "madx":  # reads and is trained on English alone: let s0 play it
        tagger.parts.sources[0] = tagger.model.bank.adapters[0].language = "en"
        train = train[:8]
        for sentence in train:
            sentence.language = "en"
    before = {key: value.clone() for key, value in tagger.model.state_dict().items()}
    config = TrainingConfig(
        method=name, sources=tuple(tagger.parts.sources), epochs=2, batch_size=8, accumulate=1, lr=1e-2, select="last"
    )
    Trainer(tagger, labelled_data(train, [], config), config).run()
    after = tagger.model.state_dict()
    unused = (".key.bias", "position_embeddings", "token_type", "word_embeddings")  # may, but need not, change
    for key, value in before.items():
        if key not in tagger.trained:
            assert torch.equal(value, after[key]), f"{key} is frozen"
        elif not any(part in key for part in unused):
            assert not torch.equal(value, after[key]), f"{key} is trained"


def test_options_may_train_the_encoder_too() -> None:
    little = small_tagger("zgul", options=MethodOptions(encoder_rank=2))
    assert all(name.endswith((".a", ".b")) for name in little.trained if name.startswith(ENCODER))
    assert sum(name.startswith(ENCODER) for name in little.trained) == 2 * 6 * 2
    whole = small_tagger("madx-multi", options=MethodOptions(train_encoder=True))
    assert sum(name.startswith(ENCODER) for name in whole.trained) == len(list(whole.parts.encoder.parameters()))


@pytest.mark.parametrize(
    ("name", "views", "absent"),
    [("zgul", 2, None), ("zgul-no-l", 1, "weighting.lang2vec"), ("zgul-no-f", 1, "weighting.fusion")],
)
def test_ablations_leave_their_part_out(name: str, views: int, absent: str | None) -> None:
    tagger = small_tagger(name)
    names = [key for key, _ in tagger.model.named_parameters()]
    assert any("weighting.combine" in key for key in names) == (views == 2)
    if absent:
        assert not any(key.startswith(absent) for key in tagger.trained)
    if name == "zgul-no-l":
        assert not any("vectors" in key for key in tagger.trained)
    prediction = tagger.predict(MADE.sentences("target", 1), strategy="plain", weights=True)[0]
    assert prediction.weights is not None and prediction.weights.shape[1:] == (views, 3)


@pytest.mark.parametrize(
    "options",
    [
        MethodOptions(dropout=0.0, l_scores="additive"),
        MethodOptions(dropout=0.0, combine="max"),
        MethodOptions(dropout=0.0, l_scores="additive", combine="max"),
    ],
)
def test_the_releases_options_train_and_infer(options: MethodOptions) -> None:
    tagger, paper = small_tagger(options=options, random=False), small_tagger(random=False)
    assert (options.combine == "linear") == any("combine" in name for name in tagger.trained)
    assert (options.l_scores == "bilinear") == any("bilinear" in name for name in tagger.trained)
    assert tagger.trained != paper.trained
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
    adapters = small_adapters()
    for adapter, code in zip(adapters, ("en", "is", "de"), strict=True):
        adapter.language = code
    from family import tiny_encoder

    tagger = Tagger.new(
        "zgul",
        encoder=tiny_encoder(MADE, width=WIDTH),
        task="pos",
        labels=LABELS,
        sources=["en", "is", "de"],
        adapters=adapters,
        options=MethodOptions(features=features),
    )
    assert tagger.model.weighting.vectors.project.in_features == size
    rows = tagger.prepare(["fo", "en"])
    assert rows == {"fo": 3, "en": 0}
    from zgul.languages import features as uriel

    assert torch.equal(tagger.model.weighting.vectors.features[3], torch.tensor(uriel("fo", features)))


@pytest.mark.parametrize(
    "wrong", [{"features": "phonology"}, {"l_scores": "cosine"}, {"combine": "min"}, {"invertible": "last"}]
)
def test_options_that_do_not_exist(wrong: dict) -> None:
    with pytest.raises(ZgulError, match=f"{next(iter(wrong))} is one of"):
        MethodOptions(**wrong)


def test_methods_and_strategies_that_do_not_exist() -> None:
    with pytest.raises(ZgulError, match="there is no method 'zgull'; there are: sft-en"):
        method("zgull")
    with pytest.raises(ZgulError, match="SFT-M infers by plain, not 'em'"):
        small_tagger("sft-m").predict(MADE.sentences("s0", 1), strategy="em")


# --- MADX: whose adapter reads a language


def test_madx_reads_each_source_with_its_own_adapter() -> None:
    tagger = small_tagger("madx-multi", double=True)
    together = tagger.predict(MADE.sentences("s2", 2) + MADE.sentences("s0", 2), strategy="rel", weights=True)
    for prediction, own in zip(together, [2, 2, 0, 0], strict=True):
        assert (prediction.weights[:, 0].argmax(axis=-1) == own).all()
        assert sorted(set(prediction.weights.flatten().tolist())) == [0.0, 1.0]


def test_madx_strategies() -> None:
    tagger = small_tagger("madx-multi")
    tagger.prepare(["target"], "uniform")
    assert isinstance(tagger.model.weighting, Uniform)
    tagger.prepare(["target", "s1"], "rel")
    assert isinstance(tagger.model.weighting, OneHot)
    assert tagger.model.weighting.choice.tolist() == [0, 1], "s0 is the target's nearest, s1 reads itself"
    with pytest.raises(ZgulError, match=r"needs a language adapter for 'target'.*zgul adapter train --lang target"):
        tagger.prepare(["target"], "tgt")
    assert tagger.prepare(["s2"], "tgt") == {"s2": 0} and tagger.model.weighting.choice.tolist() == [2]
    with pytest.raises(ZgulError, match="no adapter for 'en'"):
        tagger.prepare(["target"], "en")


def test_madx_with_the_targets_own_adapter() -> None:
    adapters = small_adapters()
    own = small_adapters(seed=5)[0]
    own.language = "target"
    from family import tiny_encoder

    tagger = Tagger.new(
        "madx-multi",
        encoder=tiny_encoder(MADE, width=WIDTH),
        task="pos",
        labels=LABELS,
        sources=MADE.sources,
        adapters=[own, *adapters],
    )
    assert tagger.model.bank.languages == [*MADE.sources, "target"], "the sources stand first"
    tagger.prepare(["target"], "tgt")
    assert tagger.model.weighting.choice.tolist() == [3]


def test_most_related_by_given_features_or_by_uriel() -> None:
    made = {language: MADE.features(language) for language in MADE.languages}
    parts = Parts(small_tagger().parts.encoder, LABELS, list(reversed(MADE.sources)), features=made)
    assert parts.most_related("target") == "s0" and parts.most_related("s2") == "s2"
    real = Parts(parts.encoder, LABELS, ["en", "is", "de"])
    assert real.most_related("fo") == "is" and real.most_related("gsw") == "de"


@pytest.mark.parametrize("invertible", ["first", "mixed"])
def test_invertible_blocks_act_before_the_first_layer(invertible: str) -> None:
    tagger = small_tagger("madx-multi", options=MethodOptions(dropout=0.0, invertible=invertible), double=True)
    rows = tagger.prepare(["s1"], "rel")
    batch = batch_of(tagger, ["s1"], rows)
    bank = tagger.model.bank
    with torch.no_grad():
        plain = tagger.parts.encoder.embed(batch.input_ids)
        expected = bank.invertible[0 if invertible == "first" else 1](plain)
        from zgul.methods.model import softmax_scores

        torch.testing.assert_close(tagger.model.embed(batch, softmax_scores), expected, rtol=0, atol=1e-12)


def test_invertible_blocks_are_asked_for_but_absent() -> None:
    tagger = small_tagger("madx-multi")
    tagger.model.invertible = "first"
    with pytest.raises(ZgulError, match="no invertible blocks; use invertible='off'"):
        tagger.predict(MADE.sentences("s0", 1))


# --- the layer, and CPG, against loops


@torch.no_grad()
def test_plain_fine_tuning_is_the_encoder_and_a_head() -> None:
    tagger = small_tagger("sft-m", double=True)
    batch = batch_of(tagger, ["s0"], tagger.prepare(["s0"]))
    model = tagger.parts.encoder.model
    expected = tagger.model.head(model(batch.input_ids, attention_mask=batch.mask.long()).last_hidden_state)
    got = tagger.model(batch)
    torch.testing.assert_close(got[batch.mask], expected[batch.mask], rtol=0, atol=1e-10)


@torch.no_grad()
def test_a_madx_layer_is_language_adapter_then_task_adapter() -> None:
    tagger = small_tagger("madx-multi", double=True)
    batch = batch_of(tagger, ["s1"], tagger.prepare(["s1"], "rel"))
    encoder, adapter = tagger.parts.encoder, tagger.model.bank.extract("s1")
    hidden = encoder.embed(batch.input_ids)
    for index in range(2):
        x, f = encoder.layer(index, hidden, batch.mask[:, None, None])
        norm = encoder.model.encoder.layer[index].output.LayerNorm
        z = f + adapter.layers[index].double()(norm(f + x))
        t = z + tagger.model.task[index](norm(z + x))
        hidden = norm(t + x)
    torch.testing.assert_close(tagger.model(batch), tagger.model.head(hidden), rtol=0, atol=1e-10)


@torch.no_grad()
def test_cpg_is_an_adapter_generated_for_each_language() -> None:
    torch.manual_seed(0)
    features = torch.rand(3, 7)
    generator = GeneratedAdapters(features, width=6, depth=2, rank=4, size=5, dropout=0.3).double().eval()
    for weight in generator.parameters():
        torch.nn.init.normal_(weight)
    f, languages = torch.randn(2, 4, 6, dtype=torch.float64), torch.randint(3, (2, 4))
    for layer in range(2):
        got = generator(layer, f, languages)
        for b in range(2):
            for t in range(4):
                l = generator.vector(features[languages[b, t]].double())
                down = sum(l[k] * generator.down[layer, k] for k in range(4))
                up = sum(l[k] * generator.up[layer, k] for k in range(4))
                inner = F.gelu(f[b, t] @ down + l @ generator.down_bias[layer])
                expected = inner @ up + l @ generator.up_bias[layer]
                torch.testing.assert_close(got[b, t], expected, rtol=0, atol=1e-9)


def test_cpg_reads_languages_it_was_not_trained_on() -> None:
    tagger = small_tagger("cpg")
    both = tagger.predict(MADE.sentences("target", 2) + MADE.sentences("s1", 2))
    alone = tagger.predict(MADE.sentences("target", 2))
    assert [p.tags for p in both[:2]] == [p.tags for p in alone]


def test_parts_that_do_not_fit() -> None:
    narrow = small_adapters()
    for adapter in narrow:
        adapter.layers = adapter.layers[:1]
    with pytest.raises(ZgulError, match="made for an encoder of 1 layers of width 16; this encoder has 2"):
        Parts(small_tagger().parts.encoder, LABELS, MADE.sources, narrow).bank()
    with pytest.raises(ZgulError, match="no language adapter for s2"):
        Parts(small_tagger().parts.encoder, LABELS, MADE.sources, small_adapters()[:2]).bank()
    assert isinstance(small_tagger().parts.encoder, Encoder)
