"""What we are measured against computes the same as we do: else a speed-up would mean nothing."""

import pytest
import torch
from benchmarks.peers import PYTHON, adapters_process
from benchmarks.reference import PlainMLM, Release, StackFuse
from benchmarks.rows import kept_bytes
from benchmarks.setup import random_batch, random_bert, random_model
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import counting
from small_tagger import MADE, small_tagger
from zgul.adapters.bank import Bank, LanguageAdapter
from zgul.adapters.mlm import MaskedLM, MLMHead, mask_pieces
from zgul.corpora.encode import IGNORED
from zgul.encoders.encoder import Encoder
from zgul.ensemble.em import EMConfig, minimise_entropy
from zgul.products import plain

SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
CPU = torch.device("cpu")


def sentences(count: int = 5):
    made = MADE.sentences("target", count, 3)
    for sentence in made:
        sentence.language = "target"
    return made


@pytest.mark.parametrize("folded", [False, True])
def test_the_release_gives_the_same_tags(folded):
    tagger = small_tagger(double=True)
    if folded:
        tagger.fold()
    config = EMConfig(steps=3, lr=0.5)
    tags = list(Release(tagger).tag(sentences(), config.steps, config.lr))
    assert tags == [prediction.tags for prediction in tagger.predict(sentences(), em=config)]


@pytest.mark.parametrize("folded", [False, True])
def test_the_release_gives_the_same_label_scores(folded):
    tagger = small_tagger(double=True)
    rows = tagger.prepare(["target"])
    batch = next(tagger.pieces.encode(sentences(), languages=rows).batches(10_000))
    if folded:
        tagger.fold()
    release = Release(tagger)
    ours = minimise_entropy(tagger.model, batch, EMConfig(steps=4, lr=0.5)).logits
    moved = release.minimise_entropy(batch, 4, 0.5)
    assert_close(ours[batch.words], moved[batch.words])
    assert not torch.allclose(moved[batch.words], release(batch)[0][batch.words], atol=1e-3)  # EM did something


def test_a_long_sentence_is_padded_further():
    tagger = small_tagger(double=True)
    made = sentences(1)[0]
    room = tagger.pieces.max_pieces
    while sum(len(tagger.pieces.pieces(word)) for word in made.words) <= min(130, room):
        made.words = made.words * 2
    config = EMConfig(steps=1, lr=0.5)
    (tags,) = Release(tagger).tag([made], 1, 0.5)
    assert tags == tagger.predict([made], em=config)[0].tags and len(tags) == len(made.words)


@torch.no_grad()
def test_stack_fuse_is_our_model_where_the_combination_takes_the_fusion_alone():
    made = random_model(SHAPE, 4)
    fused = StackFuse(made.tagger.parts.encoder, made.adapters, made.weighting, made.task)
    batch = random_batch(3, 8, CPU)
    ours, theirs = made.tagger.model(batch), fused(batch)
    assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    fused.layers[0].query.weight *= 3
    assert not torch.allclose(ours, fused(batch), rtol=1e-4, atol=1e-5)  # the fusion matters


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON.is_file(), reason="needs `adapters` in an environment of its own: make oracle")
@torch.no_grad()
def test_stack_fuse_is_what_adapters_computes():
    made = random_model(SHAPE, 4)
    fused = StackFuse(made.tagger.parts.encoder, made.adapters, made.weighting, made.task)
    batch = random_batch(3, 8, CPU)
    batch.mask = batch.mask.clone()
    batch.mask[1, 5:] = False
    with adapters_process(fused, batch, torch.float32) as process:
        assert process.version == "adapters 1.3.0"
        theirs = process.hidden()
        assert 0 < process.seconds() < 60
    assert_close(fused(batch)[batch.mask], theirs[batch.mask], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_plain_masked_lm_has_the_same_loss():
    tagger = small_tagger()
    encoder, pieces = tagger.parts.encoder, tagger.pieces
    vocabulary = len(encoder.model.embeddings.word_embeddings.weight)
    pieces.tokenizer.mask_token_id = pieces.tokenizer.mask_token_id or pieces.unknown
    adapter = LanguageAdapter.new("xx", encoder.width, encoder.depth)
    for layer in adapter.layers:
        torch.nn.init.normal_(layer.up.weight, std=0.5)
    head = MLMHead(encoder.width, vocabulary)
    ours = MaskedLM(encoder, head, Bank([adapter], width=encoder.width, depth=encoder.depth), pieces).eval()
    ids = torch.randint(5, vocabulary, (4, 12))
    torch.manual_seed(0)
    scores, truth = ours(ids)
    torch.manual_seed(0)
    shown, places, hidden = mask_pieces(ids, 0.15, ours.mask_id, vocabulary, ours.specials)
    everywhere = torch.full_like(ids, IGNORED).scatter(1, places, hidden)
    loss = PlainMLM(encoder, adapter, head).eval()(shown, everywhere)
    assert_close(loss, torch.nn.functional.cross_entropy(scores, truth))


@torch.no_grad()
def test_operations_of_the_encoder_are_those_that_torch_counts():
    encoder = Encoder(random_bert(**SHAPE)).eval()
    batch = random_batch(3, 8, CPU)
    with sdpa_kernel(SDPBackend.MATH), plain(), FlopCounterMode(display=False) as counter:  # others are not counted
        encoder(batch.input_ids, batch.mask)
    shape = counting.Shape(width=32, depth=2, inner=48, labels=0)
    assert counting.forward_flops(shape, [8, 8, 8]) == counter.get_total_flops()


@torch.no_grad()
def test_our_forward_does_at_least_the_operations_of_its_floor():
    model = random_model(SHAPE, 4).tagger.model
    with sdpa_kernel(SDPBackend.MATH), plain(), FlopCounterMode(display=False) as counter:
        model(random_batch(3, 8, CPU))
    floor = counting.forward_flops(counting.Shape.of(model), [8, 8, 8])
    bare = counting.forward_flops(counting.Shape(width=32, depth=2, inner=48, labels=0), [8, 8, 8])
    assert bare < floor <= counter.get_total_flops()


def test_kept_bytes_are_counted_once_and_without_weights():
    weight = torch.ones(100, 100, requires_grad=True)
    x = torch.ones(10, 100, requires_grad=True)

    def run():
        y = x @ weight  # keeps x and the weight
        return (y * y).sum()  # keeps y, twice the same

    storages = {weight.untyped_storage().data_ptr()}
    assert kept_bytes(run, storages) == 2 * 10 * 100 * 4
