"""What zgul is measured against computes the same as zgul: else a speed-up would mean nothing."""

from dataclasses import replace

import pytest
import torch
from benchmarks.harness import Unequal
from benchmarks.peers import PYTHON, adapters_process
from benchmarks.reference import Release, tag_by_release
from benchmarks.setup import encode, encode_packed, random_batch, random_tagger, with_random_pieces
from benchmarks.training_rows import same_loss
from safetensors.torch import load_file
from torch.testing import assert_close

from small_tagger import MADE, small_tagger
from zgul.adapters.bank import Bank
from zgul.adapters.language_adapter import LanguageAdapter
from zgul.encoders.encoder import EncoderConfig
from zgul.ensemble.em import EMConfig
from zgul.methods.model import infer
from zgul.training.masked_lm import MaskedLM, MLMHead

SHAPE = EncoderConfig(vocabulary=10_000, width=32, depth=2, heads=4, inner=48, positions=64, types=2)
EM = EMConfig(steps=3, lr=0.5)


def sentences(count: int = 5):
    return [replace(sentence, language="target") for sentence in MADE.sentences("target", count, 3)]


def test_the_release_gives_the_same_tags():
    tagger = small_tagger(double=True)
    tags = list(tag_by_release(Release(tagger.model), tagger, sentences(), EM))
    assert tags == [prediction.tags for prediction in tagger.predict(sentences(), em=EM)]


def test_the_release_gives_the_same_label_scores():
    tagger = small_tagger(double=True)
    batch = next(encode(tagger, sentences()).batches(10_000))
    release = Release(tagger.model)
    moved = release.minimise_entropy(batch, EM.steps, EM.lr)[batch.words]
    assert_close(infer(tagger.model, batch, EM).logits[batch.words], moved)
    assert not torch.allclose(moved, release(batch)[0][batch.words], atol=1e-3)  # EM did something


def test_a_long_sentence_is_padded_further():
    tagger = small_tagger(double=True)
    (made,) = sentences(1)
    while sum(map(len, tagger.pieces.pieces(made.words))) <= min(130, tagger.pieces.max_pieces):
        made = replace(made, words=made.words * 2, tags=None)
    (tags,) = tag_by_release(Release(tagger.model), tagger, [made], EM)
    assert tags == tagger.predict([made], em=EM)[0].tags and len(tags) == len(made.words)


@torch.no_grad()
def test_stack_fuse_is_our_model_where_the_combination_takes_the_fusion_alone():
    tagger = random_tagger(SHAPE, 4)
    fused, batch = Release(tagger.model, fusion_only=True), random_batch(3, 8, tagger)
    ours = tagger.engine(batch).logits
    assert_close(ours, fused(batch)[0], rtol=1e-4, atol=1e-5)
    fused.layers[0].query.weight *= 3
    assert not torch.allclose(ours, fused(batch)[0], rtol=1e-4, atol=1e-5)  # the fusion matters


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON.is_file(), reason="needs `adapters` in an environment of its own: make oracle")
@torch.no_grad()
def test_stack_fuse_is_what_adapters_computes():
    tagger = random_tagger(SHAPE, 4)
    fused, batch = Release(tagger.model, fusion_only=True), random_batch(3, 8, tagger)
    batch.mask = batch.mask.clone()
    batch.mask[1, 5:] = False
    with adapters_process(fused, batch) as ask:
        assert ask("version") == "adapters 1.3.0"
        theirs = load_file(ask("output"))["hidden"]
        assert ask("run")
    assert_close(fused(batch)[0][batch.mask], theirs[batch.mask], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_plain_encoder_without_padding_is_the_encoder():
    tagger = small_tagger()
    batch = next(encode(tagger, sentences()).batches(10_000))
    encoder = tagger.parts.encoder
    assert not batch.mask.all()
    assert_close(encode_packed(encoder, batch), encoder(batch.input_ids, batch.mask)[batch.mask])


def test_a_real_corpus_keeps_its_lengths_for_a_random_model():
    corpus = encode(small_tagger(), sentences())
    tagger = random_tagger(SHAPE, 2)
    made = with_random_pieces(corpus, tagger)
    assert made.lengths.tolist() == corpus.lengths.tolist()
    assert tagger.engine(next(made.batches(10_000))).logits.isfinite().all()


def test_the_plain_masked_lm_has_the_same_loss():
    tagger = small_tagger()
    encoder, width, depth = tagger.parts.encoder, tagger.parts.encoder.width, tagger.parts.encoder.depth
    adapters = [LanguageAdapter.new(code, width, depth) for code in ("aa", "bb")]
    for layer in (layer for adapter in adapters for layer in adapter.layers):
        torch.nn.init.normal_(layer.up.weight, std=0.5)
    head = MLMHead(width, encoder.config.vocabulary)
    banks = [Bank(own, width=width, depth=depth) for own in (adapters, adapters[:1], adapters[1:])]
    ours, plain, other = (MaskedLM(encoder, head, bank, tagger.pieces) for bank in banks)
    ids = torch.randint(5, encoder.config.vocabulary, (4, 12))
    assert "loss of the first language" in same_loss(ours, plain, ids)
    with pytest.raises(Unequal, match="apart"):
        same_loss(ours, other, ids)
